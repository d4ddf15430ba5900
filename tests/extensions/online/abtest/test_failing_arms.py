"""A system that raises has failed: its errors reach the caller, and do not make it look better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import ABTest
from harness.errors import UsageError
from harness.extensions.online.abtest.interleaving_report import InterleavingReport
from harness.extensions.online.abtest.report import SplitReport


def good(query: str, k: int) -> list[str]:
    return ["d1"]


def bad(query: str, k: int) -> list[str]:
    if int(query) % 4 == 0:
        raise TimeoutError("no answer")
    return ["d1"]


def used(users: int = 1200, **more: Any) -> tuple[ABTest, SplitReport]:
    """A product that shows an error page, and records what it answered: two in three click."""
    test = ABTest(good, bad, name="raises", **more)
    for user in range(users):
        try:
            answer = test.search(str(user), 10, unit_id=user)
        except TimeoutError:
            continue
        test.record(user, {"click": int(user % 3 > 0), "seconds": answer.seconds})
    found = test.report()
    assert isinstance(found, SplitReport)
    return test, found


def test_an_error_reaches_the_caller_and_counts_as_failed() -> None:
    test = ABTest(bad, good, name="one", split=0.999)
    with pytest.raises(TimeoutError, match="no answer"):
        test.search("4", 10, unit_id="somebody")
    found = test.report()
    assert found.failures == {"a": {"TimeoutError": 1}, "b": {}}
    assert (found.records, found.units_a) == (1, 1)


def test_an_arm_that_fails_does_not_look_better() -> None:
    test, found = used(metrics={"click": (0, 1), "seconds": None})
    mine = [user for user in range(1200) if test.route(user) == "b"]
    failed = [user for user in mine if user % 4 == 0]
    clicks = [user for user in mine if user % 4 and user % 3]
    click, rate = (next(m for m in found.metrics if m.name == w) for w in ("click", "failed"))
    assert click.mean_b == pytest.approx(len(clicks) / len(mine))
    assert (rate.mean_a, rate.mean_b) == (0, pytest.approx(len(failed) / len(mine)))
    assert (rate.low, rate.high) < (0, 0)
    assert (rate.anytime_low, rate.anytime_high) < (0, 0)
    text = str(found)
    assert f"FAILURES: good 0, bad {len(failed)} ({len(failed)} TimeoutError)" in text
    assert "each counts as 0 in click" in " ".join(text.split())
    assert "are excluded from seconds" in " ".join(text.split())
    assert "good has a higher click" in text
    assert "Significant: bad fails more often than good (a - b -0.3" in " ".join(text.split())


def test_an_arm_of_more_requests_that_fail_as_often_does_not_fail_more_often() -> None:
    generator = np.random.default_rng(1)
    for requests in ({"a": 1, "b": 8}, {"a": 8, "b": 1}):
        shown = 0
        for at in range(20):
            test = ABTest("few", "many", name=f"requests {at}")
            for user in range(300):
                for failed in generator.random(requests[test.route(user)]) < 0.1:
                    if failed:
                        test.record_failure(user)
                    else:
                        test.record(user, {"click": 1})
            shown += "fails more often" in test.report().conclusion
        assert shown <= 1


def test_the_arm_that_is_named_is_that_of_the_larger_share_of_a_user_s_requests() -> None:
    test = ABTest("brittle", "steady", name="shares")
    for user in range(600):
        # One request in two of the one, two in ten of the other: more users meet a failure there.
        requests, failing = (2, 1 if user % 3 else 0) if test.route(user) == "a" else (10, 2)
        for at in range(requests):
            if at < failing:
                test.record_failure(user)
            else:
                test.record(user, {"click": 1})
    found = test.report()
    failed = found.metrics[-1]
    assert failed.mean_a == pytest.approx(1 / 3, abs=0.05)
    assert failed.mean_b == pytest.approx(0.2)
    assert "Significant: brittle fails more often than steady" in found.conclusion


def test_what_a_failure_counts_as_can_be_said() -> None:
    plan = {"metrics": {"click": (0, 1), "seconds": (0, 60)}, "on_failure": {"seconds": 60}}
    _, found = used(400, **plan)
    by_name = {m.name: m for m in found.metrics}
    assert by_name["seconds"].mean_b > 5 > by_name["seconds"].mean_a
    assert by_name["seconds"].failures_excluded == 0
    plan["on_failure"] = {"click": None}
    _, found = used(400, **plan)
    assert {m.name: m.failures_excluded > 0 for m in found.metrics if m.name == "click"} == {
        "click": True
    }
    for failed, said in (
        ({"clik": 0}, "unknown metric 'clik'; did you mean click"),
        ({"click": 2}, "must be a number within its bounds"),
    ):
        with pytest.raises(UsageError, match=said):
            ABTest("a", "b", metrics={"click": (0, 1)}, on_failure=failed)


def test_an_impression_in_which_a_system_failed_loses_that_impression() -> None:
    test = ABTest("old", "new", name="draft", interleave=True)
    for user in range(400):
        if user % 2:
            test.record_failure(user, "TimeoutError", arm="b")
        else:
            shown = test.interleave(["d1", "d2"], ["d2", "d1"], 2, user)
            test.record_clicks(user, shown, [])
    found = test.report()
    assert isinstance(found, InterleavingReport)
    assert (found.wins_a, found.wins_b, found.ties) == (200, 0, 200)
    assert "FAILURES: old 0, new 200 (200 TimeoutError)" in str(found)
    assert "old wins more impressions, by clicks and failures of the other system" in str(found)
    with pytest.raises(UsageError, match="arm must be"):
        test.record_failure(1)


def test_a_failure_that_cannot_be_recorded_does_not_hide_the_error(tmp_path: Path) -> None:
    test = ABTest(bad, bad, name="closed", log=tmp_path / "test.jsonl")
    test.close()
    with pytest.raises(TimeoutError) as raised:
        test.search("4", 10, unit_id="somebody")
    assert "this failure was not recorded" in raised.value.__notes__[0]
