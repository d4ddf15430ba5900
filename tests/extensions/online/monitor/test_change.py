"""The test of change: how often it is wrong over long streams that are looked at all the time."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from harness.extensions.online.monitor.change import RECOVERY, MeanTest, measure_reference
from harness.extensions.online.monitor.records import Reference
from harness.io.records import encode

Values = npt.NDArray[np.float64]
LENGTH, ALPHA = 20_000, 0.05
STREAMS = pytest.mark.parametrize("streams", [40, pytest.param(200, marks=pytest.mark.slow)])


def most(streams: int) -> int:
    """Alarms among that many streams which a true chance of 5% exceeds once in a thousand times."""
    return int(streams * ALPHA + 3 * np.sqrt(streams * ALPHA * (1 - ALPHA)))


def independent(rng: np.random.Generator, n: int = LENGTH, p: float = 0.8) -> Values:
    return (rng.random(n) < p).astype(float)


def returning(rng: np.random.Generator, n: int = LENGTH, p: float = 0.8) -> Values:
    """50 users of different luck who come back, in any order."""
    users = np.clip(p + rng.normal(0, 0.15, 50), 0, 1)
    return (rng.random(n) < users[rng.integers(0, 50, n)]).astype(float)


def in_bouts(rng: np.random.Generator, n: int = LENGTH, p: float = 0.8) -> Values:
    """Ten queries in a row of one user each."""
    users = np.clip(p + rng.normal(0, 0.2, n // 10), 0, 1)
    return (rng.random(n) < np.repeat(users, 10)).astype(float)


def thirds(rng: np.random.Generator, n: int = LENGTH, p: float = 0.8) -> Values:
    """Recall of three pieces of evidence."""
    return rng.binomial(3, p, n) / 3


@STREAMS
@pytest.mark.parametrize("stream", [independent, returning, in_bouts, thirds])
def test_false_alarms_of_a_measured_reference(stream, streams: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    assert sum(bool(MeanTest(ALPHA).update(stream(rng))) for _ in range(streams)) <= most(streams)


@STREAMS
@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("batch", [1, 10])
def test_false_alarms_of_a_reference_that_is_exactly_true(
    drop: bool, batch: int, streams: int
) -> None:
    rng = np.random.default_rng(2)
    found = [
        MeanTest(ALPHA, drop, Reference(0.8, 0.8), batch=batch).update(independent(rng, 5000))
        for _ in range(streams)
    ]
    assert sum(map(bool, found)) <= most(streams)


def test_a_fall_is_found_and_a_rise_is_none() -> None:
    rng = np.random.default_rng(3)
    delays = []
    for _ in range(20):
        test = MeanTest(ALPHA)
        assert test.update(independent(rng, 4000)) == []
        after = independent(rng, 8000, 0.7)
        for start in range(0, len(after), 50):
            if test.update(after[start : start + 50]):
                delays.append(start + 50)
                break
    assert len(delays) >= 18  # of 20
    assert 200 < np.median(delays) < 3000
    assert MeanTest(ALPHA).update(np.r_[independent(rng, 4000), independent(rng, 9000, 0.95)]) == []


def test_looking_more_often_changes_nothing_nor_does_a_restart() -> None:
    rng = np.random.default_rng(4)
    values = np.r_[independent(rng, 3000), independent(rng, 3000, 0.5), independent(rng, 3000)]
    whole = MeanTest(ALPHA)
    events = whole.update(values)
    assert events == ["alert", "clear"]
    parts, said = MeanTest(ALPHA), []
    for at in range(0, len(values), 7):
        said += parts.update(values[at : at + 7])
        resumed = MeanTest(ALPHA)
        resumed.resume(msgspec.json.decode(encode(parts.state())))
        parts = resumed
    assert said == events
    assert parts.n == whole.n
    assert parts.evidence == pytest.approx(whole.evidence)


def test_an_alarm_stands_until_the_mean_is_back() -> None:
    test = MeanTest(ALPHA, reference=Reference(0.8, 0.8))
    bad = [0.0] * 400
    assert test.update(bad) == ["alert"]
    assert test.update([0.0] * RECOVERY * 3) == []
    assert test.update([1.0] * RECOVERY * 2) == ["clear"]
    assert test.episode == 2
    assert test.update(bad) == ["alert"]


@STREAMS
def test_the_reference_is_bounded_by_its_betting_interval(streams: int) -> None:
    rng = np.random.default_rng(5)
    below = above = 0
    for _ in range(streams):
        values = independent(rng, 300)
        below += measure_reference(values, 0.025, drop=True).bound > 0.8
        above += measure_reference(values, 0.025, drop=False).bound < 0.8
    assert below + above <= most(streams)


def test_nothing_is_worse_than_the_worst() -> None:
    test = MeanTest(ALPHA, drop=True)
    test.update([0.0] * 3000)
    assert not test.testable
    assert MeanTest(ALPHA, drop=False, reference=Reference(0.0, 0.0)).update([1.0] * 100) == [
        "alert"
    ]
