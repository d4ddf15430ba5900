"""Corrections of p values for how many tests a family holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Values


def holm(p: npt.ArrayLike) -> Values:
    """Holm's step-down adjustment: the chance of one false finding or more in the family.

    Adjusted p_(i) = max over j <= i of (m - j + 1) p_(j), at most 1 (Holm 1979). Any shape; NaN
    stays NaN and is not counted in m; the order is kept. Raises ValueError for p outside 0 to 1.
    """
    return _adjusted(p, lambda ordered, m: np.maximum.accumulate(ordered * np.arange(m, 0, -1)))


def benjamini_hochberg(p: npt.ArrayLike) -> Values:
    """Benjamini & Hochberg's step-up adjustment: the share of false findings among the findings.

    Adjusted p_(i) = min over j >= i of m p_(j) / j, at most 1 (1995; for independent or positively
    dependent tests). NaN, order and errors as in `holm`.
    """
    from scipy.stats import false_discovery_control  # takes a second to import

    return _adjusted(p, lambda ordered, m: false_discovery_control(ordered))


CORRECTIONS: dict[str, Callable[[npt.ArrayLike], Values]] = {
    "holm": holm,
    "benjamini-hochberg": benjamini_hochberg,
}


def _adjusted(p: npt.ArrayLike, step: Callable[[Values, int], Values]) -> Values:
    values = np.asarray(p, np.float64)
    flat = values.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    if ((flat[known] < 0) | (flat[known] > 1)).any():
        raise ValueError("p values must be from 0 to 1, or NaN where there is none")
    order = known[np.argsort(flat[known], kind="stable")]
    out = np.full(flat.shape, np.nan)
    out[order] = np.minimum(step(flat[order], len(order)), 1.0)
    return out.reshape(values.shape)
