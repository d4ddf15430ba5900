"""`assert_quality` on everything that it takes: what passes, what fails, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small import in_three_haystacks

import harness
from harness.analysis.gate import GateMinimum, GateRules, gate
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.scoring.scores import Scores
from harness.testing import Report, assert_quality, evaluate


@pytest.fixture(scope="module")
def scored(sample: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two runs on the sample, and the scores of the first."""
    folder = tmp_path_factory.mktemp("runs")
    runs: dict[str, Any] = {}
    for name in ("bm25", "random"):
        runs[name] = run(sample, RetrieverSpec(name, {}), out=folder, quiet=True)
        runs[f"{name} scores"] = score_run(runs[name], sample)
    return runs


def cell(scores: Scores, metric: str, slice_: str = "all") -> Any:
    return scores.report.protocols[0].slices[slice_].metrics[metric]


def test_a_run_folder_is_held_as_the_gate_holds_it(scored: dict[str, Any]) -> None:
    folder, scores = scored["bm25"], scored["bm25 scores"]
    value = cell(scores, "recall@10").value
    found = assert_quality(
        folder, recall_at_10=value, mrr=0.1, max_false_positive_rate=1, max_p95_ms=60_000
    )
    assert [check.name for check in found] == [
        "failed queries",
        "recall@10",
        "mrr",
        "false_positive_rate",
        "p95_ms",
    ]
    assert all(check.passed for check in found)
    assert found[1].found.value == value
    for threshold in (value - 1e-9, value, value + 1e-9):
        (theirs,) = gate(
            folder, GateRules(at_least=[GateMinimum(metric="recall@10", value=threshold)])
        )[1:]
        try:
            assert_quality(str(folder), recall_at_10=threshold)
        except AssertionError:
            assert theirs.outcome == "fail"
        else:
            assert theirs.outcome == "pass"


def test_what_was_missed_is_said_with_all_that_helps(scored: dict[str, Any]) -> None:
    folder, scores = scored["bm25"], scored["bm25 scores"]
    found = cell(scores, "recall@10", "temporal")
    with pytest.raises(AssertionError) as error:
        assert_quality(folder, ability="temporal", recall_at_10=0.999, hit_at_1=0.0)
    said = str(error.value)
    assert f"{folder}: 1 of 3 checks did not pass" in said
    low, high = found.interval.low, found.interval.high
    assert (
        f"FAIL         recall@10 (temporal) {found.value:.4f} < 0.9990, "
        f"95% {low:.4f} to {high:.4f}, n {found.n}"
    ) in said
    assert ("within noise" if high >= 0.999 else "not noise") in said
    assert "the interval is approximate" in said
    assert found.signature in said
    assert "by memory/1, turn" in said
    assert said.partition("worst: ")[2].split()[1] == "0.00,"
    assert "pass         hit@1 (temporal)" in said


def test_other_things_that_are_runs(scored: dict[str, Any]) -> None:
    scores = scored["bm25 scores"]
    value = cell(scores, "ndcg@10").value
    assert assert_quality(scores, ndcg_at_10=value)[1].found.value == value
    assert assert_quality(scores, protocol="trec", ndcg_at_10=0.1)[1].found.value != value
    qrels, ranking = {"q1": {"d1": 1}, "q2": {"d2": 1}}, {"q1": {"d1": 2.0, "d2": 1.0}}
    evaluated = harness.evaluate(qrels, ranking, "recall@10,mrr")
    for one in (
        assert_quality(evaluated, recall_at_10=0.5),
        assert_quality(ranking, qrels=qrels, recall_at_10=0.5),
    ):
        assert (one[1].found.value, one[1].found.n) == (0.5, 2)
    with pytest.raises(AssertionError, match="2 judged queries, 1 without a ranking: 1 of 2"):
        assert_quality(evaluated, recall_at_10=0.6)


def test_a_number_that_cannot_be_measured_fails() -> None:
    unanswerable = evaluate(lambda q: [], [("q", set())])
    with pytest.raises(AssertionError, match=r"recall@10 not measurable: no case with an answer"):
        assert_quality(unanswerable, recall_at_10=0.0)
    assert assert_quality(unanswerable, max_false_positive_rate=0)[1].passed
    with pytest.raises(AssertionError, match="false_positive_rate not measurable"):
        assert_quality(evaluate(lambda q: [], [("q", {"d"})]), max_false_positive_rate=1)


def test_times_that_are_not_known_fail(scored: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="p95_ms not measurable: the run was not timed"):
        assert_quality(scored["bm25 scores"], max_p95_ms=1e9)


def broken(query: str) -> list[str]:
    if query == "q3":
        raise ConnectionError("no route")
    return ["d1"]


def test_failed_cases_fail_the_test_unless_they_may() -> None:
    report = evaluate(broken, [(f"q{i}", {"d1"}) for i in range(10)])
    with pytest.raises(AssertionError, match="1 of 10, first case 4: ConnectionError: no route"):
        assert_quality(report, recall_at_10=1)
    assert_quality(report, recall_at_10=0.9, max_failed=1)
    with pytest.raises(AssertionError, match=r"recall@10 0\.9000"):  # the failure counts 0
        assert_quality(report, recall_at_10=1, max_failed=1)


def test_a_threshold_that_no_ranking_can_reach_is_said_to_be_one() -> None:
    report = evaluate(lambda q: ["d1", "d2"], [(f"q{i}", {"d1"}) for i in range(8)])
    with pytest.raises(AssertionError, match=r"no ranking reaches it: .* the best is 0\.2000"):
        assert_quality(report, precision_at_5=0.8)


def halves(good: int) -> Report:
    cases = [{"query": i, "relevant": {"d"}, "ability": "ab"[i % 2]} for i in range(40)]
    return evaluate(lambda i: ["d"] if i < good else ["x"], cases)


def test_reports_are_compared_with_a_baseline() -> None:
    before, after = halves(40), halves(20)
    with pytest.raises(AssertionError, match=r"1\.0000 -> 0\.5000\), significantly more"):
        assert_quality(after, baseline=before, recall_at_10=0, max_drop=0.1)
    assert_quality(after, baseline=before, recall_at_10=0, max_drop=0.7)
    assert_quality(before, baseline=after, recall_at_10=0, max_drop=0.1)
    assert_quality(halves(39), baseline=before, mrr=0, max_drop=0.15)
    with pytest.raises(AssertionError, match=r"recall@10 \(a\) drop <= 0\.1"):
        assert_quality(after, baseline=before, ability="a", recall_at_10=0, max_drop=0.1)
    other = evaluate(lambda q: [], [("q", {"d"})])
    with pytest.raises(UsageError, match="measured on other cases"):
        assert_quality(after, baseline=other, recall_at_10=0, max_drop=0.1)


def test_a_drop_that_few_cases_cannot_decide_fails_unless_inconclusive_checks_are_allowed() -> None:
    before, after = halves(40), halves(39)
    limits: dict[str, Any] = {"recall_at_10": 0, "max_drop": 0.02}
    missed = r"INCONCLUSIVE recall@10 drop <= 0\.02: dropped by .* but not significantly"
    with pytest.raises(AssertionError, match=missed):
        assert_quality(after, baseline=before, **limits)
    found = assert_quality(after, baseline=before, **limits, allow_inconclusive=True)
    assert [str(one.outcome) for one in found] == ["pass", "pass", "inconclusive"]


def test_folders_are_compared_with_a_baseline_as_the_gate_does(
    scored: dict[str, Any], tmp_path: Path
) -> None:
    good, bad = scored["bm25"], scored["random"]
    with pytest.raises(AssertionError, match=r"recall@10 \(all\) drop <= 0\.1: .* significantly"):
        assert_quality(bad, baseline=good, recall_at_10=0, max_drop=0.1)
    good, bad = (in_three_haystacks(folder, tmp_path) for folder in (good, bad))
    with pytest.raises(AssertionError, match=r"3 haystacks are too few"):
        assert_quality(bad, baseline=good, recall_at_10=0, max_drop=0.1)
    with pytest.raises(UsageError, match="two scored run folders, or two reports"):
        assert_quality(good, baseline=halves(3), recall_at_10=0, max_drop=0.1)


@pytest.mark.parametrize(
    ("thresholds", "said"),
    [
        ({}, "needs a threshold"),
        ({"recal_at_10": 0.5}, "did you mean recall_at_10"),
        ({"recall": 0.5}, "needs a cut-off, for instance recall@10"),
        ({"recall_at_10": 70}, "must be from 0 to 1, not 70"),
        ({"recall_at_10": "0.7"}, "recall_at_10 must be a number"),
        ({"recall_at_10": float("nan")}, "recall_at_10 must be a number"),
        ({"recall_at_10": True}, "recall_at_10 must be a number"),
        ({"max_p95": 10}, "did you mean max_p95_ms"),
        ({"recall_at_7": 0.5}, "--metrics recall@7` adds it"),
        ({"recall_at_10": 0.5, "ability": "temporl"}, "did you mean temporal"),
        ({"recall_at_10": 0.5, "protocol": "none"}, "was not scored by none"),
        ({"recall_at_10": 0.5, "max_failed": -1}, "max_failed must be a number of queries"),
        ({"recall_at_10": 0.5, "max_drop": 0.1}, "baseline and max_drop, the largest drop"),
        ({"recall_at_10": 0.5, "baseline": "elsewhere"}, "need each other"),
        (
            {"recall_at_10": 0.5, "max_drop": 7, "baseline": "elsewhere"},
            "max_drop must be above 0 and at most 1, not 7",
        ),
        ({"max_p95_ms": 5, "baseline": "elsewhere", "max_drop": 1}, "a baseline needs a metric"),
    ],
)
def test_wrong_use_is_one_line(
    scored: dict[str, Any], thresholds: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as error:
        assert_quality(scored["bm25"], **thresholds)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.trec"
    file.write_text("q1 Q0 d1 1 2.0 x\n")
    assert_quality(file, qrels={"q1": {"d1": 1}}, recall_at_10=1)
    for given, said in (
        (tmp_path / "nothing", "no such run folder"),
        (file, "a run file needs qrels="),
        ({"q1": {"d1": 1.0}}, "needs qrels="),
        (3, "cannot check a int"),
        (None, "cannot check a NoneType"),
    ):
        with pytest.raises(UsageError, match=said):
            assert_quality(given, recall_at_10=0.5)
    evaluated = harness.evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, "mrr")
    with pytest.raises(UsageError, match="was not computed"):
        assert_quality(evaluated, recall_at_10=0.5)
    with pytest.raises(UsageError, match="ability needs a scored run"):
        assert_quality(evaluated, ability="temporal", mrr=0.5)
