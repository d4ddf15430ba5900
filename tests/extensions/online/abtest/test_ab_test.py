"""A test in use: what is recorded, what comes back after a crash, what the report says of it."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from polling import HANGS

from harness import ABTest
from harness.errors import RunError, UsageError
from harness.extensions.online.abtest.ab_test import report
from harness.io.records import encode
from harness.stats.proportions import MISMATCH_LEVEL, sample_ratio


def filled(test: ABTest, users: int = 300, effect: float = 0.0, seed: int = 0) -> ABTest:
    """Records of users who come back."""
    generator = np.random.default_rng(seed)
    for user in generator.integers(0, users, 3 * users).tolist():
        better = effect if test.route(user) == "a" else 0
        click = float(generator.random() < 0.3 + better)
        test.record(user, {"click": click, "seconds": generator.lognormal(-3, 0.4)})
    return test


def _stats() -> Any:
    """SciPy's; the processes below, which import this file, do without."""
    from scipy import stats

    return stats


def test_the_figures_are_those_of_users_means() -> None:
    bounds = {"click": (0, 1), "seconds": None}
    test = filled(ABTest("old", "new", name="figures", metrics=bounds), effect=0.1)
    generator = np.random.default_rng(0)
    values: dict[str, dict[int, list[float]]] = {"a": {}, "b": {}}
    for user in generator.integers(0, 300, 900).tolist():
        arm = test.route(user)
        click = float(generator.random() < 0.3 + (0.1 if arm == "a" else 0))
        generator.lognormal(-3, 0.4)
        values[arm].setdefault(user, []).append(click)
    a, b = ([np.mean(own) for own in values[arm].values()] for arm in "ab")
    found = test.report()
    click = found.metrics[0]
    peer = _stats().ttest_ind(a, b, equal_var=False)
    assert (click.mean_a, click.mean_b, click.p) == pytest.approx(
        (np.mean(a), np.mean(b), peer.pvalue)
    )
    assert (click.low, click.high) == pytest.approx(tuple(peer.confidence_interval(0.95)))
    assert (click.units_a, click.units_b, found.records) == (len(a), len(b), 900)
    assert click.effect_size == pytest.approx(
        (np.mean(a) - np.mean(b)) / math.sqrt((np.var(a, ddof=1) + np.var(b, ddof=1)) / 2)
    )
    assert click.p_holm == pytest.approx(min(1, 3 * click.p))  # with seconds, and failures
    assert click.anytime_low < click.low < click.high < click.anytime_high
    seconds = found.metrics[1]
    assert (seconds.anytime_p, seconds.anytime_low, seconds.anytime_p_holm) == (None, None, None)
    assert "no bounds in the plan, so no anytime-valid result" in seconds.note
    assert click.anytime_p_holm == pytest.approx(min(1, 2 * click.anytime_p))  # with failures


def test_what_is_seen_late_is_in_the_correction_from_the_first_look() -> None:
    """A family that grows while somebody looks corrects the first looks for less."""
    bounds = {"click": (0, 1), "liked": (0, 1)}
    test = ABTest("old", "new", name="late", metrics=bounds)
    for user in range(200):
        good = (test.route(user) == "a") == (user % 10 < 7)
        test.record(user, {"click": float(good)})
    early = test.report().metrics[0]
    for user in range(200):
        test.record(user, {"liked": float(user % 2)})
        if user % 9 == 0:
            test.record_failure(user)
    late = test.report().metrics
    assert [m.name for m in late] == ["click", "liked", "failed"]
    for m in (early, late[0]):
        assert m.p_holm == pytest.approx(min(1, 3 * m.p))
        assert m.anytime_p_holm == pytest.approx(min(1, 3 * m.anytime_p))


def test_a_test_of_single_requests_gets_exact_p_values_and_leaves_seconds_out() -> None:
    test = ABTest(
        "old",
        "new",
        0.3,
        name="once",
        randomization_unit="request",
        one_observation_per_unit=True,
        metrics={"hit": (0, 1)},
    )
    for request in range(90):
        test.record(request, {"hit": float(test.route(request) == "a")})
    test.record(5, {"hit": 0})
    found = test.report()
    [hit] = found.metrics
    assert found.repeated == 1
    assert hit.method == "two-proportion"
    assert hit.anytime_p < 1e-5
    assert "1 later records of a unit are excluded" in str(found)
    assert "Significant: old has a higher hit" in str(found)


def test_a_search_goes_to_the_unit_s_system_and_is_timed() -> None:
    def old(query: str, k: int) -> list[str]:
        return [f"old {query}"] * k

    def new(query: str, k: int) -> list[str]:
        raise ConnectionError("down")

    test = ABTest(old, new, name="search", randomization_unit="query")
    assert (test.plan.a, test.plan.b) == ("old", "new")
    arms = {test.route(query): query for query in ("who", "what", "when", "where", "why", "how")}
    began = perf_counter()
    answer = test.search(arms["a"], 2)
    took = perf_counter() - began
    assert answer.result == [f"old {arms['a']}"] * 2
    assert (answer.arm, answer.system) == ("a", "old")
    assert 0 <= answer.seconds <= took
    with pytest.raises(ConnectionError):
        test.search(arms["b"], 2)
    with pytest.raises(UsageError, match="needs unit_id"):
        ABTest(old, new).search("who", 2)
    with pytest.raises(UsageError, match="is a name"):
        ABTest("x", "y").search("who", 2, unit_id=1)


def test_a_restart_goes_on_and_a_torn_line_is_dropped_with_a_word(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "test.jsonl"
    with filled(ABTest("old", "new", name="restart", log=path)) as test:
        whole = test.report()
    with pytest.raises(RunError, match="is closed"):
        test.record("late", {"click": 1})
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 901
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    with ABTest("old", "new", name="restart", log=path) as test:
        test.record("another", {"click": 1})
        found = test.report()
    assert found.records == 900
    assert found.damaged_lines == [901]
    assert "1 lines of the log are incomplete and were excluded (line 901)" in str(found)
    assert found.metrics[0].mean_a == pytest.approx(whole.metrics[0].mean_a, abs=0.02)
    in_memory = filled(ABTest("old", "new", name="restart")).report()
    assert in_memory.metrics == whole.metrics


def test_a_test_cannot_change_on_its_way(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    ABTest("old", "new", name="one", log=path).close()
    for arguments, said in (
        ({"name": "two"}, "name='one', not 'two'"),
        ({"name": "one", "split": 0.4}, "split=0.5, not 0.4"),
        ({"name": "one", "metrics": ["click"]}, "metrics={}"),
    ):
        with pytest.raises(UsageError, match=said):
            ABTest("old", "new", log=path, **arguments)
    (tmp_path / "notes.txt").write_text("click 1\n")
    (tmp_path / "empty").write_text("")
    for name in ("notes.txt", "empty"):
        with pytest.raises(UsageError, match="not the event log of an A/B test"):
            ABTest("old", "new", log=tmp_path / name)
    with pytest.raises(UsageError, match="cannot be"):
        ABTest("old", "new", log=tmp_path)
    with pytest.raises(UsageError, match="cannot be"):
        ABTest("old", "new", log=tmp_path / "notes.txt" / "test.jsonl")


def _write(path: Path, which: int, together: Barrier) -> None:
    with ABTest("old", "new", name="shared", log=path) as test:
        together.wait(HANGS)
        for at in range(500):
            test.record(f"{which}-{at}", {"click": at % 2, "query": 1.5})


def test_two_processes_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    writers = [context.Process(target=_write, args=(path, i, together)) for i in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = report(path)
    assert (found.records, found.damaged_lines) == (1_000, [])
    assert [entry.name for entry in tmp_path.iterdir()] == ["test.jsonl"]


def test_what_one_process_left_torn_swallows_no_record_of_another(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    with (
        ABTest("old", "new", name="torn", log=path) as one,
        ABTest("old", "new", name="torn", log=path) as other,
    ):
        for at in range(20):
            one.record(f"one-{at}", {"click": 1})
            with open(path, "ab") as file:
                file.write(b'{"unit_id": "killed in the mid')
            other.record(f"other-{at}", {"click": 1})
    found = report(path)
    assert (found.records, len(found.damaged_lines)) == (40, 20)


@pytest.mark.parametrize("interleave", [False, True])
def test_a_line_that_is_there_twice_counts_once(tmp_path: Path, interleave: bool) -> None:
    path = tmp_path / "test.jsonl"
    with ABTest("old", "new", name="twice", log=path, interleave=interleave) as test:
        for _ in range(2):  # of one second, and yet two requests
            if interleave:
                shown = test.interleave(["p", "q"], ["q", "p"], 2, "u")
                test.record_clicks("u", shown, ["p"], time=1)
            else:
                test.record("u", {"click": 1}, time=1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, *lines[1:]]))
    found = report(path)
    assert found.duplicate_lines == [4, 5]
    assert (found.impressions if interleave else found.records) == 2
    assert "2 lines of the log repeat an earlier line and were excluded (line 4, 5)" in str(found)


def test_a_mean_that_rounding_lifts_above_its_bound_is_within_it() -> None:
    test = ABTest("old", "new", name="rounded", metrics={"rate": (0, 0.1)})
    for user in range(20):
        for _ in range(3):
            test.record(user, {"rate": 0.1})
    assert sum([0.1] * 3) / 3 > 0.1
    assert test.report().metrics[0].anytime_p == 1


def test_a_value_outside_its_bounds_is_in_no_mean(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    plan = {"name": "bounded", "metrics": {"click": (0, 1)}, "log": path}
    with ABTest("old", "new", **plan) as test:
        test.record("u", {"click": 1})
    whole = path.read_bytes()
    line = json.loads(whole.splitlines()[-1])
    for value in (7, -0.5):
        odd = json.dumps({**line, "metrics": {"click": value}}).encode() + b"\n"
        path.write_bytes(whole + odd)
        with pytest.raises(UsageError, match="outside its bounds 0 to 1"):
            report(path)
    path.write_bytes(whole)
    assert report(path).records == 1


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    import resource

    test = ABTest("old", "new", name="full", log=tmp_path / "test.jsonl")
    size = os.path.getsize(tmp_path / "test.jsonl")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30, limits[1]))
    try:
        with pytest.raises(RunError, match="the disk is full"):
            test.record("somebody", {"click": 1})
        with pytest.raises(RunError, match="cannot be written"):
            test.record("somebody", {"click": 1})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    test.record("somebody", {"click": 1})
    found = test.report()
    assert (found.records, found.damaged_lines) == (1, [2])


def test_units_that_saw_both_arms_are_counted_and_left_out() -> None:
    bounds = {"click": (0, 1), "seconds": None}
    test = filled(ABTest("old", "new", name="crossed", metrics=bounds), effect=0.3)
    for user in range(20):
        other = "b" if test.route(user) == "a" else "a"
        test.record(user, {"click": 0}, arm=other)
    test.record("elsewhere", {"click": 0}, arm="a" if test.route("elsewhere") == "b" else "b")
    found = test.report()
    before = len({*np.random.default_rng(0).integers(0, 300, 900).tolist(), *range(20)})
    assert found.crossed == len({*np.random.default_rng(0).integers(0, 300, 900)} & {*range(20)})
    assert found.misrouted == 21
    assert found.units_a + found.units_b == before - found.crossed + 1
    assert "No winner is named" in str(found)
    assert found.metrics[0].anytime_p < 0.001


def test_a_mismatched_ratio_refuses_to_name_a_winner() -> None:
    test = ABTest("old", "new", name="lost", metrics={"click": (0, 1)})
    for user in range(3_000):
        arm = test.route(user)
        if arm == "a" or user % 6:  # a sixth of b never arrives
            test.record(user, {"click": float(user % 10 < (7 if arm == "a" else 3))})
    found = test.report()
    assert found.ratio.mismatch
    assert found.metrics[0].anytime_p < 1e-6
    assert "No winner is named: sample-ratio mismatch" in str(found)
    assert "Shown" not in str(found)


def test_only_the_p_that_is_right_at_any_time_stops_a_test() -> None:
    generator = np.random.default_rng(0)
    looks = np.arange(100, 20_001, 100)
    found = 0
    while found < 3:  # fair streams whose single-look p is below the limit at one of many looks
        in_a = generator.random(20_000) < 0.5
        far = np.abs(in_a.cumsum()[looks - 1] - looks / 2) > 3.35 * np.sqrt(looks) / 2
        for n in looks[far][:1].tolist():
            ratio = sample_ratio(in_a[:n])
            assert ratio.p < MISMATCH_LEVEL
            assert not ratio.mismatch
            found += 1


def test_early_and_equal_tests_do_not_overclaim() -> None:
    bounds = {"click": (0, 1), "seconds": None}
    test = ABTest("old", "new", name="early", min_effects={"click": 0.1}, metrics=bounds)
    assert "No records yet." in str(test.report())
    test.record(1, {"click": None, "seconds": 0.1})
    assert [metric.name for metric in test.report().metrics] == ["seconds"]
    assert "No anytime-valid conclusion: no metric has bounds" in test.report().conclusion
    filled(test, users=20)
    found = test.report()
    click = found.metrics[0]
    assert click.anytime_low < 0 < click.anytime_high
    assert click.required_n is not None
    assert click.required_n_anytime > click.required_n > 20
    filled(test, users=400, seed=5)
    assert "this does not show that the systems are equal" in str(test.report())
    assert test.report(min_effects={"seconds": 0.01}).metrics[1].required_n > 0
    with pytest.raises(UsageError, match="level"):
        test.report(level=95)


def test_reports_fit_a_terminal_and_json() -> None:
    test = filled(ABTest("bm25", "tfidf", name="width", min_effects={"click": 0.05}))
    found = test.report()
    assert max(map(len, str(found).splitlines())) <= 100
    assert json.loads(encode(found))["plan"]["a"] == "bm25"


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"click": math.nan}, "finite"),
        ({"click": "1"}, "finite"),
        ({"click": 2}, "outside its bounds"),
        ({"clik": 1}, "did you mean click"),
        ({}, "mapping"),
        ([("click", 1)], "mapping"),
        ({"click": np.inf}, "finite"),
    ],
)
def test_wrong_records_are_refused(metrics: object, said: str) -> None:
    test = ABTest("old", "new", metrics={"click": (0, 1), "seconds": None})
    with pytest.raises(UsageError, match=said):
        test.record("user", metrics)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="time"):
        test.record("user", {"click": 1}, time="now")  # type: ignore[arg-type]
    for beyond in (1e300, -1e18, math.nan, 10**400):  # no report could be made of what has that
        with pytest.raises(UsageError, match="time"):
            test.record("user", {"click": 1}, time=beyond)
    with pytest.raises(UsageError, match="arm"):
        test.record("user", {"click": 1}, arm="c")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is not interleaved"):
        test.record_clicks("user", test.interleave(["p"], ["q"], 2, "user"), [])
    test.record("user", {"click": np.float32(1), "seconds": np.int64(2)}, time=datetime.now(UTC))
    test.record("user", {"click": True})
    assert test.report().records == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"split": 0}, "split"),
        ({"split": "half"}, "split"),
        ({"split": math.nan}, "split"),
        ({"a": "same", "b": "same"}, "both systems"),
        ({"a": 3}, "names or functions"),
        ({"name": ""}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"metrics": {"click": (1, 0)}}, "bounds"),
        ({"metrics": "click"}, "list of names"),
        ({"metrics": ["click"], "min_effects": {"clicks": 0.1}}, "did you mean click"),
        ({"min_effects": {"click": 0}}, "other than 0"),
        ({"min_effects": {"click": 10**400}}, "out of range"),
        ({"interleave": True, "split": 0.2}, "interleaved"),
        ({"salt": 7}, "salt"),
    ],
)
def test_wrong_plans_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ABTest(**{"a": "old", "b": "new", **arguments})  # type: ignore[arg-type]


def test_interleaved_clicks_are_a_sign_test_on_users(tmp_path: Path) -> None:
    path = tmp_path / "draft.jsonl"
    with ABTest("old", "new", name="draft", interleave=True, log=path) as test:
        for user in range(40):
            for visit in range(3):
                shown = test.interleave(["p", "q", "r"], ["q", "p", "r"], 3, user, impression=visit)
                of_a = [d for d, t in zip(shown.documents, shown.teams, strict=True) if t == "a"]
                of_b = [d for d, t in zip(shown.documents, shown.teams, strict=True) if t == "b"]
                test.record_clicks(user, shown, of_a if user < 25 else of_b if user < 35 else [])
        found = test.report()
        with pytest.raises(UsageError, match="records clicks"):
            test.record(1, {"click": 1})
    assert (found.for_a, found.for_b, found.for_none) == (25, 10, 5)
    assert (found.wins_a, found.wins_b, found.ties) == (75, 30, 15)
    assert found.p == pytest.approx(_stats().binomtest(25, 35).pvalue)
    assert found.preference == pytest.approx((25 - 10) / 40 / 2)
    assert found.low < found.preference < found.high
    assert found.anytime_low < 0 < found.anytime_high
    assert f"over {found.units} units" in found.method
    assert "observations" not in str(found)
    assert "it is valid only if" in str(found)
    once = ABTest("old", "new", name="draft", interleave=True, one_observation_per_unit=True)
    assert "No records yet." in str(once.report())
    for user in range(40):
        shown = once.interleave(["p", "q"], ["q", "p"], 2, user)
        once.record_clicks(user, shown, [shown.documents[shown.teams.index("b")]])
        once.record_clicks(user, shown, [])
    found = once.report()
    assert found.repeated == 40
    assert found.preference == -0.5
    # Forty of one mind are no proof of all others: Clopper and Pearson's, not the t of no spread.
    assert (found.low, found.high) == pytest.approx((-0.5, 0.5 - 0.025 ** (1 / 40)))
    assert found.anytime_p < 0.001
    assert "Significant: readers click more on new" in str(found)
    assert max(map(len, str(found).splitlines())) <= 100
