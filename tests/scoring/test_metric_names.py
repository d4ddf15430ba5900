"""Metrics are values: they parse from and print to the text that people type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import ranked, value

from harness.errors import UsageError
from harness.scoring.metrics import ALIASES, METRICS, Metric, parse_metrics
from harness.scoring.metrics.described import DESCRIBED, OF_ANSWERS


@given(st.sampled_from(sorted(METRICS)), st.none() | st.integers(1, 10**9), st.integers(1, 99))
def test_parse_and_print_are_inverse(name: str, k: int | None, rel: int) -> None:
    if METRICS[name].needs_cutoff and k is None:
        k = 1
    metric = Metric(name, None if name == "rprec" else k, rel)
    assert Metric.parse(str(metric)) == metric


def test_other_tools_names_stand_for_ours() -> None:
    assert [str(m) for m in parse_metrics(" R@5, nDCG@10,P(rel=2)@5,RR,recall@5 ,Success@1")] == [
        *("recall@5", "ndcg@10", "precision(rel=2)@5", "mrr", "hit@1")
    ]
    trec_eval = "ndcg_cut_10,P_5,recall_1000,map_cut_100,success_1,recip_rank,map,Rprec"
    assert [str(m) for m in parse_metrics(trec_eval)] == [
        *("ndcg@10", "precision@5", "recall@1000", "map@100", "hit@1", "mrr", "map", "rprec")
    ]
    assert set(ALIASES.values()) <= set(METRICS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ndgc@10", "unknown metric 'ndgc@10'; did you mean ndcg"),
        ("zzz@10", "unknown metric 'zzz@10'; known: ap, f1, hit"),
        ("", "unknown metric ''; known: "),
        ("recall", "the metric 'recall' needs a cut-off, for instance recall@10"),
        ("recall@0", "the cut-off of 'recall@0' must be a whole number, 1 or more"),
        ("recall@-3", "the cut-off of 'recall@-3' must be a whole number, 1 or more"),
        ("recall@1.5", "the cut-off of 'recall@1.5' must be a whole number, 1 or more"),
        ("mrr@", "the cut-off of 'mrr@' must be a whole number, 1 or more"),
        ("rprec@5", "takes no @k"),
        ("recall(rel=0)@5", "relevant is grade 1 or more"),
    ],
)
def test_a_metric_that_cannot_be_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        Metric.parse(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_every_metric_is_one_entry_that_says_what_it_is() -> None:
    descriptions = [*METRICS.values(), *DESCRIBED, *OF_ANSWERS]
    for one in descriptions:
        assert len(one.about) > 20, one.name
        assert one.formula, one.name
        assert "\n" not in one.about + one.formula + one.source + one.elsewhere, one.name
    for name, definition in METRICS.items():
        assert Metric(name, 1).definition is definition
    names = [one.name for one in (*METRICS.values(), *DESCRIBED)]
    assert len(names) == len(set(names))


def test_the_three_recalls_and_the_precisions_are_what_their_docstrings_say() -> None:
    # Four relevant; ranks 1, 3 and 6 of the six returned hold three of them.
    of = ranked({"q": ["a", "x", "b", "y", "z", "c"]}, {"q": {"a": 1, "b": 2, "c": 1, "d": 1}})
    expected = {
        "recall@3": 2 / 4,
        "hit@3": 1,
        "hit(rel=2)@2": 0,
        "recall_all@6": 0,
        "recall_all(rel=2)@3": 1,
        "precision@3": 2 / 3,
        "precision@10": 3 / 10,
        "precision_returned@10": 3 / 6,
        "f1@3": 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4),
        "rprec": 2 / 4,
        "judged@3": 2 / 3,
        "mrr": 1,
        "mrr(rel=2)": 1 / 3,
        "map": (1 / 1 + 2 / 3 + 3 / 6) / 4,
        "map@3": (1 / 1 + 2 / 3) / 4,
    }
    for name, wanted in expected.items():
        assert value(name, of) == pytest.approx(wanted, abs=1e-12), name
