"""Drift of queries by their words."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from harness.extensions.online.monitor.drift import Drift, _divergence

WORDS = [f"w{i}" for i in range(300)]


def texts(chance: random.Random, n: int, first: int = 0, last: int = 300) -> list[str]:
    return [" ".join(chance.choices(WORDS[first:last], k=8)) for _ in range(n)]


def test_the_divergence_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, 50), rng.integers(0, 9, 50)
    assert _divergence(a, b) == pytest.approx(jensenshannon(a, b, base=2) ** 2)
    assert _divergence(np.array([1, 0]), np.array([0, 5])) == 1.0
    assert _divergence(a, 3 * a) == pytest.approx(0)


def test_queries_of_the_same_kind_are_within_the_level_and_others_above() -> None:
    chance = random.Random(0)
    within = 0
    for seed in range(20):
        drift = Drift(texts(chance, 400), window=200, seed=seed)
        drift.add(texts(chance, 200))
        found = drift.measure()
        assert found is not None
        within += found.excess <= 0
    assert within >= 18  # the level is that of 95%
    other = Drift(texts(chance, 400), window=200)
    other.add(texts(chance, 200, 0, 100))
    assert other.measure().excess > 0.1  # type: ignore[union-attr,operator]
    other.add([f"entirely new {i}" for i in range(400)])
    found = other.measure()
    assert found is not None
    assert found.divergence == pytest.approx(1.0)
    assert found.unseen_rate == 1.0


def test_only_the_window_counts_and_labelled_queries_do_not() -> None:
    chance = random.Random(1)
    drift = Drift(texts(chance, 100), window=100)
    drift.add(["new words here"] * 500)
    drift.add([None] * 70)
    found = drift.measure()
    assert found is not None
    assert found.requests <= 100
    assert found.n == found.requests - 70
    drift.add([None] * 200)
    assert drift.measure().divergence is None  # type: ignore[union-attr,operator]


def test_few_labels_measure_nothing() -> None:
    drift = Drift(["one query"] * 5, window=100)
    drift.add(["x"] * 50)
    assert drift.measure() is None
