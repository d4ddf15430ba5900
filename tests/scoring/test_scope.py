"""Leaks: documents that the user of a query may not read, against plain counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import lists, prepared

from harness import RetrieverSpec, Settings, assert_quality, run, score_run
from harness.__main__ import main
from harness.analysis.board.leaderboard import build
from harness.analysis.gate import GateRules, gate
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError
from harness.records.scores import MetricResult
from harness.scoring.protocols import Choices
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus

OWNERS = {"a1": "ada", "a2": "ada", "b1": "bo", "b2": "bo", "t1": "team", "free": None}


@pytest.fixture
def shared(tmp_path: Path) -> Dataset:
    """Two users of one store; ada is in the team. Four documents are foreign to bo, two to ada."""

    def fill(out: DatasetWriter) -> None:
        for id_, user in OWNERS.items():
            out.document(id_, id_, user_id=user)
        out.haystack("h")
        out.query("ada", "?", "h", user_id="ada", groups=["team"])
        out.query("bo", "?", "h", user_id="bo")
        out.query("quiet", "?", "h", user_id="bo")
        out.query("anyone", "?", "h")
        for query, document in (("ada", "a1"), ("ada", "t1"), ("bo", "b1"), ("anyone", "a1")):
            out.qrel(query, document)

    return prepared(tmp_path / "data", fill)


RANKED = {
    "ada": ["b1", "a2", "b2", "a1"],  # two of four are bo's
    "bo": ["a1", "a2", "b1"],
    "quiet": [],
    "anyone": ["b1", "a1"],
}


def results(data: Dataset, *, ranked: Any = RANKED, **more: Any) -> dict[str, MetricResult]:
    scores = score(data, lists(ranked), Choices(ks=(1, 2, 4)), depth=6, **more)
    (protocol,) = [one for one in scores.report.protocols if one.protocol == "scope"]
    assert protocol.level == "turn"
    return protocol.overall


def test_a_leak_is_a_returned_document_of_another_user(shared: Dataset) -> None:
    found = results(shared)
    # ada and bo: 1/1 and 1/1, 1/2 and 2/2, 2/4 and 2/3; quiet returned nothing.
    for k, expected in ((1, 2 / 3), (2, 1.5 / 3), (4, (1 / 2 + 2 / 3) / 3)):
        assert found[f"leak_rate@{k}"].value == pytest.approx(expected)
        assert found[f"query_leak_rate@{k}"].value == pytest.approx(2 / 3)
        assert found[f"leak_rate@{k}"].n == 3
        assert found[f"leak_rate@{k}"].upper_bound == 0


def test_random_orders_leak_as_often_as_the_haystack_has_foreign_documents(
    shared: Dataset,
) -> None:
    found = results(shared)
    # Of six documents two are foreign to ada, and three to bo, who asks twice.
    for k in (1, 2, 4):
        assert found[f"leak_rate@{k}"].random_baseline == pytest.approx((2 / 6 + 2 * 3 / 6) / 3)
    none = (4 / 6 * 3 / 5, 3 / 6 * 2 / 5)
    assert found["query_leak_rate@2"].random_baseline == pytest.approx(
        (1 - none[0] + 2 * (1 - none[1])) / 3
    )


def test_recall_in_scope_is_the_recall_without_the_leaks(shared: Dataset) -> None:
    found = results(shared)
    # Without leaks: ada has a2, a1 and no t1; bo has b1 first.
    for k, expected in ((1, (0 + 1) / 2), (2, (0.5 + 1) / 2)):
        assert found[f"recall_in_scope@{k}"].value == pytest.approx(expected)
        assert found[f"recall_in_scope@{k}"].n == 2
    assert found["recall_in_scope@1"].random_baseline == pytest.approx((1 / 4 + 1 / 3) / 2)
    assert found["recall_in_scope@1"].upper_bound == pytest.approx((0.5 + 1) / 2)


def test_queries_without_a_user_are_excluded(shared: Dataset) -> None:
    scores = score(shared, lists(RANKED))
    assert scores.excluded["scope"] == {"without a user": ["anyone"]}


def test_a_failed_query_does_not_count_as_protected(shared: Dataset) -> None:
    failed = QueryStatus.everything(4)
    failed.failed[1:3] = True
    found = results(shared, answered=failed)
    assert (found["leak_rate@2"].value, found["leak_rate@2"].n) == (0.5, 1)
    assert (found["recall_in_scope@2"].value, found["recall_in_scope@2"].n) == (0.25, 2)


def test_only_datasets_with_users_have_the_protocol(sample: Dataset) -> None:
    ranked = {sample.query_ids[0]: [sample.documents[0].id]}
    names = [one.protocol for one in score(sample, lists(ranked)).report.protocols]
    assert "scope" not in names
    with pytest.raises(UsageError, match="'scope' needs users, which sample"):
        score(sample, lists(ranked), Choices(protocols=["scope"]))


FILTER = """
from harness.retrievers.registry import RetrieverSpec

class Filter:
    "BM25 behind a filter: ten lines."
    def __init__(self, seed=0):
        self.bm25 = RetrieverSpec("bm25").build(seed)
    def index(self, corpus):
        self.documents = list(corpus)
        self.bm25.index(corpus)
    def search(self, queries, k, user_id=None):
        allowed = {None, user_id, *queries[0].groups}
        found = self.bm25.search(queries, len(self.documents))
        return [[i for i in one.ids if self.documents[i].user_id in allowed][:k] for one in found]
"""


@pytest.mark.slow
def test_scores_of_runs_agree_with_plain_counting_and_a_filter_ranks_first(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "filter.py").write_text(FILTER)
    data = open_dataset("scopes")
    recall = {}
    for name in ("bm25", f"{tmp_path / 'filter.py'}:Filter"):
        folder = run(data, RetrieverSpec(name), Settings(k=20), out=tmp_path / "runs")
        scores = score_run(folder, data)
        counted = plainly(data, folder, 10)
        for metric, value in counted.items():
            assert scores[metric, "all", "scope"] == pytest.approx(value, abs=1e-12), metric
        recall[name[:4]] = scores["recall_in_scope@10", "all", "scope"]
        assert (scores["leak_rate@10", "all", "scope"] == 0) == (name != "bm25")
        assert "protocol:scope/1" in scores.signature("leak_rate@10", "abstention", "scope")
    assert len(set(recall.values())) == 1
    (board,), _ = build(tmp_path / "runs")
    ranks = {
        entry.system: protocol.slices["all"]["leak_rate@10"].rank
        for entry in board.entries
        for protocol in entry.protocols
        if protocol.protocol == "scope/1"
    }
    assert sorted(ranks.items(), key=lambda one: one[1] or (9, 9))[-1][0] == "bm25"


def plainly(data: Dataset, folder: Path, k: int) -> dict[str, float]:
    """The metrics once more, a query at a time."""
    from harness.runfiles.readers import read_rankings
    from harness.runs.folder.run_folder import RunFolder

    rankings = read_rankings(RunFolder(folder).rankings)
    documents = rankings.document.to_pylist()
    judged = data.qrels()
    rates, leaks, recalls = [], [], []
    for row in range(data.n_queries):
        query = data.query(row)
        rows = data.rows_by_id(int(data.query_haystack[row]))
        position = rankings.query_ids.index(query.id) if query.id in rankings.query_ids else None
        ranked = []
        if position is not None:
            start, end = rankings.starts[position], rankings.starts[position + 1]
            ranked = documents[start:end]
        owner = {id_: data.documents[at].user_id for id_, at in rows.items()}
        allowed = {None, query.user_id, *query.groups}
        foreign = [owner[id_] not in allowed for id_ in ranked]
        rates.append(float(np.mean(foreign[:k])) if ranked else 0.0)
        leaks.append(float(any(foreign[:k])))
        kept = [id_ for id_, out in zip(ranked, foreign, strict=True) if not out][:k]
        mine = (judged.query == row) & (judged.grade > 0)
        gold = set(judged.document_id.filter(mine.tolist()).to_pylist())
        if gold:
            recalls.append(len(gold & set(kept)) / len(gold))
    return {
        f"leak_rate@{k}": float(np.mean(rates)),
        f"query_leak_rate@{k}": float(np.mean(leaks)),
        f"recall_in_scope@{k}": float(np.mean(recalls)),
    }


def test_a_leak_rate_is_checked_by_a_maximum_and_compared_by_its_name(tmp_path: Path) -> None:
    data = open_dataset("scopes")
    folders = []
    for name, retriever in (("a", "bm25"), ("b", "random")):
        folders.append(run(data, retriever, Settings(name=name), out=tmp_path))
        score_run(folders[-1], data)
    rules = tmp_path / "gate.toml"
    rules.write_text('[[at_most]]\nmetric = "leak_rate@10"\nvalue = 0.1\n')
    failed, leak = gate(folders[0], GateRules.read(rules))
    assert (leak.outcome, failed.outcome) == ("fail", "pass")
    rules.write_text('[[no_drop]]\nmetric = "leak_rate@10"\nmax_drop = 0.1\n')
    with pytest.raises(UsageError, match=r"better the lower it is; use \[\[at_most\]\]"):
        GateRules.read(rules)
    assert_quality(folders[0], max_leak_rate_at_10=0.9)
    with pytest.raises(AssertionError, match=r"leak_rate@10 0\.\d+ > 0\.1"):
        assert_quality(folders[0], max_leak_rate_at_10=0.1)
    with pytest.raises(UsageError, match="give max_leak_rate_at_10"):
        assert_quality(folders[0], leak_rate_at_10=0.1)
    assert main(["compare", *map(str, folders), "--metrics", "leak_rate@10"]) == 0
