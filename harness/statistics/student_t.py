"""Student's t distribution without SciPy: the default intervals need its quantiles."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300


def two_sided_p(t: float, df: float) -> float:
    """P(|T| >= |t|) with `df` degrees of freedom; NaN for a NaN `t` or df <= 0.

    The regularised incomplete beta function at df / (df + t^2), with a = df / 2 and b = 1 / 2
    (Abramowitz & Stegun 26.7.1 and 26.5.27).
    """
    if math.isnan(t) or not df > 0:
        return math.nan
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t))


def cdf(t: float, df: float) -> float:
    """P(T <= t)."""
    tail = two_sided_p(t, df) / 2
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def quantile(p: float, df: float) -> float:
    """The t with P(T <= t) = p, for 0 < p < 1; NaN for df <= 0.

    Newton from the normal quantile: above the median the distribution function is concave and the
    normal quantile is below the root, so that the steps approach it from one side.
    """
    if not df > 0:
        return math.nan
    if p < 0.5:
        return -quantile(1 - p, df)
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    t = max(NormalDist().inv_cdf(p), 0.0)
    for _ in range(200):
        density = math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))
        step = (p - 1 + two_sided_p(t, df) / 2) / density
        t += step
        if abs(step) <= 1e-13 * max(t, 1.0):
            break
    return t


def _incomplete_beta(a: float, b: float, x: float, complement: float) -> float:
    """Regularised I_x(a, b); `complement` is 1 - x, given so that neither loses digits."""
    if x <= 0 or complement <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log(complement)
    )
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, complement) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x(a, b) by Lentz's method (A&S 26.5.8)."""
    c = 1.0
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    h = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away_from_zero(1 + even * d)
        c = _away_from_zero(1 + even / c)
        h *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _away_from_zero(1 + odd * d)
        c = _away_from_zero(1 + odd / c)
        h *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return h


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
