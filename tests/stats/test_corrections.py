"""Holm's correction: against statsmodels, and what must hold of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.stats.proportions import holm

families = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@settings(max_examples=15)
@given(families)
def test_it_is_statsmodels(p: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])


@given(families, st.randoms(use_true_random=False))
def test_order_goes_along_and_nan_does_not_count(p: list[float], random: object) -> None:
    order = np.random.default_rng(random.randrange(2**32)).permutation(len(p))  # type: ignore[attr-defined]
    adjusted = holm(p)
    assert np.array_equal(holm(np.array(p)[order]), adjusted[order])
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= np.minimum(np.array(p) * len(p), 1) + 1e-15).all()
    with_gaps = np.full(2 * len(p), np.nan)
    with_gaps[::2] = p
    assert np.array_equal(holm(with_gaps)[::2], adjusted)
    assert np.isnan(holm(with_gaps)[1::2]).all()


def test_a_table_of_p_keeps_its_shape_and_bad_p_are_refused() -> None:
    table = np.array([[0.01, np.nan], [0.2, 0.5]])
    assert holm(table)[0, 0] == pytest.approx(0.03)
    assert holm(table).shape == (2, 2)
    assert holm([]).shape == (0,)
    with pytest.raises(ValueError, match="0 to 1"):
        holm([0.2, 1.2])
