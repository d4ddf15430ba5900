"""Bets on ranks, bounds by signs, and players who enter one after another."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from harness.stats.detector import STAKES, Detector, lowest_rank, part, rank_factors, signs_bound


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 20, 77])
def test_every_bet_on_a_rank_is_fair(n: int) -> None:
    factors = rank_factors(np.arange(1, n + 1), np.full(n, n))
    assert factors.min() >= 0
    assert factors.mean(axis=0) == pytest.approx(np.ones(len(STAKES)))


def test_a_rank_is_uniform_also_among_equals() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (5_000, 6))
    ranks = [lowest_rank(row[-1], row[:-1], rng.random) for row in values]
    assert np.bincount(ranks)[1:] / 5_000 == pytest.approx(np.full(6, 1 / 6), abs=0.02)
    assert lowest_rank(0.5, [0.1, 0.7, 0.9], lambda: 0.99) == 2


def test_the_bound_by_signs_is_one_and_near_the_chance_that_it_bounds() -> None:
    rng = np.random.default_rng(1)
    for shift in (0.0, -0.3, -1.0):
        for _ in range(10):
            d = rng.normal(shift, 1, 10)
            signs = np.array(list(product([-1, 1], repeat=10)))
            exact = (signs @ np.abs(d) <= d.sum() + 1e-12).mean()
            bound = signs_bound(d)
            assert exact <= bound + 1e-12
            if d.sum() < 0:
                assert bound < 12 * exact
    assert signs_bound(np.full(30, -0.2)) == pytest.approx(2.0**-30)
    assert signs_bound([0.0, 0.0]) == signs_bound([]) == signs_bound([-1.0, 2.0]) == 1.0


def test_players_hold_what_a_loop_over_all_of_them_gives() -> None:
    rng = np.random.default_rng(2)
    factors = rng.uniform(0.5, 1.6, (150, 3))
    players, held = [], []
    for step, row in enumerate(factors):
        if step % 5 == 0:
            players.append(np.full(3, part(step // 5 + 1)))
        players = [money * row for money in players]
        held.append(np.sum(players, axis=0).mean())
    whole, parts = Detector(3, 5), Detector(3, 5)
    assert whole.take(factors) == pytest.approx(np.array(held))
    pieces = [parts.take(factors[at : at + 7]) for at in range(0, 150, 7)]
    assert np.concatenate(pieces) == pytest.approx(np.array(held))


def test_the_parts_of_all_players_sum_to_one() -> None:
    j = np.arange(1, 10**6)
    rest = 1 / np.log(10**6) / 2.10974280123689  # the integral of what comes later
    assert part(j).sum() + rest == pytest.approx(1, abs=1e-5)
