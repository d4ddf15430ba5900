"""Correlations against scipy, and their intervals against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.stats.correlation import correlations


def shares(rng: np.random.Generator, clusters: int, size: int) -> tuple[np.ndarray, ...]:
    """Two shares as recall by ids and by similarity are, by cluster."""
    hard, alike = rng.beta(4, 4, clusters), rng.beta(3, 9, clusters)
    label = np.repeat(np.arange(clusters), size)
    pieces = rng.choice([1, 1, 1, 2], clusters * size)
    x = rng.binomial(pieces, hard[label]) / pieces
    y = np.minimum(1, x + (rng.random(len(x)) < alike[label]) * (1 - x))
    return x, y, label


@pytest.mark.parametrize("seed", range(5))
def test_values_are_scipys_with_ties_and_holes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, label = shares(rng, 6, 20)
    x[3] = y[7] = np.nan
    known = ~(np.isnan(x) | np.isnan(y))
    found = correlations(x, y, label, resamples=10)
    assert found["pearson"].value == pytest.approx(stats.pearsonr(x[known], y[known])[0])
    assert found["spearman"].value == pytest.approx(stats.spearmanr(x[known], y[known])[0])
    assert (found["pearson"].n, found["pearson"].clusters) == (118, 6)


def test_the_bootstrap_is_that_of_the_resampled_data() -> None:
    rng = np.random.default_rng(1)
    x, y, _ = shares(rng, 60, 1)
    found = correlations(x, y, resamples=400, seed=9)["spearman"]
    generator = np.random.default_rng(9)
    drawn = []
    for _ in range(400):
        rows = generator.integers(0, 60, 60)
        drawn.append(stats.spearmanr(x[rows], y[rows])[0])
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]))


def test_few_clusters_get_the_jackknife_which_holds_the_true_value() -> None:
    rng = np.random.default_rng(2)
    x, y, _ = shares(rng, 20_000, 50)
    true = np.corrcoef(x, y)[0, 1]
    held = 0
    for _ in range(400):
        x, y, label = shares(rng, 8, 60)
        found = correlations(x, y, label)["pearson"]
        assert found.low is not None
        assert found.high is not None
        held += found.low <= true <= found.high
        assert found.note == "approximate: only 8 clusters"
    # 95% by design; 4 standard errors of 400 samples are 4.4 points.
    assert held / 400 == pytest.approx(0.95, abs=0.044)


def test_what_has_no_correlation_is_none() -> None:
    constant = correlations([1, 1, 1, 1], [0, 1, 0, 1])["pearson"]
    assert (constant.value, constant.low, constant.note) == (
        None,
        None,
        "one of the two does not vary",
    )
    assert correlations([1, 0], [0, 1])["spearman"].note == "2 observations have no correlation"
    same = correlations([0, 1, 0.5], [0, 1, 0.5])["pearson"]
    assert (same.value, same.low) == (1.0, None)
    for equal in (
        correlations([-1, 1, 0, 0], [0, 0, -1, 1])["pearson"],  # 0 without any one of them too
        correlations(np.arange(60), np.arange(60), resamples=99)["pearson"],
    ):
        assert (equal.low, equal.high) == (None, None)
        assert equal.note.startswith("no interval: no spread of")
    one_cluster = correlations([0, 1, 0.5, 0], [0, 1, 0.5, 1], [0, 0, 0, 0])["pearson"]
    assert one_cluster.value is not None
    assert one_cluster.low is None
    with pytest.raises(ValueError, match="two measures of shape"):
        correlations([1, 2], [1, 2, 3])


def test_clusters_so_unequal_that_they_tell_as_much_as_few_are_flagged() -> None:
    x, y = np.random.default_rng(3).random((2, 400))
    found = correlations(x, y, np.maximum(np.arange(400) - 340, 0), resamples=99)["pearson"]
    assert found.note == "approximate: 60 clusters so unequal that they tell as much as 1.4"


@pytest.mark.parametrize(("n", "rate"), [(60, 0.02), (60, 0.1), (200, 0.05), (400, 0.05)])
def test_rare_scores_are_flagged(n: int, rate: float) -> None:
    """The interval of two independent scores that are 1 so seldom holds 0 in 4 to 63%."""
    x = np.arange(n) < n * rate
    rare = correlations(x[::-1], np.roll(x, 1), resamples=99)["pearson"]
    assert rare.note.startswith(f"only {x.sum()} and {x.sum()} of {n} observations")
    x = np.arange(n) % 3 == 0
    assert correlations(x, np.roll(np.arange(n) % 2 == 0, 1), resamples=99)["pearson"].note == ""
