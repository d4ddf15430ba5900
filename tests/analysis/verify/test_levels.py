"""Random baselines are means over all orders of a haystack."""

from __future__ import annotations

from itertools import permutations

import pytest

from harness.analysis.verify.inputs import Judgement, QueryQrels
from harness.analysis.verify.metrics import MetricName, evaluate, random_baselines

NAMES = (
    *("recall@2", "hit@3", "recall_all@4", "precision@3", "precision_returned@3", "f1@2"),
    *("rprec", "judged@4", "mrr", "mrr@2", "map", "map@3", "ndcg", "ndcg@3", "ndcg_exp@2"),
    *("ndcg_b2@4", "recall(rel=2)@2"),
)
METRICS = {name: metric for name in NAMES if (metric := MetricName.parse(name)) is not None}


@pytest.mark.parametrize(
    "lines",
    [
        [("a", 2, 0), ("b", 1, 1), ("c", 0, 2), ("x", 1, 3)],
        [("a", 2, 0), ("b", 2, 0), ("b", 1, 1), ("c", 0, 2)],
    ],
)
def test_a_random_baseline_is_the_mean_over_all_orders(lines: list[tuple[str, int, int]]) -> None:
    documents = "abcdef"
    qrels = QueryQrels([Judgement(d, grade, n, d in documents) for d, grade, n in lines])
    orders = [*permutations(documents)]
    expected = evaluate(METRICS, [qrels] * len(orders), orders)
    found = random_baselines(METRICS, [qrels], [len(documents)])
    assert METRICS.keys() - found.keys() <= {"recall_all@4"}
    for name, (value,) in found.items():
        assert value == pytest.approx(expected[name].mean(), abs=1e-12), name


def test_an_empty_haystack_has_a_baseline_of_0() -> None:
    qrels = QueryQrels([Judgement("a", 1, 0, present=False)])
    found = random_baselines(METRICS, [qrels], [0])
    assert {name: values[0] for name, values in found.items() if name != "recall(rel=2)@2"} == (
        dict.fromkeys(found.keys() - {"recall(rel=2)@2"}, 0.0)
    )
