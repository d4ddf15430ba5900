"""What ties could do to a number, against every order that equal scores allow."""

from __future__ import annotations

from itertools import groupby, permutations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import ranked

from harness.scoring.bounds import TieOrders
from harness.scoring.metrics import Metric
from harness.scoring.qrels import from_dict
from harness.scoring.ranks import Qrels, Ties

NAMES = [
    *("recall@2", "hit@1", "recall_all@3", "precision@2", "precision_returned@3", "f1@2"),
    *("judged@1", "judged@3", "mrr", "mrr@2", "map", "map@3", "rprec"),
    *("ndcg", "ndcg@2", "ndcg_exp@3", "ndcg_b2@2", "recall(rel=2)@2", "map(rel=2)"),
    *("hit(rel=2)@2", "recall_all(rel=2)@4", "mrr(rel=2)@3", "judged(rel=2)@2", "rprec(rel=2)"),
]


def orders(run: dict[str, float]) -> list[list[str]]:
    """Every order of the documents that the scores allow."""
    best_first = sorted(run, key=lambda d: -run[d])
    groups = [list(group) for _, group in groupby(best_first, key=lambda d: run[d])]
    return [
        [d for group in choice for d in group]
        for choice in product(*(list(permutations(group)) for group in groups))
    ]


@st.composite
def tied_runs(draw: st.DrawFn) -> tuple[dict[str, float], dict[str, int]]:
    documents = [f"d{i}" for i in range(draw(st.integers(2, 6)))]
    run = {d: float(draw(st.sampled_from([1, 1, 2, 3]))) for d in documents}
    judged = {d: draw(st.sampled_from([-1, 0, 1, 1, 2])) for d in documents if draw(st.booleans())}
    return run, {"not returned": 1} | judged


@given(tied_runs(), st.sampled_from(list(Ties)))
@settings(max_examples=25)
def test_best_worst_and_expected_are_those_of_all_tie_orders(
    case: tuple[dict[str, float], dict[str, int]], ties: Ties
) -> None:
    run, judged = case
    of = ranked({"q": run}, {"q": judged}, ties)
    tie_orders = TieOrders(of)
    if not tie_orders.any:
        return
    every = orders(run)
    names = [str(i) for i in range(len(every))]
    whole = ranked(dict(zip(names, every, strict=True)), dict.fromkeys(names, judged))
    for name in NAMES:
        metric = Metric.parse(name)
        values = metric(whole)
        best, worst = tie_orders.bounds(metric)
        np.testing.assert_allclose(best[0], values.max(), rtol=0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(worst[0], values.min(), rtol=0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(
            tie_orders.expected(metric)[0], values.mean(), rtol=0, atol=1e-12, err_msg=name
        )


def test_the_expected_order_of_many_equals_is_exact_and_no_draw() -> None:
    # A thousand equals, three of them relevant, of which a cut-off at 10 finds one in a hundred.
    run = {"q": {f"d{i:03}": 1.0 for i in range(1000)}}
    of = TieOrders(ranked(run, {"q": {"d001": 1, "d500": 1, "d900": 1}}))
    expected = {
        "recall@10": 10 / 1000,
        "hit@10": 1 - comb(997, 10) / comb(1000, 10),
        "recall_all@10": comb(997, 7) / comb(1000, 10),
        "mrr": sum(comb(1000 - r, 2) / comb(1000, 3) / r for r in range(1, 999)),
    }
    for name, value in expected.items():
        assert of.expected(Metric.parse(name))[0] == pytest.approx(value, rel=1e-12), name


def test_no_bounds_are_claimed_where_documents_share_evidence() -> None:
    import pyarrow as pa

    qrels = Qrels(
        ["q"],
        np.zeros(2, np.int32),
        pa.array(["a", "b"]),
        np.ones(2, np.int32),
        np.array([7, 7], np.int32),
    )
    assert not TieOrders(ranked({"q": dict.fromkeys("abc", 1.0)}, qrels)).any
    assert TieOrders(ranked({"q": dict.fromkeys("abc", 1.0)}, from_dict({"q": {"a": 1}}))).any


def test_without_ties_nothing_is_claimed() -> None:
    of = ranked({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 1}})
    assert not TieOrders(of).any
    # Equal scores of documents that nobody judged move nothing.
    of = ranked({"q": {"a": 2.0, "b": 1.0, "c": 1.0}}, {"q": {"a": 1}})
    assert not TieOrders(of).any
