"""False alarms and power of A/B tests, by simulation: why the report uses the tests that it does.

    python -m tests.benchmarks.ab_power [--tests 2000] > tests/benchmarks/ab_power.md

Each line simulates many tests whose truth is known, and counts those that find something at 5%.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.stats.betting import betting_p
from harness.stats.proportions import binomial_p, sample_ratio
from tests.extensions.online.abtest import traffic

UNITS = 4_000
BLOCK = 250  # tests at a time, for memory
FIRST_LOOK = 200
LOOK = 100  # units between two looks at the sample ratio

HEAD = """\
# False alarms and power of A/B tests

{tests:,} simulated tests a line, at 5% (Monte Carlo error {error:.1f} points at 5%). *Once* is the
test of a fixed number of units, by normal quantiles, at the end; *any time* the always-valid p, by
betting, looked at after every unit.
Made by `python -m tests.benchmarks.ab_power`."""
ARMS = f"""\
Percent of tests that find something where nothing is, in {UNITS:,} units. Naive peeking looks at
the same test after every unit from {FIRST_LOOK} on, and stops at the first p below 0.05."""
USERS = """\
Percent of tests that find something where nothing is; 5,000 records of users who differ from each
other. In the last two columns a user counts once, by the mean of their records; any time: at any of
20 looks. New: one record in ten is of a new user, else of any before. Pool: 1,000 users, all alike.
Sessions: ten records in a row. Power law, pareto: few users make most records. Rich get richer: who
has more records comes back more."""
ONE_STREAM = """\
Percent of streams of 2,000 values whose true mean is refuted."""
TIMEOUTS = f"""\
Percent of tests that find a difference of the means of seconds, which are equal: b is faster, but
for rare time-outs. {UNITS:,} units; *mixture*: the usual always-valid p, which takes means for
normal (mSPRT), from 100 units an arm; betting: with the time-out as upper bound."""
SECONDS = f"""\
Percent of tests that find at any time that a takes 15% less, in {UNITS:,} units, and in brackets
the median number of units at which they do: of log-normal seconds, cut at 1 ms and 60 s."""
FAILURES = """\
Percent of tests that say that a system fails more often, where the chance of a failure is the same,
in 600 users of whom those of b make more requests. *Users who met one*: by their arm, against the
split."""
INTERLEAVED = """\
Impressions with which a test looked at once has 80% power, from 100,000 simulated questions: one
relevant document of ten; readers look at rank r with chance 0.85^(r-1), click the relevant one with
chance 0.6 and others with 0.05."""
ALARM = 0.001
"""The p value of an alarm about the split, 3.2905 standard errors."""

RATIOS = f"""\
Percent of 2,000 tests or more of 20,000 units, split 50/50, with a p below 0.001: that of a single
look, at the end or at any of the looks after every {LOOK} units, and the always-valid one, which
alone stops a test."""


def percent(share: float) -> str:
    """A share of tests as a cell."""
    return f"{100 * share:.1f}"


def units(when: float) -> str:
    """A median number of units as a cell."""
    return "-" if np.isinf(when) else f"{when:,.0f}"


def arms(tests: int) -> Iterator[str]:
    """Two arms, each unit once."""
    generator = np.random.default_rng(1)
    yield "| split, metric | once | naive peeking | any time |"
    yield "|---|---:|---:|---:|"
    power = []
    for split in (0.5, 0.1):
        for metric in traffic.METRICS:
            for changed in (False, True):
                once, peeked, paths = [], [], []
                for _ in range(tests // BLOCK):
                    values, in_a = traffic.two_arms(
                        generator, metric, BLOCK, UNITS, split, changed=changed
                    )
                    below = traffic.fixed_p_below(values, in_a)
                    once.append(below[:, -1])
                    peeked.append(below[:, FIRST_LOOK:].any(axis=1))
                    paths.append(traffic.always_p(values, in_a, split))
                found, when = traffic.shown(np.concatenate(paths))
                name = f"{100 * split:.0f}/{100 - 100 * split:.0f}, {metric}"
                if changed:
                    cell = f"{percent(found)} ({units(when)})"
                    power.append(f"| {name} | {percent(np.mean(once))} | {cell} |")
                else:
                    yield (
                        f"| {name} | {percent(np.mean(once))} | {percent(np.mean(peeked))} | "
                        f"{percent(found)} |"
                    )
    yield (
        f"\n### Power with {UNITS:,} units\n\nPercent of tests that find a true difference, and in "
        "brackets the median number\nof units at which p first reaches 0.05. The differences: "
        + "; ".join(f"{metric}, {effect(metric):+.3f}" for metric in traffic.METRICS)
        + ".\n"
    )
    yield "| split, metric | once, at the end | any time |"
    yield "|---|---:|---:|"
    yield from power


def effect(metric: str) -> float:
    """The true difference of a changed metric."""
    values, old, new = (np.array(part) for part in traffic.METRICS[metric])
    return float(values @ new / new.sum() - values @ old / old.sum())


def users(tests: int) -> Iterator[str]:
    """Users who come back; nothing is there to be found."""
    generator = np.random.default_rng(2)
    yield (
        "| how they come back, metric | records taken as independent | mean over records, cluster-"
        "robust | users, once | any time |\n|---|---:|---:|---:|---:|"
    )
    for pattern in traffic.ARRIVALS:
        for kind in ("click", "recall", "seconds"):
            rows = [traffic.user_test(generator, pattern, kind, 5_000) for _ in range(tests)]
            *fixed, p = np.array(rows).T
            cells = [percent(found.mean()) for found in fixed]
            cells.append("-" if kind == "seconds" else percent((p <= 0.05).mean()))
            yield f"| {pattern}, {kind} | {' | '.join(cells)} |"


def timeouts(tests: int) -> Iterator[str]:
    """Arms of one mean of seconds, of which one has rare time-outs."""
    generator = np.random.default_rng(6)
    yield "| time-outs of b, split | once | mixture | betting |\n|---|---:|---:|---:|"
    for shape, (_, top) in traffic.SHAPES.items():
        for split in (0.5, 0.1):
            cells: list[list[float]] = [[], [], []]
            for _ in range(tests // BLOCK):
                values, in_a = traffic.timeouts(generator, shape, BLOCK, UNITS, split)
                paths = (
                    traffic.mixture_p(values, in_a),
                    traffic.always_p(values, in_a, split, top),
                )
                cells[0].append(float(traffic.fixed_p_below(values, in_a)[:, -1].mean()))
                for cell, p in zip(cells[1:], paths, strict=True):
                    cell.append(traffic.shown(p)[0])
            shown = " | ".join(percent(float(np.mean(cell))) for cell in cells)
            yield f"| {shape}, {100 * split:.0f}/{100 - 100 * split:.0f} | {shown} |"


def seconds(tests: int) -> Iterator[str]:
    """Seconds of which a has 15% less, and their logarithms."""
    generator = np.random.default_rng(8)
    yield "| spread of the logarithms | seconds, 0 to 60 | logarithms |\n|---|---:|---:|"
    least, most = np.log(0.001), np.log(60)
    for spread in (0.5, 1.0):
        paths: tuple[list[npt.NDArray[np.float64]], ...] = ([], [])
        for _ in range(tests // BLOCK):
            in_a = generator.random((BLOCK, UNITS)) < 0.5
            values = generator.lognormal(0, spread, in_a.shape) * np.where(in_a, 0.85, 1)
            values = np.clip(values, 0.001, 60)
            scaled = (np.log(values) - least) / (most - least)
            paths[0].append(traffic.always_p(values, in_a, top=60))
            paths[1].append(traffic.always_p(scaled, in_a))
        found = [traffic.shown(np.concatenate(path)) for path in paths]
        cells = " | ".join(f"{percent(share)} ({units(when)})" for share, when in found)
        yield f"| {spread} | {cells} |"


def failures(tests: int) -> Iterator[str]:
    """Systems that fail alike, of which one is asked more often by each user."""
    generator = np.random.default_rng(7)
    yield "| chance, requests of a and b | users who met one | shares of a user's requests |"
    yield "|---|---:|---:|"
    for chance in (0.01, 0.1):
        for more in (1, 3, 10):
            found = []
            for _ in range(tests):
                in_a = generator.random(600) < 0.5
                requests = np.where(in_a, 1, more)
                failed = generator.binomial(requests, chance)
                met = sample_ratio(in_a[failed > 0]).anytime_p if failed.any() else 1.0
                found.append((met, traffic.always_p(failed / requests, in_a).min()))
            cells = (np.array(found) <= 0.05).mean(axis=0)
            yield f"| {chance}, 1 and {more} | {' | '.join(map(percent, cells.tolist()))} |"


def one_stream(tests: int) -> Iterator[str]:
    """One stream against its true mean."""
    generator = np.random.default_rng(3)
    yield "| metric | any time |\n|---|---:|"
    for metric, (values, chances, _) in traffic.METRICS.items():
        mean = float(np.dot(values, chances) / sum(chances))
        x = traffic.draw(generator, metric, (tests, 2_000), changed=False)
        yield f"| {metric} | {percent(traffic.shown(betting_p(x, mean))[0])} |"


def interleaved(tests: int) -> Iterator[str]:
    """Impressions that show a difference with 80% power, split and interleaved."""
    generator = np.random.default_rng(4)
    yield (
        "| relevant document one place lower in | split, reciprocal rank of the first click "
        "| interleaved | ratio |\n|---|---:|---:|---:|"
    )
    for shift in (0.1, 0.3, 1.0):
        seen = traffic.impressions(generator, 100_000, shift)
        split = traffic.units_for_power(
            seen.first_a.mean() - seen.first_b.mean(),
            float(np.sqrt(2 * (seen.first_a.var() + seen.first_b.var()))),
        )
        both = traffic.units_for_power(seen.outcome.mean(), seen.outcome.std())
        yield f"| {100 * shift:.0f}% of queries | {split:,.0f} | {both:,.0f} | {split / both:.0f} |"
    yield (
        "\nFalse alarms, in percent, where half of the readers prefer a and half b\n(2,000 "
        "impressions, of 2,000 readers, or of 400 who come back):\n"
    )
    yield "| readers come back | sign test, once | any time |\n|---|---:|---:|"
    for back in (False, True):
        once, always = [], []
        for _ in range(tests):
            n = 400 if back else 2_000
            unit = generator.integers(0, n, 2_000) if back else np.arange(2_000)
            leaning = generator.choice([-0.3, 0.3], n)[unit]
            outcome = np.sign(generator.random(2_000) - 0.5 + leaning)
            outcome *= generator.random(2_000) < 0.4
            net = np.bincount(unit, outcome, n)
            won = int((net > 0).sum())
            once.append(binomial_p(won, won + int((net < 0).sum())) <= 0.05)
            looks = (500, 1_000, 1_500, 2_000) if back else (2_000,)
            found = [_preference_p(outcome[:look], unit[:look]) for look in looks]
            always.append(min(found) <= 0.05)
        cells = (percent(np.mean(once)), percent(np.mean(always)))
        yield f"| {'yes' if back else 'no'} | {' | '.join(cells)} |"


def _preference_p(outcome: npt.NDArray[np.float64], unit: npt.NDArray[np.int64]) -> float:
    """The p of the means of readers so far; of readers who came once, the least of all moments."""
    seen = np.bincount(unit)
    own = np.bincount(unit, outcome)[seen > 0] / seen[seen > 0]
    p = betting_p(own, 0, (-1, 1))
    return float(p.min() if len(own) == len(unit) else p[-1])


def ratios(tests: int) -> Iterator[str]:
    """Alarms of the sample-ratio check."""
    generator = np.random.default_rng(5)
    yield "| units of b that are lost | once | once, looked at again and again | any time |"
    yield "|---|---:|---:|---:|"
    for lost in (0.0, 0.01, 0.03, 0.1):
        share = 0.5 / (1 - 0.5 * lost)
        streams = [generator.random(20_000) < share for _ in range(tests)]
        found = [sample_ratio(in_a) for in_a in streams]
        cells = (
            np.mean([ratio.p < ALARM for ratio in found]),
            np.mean([_peeked(in_a) for in_a in streams]),
            np.mean([ratio.mismatch for ratio in found]),
        )
        yield f"| {100 * lost:.0f}% | {' | '.join(f'{100 * cell:.2f}' for cell in cells)} |"


def _peeked(in_a: npt.NDArray[np.bool_]) -> bool:
    """Whether the chi-square test is below `ALARM` at any look; it is 3.2905 standard errors."""
    n = np.arange(LOOK, len(in_a) + 1, LOOK)
    return bool((np.abs(in_a.cumsum()[n - 1] - n / 2) > 3.2905 * np.sqrt(n) / 2).any())


def main() -> None:
    """Print the whole page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", type=int, default=2_000, help="a line")
    tests = parser.parse_args().tests // BLOCK * BLOCK
    error = 100 * np.sqrt(0.05 * 0.95 / tests)
    print(HEAD.format(tests=tests, error=error))
    for title, said, rows in (
        ("Two arms, each unit once", ARMS, arms(tests)),
        ("Equal means, rare time-outs", TIMEOUTS, timeouts(tests)),
        ("Seconds, and their logarithms", SECONDS, seconds(tests)),
        ("Failures", FAILURES, failures(tests)),
        ("Users who come back", USERS, users(tests)),
        ("One stream", ONE_STREAM, one_stream(tests)),
        ("Interleaving", INTERLEAVED, interleaved(tests)),
        ("Sample ratio", RATIOS, ratios(max(tests, 2_000))),
    ):
        print(f"\n## {title}\n\n{said}\n")
        for row in rows:
            print(row, flush=True)


if __name__ == "__main__":
    main()
