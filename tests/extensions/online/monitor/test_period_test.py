"""The test of change by means of hours, days and weeks: right where traffic has tides."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest
from streams import A_DAY, KINDS, MEAN, MONDAY, by_hours

from harness.extensions.online.logs.events import RetrievalEvent
from harness.extensions.online.monitor import AlertRules, ChangeRule, Monitor, period_test
from harness.extensions.online.monitor.change import ChangeEvent, MeanTest, Observed
from harness.extensions.online.monitor.period_test import (
    PERIODS,
    UNTIMED,
    OpenPeriods,
    PeriodTest,
    RankTest,
)
from harness.extensions.online.monitor.records import LogPosition
from harness.io.records import encode
from harness.records.run import LogCounts
from harness.stats.clusters import Values

ALPHA, DAY = 0.05, PERIODS["day"]


def by_day(means: Values, n: int = 40) -> Observed:
    """Requests of days that have such means, `n` a day, from a Monday on."""
    days = np.repeat(np.arange(len(means)), n)
    values = (np.tile(np.arange(n), len(means)) + 0.5) / n < np.repeat(means, n)
    return Observed(
        values.astype(float),
        MONDAY + days * 86_400.0 + np.tile(np.arange(n), len(means)),
        np.full(len(days), -1),
    )


def days(rng: np.random.Generator, n: int, fall: float = 0.0, after: int = 0) -> Values:
    """Means of days, 0.05 lower at weekends."""
    number = np.arange(n)
    drop = np.where(number >= after, fall, 0) if fall else 0.0
    return MEAN + rng.normal(0, 0.02, n) - 0.05 * (number % 7 >= 5) - drop


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["day and night, clocks changed once", "popularity of the day", "good and bad days"],
)
def test_the_tides_of_traffic_are_no_change(kind: str) -> None:
    rng, found, by_recalls, streams = np.random.default_rng(0), 0, 0, 15
    for _ in range(streams):
        values = KINDS[kind](rng, 70 * A_DAY)
        found += bool(PeriodTest(DAY, ALPHA, True).take(by_hours(values, A_DAY)))
        by_recalls += "popularity" in kind and bool(MeanTest(ALPHA).update(values[: 20 * A_DAY]))
    assert found <= 3  # of 15, which a true chance of 5% exceeds once in 180 times
    if "popularity" in kind:
        assert by_recalls >= 5  # far above 5%: why days are the default


def test_a_fall_is_found_within_days_whatever_the_day_of_the_week() -> None:
    rng = np.random.default_rng(1)
    for start in range(35, 42):
        test = PeriodTest(DAY, ALPHA, True)
        (event,) = test.take(by_day(days(rng, start + 15, fall=0.2, after=start), 200))
        assert event.alert
        assert event.time is not None
        assert 3 <= (event.time - MONDAY) / 86_400 - start <= 8
        assert event.over == "last 3 days"
        assert event.value == pytest.approx(MEAN - 0.2, abs=0.08)


def test_a_rise_of_a_rate_is_found_and_no_other() -> None:
    rng = np.random.default_rng(2)
    rates = np.r_[np.zeros(45), np.full(20, 0.1)]
    (event,) = PeriodTest(DAY, ALPHA, False).take(by_day(rates))
    assert event.alert
    assert not PeriodTest(DAY, ALPHA, True).take(by_day(rates))
    better = days(rng, 80, fall=-0.15, after=40)
    assert not PeriodTest(DAY, ALPHA, True).take(by_day(better, 200))


@pytest.mark.slow
def test_a_mean_that_never_moves_raises_nothing_in_ten_years() -> None:
    # All ranks are then drawn, always the same ones: what holds here holds in every monitor.
    for period, numbers in (("hour", 2_000), ("day", 3_652), ("week", 521)):
        test = RankTest(ALPHA, True, PERIODS[period].learned, 7)
        for number in range(numbers):
            assert test.update(0.0, number % PERIODS[period].cycle) is None


def test_what_rounding_leaves_of_equal_means_has_no_rank() -> None:
    number = np.repeat(np.arange(120), np.arange(50, 170))
    values = np.where(number < 60, 0.1, 0.1 - 1e-15)  # as of sums in another order
    new = Observed(values, MONDAY + number * 86_400.0, np.full(len(number), -1))
    assert PeriodTest(DAY, ALPHA, True).take(new) == []


def test_one_bad_day_is_no_change_and_an_alarm_ends_when_days_are_as_before() -> None:
    rng = np.random.default_rng(3)
    means = days(rng, 120)
    means[50] = 0.0
    means[60:80] -= 0.3
    found = PeriodTest(DAY, ALPHA, True).take(by_day(means, 200))
    assert [event.alert for event in found] == [True, False]
    ends = [(event.time or 0) - MONDAY for event in found]
    assert 63 <= ends[0] / 86_400 <= 70
    assert 80 < ends[1] / 86_400 <= 88


def test_order_of_recalls_and_restarts_change_nothing() -> None:
    rng = np.random.default_rng(4)
    new = by_day(days(rng, 60, fall=0.2, after=45), 100)
    expected = PeriodTest(DAY, ALPHA, True).take(new)
    assert [event.alert for event in expected] == [True]
    order = rng.permutation(len(new.values))
    mixed = PeriodTest(DAY, ALPHA, True)
    for at in np.array_split(order, 9):  # files of one time, read one after the other
        assert mixed.take(Observed(*(column[at] for column in new)), hold=True) == []
    assert mixed.take(None) == expected
    said: list[ChangeEvent] = []
    parts = PeriodTest(DAY, ALPHA, True)
    for at in np.array_split(np.arange(len(order)), 150):
        said += parts.take(Observed(*(column[at] for column in new)))
        resumed = PeriodTest(DAY, ALPHA, True)
        resumed.resume(msgspec.json.decode(encode(parts.state())))
        parts = resumed
    assert said == expected


def test_days_that_are_not_whole_are_in_no_test() -> None:
    test = PeriodTest(DAY, ALPHA, True)
    new = by_day(np.full(11, 0.5), 40)
    short = (new.times >= MONDAY + 9 * 86_400) & (new.times < MONDAY + 9 * 86_400 + 21)
    test.take(Observed(*(column[~short] for column in new)))
    # Of 11 days the first may have begun before, the tenth has 19 of 40, the last is not over.
    assert test.test.n == 0
    assert isinstance(test.test, RankTest)
    assert test.test.ranked == 8
    assert test.about.excluded["days with few requests"] == 1
    late = Observed(np.ones(3), np.array([MONDAY, np.nan, MONDAY + 86_400.0]), np.full(3, -1))
    test.take(late)
    assert test.about.excluded["requests after the end of their day"] == 2
    assert test.about.excluded[UNTIMED] == 1
    # Days without traffic are no days; a day after them ends the one before.
    test.take(Observed(np.ones(30), np.full(30, MONDAY + 40 * 86_400.0), np.full(30, -1)))
    assert test.test.ranked == 9


def test_one_odd_week_at_the_start_leaves_no_later_day_out() -> None:
    sizes = np.r_[np.full(8, 1_000), np.full(60, 40)]
    number = np.repeat(np.arange(68), sizes)
    new = Observed(np.ones(len(number)), MONDAY + number * 86_400.0, np.full(len(number), -1))
    test = PeriodTest(DAY, ALPHA, True)
    test.take(new)
    assert test.short == 14  # two weeks, until the odd one is the third part of what there was


def test_a_page_that_is_drawn_while_a_log_is_read_ends_no_day(tmp_path: Path) -> None:
    def monitor() -> Monitor:
        rules = AlertRules(changes=(ChangeRule(metric="recall@10"),))
        return Monitor(labels={"q": {"a": 1}}, rules=rules, state=tmp_path / "state")

    one = monitor()
    position = LogPosition(path="logs", files=[], counts=LogCounts())
    for host in range(2):
        events = [
            RetrievalEvent(("a",), query_id="q", time=MONDAY + 86_400.0 * day)
            for day in range(9)
            for _ in range(30)
        ]
        one.record_many(events, position=position, hold=True)
        one.save()
        for read in (one, one := monitor()):  # also after a kill
            (test,) = read.snapshot().tests
            assert (test.learned, test.to_learn) == (0, 28), host
    one.settle()
    (test,) = one.snapshot().tests
    assert (test.learned, test.to_learn) == (7, 28)
    assert test.excluded == {}


def test_tests_of_other_settings_have_other_keys() -> None:
    assert ChangeRule(metric="mrr@10").key != ChangeRule(metric="mrr@10", period="week").key


def test_a_stray_line_of_another_day_ends_no_day_and_too_many_days_are_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def values(n: int, day: float) -> Observed:
        return Observed(np.ones(n), np.full(n, MONDAY + day * 86_400), np.full(n, -1))

    held = OpenPeriods(DAY)
    held.add(values(100, 0.5))
    held.add(values(1, 90.5))
    assert list(held.ended()) == []
    held.add(values(20, 1.0))
    assert [number - MONDAY // 86_400 for number, _ in held.ended()] == [0]
    for day in range(2, 100):
        held.add(values(1, day))
    assert list(held.ended(hold=True)) == []
    monkeypatch.setattr(period_test, "MOST_OPEN", 62)
    assert len(list(held.ended(hold=True))) == 100 - 1 - 62


def test_periods_are_those_of_utc_and_weeks_begin_on_monday() -> None:
    monday = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    for period in PERIODS.values():
        assert period.number(monday) - period.number(monday - 1) == 1
        assert period.start(int(period.number(monday + 100))) == monday
    assert PERIODS["week"].number(monday + 7 * 86_400 - 1) == PERIODS["week"].number(monday)
    assert PERIODS["hour"].format(int(PERIODS["hour"].number(monday))) == "2024-01-01 00:00"
    assert PERIODS["week"].format(int(PERIODS["week"].number(monday))) == "the week from 2024-01-01"


def test_a_number_is_tested_by_means_of_days() -> None:
    rng = np.random.default_rng(5)
    assert not PeriodTest(DAY, ALPHA, True, 0.75).take(by_day(days(rng, 100), 200))
    (event,) = PeriodTest(DAY, ALPHA, True, 0.95).take(by_day(days(rng, 60), 200))
    assert event.alert
    assert PeriodTest(DAY, ALPHA, True, 0.8).about.reference_text == "0.8"
