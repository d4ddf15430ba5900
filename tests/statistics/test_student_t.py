"""Student's t against SciPy."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from harness.statistics.student_t import cdf, quantile, two_sided_p

DEGREES = (1, 2, 3.7, 9, 49, 499, 6979, 1e6)


@pytest.mark.parametrize("df", DEGREES)
def test_p_quantile_and_distribution_equal_scipys(df: float) -> None:
    for t in (-31.0, -1.5, 0.0, 0.01, 2.0, 6.0):
        assert two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-8)
        assert cdf(t, df) == pytest.approx(stats.t.cdf(t, df), rel=1e-8)
    for p in (0.001, 0.025, 0.5, 0.8, 0.975, 0.99995):
        assert quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8, abs=1e-12)


def test_without_degrees_of_freedom_nothing_is_known() -> None:
    assert math.isnan(quantile(0.975, 0))
    assert math.isnan(two_sided_p(1.0, 0))
    assert math.isnan(two_sided_p(math.nan, 5))
    assert two_sided_p(math.inf, 5) == 0
