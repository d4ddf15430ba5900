"""Random baselines and upper bounds against every ranking that small haystacks have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import lists, prepared, ranked, value

from harness.datasets.writer import DatasetWriter
from harness.records.scores import MetricResult
from harness.scoring import bounds
from harness.scoring.bounds import UpperBounds, random_baseline
from harness.scoring.metrics import METRICS, Metric
from harness.scoring.protocols import Choices
from harness.scoring.qrels import from_dict
from harness.scoring.ranks import Qrels, Ranked
from harness.scoring.score import score


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
    for name in METRICS
    for level in ("", "(rel=2)")
    for cut in ("", "@1", "@2", "@3", "@5", "@8")
    if (cut == "" and not METRICS[name].needs_cutoff) or (cut and name != "rprec")
]


def of_all(orders: list[tuple[str, ...]], judged: dict[str, int]) -> Ranked:
    """Each order as the ranking of a query of its own, all judged alike."""
    names = [str(i) for i in range(len(orders))]
    return ranked(dict(zip(names, orders, strict=True)), from_dict(dict.fromkeys(names, judged)))


@pytest.mark.slow
@given(haystacks())
@settings(max_examples=30)
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
    upper_bounds = UpperBounds(one, present)
    size = np.array([len(documents)])
    for name in NAMES:
        metric = Metric.parse(name)
        expected = random_baseline(metric, one, present, size)
        assert expected is not None, name
        np.testing.assert_allclose(
            expected[0], metric(whole).mean(), rtol=0, atol=1e-12, err_msg=name
        )
        np.testing.assert_allclose(
            upper_bounds(metric).values[0], metric(short).max(), rtol=0, atol=1e-12, err_msg=name
        )


# A document may carry several pieces, a piece have several documents, and any of them be absent.
CARRIED = st.lists(st.tuples(st.sets(st.sampled_from("abcd"), max_size=3), st.integers(0, 2)))


@pytest.mark.slow
@given(CARRIED.filter(lambda some: 0 < len(some) < 6), st.sets(st.sampled_from("abxy")), st.data())
@settings(max_examples=40)
def test_ceiling_with_shared_evidence_is_that_of_the_best_ranking_in_any_order_of_the_lines(
    carried: list[tuple[set[str], int]], absent: set[str], data: st.DataObject
) -> None:
    documents = [f"d{i}" for i in range(len(carried))]
    lines = [
        (document, piece, grade)
        for document, (pieces, grade) in zip(documents, carried, strict=True)
        for piece in sorted(pieces)
    ]
    lines += [("absent", piece, 1) for piece in sorted(absent) or ["z"]]
    qrels, again = key(lines), key(data.draw(st.permutations(lines)))
    of, shuffled = ranked({"q": []}, qrels), ranked({"q": []}, again)
    orders = [p for n in range(len(documents) + 1) for p in permutations(documents, n)]
    run = {f"q{at}": list(order) for at, order in enumerate(orders)}
    whole = ranked(run, key(lines, queries=[*run]))
    upper_bounds = UpperBounds(of, of_documents(qrels, documents))
    others = UpperBounds(shuffled, of_documents(again, documents))
    for name in NAMES:
        metric = Metric.parse(name)
        best = metric(whole).max()
        for found in (upper_bounds(metric), others(metric)):
            assert found.exact[0], name
            np.testing.assert_allclose(found.values[0], best, rtol=0, atol=1e-12, err_msg=name)


def test_the_ceiling_counts_the_documents_that_carry_most_wherever_they_are_listed() -> None:
    # a carries one piece, b two: one document finds two thirds at most, as a run does.
    lines = [("a", "A", 1), ("b", "B", 1), ("b", "C", 1)]
    qrels = key(lines)
    of = ranked({"q": ["b"]}, qrels)
    top = UpperBounds(of, np.ones(3, bool))(Metric.parse("recall@1"))
    assert top.values[0] == pytest.approx(value("recall@1", of)) == pytest.approx(2 / 3)


@given(st.lists(st.sets(st.integers(0, 11), min_size=1, max_size=5), min_size=1, max_size=8))
@settings(max_examples=60)
def test_what_is_too_much_to_go_through_is_an_upper_bound_and_is_called_one(
    carried: list[set[int]],
) -> None:
    def curve() -> tuple[list[int], list[int]]:
        found = bounds.Cover.of_query(
            [{d for d, p in enumerate(carried) if i in p} for i in range(12)]
        )
        return [found.of(k)[0] for k in range(9)], [found.of(k)[1] for k in range(9)]

    best = [
        max(len(set().union(*some)) for some in combinations(carried, min(k, len(carried))))
        for k in range(9)
    ]
    assert curve() == (best, best)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_STEPS", 0)
        most, least = curve()
    assert all(low <= true <= high for low, true, high in zip(least, best, most, strict=True))
    assert most[8] == least[8] == best[8]


def test_a_bound_is_said_in_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two documents carry all six pieces; greed begins with another, which carries most.
    def fill(out: DatasetWriter) -> None:
        rows = [out.document(f"d{i}", "w") for i in range(6)]
        out.haystack("all")
        out.query("q", "?", "all")
        for row, pieces in zip(rows, ("abcd", "abe", "cdf", "ae", "bf", "c"), strict=True):
            for piece in pieces:
                out.qrel("q", row, evidence_id=piece)

    dataset = prepared(tmp_path / "data", fill)
    run = lists({"q": ["d1", "d2"]})

    def recall() -> tuple[MetricResult, list[str]]:
        report = score(dataset, run, Choices(["memory"], ks=(2,))).report
        return report.protocols[0].overall["recall@2"], report.warnings

    exact, warnings = recall()
    assert exact.upper_bound == exact.value == 1
    assert not exact.upper_bound_method
    monkeypatch.setattr(bounds, "_STEPS", 0)
    bound, warnings = recall()
    assert bound.upper_bound == 1
    assert bound.upper_bound_method == "an upper bound"
    assert (
        "turn: the upper bound is loose, so perhaps no ranking reaches it: recall@2" in warnings[0]
    )


@pytest.mark.slow
@given(
    st.lists(st.sets(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=4),
    st.sets(st.sampled_from("abcdxy"), max_size=2),
)
@settings(max_examples=20)
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
        level = random_baseline(
            metric, ranked({"q": documents}, qrels), present, np.array([len(documents)])
        )
        assert level is not None
        mean = np.mean([metric(order)[0] for order in orders])
        np.testing.assert_allclose(level[0], mean, rtol=0, atol=1e-12, err_msg=name)


def shared(pieces: dict[str, str]) -> Qrels:
    """One query's judgements: the pieces of evidence that each document carries."""
    return key([(document, piece, 1) for document, of in pieces.items() for piece in of])


def key(lines: Sequence[tuple[str, str, int]], queries: Sequence[str] = ("q",)) -> Qrels:
    """Judgements, alike for each query: document, piece of evidence, grade."""
    import pyarrow as pa

    of = np.repeat(np.arange(len(queries), dtype=np.int32), len(lines))
    lines = [*lines] * len(queries)
    return Qrels(
        [*queries],
        of,
        pa.array([document for document, _, _ in lines]),
        np.array([grade for _, _, grade in lines], np.int32),
        np.array([ord(piece) for _, piece, _ in lines], np.int32) + 1000 * of,
    )


def of_documents(qrels: Qrels, documents: list[str]) -> np.ndarray:
    """Which judgements are of these."""
    return np.array([d in documents for d in qrels.document.to_pylist()])


def test_a_haystack_too_large_for_sums_over_ranks_has_no_level_for_whole_rankings() -> None:
    of = ranked({"q": ["a"]}, {"q": {"a": 1}})
    huge, present = np.array([8_000_000]), np.array([True])
    assert random_baseline(Metric.parse("mrr"), of, present, huge) is None
    level = random_baseline(Metric.parse("mrr@10"), of, present, huge)
    assert level is not None
    assert level[0] == pytest.approx(sum(1 / r for r in range(1, 11)) / 8_000_000, rel=1e-12)
