"""A change is called one only where the tests of the whole night allow it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from statsmodels.stats.multitest import multipletests

from harness.analysis.gate import status
from harness.extensions.site.history import (
    FELL,
    INCONCLUSIVE,
    NOT_SHOWN,
    NOT_TESTED,
    ROSE,
    UNCHANGED,
    ChangeOutcome,
    DropTest,
    HistoryQueries,
    HistoryTimes,
    HistoryVersions,
    Line,
    LineChange,
    LineDataset,
    MetricChange,
    ScoredLine,
    drops,
    messages,
    verdicts,
)
from harness.stats.paired import compare_paired

ALPHA = 0.05


def cell(
    p: float,
    smallest: float = 1e-4,
    difference: float = 0.1,
    wins: int = 3,
    losses: int = 0,
    drop: tuple[float, float] = (1.0, 1e-4),
) -> MetricChange:
    """What one test found; `drop` are p_above and p_below."""
    return MetricChange(
        before=0.5,
        difference=difference,
        low=-0.1,
        high=0.2,
        p=p,
        smallest_p=smallest,
        n=50,
        wins=wins,
        losses=losses,
        drop=DropTest(
            mean=-difference,
            low=-0.2,
            high=0.1,
            p_above=drop[0],
            p_below=drop[1],
            clusters=50,
            undecided=drop == (1.0, 1.0),
        ),
    )


def line(system: str, **results: MetricChange) -> ScoredLine:
    """A run that was compared in these metrics over all queries."""
    about = {"granularity": "turn", "text": "official", "split": "test", "fingerprint": "f"}
    return ScoredLine(
        version=1,
        night="2026-01-01T00:00:00+00:00",
        list_size=1,
        dataset="d",
        system=system,
        finished="2026-01-01T00:00:00+00:00",
        run=system,
        queries=HistoryQueries(asked=50, failed=0, unmeasurable=0),
        data=LineDataset(name="d", **about),
        k=10,
        protocol="memory/1",
        level="turn",
        versions=HistoryVersions(harness="0.1.0", commit="-"),
        results={},
        times=HistoryTimes(),
        change=LineChange(
            state="compared",
            since="2026-01-01T00:00:00+00:00",
            alpha=ALPHA,
            max_drop=0.02,
            clusters=50,
            cluster_by="queries",
            results={"all": results},
        ),
    )


def judged(lines: Sequence[Line]) -> dict[tuple[str, str], ChangeOutcome]:
    found = verdicts(lines)
    return {(series[1], metric): v for (series, _, metric), v in found.results.items()}


def test_p_is_corrected_over_the_whole_list_as_statsmodels_does() -> None:
    raw = {"a": [0.001, 0.02, 0.04], "b": [0.012, 0.3, 0.9]}
    lines = [line(s, **{f"m{i}": cell(p) for i, p in enumerate(ps)}) for s, ps in raw.items()]
    found = judged(lines)
    flat = [p for ps in raw.values() for p in ps]
    expected = multipletests(flat, ALPHA, method="holm")[1]
    assert [v.p for v in found.values()] == pytest.approx(expected)
    shown = [v.outcome for v in found.values()]
    assert shown == [ROSE] + [NOT_SHOWN] * 5
    assert verdicts(lines).tested == 6


def test_of_nights_with_abilities_in_which_nothing_changed_few_show_a_change() -> None:
    generator = np.random.default_rng(4)
    parts = ("all", "lookup", "temporal", "multi-hop", "knowledge-update")
    wrong = 0
    for _ in range(600):
        lines = []
        for system in ("one", "two"):
            run = line(system)
            results = {
                part: {f"m{i}": cell(p) for i, p in enumerate(generator.random(3).tolist())}
                for part in parts
            }
            lines.append(replace(run, change=replace(run.change, results=results)))
        found = verdicts(lines)
        assert found.tested == 6
        wrong += any(v.outcome in (ROSE, FELL) for v in found.results.values())
        assert found.results[("d", "one"), "lookup", "m0"] == ChangeOutcome(NOT_TESTED)
    assert wrong / 600 <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / 600)


def test_what_could_never_be_shown_is_in_no_correction() -> None:
    """Three haystacks allow no p below 0.25; an unchanged system has nothing to test."""
    few = line("few", m=cell(0.25, smallest=0.25))
    same = [line(f"same{i}", m=cell(1.0, smallest=1.0, difference=0.0, wins=0)) for i in range(9)]
    found = judged([few, *same, line("fell", m=cell(0.03, difference=-0.1))])
    assert found["few", "m"].outcome == INCONCLUSIVE
    assert {found[f"same{i}", "m"].outcome for i in range(9)} == {UNCHANGED}
    assert found["fell", "m"].outcome == FELL
    assert found["fell", "m"].p == pytest.approx(0.03)


def test_a_test_that_the_number_of_tests_makes_impossible_is_open() -> None:
    lines = [line(f"s{i}", m=cell(0.02, smallest=0.02)) for i in range(5)]
    assert {v.outcome for v in judged(lines).values()} == {INCONCLUSIVE}


@pytest.mark.parametrize("nights", [120, pytest.param(800, marks=pytest.mark.slow)])
def test_of_lists_in_which_nothing_changed_few_show_a_change(nights: int) -> None:
    """At most 5% of nights, whatever the mixture of many and few units; 800 nights are 0.8 points
    of Monte Carlo error."""
    generator = np.random.default_rng(3)
    wrong = 0
    for _ in range(nights):
        lines = []
        for system, n in enumerate([3, 4, 6, 8, 8, 12, 12]):
            a = generator.integers(0, 3, (n, 2)) / 2
            b = np.where(generator.random((n, 2)) < 0.5, generator.integers(0, 3, (n, 2)) / 2, a)
            lines.append(
                line(
                    str(system),
                    **{
                        f"m{at}": cell(
                            one.test.p,
                            one.test.smallest,
                            one.difference.value,
                            wins=one.wins,
                            losses=one.losses,
                        )
                        for at, one in enumerate(compare_paired(a, b, resamples=4096))
                    },
                )
            )
        wrong += any(v.outcome in (ROSE, FELL) for v in judged(lines).values())
    assert wrong / nights <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / nights)


def test_drops_have_the_outcomes_and_messages_of_a_gate_and_one_correction() -> None:
    lines = [
        line("fell", m=cell(0.0001, difference=-0.1, drop=(0.001, 1.0))),
        line("little", m=cell(0.0001, difference=-0.01)),
        line("noise", m=cell(0.6, difference=-0.1, drop=(0.02, 0.9))),  # 6 tests: p = 0.1
        line("few", m=cell(0.25, smallest=0.25, difference=-0.1, drop=(1.0, 1.0))),
        line("few rose", m=cell(0.25, smallest=0.25, difference=0.1)),
        line("rose", m=cell(0.0001, difference=0.1)),
    ]
    checks = drops(lines, verdicts(lines))
    assert [str(check.outcome) for check in checks] == [
        *("fail", "pass", "inconclusive", "inconclusive", "pass", "pass")
    ]
    assert checks[0].rule == "m of fell on d drop <= 0.02"
    assert "significantly more than the allowed 0.02 (p = 0.0060 for 6 tests" in checks[0].message
    assert "but not significantly (p = 0.1000 for 6 tests" in checks[2].message
    assert "50 queries are too few for a test" in checks[3].message
    assert messages(lines, verdicts(lines)) == [
        "1 dropped by more than 0.02",
        "2 inconclusive: a drop of more than 0.02 is not ruled out",
        "1 rose, 2 fell (4 tests, Holm, alpha 0.05)",
        "2 inconclusive: too few data to show any change",
    ]
    assert [status(checks), status(checks[1:]), status(checks[4:])] == [1, 3, 0]
    assert status(checks[1:], allow_inconclusive=True) == 0


def test_t_tests_that_could_hardly_show_anything_stay_in_the_correction() -> None:
    """Whether one could is a guess from the same spread as its p."""
    lines = [line(f"s{i}", m=cell(p, smallest=0.2)) for i, p in enumerate((0.03, 0.6, 0.6))]
    lines = [replace(one, change=replace(one.change, test="t")) for one in lines]
    assert verdicts(lines).tested == 3
    assert {v.outcome for v in judged(lines).values()} == {INCONCLUSIVE}


def test_a_night_without_a_test_says_why() -> None:
    few = line("few", m=cell(0.25, smallest=0.25, difference=-0.01))
    same = replace(few, change=LineChange(state="unchanged"))
    first = replace(few, change=LineChange(state="first"))
    apart = replace(few, change=LineChange(state="not comparable"))
    assert [messages([one], verdicts([one])) for one in (few, same, first, apart)] == [
        ["1 inconclusive: too few data to show any change"],
        ["unchanged"],
        ["first run, nothing to compare with"],
        ["1 not comparable with the previous run"],
    ]
