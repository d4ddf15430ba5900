"""Chance and ceiling against every ranking there is of small haystacks."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import ranked, value

from harness.scoring.chance import ceiling, chance
from harness.scoring.metrics import FUNCTIONS, NEEDS_K, Metric
from harness.scoring.qrels import Qrels, from_dict
from harness.scoring.ranks import Ranked


@st.composite
def haystacks(draw: st.DrawFn) -> tuple[list[str], dict[str, int]]:
    """Up to six documents, judgements of some, and of up to two that the haystack lacks."""
    documents = [f"d{i}" for i in range(draw(st.integers(1, 6)))]
    grades = st.sampled_from([-1, 0, 0, 1, 1, 2, 3])
    judged = {d: draw(grades) for d in documents if draw(st.booleans())}
    judged |= {f"absent{i}": draw(grades) for i in range(draw(st.integers(0, 2)))}
    return documents, judged or {"d0": draw(grades)}


NAMES = [
    name + level + cut
    for name in FUNCTIONS
    for level in ("", "(rel=2)")
    for cut in ("", "@1", "@2", "@3", "@5", "@8")
    if (cut == "" and name not in NEEDS_K) or (cut and name != "rprec")
]


def of_all(orders: list[tuple[str, ...]], judged: dict[str, int]) -> Ranked:
    """Each order as the ranking of a query of its own, all judged alike."""
    names = [str(i) for i in range(len(orders))]
    return ranked(dict(zip(names, orders, strict=True)), from_dict(dict.fromkeys(names, judged)))


@given(haystacks())
@settings(max_examples=30, deadline=None)
def test_chance_is_the_mean_over_all_permutations_and_ceiling_the_best_of_all_answers(
    haystack: tuple[list[str], dict[str, int]],
) -> None:
    documents, judged = haystack
    whole = of_all(list(permutations(documents)), judged)
    short = of_all(
        [p for n in range(len(documents) + 1) for p in permutations(documents, n)], judged
    )
    one = of_all([tuple(documents)], judged)
    present = np.array([document in documents for document in judged])
    size = np.array([len(documents)])
    for name in NAMES:
        metric = Metric.parse(name)
        expected = chance(metric, one, present, size)
        assert expected is not None, name
        np.testing.assert_allclose(
            expected[0], metric(whole).mean(), rtol=0, atol=1e-12, err_msg=name
        )
        np.testing.assert_allclose(
            ceiling(metric, one, present)[0], metric(short).max(), rtol=0, atol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("name", ["recall@2", "hit@2", "recall_all@2", "ndcg@2", "map@2", "mrr"])
def test_ceiling_with_shared_evidence_is_that_of_the_best_permutation(name: str) -> None:
    # d0 carries three pieces, d1 one of the same, d2 and d3 one of their own.
    qrels = shared({"d0": "abc", "d1": "a", "d2": "e", "d3": "f"})
    documents = ["d4", "d1", "d3", "d2", "d0"]
    best = max(value(name, ranked({"q": list(p)}, qrels)) for p in permutations(documents))
    present = np.ones(len(qrels.query), bool)
    of = ranked({"q": documents}, qrels)
    assert ceiling(Metric.parse(name), of, present)[0] == pytest.approx(best, abs=1e-12)


@given(
    st.lists(st.sets(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=4),
    st.sets(st.sampled_from("abcdxy"), max_size=2),
)
@settings(max_examples=20, deadline=None)
def test_chance_with_shared_evidence_is_the_mean_over_all_permutations(
    carried: list[set[str]], absent: set[str]
) -> None:
    documents = [f"d{i}" for i in range(len(carried))]
    pieces = {d: "".join(sorted(p)) for d, p in zip(documents, carried, strict=True) if p}
    pieces["absent"] = "".join(sorted(absent)) or "z"
    qrels = shared(pieces)
    present = np.array([d != "absent" for d in qrels.document.to_pylist()])
    orders = [ranked({"q": list(order)}, qrels) for order in permutations(documents)]
    for name in (n for n in NAMES if "rel" not in n):
        metric = Metric.parse(name)
        level = chance(metric, ranked({"q": documents}, qrels), present, np.array([len(documents)]))
        assert level is not None
        mean = np.mean([metric(order)[0] for order in orders])
        np.testing.assert_allclose(level[0], mean, rtol=0, atol=1e-12, err_msg=name)


def shared(pieces: dict[str, str]) -> Qrels:
    """One query's judgements: the pieces of evidence that each document carries."""
    import pyarrow as pa

    pairs = [(document, piece) for document, of in pieces.items() for piece in of]
    return Qrels(
        ["q"],
        np.zeros(len(pairs), np.int32),
        pa.array([document for document, _ in pairs]),
        np.ones(len(pairs), np.int32),
        np.array([ord(piece) for _, piece in pairs], np.int32),
    )


def test_a_haystack_too_large_for_sums_over_ranks_has_no_level_for_whole_rankings() -> None:
    of = ranked({"q": ["a"]}, {"q": {"a": 1}})
    huge, present = np.array([8_000_000]), np.array([True])
    assert chance(Metric.parse("mrr"), of, present, huge) is None
    level = chance(Metric.parse("mrr@10"), of, present, huge)
    assert level is not None
    assert level[0] == pytest.approx(sum(1 / r for r in range(1, 11)) / 8_000_000, rel=1e-12)
