"""Ranks on a board are ranges, from paired differences over the same queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.analysis.board import ranks
from harness.analysis.board.leaderboard import build
from harness.analysis.board.ranks import add_ranks, compare_pairs
from harness.analysis.board.records import BoardProtocol, Entry, RankedResult, board_headline
from harness.analysis.board.summary import table
from harness.datasets.registry import open_dataset
from harness.records.scores import Interval
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Found, Hit, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run

Scores = Sequence[float | None]


def board(
    folder: Path,
    scores: Mapping[str, Scores],
    haystacks: Sequence[int] | None = None,
    *,
    saw_the_key: str = "",
    leave_out: str = "",
) -> dict[str, RankedResult]:
    """Results of made systems: scores.parquet of each, and as much of an entry as ranks take."""
    entries, slices = [], {}
    for name, values in scores.items():
        n = len(values)
        columns: dict[str, Any] = {
            "query": [f"q{i}" for i in range(n)],
            "ability": ["lookup"] * n,
            "category": [""] * n,
            "haystack": [f"h{i}" for i in haystacks or range(n)],
            "protocol": ["memory"] * n,
            "level": ["turn"] * n,
            "recall@10": pa.array(values, pa.float64()),
        }
        columns.pop(leave_out, None)
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "scores.parquet")
        cluster_by = "queries" if haystacks is None else "haystacks"
        units = len(set(haystacks or range(n)))
        interval = Interval(method="t", cluster_by=cluster_by, clusters=units, low=0, high=1)
        n -= list(values).count(None)
        slices[name] = {"recall@10": RankedResult(value=0.5, n=n, interval=interval)}
        protocol = BoardProtocol(
            protocol="memory/1",
            level="turn",
            ties="order",
            missing="zero",
            excluded={},
            slices={"all": slices[name]},
        )
        entry = SimpleNamespace(
            run=name, sees_gold_labels=name == saw_the_key, protocols=[protocol]
        )
        entries.append(cast(Entry, entry))
    add_ranks(folder, entries)
    return {name: found["recall@10"] for name, found in slices.items()}


def test_a_pair_that_each_query_tells_apart_has_two_ranks_though_their_intervals_overlap(
    tmp_path: Path,
) -> None:
    hard = np.random.default_rng(0).random(300)
    a, b = hard, hard - 0.02 * (np.arange(300) % 3 == 0)
    assert (a.mean() - b.mean()) < 0.01 < 2 * a.std() / np.sqrt(300)
    cells = board(tmp_path, {"a": a.tolist(), "b": b.tolist(), "same": b.tolist()})
    assert [cells[name].rank for name in cells] == [(1, 1), (2, 3), (2, 3)]
    assert not any(cell.rank_note for cell in cells.values())


def test_systems_with_as_many_queries_but_other_ones_are_not_ranked_together(
    tmp_path: Path,
) -> None:
    """`early` and `late` are alike wherever both were measured; each failed where it is weak."""
    weak = [0.0] * 60
    scores: dict[str, Scores] = {
        "early": [None] * 60 + weak + [0.7] * 120,
        "late": weak + [None] * 60 + [0.7] * 120,
    }
    cells = board(tmp_path, scores)
    assert {cell.n for cell in cells.values()} == {180}
    for cell in cells.values():
        assert cell.rank is None
        assert cell.rank_note == "lacks 60 of the queries that others were measured on"
    (tmp_path / "more").mkdir()
    cells = board(
        tmp_path / "more", {**scores, "whole": [0.1] * 240, "key": [1.0] * 240}, saw_the_key="key"
    )
    assert cells["whole"].rank == (1, 1)
    assert not any(cells[name].rank for name in ("early", "late", "key"))


def test_few_haystacks_show_no_order_and_the_note_says_so(tmp_path: Path) -> None:
    scores = {"best": [0.9] * 60, "worst": [0.1] * 60}
    for n, expected in ((5, [(1, 2), (1, 2)]), (6, [(1, 1), (2, 2)])):
        (tmp_path / str(n)).mkdir()
        cells = board(tmp_path / str(n), scores, [i % n for i in range(60)])
        assert [cell.rank for cell in cells.values()] == expected
        note = cells["best"].rank_note
        assert note.startswith("5 haystacks cannot show an order") == (n == 5)


def test_without_scores_by_query_there_is_no_rank_and_the_reason_is_given(tmp_path: Path) -> None:
    scores = {"a": [0.9] * 60, "b": [0.1] * 60}
    cells = board(tmp_path, scores, [i // 6 for i in range(60)], leave_out="recall@10")
    for cell in cells.values():
        assert cell.rank is None
        assert "scores by query are not in" in cell.rank_note


class Picks:
    """BM25 that fails, or returns a text of nothing, wherever it is not sure."""

    def __init__(self, how: str) -> None:
        self.how, self.bm25 = how, BM25()
        self.name = how

    def index(self, corpus: Corpus) -> None:
        self.bm25.index(corpus)

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        found = self.bm25.search(queries, k)
        scores = found[0].scores
        if scores is not None and len(scores) and max(scores) > 4.5:
            return found
        if self.how == "fails":
            raise LookupError("too hard")
        return [[Hit("qzx vbn")]]


@pytest.mark.slow
def test_who_is_measured_on_fewer_questions_has_no_rank(
    home: Path, with_evidence: int, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    for retriever in (BM25(), Picks("fails"), Picks("mumbles")):
        score_run(run(dataset, retriever, out=tmp_path), dataset)
    (made,) = build(tmp_path)[0]
    found = {}
    for entry in made.entries:
        cell = entry.protocols[0].slices["all"]["recall@10"]
        found[entry.system] = (cell.n, cell.rank)
    assert found["BM25"] == (with_evidence, (1, 1))
    # A failure counts 0, so a system that fails on hard queries is ranked below.
    assert found["fails"] == (with_evidence, (2, 2))
    n, rank = found["mumbles"]
    assert n < with_evidence
    assert rank is None
    shown = table([made]).splitlines()
    assert next(line.split()[1] for line in shown if line.split()[:1] in (["1"], ["-"])) == "BM25"
    assert any("unresolved" in line for line in shown)
    assert any("failed, answered only: " in line for line in shown)
    assert f"no rank: mumbles lacks {with_evidence - n} of the queries" in "\n".join(shown)


def test_a_board_of_small_haystacks_leads_with_the_deepest_cut_that_they_have(
    home: Path, tmp_path: Path
) -> None:
    files: dict[str, list[Any]] = {"documents": [], "queries": [], "qrels": []}
    for haystack in range(3):
        names = [f"{haystack}.{i}" for i in range(6)]
        place = {"haystack": f"h{haystack}"}
        files["documents"] += [{"id": n, "text": f"word{n[-1]} note", **place} for n in names]
        files["queries"] += [{"id": f"q{n}", "text": f"word{n[-1]}", **place} for n in names]
        files["qrels"] += [{"query": f"q{n}", "document": n} for n in names]
    for name, rows in files.items():
        lines = b"\n".join(orjson.dumps(row) for row in rows)
        (tmp_path / f"{name}.jsonl").write_bytes(lines)
    dataset = open_dataset("labelled", source=tmp_path)
    for retriever in ("bm25", "recency"):
        score_run(run(dataset, RetrieverSpec(retriever), out=tmp_path / "runs"), dataset)
    (made,) = build(tmp_path / "runs")[0]
    head, *_ = (line for line in table([made]).splitlines() if "rank" in line)
    shown = "n ndcg@5 mrr@5 recall@5 map@5 95% of ndcg@5 failed, unresolved documents returned"
    assert " ".join(head.split("parameters")[1].split()) == shown
    assert "1-2  bm25" in table([made])


@pytest.mark.slow
def test_a_large_board_has_ranks_by_its_headline_metrics_and_pairs_of_its_best_systems(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset("sample")
    for retriever in ("recency", "bm25", "tfidf"):
        score_run(run(dataset, RetrieverSpec(retriever), out=tmp_path), dataset)
    (whole,) = build(tmp_path)[0]
    all_pairs = compare_pairs(tmp_path, whole)
    assert all_pairs is not None
    monkeypatch.setattr(ranks, "LARGE", 2)
    (large,) = build(tmp_path)[0]
    _, headline = board_headline(large.entries)
    for before, entry in zip(whole.entries, large.entries, strict=True):
        for metric, result in entry.protocols[0].overall.items():
            if metric in headline:
                assert result == before.protocols[0].overall[metric]
            else:
                assert result.rank is None
                assert result.rank_note.endswith("ranks by their headline metrics alone")
    pairs = compare_pairs(tmp_path, large)
    assert pairs is not None
    assert len(pairs.runs) == 2
    assert not any("recency" in run for run in pairs.runs)
    at = [all_pairs.runs.index(one) for one in pairs.runs]
    place = {(0, 1): 0, (0, 2): 1, (1, 2): 2}[min(at), max(at)]
    for metric, columns in pairs.results["all"].items():
        assert columns.p == [all_pairs.results["all"][metric].p[place]]
        assert columns.ordered == [all_pairs.results["all"][metric].ordered[place]]
