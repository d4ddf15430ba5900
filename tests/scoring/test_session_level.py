"""Turn rankings at session level, against the rule written down word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import lists, prepared

from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.records.scores import MetricResult
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties
from harness.scoring.score import score

TURNS = [f"s{s}t{t}" for s in range(5) for t in range(3)]
METRICS = ("recall", "hit", "recall_all")


def session(turn: str) -> str:
    return turn.partition("t")[0]


def dataset(folder: Path, gold: dict[str, list[str]], **view: Any) -> Dataset:
    """Five sessions of three turns that every query shares; gold that is no turn is kept."""

    def fill(out: DatasetWriter) -> None:
        rows = {id_: out.document(id_, id_, session=session(id_)) for id_ in TURNS}
        out.haystack("all", list(rows.values()))
        for query, turns in gold.items():
            out.query(query, query, "all")
            for turn in turns:
                out.qrel(query, rows.get(turn, -1), document_id=turn)

    return prepared(folder, fill, **view)


def by_rule(ranking: list[str], gold: list[str], k: int) -> tuple[float, float, float]:
    """Sessions among the shortest prefix that holds k of them, or the whole ranking."""
    found: list[str] = []
    for turn in ranking:
        if len(found) < k and session(turn) not in found:
            found.append(session(turn))
    wanted = {session(turn) for turn in gold}
    hits = wanted & set(found)
    return len(hits) / len(wanted), float(bool(hits)), float(hits == wanted)


def session_cells(data: Dataset, run: Any, **choices: Any) -> dict[str, MetricResult]:
    ks = choices.pop("ks", (1, 2, 3))
    depth = choices.pop("depth", None)
    report = score(data, run, Choices(["memory"], ks=ks, **choices), depth=depth).report
    (found,) = [one for one in report.protocols if one.level == "turn>session"]
    return found.overall


def test_random_rankings_are_scored_by_the_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    gold = {f"q{i}": sorted(rng.choice(TURNS, rng.integers(1, 6), False)) for i in range(80)}
    run = {q: [str(t) for t in rng.permutation(TURNS)] for q in gold}
    cells = session_cells(dataset(tmp_path / "data", gold), lists(run))
    for k in (1, 2, 3):
        expected = np.mean([by_rule(run[q], gold[q], k) for q in gold], axis=0)
        values = [cells[f"{m}@{k}"].value for m in METRICS]
        assert values == pytest.approx(expected.tolist(), abs=1e-12)
        # The best ranking brings k sessions with gold, however long the prefix of this one was.
        sizes = [len({session(t) for t in gold[q]}) for q in gold]
        ceiling = [np.mean([min(k, n) / n for n in sizes]), 1, np.mean([n <= k for n in sizes])]
        assert [cells[f"{m}@{k}"].upper_bound for m in METRICS] == pytest.approx(ceiling)


def test_a_ranking_that_was_cut_off_too_early_is_not_measurable(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", {"q": ["s2t0"], "long": ["s0t0"]})
    run = {"q": ["s0t0", "s0t1", "s0t2"], "long": ["s0t0", "s1t0", "s2t0"]}
    cells = session_cells(data, lists(run))
    assert cells["hit@1"].value == 0.5
    # At three turns deep, the second session of q is not known: no number, rather than a wrong one.
    for name in ("hit@2", "recall@2", "hit@3"):
        assert cells[name].value is None
        assert cells[name].unmeasurable == 1
        assert cells[name].n == 2
    table = score(data, lists(run), Choices(["memory"], ks=(2,))).per_query.to_pylist()
    known = {r["query"]: r["hit@2"] for r in table if r["level"] == "turn>session"}
    assert known == {"q": None, "long": 1.0}


def test_a_ranking_that_ended_by_itself_or_holds_everything_is_measurable(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", {"q": ["s2t0"], "silent": ["s1t0"], "whole": ["s4t0"]})
    # The system may rank four deep; it gave q two turns, and to `silent` nothing.
    cells = session_cells(data, lists({"q": ["s0t0", "s0t1"]}), depth=4)
    assert cells["hit@3"].value == 0
    # Any turn of a session brings the session.
    cells = session_cells(data, lists({"q": ["s0t0", "s2t1"]}), depth=4)
    assert cells["hit@3"].value == pytest.approx(1 / 3)
    cells = session_cells(data, lists(dict.fromkeys(data.query_ids, TURNS)), ks=(4, 7))
    assert cells["hit@4"].value == pytest.approx(2 / 3)
    assert cells["hit@7"].value == 1


def test_the_order_of_equal_scores_is_the_same_for_turns_and_sessions(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", {"q": ["s3t0"]})
    run = {"q": {"s0t0": 1.0, "s1t0": 1.0, "s3t0": 1.0}}
    for ties, expected in ((Ties.ORDER, 0), (Ties.TREC, 1), (Ties.TREC64, 1)):
        assert session_cells(data, run, ties=ties)["hit@1"].value == expected, ties
    # Only float32 cannot tell these apart.
    run = {"q": {"s3t0": 1.0, "s0t0": 1.00000001}}
    for ties, expected in ((Ties.ORDER, 0), (Ties.TREC, 1), (Ties.TREC64, 0)):
        assert session_cells(data, run, ties=ties)["hit@1"].value == expected, ties


def test_turns_without_a_session_and_evidence_that_is_not_there_are_sessions_of_their_own(
    tmp_path: Path,
) -> None:
    def fill(out: DatasetWriter) -> None:
        for id_ in ("a", "b", "c"):
            out.document(id_, id_)
        out.document("s0t0", "s0t0", session="s0")
        out.haystack("all")
        out.query("q", "?", "all")
        for gold in ("b", "s0t0", "gone", "gone too"):
            out.qrel("q", {"b": 1, "s0t0": 3}.get(gold, -1), document_id=gold)

    data = prepared(tmp_path / "data", fill)
    cells = session_cells(data, lists({"q": ["a", "unknown", "b", "s0t0"]}), ks=(1, 2, 3, 4))
    assert [cells[f"recall@{k}"].value for k in (1, 2, 3, 4)] == [0, 0, 0.25, 0.5]
    assert cells["recall@4"].upper_bound == 0.5


def test_a_document_that_nobody_knows_is_not_evidence_that_is_not_there(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", {"q": ["gone", "s0t0"]})
    for place in range(3):
        ranking = ["s1t0", "s1t1", "s1t2"]
        ranking[place] = "unknown"
        cells = session_cells(data, lists({"q": ranking}), ks=(3,), depth=4)
        assert cells["recall@3"].value == 0


def test_documents_that_are_not_turns_or_have_no_sessions_get_no_session_level(
    tmp_path: Path,
) -> None:
    def without_sessions(out: DatasetWriter) -> None:
        out.document("a", "a")
        out.haystack("all")
        out.query("q", "?", "all")
        out.qrel("q", 0)

    plain = prepared(tmp_path / "plain", without_sessions)
    sessions = dataset(tmp_path / "sessions", {"q": ["s0t0"]}, granularity="session")
    for data in (plain, sessions):
        report = score(data, lists({"q": ["a"]})).report
        assert "turn>session" not in {one.level for one in report.protocols}
