"""Requests against a run, query by query: how often a query is asked is no change."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from streams import asked, drawn, run_scores, timed

from harness.extensions.online.monitor.change import Observed
from harness.extensions.online.monitor.period_test import PERIODS, PairedTest
from harness.io.records import encode
from harness.stats.clusters import Values

ALPHA, DAY, A_DAY = 0.05, PERIODS["day"], 400


def stream(
    seed: int, kind: str, *, n: int = 200, days: int = 15, fall: float = 0.0, after: int = 0
) -> tuple[Values, Observed]:
    """(scores in the run, requests); from the day `after` on a share of queries is lost."""
    rng = np.random.default_rng(seed)
    of_run, chances = run_scores(rng, kind, n)
    rows = asked(rng, n, 1, days, A_DAY, moving=True)
    lost = (rng.random(n) < fall)[rows] & (np.arange(len(rows)) >= after * A_DAY)
    return of_run, timed(drawn(rng, chances[rows] * ~lost), A_DAY, rows)


@pytest.mark.parametrize("kind", ["alike", "by chance", "by chance, all 0.99", "built anew"])
def test_what_is_asked_often_is_no_change(kind: str) -> None:
    alarms = 0
    for seed in range(40):
        of_run, new = stream(seed, kind)
        alarms += bool(PairedTest(of_run, ALPHA, True, DAY, 0).take(new))
    assert alarms <= 6  # of 40, which a true chance of 5% exceeds once in 250 times


@pytest.mark.parametrize(("kind", "after"), [("by chance", 0), ("alike", 7)])
def test_a_loss_is_found_in_a_day_and_said_of_the_same_queries(kind: str, after: int) -> None:
    of_run, new = stream(1, kind, fall=0.3, after=after)
    test = PairedTest(of_run, ALPHA, True, DAY, 0)
    (event,) = test.take(new)
    assert event.alert
    day = slice(after * A_DAY, (after + 1) * A_DAY)
    rows, first = np.unique(new.rows[day], return_index=True)
    assert event.value == pytest.approx(new.values[day][first].mean())
    assert event.n == len(rows)
    assert event.over == (
        f"first requests of {len(rows)} queries on 2024-01-{1 + after:02}; "
        f"the run has {of_run[rows].mean():.4g} on them"
    )


def test_recalls_without_times_are_looked_at_by_their_number_and_an_alarm_ends() -> None:
    of_run, new = stream(2, "alike", days=40, fall=0.4, after=10)
    new = new._replace(times=np.full(len(new.values), np.nan))
    good = of_run[new.rows]
    again = np.arange(len(good)) >= 20 * A_DAY
    new = new._replace(values=np.where(again, good, new.values))
    test = PairedTest(of_run, ALPHA, True, None, 1000)
    found = test.take(new)
    assert [(event.alert, event.time) for event in found] == [(True, None), (False, None)]
    parts, said = PairedTest(of_run, ALPHA, True, None, 1000), []
    for at in range(0, len(good), 700):
        said += parts.take(Observed(*(column[at : at + 700] for column in new)))
        resumed = PairedTest(of_run, ALPHA, True, None, 1000)
        resumed.resume(msgspec.json.decode(encode(parts.state())))
        parts = resumed
    assert said == found


def test_what_rounding_leaves_of_equal_scores_is_no_difference() -> None:
    of_run = np.full(100, 0.1)
    new = timed(np.full(400, np.nextafter(0.1, 0)), 100, np.arange(400) % 100)
    assert PairedTest(of_run, ALPHA, True, DAY, 0).take(new) == []


def test_queries_that_the_run_has_no_score_for_are_left_out() -> None:
    of_run, new = stream(3, "alike", fall=0.3)
    everything = PairedTest(of_run, ALPHA, True, DAY, 0).take(new)
    of_run = np.where(np.arange(len(of_run)) < 150, of_run, np.nan)
    fewer = PairedTest(of_run, ALPHA, True, DAY, 0)
    assert fewer.reference.n == 150
    assert fewer.take(new)[0].n < everything[0].n
    unlabelled = new._replace(rows=np.full(len(new.rows), 199))
    assert PairedTest(of_run, ALPHA, True, DAY, 0).take(unlabelled) == []
