"""Which numbers the depth of rankings can change: held against rankings that are deeper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small import lists, one_corpus

from harness.runfiles.rankings import Rankings
from harness.scoring.bounds import depth_sensitive, stable_depth
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Choices
from harness.scoring.qrels import from_dict
from harness.scoring.ranks import Ties, rank_judged
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus

NAMES = [
    *("recall@2", "hit@3", "recall_all@4", "precision@5", "precision_returned@5", "f1@3"),
    *("judged@4", "mrr", "mrr@3", "map", "map@4", "rprec", "rprec(rel=2)", "recall(rel=2)@5"),
    *("ndcg", "ndcg@3", "ndcg_exp@5", "ndcg_b2@2"),
]
MOST = 8


def rankings(ids: list[str], scores: np.ndarray) -> Rankings:
    query = np.zeros(len(ids), np.int32)
    return Rankings(["q"], query, pa.chunked_array([pa.array(ids, pa.string())]), scores)


@pytest.mark.slow
@pytest.mark.parametrize("ties", list(Ties))
def test_what_depth_is_said_not_to_change_is_the_same_at_every_greater_depth(ties: Ties) -> None:
    rng = np.random.default_rng(0)
    changed, kept = set(), 0
    for _ in range(150):
        ids = [f"d{i}" for i in rng.permutation(MOST)]
        # Close enough for float32 to take some of them for equal.
        scores = np.sort(rng.integers(0, 5, MOST) + rng.integers(0, 2, MOST) * 1e-9)[::-1].copy()
        judged = from_dict({"q": {f"d{i}": int(rng.integers(0, 3)) for i in range(0, MOST, 2)}})
        at = {
            depth: rank_judged(rankings(ids[:depth], scores[:depth]), judged, ties)
            for depth in range(1, MOST + 1)
        }
        scored = {name: {d: float(Metric.parse(name)(at[d])[0]) for d in at} for name in NAMES}
        for depth in range(1, MOST):
            shallow = rankings(ids[:depth], scores[:depth])
            settled = stable_depth(shallow, ["q"], np.array([MOST]), None, depth, ties)
            for name in NAMES:
                metric = Metric.parse(name)
                values = {d: scored[name][d] for d in range(depth, MOST + 1)}
                same = len(set(values.values()) - {values[depth]}) == 0 or np.isnan(values[depth])
                if depth_sensitive(metric, at[depth], settled)[0]:
                    changed |= set() if same else {name}
                else:
                    assert same, (name, depth, ids, scores)
                    kept += 1
    # And what is said to change does so, in some ranking; hits can only be hidden by equals.
    assert {"mrr", "map", "ndcg", "rprec"} <= changed
    assert changed == set(NAMES) or ties is Ties.ORDER
    assert kept > 500


def test_a_ranking_that_ended_by_itself_or_holds_the_haystack_is_no_cut_one() -> None:
    run = lists({"cut": ["a", "b"], "ended": ["a"], "whole": ["a", "b"], "silent": []})
    ids = ["cut", "ended", "whole", "silent", "not there"]
    found = stable_depth(run, ids, np.array([9, 9, 2, 9, 9]), None, 2, Ties.TREC)
    assert (found[:1].tolist(), (found[1:] > 10**12).tolist()) == ([2], [True] * 4)
    # Two results that brought one document were cut off, and so was one that brought two and more.
    results = np.array([1, 2, 2, 0, 0])
    found = stable_depth(run, ids, np.array([9, 9, 9, 9, 9]), results, 2, Ties.ORDER)
    assert (found[:3].tolist(), (found[3:] > 10**12).tolist()) == ([2, 1, 2], [True] * 2)


def test_scores_name_the_metrics_that_depth_could_change(tmp_path: Path) -> None:
    ids = [f"d{i}" for i in range(9)]
    judged = {"q": {"d0": 1, "d5": 1, "d7": 1}, "r": {"d1": 1}}
    dataset = one_corpus(tmp_path / "data", ids, judged)

    def named(depth: int, **more: object) -> list[str]:
        run = lists({"q": ids[:depth], "r": ids[:depth]})
        choices = Choices(["trec"], ks=(1, 2))
        (block,) = score(dataset, run, choices, depth=depth, **more).report.protocols  # type: ignore[arg-type]
        return list(block.depth_sensitive)

    assert named(2) == ["ndcg", "map", "mrr", "rprec"]  # one query has three relevant documents
    assert named(3) == ["ndcg", "map", "mrr"]
    assert named(9) == []
    # A system that repeated itself might have named others in a longer answer; so it does in the
    # rankings themselves, or says the run's own record.
    said = replace(QueryStatus.everything(2), repeated=1)
    for source, answered in (
        (lists({"q": ["d0", "d0"], "r": ["d1", "d2"]}), None),
        (lists({"q": ["d0"], "r": ["d1", "d2"]}), said),
    ):
        choices = Choices(["memory"], ks=(1, 2))
        report = score(dataset, source, choices, depth=2, answered=answered).report
        named_here = report.protocols[0].depth_sensitive
        assert {"recall@2"} <= {*named_here}
        assert not {"recall@1"} & {*named_here}
