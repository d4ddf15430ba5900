"""`harness.testing.evaluate`: a function and cases, without a dataset."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from harness.errors import UsageError
from harness.testing import Report, evaluate

NOTES = {"n1": "Ada moved to Lisbon", "n2": "Ada's cat is Rook", "n3": "Ben plays the oboe"}
CASES: list[Any] = [
    ("where does Ada live", {"n1"}),
    {"query": "what is Ada's cat called", "relevant": {"n2": 2, "n1": 1}, "ability": "lookup"},
    {"query": "what does Ben earn", "relevant": [], "id": "pay", "ability": "abstention"},
]


def overlap(query: str) -> list[str]:
    asked = set(query.lower().split())
    shared = {id_: len(asked & set(text.lower().split())) for id_, text in NOTES.items()}
    return sorted(shared, key=lambda id_: -shared[id_])


def test_values_are_those_of_trec_eval() -> None:
    rng = random.Random(3)
    documents = [f"d{i}" for i in range(40)]
    relevant = {
        f"q{i}": {d: rng.choice([0, 1, 2]) for d in rng.sample(documents, 6)} | {documents[i]: 1}
        for i in range(30)
    }
    ranked = {query: rng.sample(documents, rng.randint(0, 25)) for query in relevant}
    cases = [{"query": q, "id": q, "relevant": judged} for q, judged in relevant.items()]
    report = evaluate(lambda query: ranked[query], cases, 10)
    theirs = pytrec_eval.RelevanceEvaluator(
        relevant, {"recall.10", "ndcg_cut.10", "P.5", "recip_rank", "map"}
    ).evaluate({q: {d: -float(i) for i, d in enumerate(r[:10])} for q, r in ranked.items()})
    for ours, name in (
        ("recall@10", "recall_10"),
        ("ndcg@10", "ndcg_cut_10"),
        ("precision_at_5", "P_5"),
        ("mrr", "recip_rank"),
        ("map", "map"),
    ):
        # pytrec_eval leaves out queries for which nothing was returned; here they count 0.
        expected = [theirs.get(query, {}).get(name, 0.0) for query in relevant]
        np.testing.assert_allclose(report.values(ours), expected, atol=1e-9)
        assert report[ours] == pytest.approx(np.mean(expected), abs=1e-9)


def test_a_report_is_one_line_a_table_and_numbers_by_ability() -> None:
    report = evaluate(overlap, CASES, 2)
    assert isinstance(report, Report)
    line = str(report)
    assert "\n" not in line
    assert line.startswith("recall@2 1.000 [")
    assert "n 2; " in line
    assert "1 without an answer, false positive rate 1.000" in line
    assert "1 results below rank 2 excluded" not in line  # three of them: one a case
    assert "3 results below rank 2 excluded" in line
    rows = report.per_query
    assert [row["id"] for row in rows] == ["1", "2", "pay"]
    assert [row["recall@2"] for row in rows] == [1.0, 1.0, None]
    assert rows[1]["ndcg@2"] == pytest.approx(1.0)
    assert all(row["error"] is None and row["ms"] >= 0 for row in rows)
    assert report.by_ability["lookup"]["n"] == 1
    assert report.by_ability["abstention"] == {
        "recall@2": None,
        "ndcg@2": None,
        "mrr@2": None,
        "n": 0,
    }
    assert report["false_positive_rate"] == 1.0
    assert [row["id"] for row in report.worst(1, "precision@1")] == ["1"]
    times = report.latency
    assert times["p50_ms"] is not None
    assert times["p95_ms"] is not None
    assert times["p50_ms"] <= times["p95_ms"]


def test_a_case_that_raises_counts_0_and_is_shown() -> None:
    def search(query: str) -> list[str]:
        if "cat" in query:
            raise TimeoutError("the index\nis down")
        return overlap(query)

    report = evaluate(search, CASES, 3)
    assert report.failed == {"2": "TimeoutError: the index is down"}
    assert (report.n, report["recall@3"]) == (2, 0.5)
    assert report.answered_only("recall@3") == (1.0, 1)
    assert "1 FAILED and count 0; answered only: recall@3 1.000 (1)" in str(report)
    assert report.per_query[1]["recall@3"] == 0

    def late(query: str) -> Any:  # a generator fails where it is read
        yield from overlap(query)[:1]
        raise RuntimeError("lost")

    nothing = evaluate(late, CASES)
    assert (nothing.n, nothing["recall@10"]) == (2, 0.0)
    assert "3 of 3 cases failed, first case 1" in str(nothing)
    assert "RuntimeError: lost" in str(nothing)


def test_k_goes_where_the_function_takes_it() -> None:
    seen: list[int] = []

    def named(query: str, filters: Any = None, top_k: int = 5) -> list[str]:
        seen.append(top_k)
        return []

    def second(query: str, many: int) -> list[str]:
        seen.append(many)
        return []

    def only_query(query: str, filters: Any = None) -> list[str]:
        assert filters is None
        return []

    for function in (named, second, only_query):
        assert evaluate(function, CASES[:1], 7)["recall@7"] == 0.0
    assert seen == [7, 7]


def test_pairs_numbers_and_repeats_are_read() -> None:
    cases = [("q", {7, 8}), ("none", set())]
    report = evaluate(lambda query: [("7", 0.9), ("7", 0.9), (8, 0.1)], cases)
    assert report["recall@10"] == 1.0
    assert report["mrr"] == 1.0
    assert report.per_query[0]["returned"] == 2
    assert "2 repeated results excluded" in str(report)
    assert evaluate(lambda query: np.array([8, 7]), cases)["recall@1"] == 0.5
    assert evaluate(lambda query: [], cases)["false_positive_rate"] == 0.0


async def waits(query: str) -> list[str]:
    return overlap(query)


@pytest.mark.parametrize(
    ("retrieve", "cases", "said"),
    [
        (overlap, {"q": {"d"}}, "list(d.items())"),
        (overlap, "q", "cases must be a list"),
        (overlap, [], "no cases"),
        (overlap, [("q", "d1")], "case 1: relevant must be ids in a set or a list"),
        (overlap, [("q",)], "case 1: must be (query, relevant ids)"),
        (overlap, [("q", {"d"}), ("q", None)], "case 2: relevant must be"),
        (overlap, [("q", [1.5])], "an id is a text or a whole number, not 1.5"),
        (overlap, [("q", {"d": 0.5})], "the grade of 'd' must be a whole number"),
        (overlap, [("q", {"d": True})], "the grade of 'd' must be a whole number"),
        (overlap, [{"query": "q", "relevent": {"d"}}], "did you mean relevant"),
        (overlap, [{"query": "q"}], "case 1: lacks 'relevant'"),
        (overlap, [{"query": "q", "relevant": [], "id": "2"}, ("q", [])], "'2' is there twice"),
        (["d1"], CASES, "evaluate takes it first"),
        (lambda q: None, CASES, 'case 1 ("where does Ada live"): retrieve returned None'),
        (lambda q: "d1", CASES, "retrieve returned str"),
        (lambda q: {"d1": 1.0}, CASES, "retrieve returned dict"),
        (lambda q: [object()], CASES, "[hit.id for hit in hits]"),
        (lambda q: [("a", 0.1), ("b", 0.9)], CASES, "score 0.1 is ranked above 0.9"),
        (lambda q: [("a", float("nan"))], CASES, "a score is NaN"),
        (lambda q: [("a", "high")], CASES, "a score must be a number"),
        (lambda q: [("a", 1.0), "b"], CASES, "1 of 2 results have a score"),
        (waits, CASES, "asyncio.run(retrieve(query))"),
    ],
)
def test_wrong_input_is_one_line_that_names_the_case(retrieve: Any, cases: Any, said: str) -> None:
    with pytest.raises(UsageError) as error:
        evaluate(retrieve, cases)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_k_cannot_show_is_refused() -> None:
    for k in (0, True, "10"):
        with pytest.raises(UsageError, match="k must be a whole number"):
            evaluate(overlap, CASES, k)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="deeper than k = 10"):
        evaluate(overlap, CASES, metrics="recall@20")
    report = evaluate(overlap, CASES, metrics=["recall_at_5", "map"])
    assert report.metrics == ("recall@5", "map")
    with pytest.raises(UsageError, match="deeper than k = 10"):
        report["recall@20"]
    with pytest.raises(UsageError, match="did you mean lookup"):
        report.interval("recall@10", "lookpu")
    assert evaluate(lambda query: asyncio.run(waits(query)), CASES)["recall@10"] == 1.0
