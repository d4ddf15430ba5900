"""Variance between questions and between repetitions: exact cases, and found in simulation."""

from __future__ import annotations

import numpy as np
import pytest

from harness.stats.repeats import variance_components


def test_a_balanced_table_has_the_components_of_the_analysis_of_variance() -> None:
    values = np.array([[1.0, 3.0], [5.0, 7.0], [3.0, 5.0]])  # means 2, 6, 4; within 2 each
    found = variance_components(values)
    assert found is not None
    assert (found.questions, found.repeats, found.mean) == (3, 2.0, 4.0)
    assert found.within == pytest.approx(2.0)
    assert found.between == pytest.approx((8.0 - 2.0) / 2)  # MSB 2 * (4 + 4 + 0) / 2
    assert found.of_experiment == pytest.approx(np.sqrt(2 / 3))


def test_what_does_not_vary_needs_nothing_and_what_no_repetition_helps_is_said() -> None:
    same = variance_components([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert same is not None
    assert (same.within, same.of_experiment) == (0.0, 0.0)
    assert same.repeats_needed(0.01) is None
    assert same.repeats_needed(0.9) == 1
    assert same.questions_needed(0.1) == int(np.ceil(1.96**2 * same.between / 0.01))
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


def test_what_is_said_to_be_needed_is() -> None:
    draw = np.random.default_rng(5)
    values = draw.random((200, 1)) + draw.normal(0, 0.4, (200, 3))
    found = variance_components(values)
    assert found is not None
    n = found.questions_needed(0.03)
    assert found.half_width(n, found.repeats) <= 0.03 < found.half_width(n - 1, found.repeats)
    wanted = found.half_width(200, 5.5)
    repeats = found.repeats_needed(wanted)
    assert repeats == 6
    assert found.half_width(200, repeats) <= wanted
