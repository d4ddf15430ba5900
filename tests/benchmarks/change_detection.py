"""How often the monitor's tests of change are wrong, and how late they are right, by simulation.

    python -m tests.benchmarks.change_detection > tests/benchmarks/change_detection.md

False alarms: the share of streams without a change in which an alarm was ever raised. Delay: from
a fall of the mean to the alarm. What is simulated are scored requests of 0 or 1 with mean 0.8.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from harness.extensions.online.monitor.change import MeanTest, Observed, measure_reference
from harness.extensions.online.monitor.period_test import PERIODS, PairedTest, PeriodTest
from harness.extensions.online.monitor.records import Reference
from harness.stats.clusters import Ints, Values
from tests.extensions.online.monitor.streams import (
    A_DAY,
    KINDS,
    MEAN,
    MONDAY,
    QUERIES,
    Generator,
    asked,
    by_hours,
    drawn,
    run_scores,
    steady,
    timed,
)

ALPHA, DAYS = 0.05, 182
FIRST_DAYS = 60  # of the days, for the tests by requests and by hour

RUNS = (
    "alike",
    "by chance",
    "by chance, all 0.99",
    "built anew",
    "expected",
    "built anew, thirds",
)

HEAD = """\
# The monitor's tests of change: false alarms and delay

Scored requests of 0 or 1 with mean {mean}, alpha {alpha}. Made by
`python -m tests.benchmarks.change_detection --streams {streams}`."""
TRAFFIC = """\
The share of {streams} streams of {days} days with {a_day:,} scored requests each, without any
change, in which an alarm was ever raised (Monte Carlo error {error:.3f} at 0.05; bold where above
0.05 by two of it). *By requests* are means of 10 in a row against the first 2,000 (`batch_size =
10`). *By hour, day, week*: ranks of the means of whole periods, the first four weeks (by
week: eight) being learned. By requests and by hour only the first {first} days are looked at.

What is random: each request; in *users who come back*, who of 50 users of unlike luck asks; in
*bouts*, the luck of who asks so many in a row; in *popularity*, which of {queries} queries of
unlike difficulty are asked often (Zipf), drawn anew each day or each four weeks; in *drift*, a mean
that moves by AR(.99), standard deviation 0.05, from request to request, every 10, every 100, or
from hour to hour; in *good and bad days*, the mean of a day, alone or hanging on that of the day
before (AR(.5), AR(.9)). *Clocks changed*: all comes an hour later from day 45 on, while days and
hours are those of UTC."""
NUMBER = """\
The same against a number that somebody set: the true mean of the stream, and one 0.01 below it. By
requests 60 days, by means of days all."""
SIZES = """\
By day, where days have unlike numbers of requests; a day with fewer than half of what is usual on
its weekday is left out, for ever where they stay so few. 364 days, {a_day:,} requests a day at
first, if nothing else is said."""
RUN = """\
A run asked each query once; {days} days of {a_day:,} requests, queries asked by Zipf's law with the
exponent that is given, the order of popularity fixed or drawn anew each day. *Mean against mean*:
the mean over requests against the mean over the run's queries. *By query*: each
query's first request of a day against its own score in the run. Scores in the run: *alike* (the
system answers a query alike at any time), *by chance* (run and requests are draws of one chance, of
each query its own or all of 0.99), *built anew* (by chance, but then alike for ever). Beyond what
is claimed: *expected* (the run holds the mean of what is answered by chance), and *built anew,
thirds*, where a third of the queries share one more luck, as of a haystack."""
DELAYS = """\
From a fall to the alarm: how many of {tests} streams, and after how many days at the median and in
90%; a dash: not within 60 days (weeks: 180). One observation is the mean of a period; good and bad
days (or hours, for means of hours) of their own have a standard deviation of 0.01. The change comes
so many days after the first request; a stream with an alarm before it counts as not found."""
NUMBER_DELAYS = """\
Of the mean of a day below a number that somebody set, the mean before the change or 0.05 less;
1,000 requests a day, {tests} streams, as above."""
RECALLS = """\
By requests (batch 10), independent values; 100 streams, at most 20,000 requests after the fall."""
RUN_DELAYS = """\
Against a run, by query: a share of the queries is lost altogether, so that the mean falls so far;
{a_day:,} requests a day, Zipf's exponent 1, popularity of the day. Days to the alarm as above, of
{tests} streams, at most 60 days."""


def alarmed(test: PeriodTest | PairedTest, new: Observed) -> bool:
    return any(event.alert for event in test.take(new))


def rate(found: int, streams: int) -> str:
    share = found / streams
    return f"**{share:.3f}**" if share > ALPHA + 2 * 0.2179 / np.sqrt(streams) else f"{share:.3f}"


def false_alarms(streams: int) -> Iterator[str]:
    yield "| traffic | by requests | by hour | by day | by week |"
    yield "|---|---:|---:|---:|---:|"
    for kind, stream in KINDS.items():
        rng, found = np.random.default_rng(0), np.zeros(4, int)
        for _ in range(streams):
            values = stream(rng, DAYS * A_DAY)
            first = values[: FIRST_DAYS * A_DAY]
            found[0] += bool(MeanTest(ALPHA).update(first))
            for i, (name, period) in enumerate(PERIODS.items(), 1):
                means = by_hours(first if name == "hour" else values, A_DAY)
                found[i] += alarmed(PeriodTest(period, ALPHA, True), means)
        yield f"| {kind} | {' | '.join(rate(one, streams) for one in found)} |"


def numbers(streams: int) -> Iterator[str]:
    yield "| traffic | by requests | by day | 0.01 below, by requests | 0.01 below, by day |"
    yield "|---|---:|---:|---:|---:|"
    for name in ("independent", "day and night, ±0.05", "weekend, -0.05", "popularity of the day"):
        rng, found = np.random.default_rng(0), np.zeros(4, int)
        for _ in range(streams):
            values = KINDS[name](rng, DAYS * A_DAY)
            for i, set_ in enumerate((values.mean(), values.mean() - 0.01)):
                test = MeanTest(ALPHA, reference=Reference(set_, set_))
                found[2 * i] += bool(test.update(values[: FIRST_DAYS * A_DAY]))
                days = PeriodTest(PERIODS["day"], ALPHA, True, set_)
                found[2 * i + 1] += alarmed(days, by_hours(values, A_DAY))
        yield f"| {name} | {' | '.join(rate(one, streams) for one in found)} |"


def sizes(streams: int) -> Iterator[str]:
    """Means of days of unlike sizes."""
    cases: dict[str, Callable[[Generator, Ints], Values]] = {
        "always the same": lambda rng, day: np.full(len(day), 1.0),
        "weekends have a fifth": lambda rng, day: np.where(day % 7 >= 5, 0.2, 1.0),
        "half from day 90 on": lambda rng, day: np.where(day >= 90, 0.5, 1.0),
        "from 1 to a tenth, steadily": lambda rng, day: np.geomspace(1, 0.1, len(day)),
        "from 1 to ten times, steadily": lambda rng, day: np.geomspace(1, 10, len(day)),
        "a fifth from day 90 on": lambda rng, day: np.where(day >= 90, 0.2, 1.0),
        "three a day (Poisson)": lambda rng, day: rng.poisson(3, len(day)) / 300,
        "one day in five has none": lambda rng, day: (rng.random(len(day)) > 0.2) * 1.0,
        "one day in 20 has a tenth": lambda rng, day: np.where(rng.random(len(day)) < 0.05, 0.1, 1),
        "by chance, lognormal(0.5)": lambda rng, day: rng.lognormal(0, 0.5, len(day)),
    }
    yield "| requests of a day | ever alarmed | days left out |\n|---|---:|---:|"
    for name, case in cases.items():
        rng, found, short = np.random.default_rng(0), 0, 0
        for _ in range(streams):
            n = (300 * case(rng, np.arange(364)) + 0.5).astype(int)
            times = MONDAY + np.repeat(np.arange(364) * 86_400.0, n)
            test = PeriodTest(PERIODS["day"], ALPHA, True)
            new = Observed(steady(rng, len(times)), times, np.full(len(times), -1))
            found, short = found + alarmed(test, new), short + test.short
        yield f"| {name} | {rate(found, streams)} | {short / streams:.0f} |"


def against_run(streams: int) -> Iterator[str]:
    days, a_day = 60, 1_000
    yield "| queries | scores | exponent | popularity | mean against mean | by query |"
    yield "|---:|---|---:|---|---:|---:|"
    for n in (65, 500):
        for kind in RUNS:
            for exponent, moving in ((1, True), (2, False)):
                rng, found = np.random.default_rng(0), np.zeros(2, int)
                for _ in range(streams):
                    of_run, chances = run_scores(rng, kind, n)
                    rows = asked(rng, n, exponent, days, a_day, moving=moving)
                    new = timed(drawn(rng, chances[rows]), a_day, rows)
                    mean = measure_reference(of_run, ALPHA / 2, drop=True)
                    found[0] += bool(MeanTest(ALPHA, reference=mean).update(new.values))
                    found[1] += alarmed(PairedTest(of_run, ALPHA, True, PERIODS["day"], 0), new)
                cells = " | ".join(rate(one, streams) for one in found)
                when = "of the day" if moving else "fixed"
                yield f"| {n} | {kind} | {exponent} | {when} | {cells} |"


def days_to(found: list[float]) -> str:
    """How many were found, the median and the 90% point."""
    middle, late = np.quantile(found, [0.5, 0.9], method="lower")
    said = [f"{one:,.0f}" if np.isfinite(one) else "–" for one in (middle, late)]
    return f"{np.isfinite(found).sum()} | {said[0]} | {said[1]}"


def delays(tests: int) -> Iterator[str]:
    yield "| means of | requests a day | change after, days | fall | found | median | 90% |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, sizes_, afters in (
        ("day", (100, 1_000, 10_000), (29, 90, 365)),
        ("hour", (1_000, 10_000), (29, 90)),
        ("week", (1_000,), (90, 365)),
    ):
        most = 180 if name == "week" else 60
        for a_day in sizes_:
            for after in afters:
                for fall in (0.02, 0.05, 0.1, 0.2):
                    rng = np.random.default_rng(0)
                    found = [_delay(rng, name, a_day, after, fall, most) for _ in range(tests)]
                    yield f"| {name} | {a_day:,} | {after} | {fall} | {days_to(found)} |"


def _delay(
    rng: Generator,
    name: str,
    a_day: int,
    after: int,
    fall: float,
    most: int,
    set_: float | None = None,
) -> float:
    """Days from the fall to the alarm, by means of whole periods; infinite where there is none."""
    period = PERIODS[name]
    hours = np.arange((after + most) * 24)
    alike = 1 if name == "hour" else 24
    own = rng.normal(0, 0.01, len(hours) // alike)[hours // alike]
    chance = MEAN + own - np.where(hours >= after * 24, fall, 0)
    sums = rng.binomial(max(a_day // 24, 1), np.clip(chance, 0, 1)) / max(a_day // 24, 1)
    test = PeriodTest(period, ALPHA, True, set_)
    new = Observed(sums, MONDAY + hours * 3600.0, np.full(len(hours), -1))
    first = next((one.time for one in test.take(new) if one.alarm and one.time), np.inf)
    late = (first - MONDAY) / 86_400 - after
    return late if late > 0 else np.inf


def delays_of_number(tests: int) -> Iterator[str]:
    yield "| number | change after, days | fall | found | median | 90% |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for set_ in (MEAN, MEAN - 0.05):
        for after in (0, 90):
            for fall in (0.1, 0.2, 0.4):
                rng = np.random.default_rng(0)
                found = [_delay(rng, "day", 1_000, after, fall, 60, set_) for _ in range(tests)]
                yield f"| {set_} | {after} | {fall} | {days_to(found)} |"


def delays_by_recalls() -> Iterator[str]:
    yield "| reference | change after | fall | found of 100 | median | 90% |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for first in (1_000, 2_000, 5_000):
        for after in (5_000, 50_000):
            for fall in (0.05, 0.1, 0.2, 0.4):
                rng = np.random.default_rng(0)
                found = [_delay_by_recalls(rng, first, after, fall) for _ in range(100)]
                yield f"| first {first:,} | {after:,} | {fall} | {days_to(found)} |"


def _delay_by_recalls(rng: Generator, first: int, after: int, fall: float) -> float:
    test = MeanTest(ALPHA, first=first)
    if test.update(steady(rng, after)):
        return np.inf
    for start in range(0, 20_000, 50):
        if test.update(drawn(rng, np.full(50, MEAN - fall))):
            return start + 50.0
    return np.inf


def delays_of_run(tests: int) -> Iterator[str]:
    yield "| queries | scores | change after, days | fall | found | median | 90% |"
    yield "|---:|---|---:|---:|---:|---:|---:|"
    for n in (65, 200, 500):
        for kind in ("alike", "by chance"):
            for after in (0, 90):
                for fall in (0.05, 0.1, 0.2):
                    rng = np.random.default_rng(0)
                    found = [_delay_of_run(rng, n, kind, after, fall) for _ in range(tests)]
                    yield f"| {n} | {kind} | {after} | {fall} | {days_to(found)} |"


def _delay_of_run(rng: Generator, n: int, kind: str, after: int, fall: float) -> float:
    a_day, days = 1_000, after + 60
    of_run, chances = run_scores(rng, kind, n)
    rows = asked(rng, n, 1, days, a_day, moving=True)
    lost = (rng.random(n) < fall / MEAN)[rows] & (np.arange(len(rows)) >= after * a_day)
    new = timed(drawn(rng, chances[rows] * ~lost), a_day, rows)
    test = PairedTest(of_run, ALPHA, True, PERIODS["day"], 0)
    first = next((one.time for one in test.take(new) if one.alarm and one.time), np.inf)
    late = (first - MONDAY) / 86_400 - after
    return late if late > 0 else np.inf


def main() -> None:
    """Print the whole page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=200, help="of a row")
    streams = parser.parse_args().streams
    tests = max(streams // 2, 1)
    print(HEAD.format(mean=MEAN, alpha=ALPHA, streams=streams))
    error = float(np.sqrt(ALPHA * (1 - ALPHA) / streams))
    about = {"streams": streams, "days": DAYS, "a_day": A_DAY, "all": DAYS * A_DAY}
    about |= {"error": error, "queries": QUERIES, "tests": tests, "first": FIRST_DAYS}
    for title, said, rows in (
        ("Traffic without a change", TRAFFIC.format(**about), false_alarms(streams)),
        ("A number as the reference", NUMBER, numbers(streams)),
        ("Days of unlike sizes", SIZES.format(a_day=300), sizes(streams)),
        ("A run as the reference", RUN.format(days=60, a_day=1_000), against_run(streams)),
        ("Delay by periods", DELAYS.format(tests=tests), delays(tests)),
        ("Delay against a number", NUMBER_DELAYS.format(tests=tests), delays_of_number(tests)),
        ("Delay by requests", RECALLS, delays_by_recalls()),
        ("Delay against a run", RUN_DELAYS.format(tests=tests, a_day=1_000), delays_of_run(tests)),
    ):
        print(f"\n## {title}\n\n{said}\n")
        for row in rows:
            print(row, flush=True)


if __name__ == "__main__":
    main()
