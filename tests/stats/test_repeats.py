"""Variance between questions and between repetitions: exact cases, and found in simulation."""

from __future__ import annotations

import numpy as np
import pytest

from harness.stats.intervals import cluster_intervals
from harness.stats.repeats import Components, variance_components


def test_a_balanced_table_has_the_components_of_the_analysis_of_variance() -> None:
    values = np.array([[1.0, 3.0], [5.0, 7.0], [3.0, 5.0]])  # means 2, 6, 4; within 2 each
    found = variance_components(values)
    assert found is not None
    assert (found.questions, found.repeats, found.mean) == (3, 2.0, 4.0)
    assert found.within == pytest.approx(2.0)
    assert found.between == pytest.approx((8.0 - 2.0) / 2)  # MSB 2 * (4 + 4 + 0) / 2
    assert found.of_experiment == pytest.approx(np.sqrt(2 / 2 / 3))


def test_without_a_spread_nothing_is_told_and_what_no_repetition_helps_is_said() -> None:
    same = variance_components([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert same is not None
    assert (same.within, same.of_experiment) == (0.0, 0.0)
    assert same.repeats_needed(0.01) is None
    assert same.repeats_needed(0.95) == 1
    right, alone = np.ones((4, 2)), variance_components(np.eye(4), np.zeros(4))
    for found in (variance_components(right), alone):  # no spread, and that of a single cluster
        assert found is not None
        assert (found.clusters_needed(0.01), found.repeats_needed(0.01)) == (None, None)
    assert variance_components([[1.0], [0.0]]) is None
    assert variance_components([[1.0, 0.0]]) is None
    with pytest.raises(ValueError, match="of shape"):
        variance_components([1.0, 0.0])


def test_components_are_found_again_though_values_are_missing() -> None:
    draw = np.random.default_rng(2)
    between, within = 0.06, 0.02
    found = []
    for _ in range(200):
        values = draw.normal(0.5, np.sqrt(between), (60, 1)) + draw.normal(
            0, np.sqrt(within), (60, 4)
        )
        values[draw.random(values.shape) < 0.2] = np.nan
        one = variance_components(values)
        assert one is not None
        found.append((one.between, one.within, one.mean))
    means = np.mean(found, axis=0)
    assert means == pytest.approx([between, within, 0.5], rel=0.04)


def test_the_mean_of_all_repetitions_varies_again_by_what_is_said() -> None:
    draw = np.random.default_rng(5)
    questions = draw.random((200, 1))
    again = [questions + draw.normal(0, 0.4, (200, 4)) for _ in range(300)]
    found = variance_components(again[0])
    assert found is not None
    assert found.of_experiment == pytest.approx(np.std([one.mean() for one in again]), rel=0.12)


def test_as_many_haystacks_or_repetitions_as_are_said_to_be_needed_do() -> None:
    draw = np.random.default_rng(5)

    def of(haystacks: int, repeats: int) -> Components:
        shared = np.repeat(draw.normal(0, 0.1, haystacks), 20)[:, None]
        values = (
            shared
            + draw.random((20 * haystacks, 1))
            + draw.normal(0, 0.8, (20 * haystacks, repeats))
        )
        found = variance_components(values, np.repeat(np.arange(haystacks), 20))
        assert found is not None
        return found

    def half_width(one: Components) -> float:
        (interval,) = cluster_intervals(one.units)
        return (interval.high - interval.low) / 2

    found = of(240, 3)
    needed = found.clusters_needed(0.02)
    assert needed is not None
    assert needed > 1.3 * (1.96 / 0.02) ** 2 * (found.between + found.within / 3) / 20
    assert half_width(of(needed, 3)) == pytest.approx(0.02, rel=0.15)
    wanted = half_width(of(240, 9))
    repeats = found.repeats_needed(wanted)
    assert repeats is not None
    assert 5 <= repeats <= 16
    assert found.repeats_needed(0.9 * half_width(of(240, 99))) is None
