"""What ties could do to a number, against every order that equal scores allow."""

from __future__ import annotations

from itertools import groupby, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import ranked

from harness.scoring.metrics import Metric
from harness.scoring.qrels import Qrels, from_dict
from harness.scoring.ranks import Ties
from harness.scoring.ties import DRAWS, TieOrders

NAMES = [
    *("recall@2", "hit@1", "recall_all@3", "precision@2", "precision_returned@3", "f1@2"),
    *("judged@1", "judged@3", "mrr", "mrr@2", "map", "map@3", "rprec"),
    *("ndcg", "ndcg@2", "ndcg_exp@3", "ndcg_b2@2", "recall(rel=2)@2", "map(rel=2)"),
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
@settings(max_examples=25, deadline=None)
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
        # The mean of DRAWS orders is off by more than five standard errors in one of a million.
        error = 5 * values.std() / np.sqrt(DRAWS)
        np.testing.assert_allclose(
            tie_orders.expected(metric)[0], values.mean(), rtol=0, atol=error + 1e-9, err_msg=name
        )


def test_random_orders_of_equals_are_drawn_without_a_preference() -> None:
    # 100 queries of the same judgements: 10,000 draws of the 24 orders of four equals.
    judged, run = {"a": 1, "b": 2, "c": 3}, dict.fromkeys("abcd", 1.0)
    names = [str(i) for i in range(100)]
    many = TieOrders(ranked(dict.fromkeys(names, run), dict.fromkeys(names, judged)))
    every = [str(i) for i in range(24)]
    whole = ranked(
        dict(zip(every, map(list, permutations("abcd")), strict=True)),
        dict.fromkeys(every, judged),
    )
    for name in ("ndcg@1", "ndcg@2", "ndcg_exp@3", "map@2", "recall(rel=3)@1", "mrr(rel=2)"):
        metric = Metric.parse(name)
        values = metric(whole)
        error = 5 * values.std() / np.sqrt(100 * DRAWS)
        assert many.expected(metric).mean() == pytest.approx(values.mean(), abs=error), name


def test_orders_looked_at_together_give_what_each_alone_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = {f"q{i}": {f"d{j}": float(j % (i + 1)) for j in range(6)} for i in range(5)}
    of = ranked(runs, {q: {"d1": 1, "d3": 2, "d5": 0, "gone": 1} for q in runs})
    together = TieOrders(of)
    monkeypatch.setattr("harness.scoring.ties._SIDE_BY_SIDE", 0)
    alone = TieOrders(of)
    for metric in map(Metric.parse, NAMES):
        assert together.expected(metric).tolist() == alone.expected(metric).tolist()


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
