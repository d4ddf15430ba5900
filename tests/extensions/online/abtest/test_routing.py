"""Units and arms: the same for ever, the split that was asked for, one test apart from another."""

from __future__ import annotations

import numpy as np
import pytest

from harness import ABTest
from harness.errors import UsageError
from harness.extensions.online.abtest.plan import Router
from harness.stats.proportions import binomial_p


def test_the_arm_of_a_unit_never_changes() -> None:
    # Written down once: another value here would send users of a running test to another system.
    shares = {
        ("reranker", ""): (0.321235400942, 0.007683027066, 0.598491237258),
        ("reranker", "2"): (0.785673687727, 0.241982063693, 0.017272612678),
        ("other", ""): (0.062005151006, 0.416056498818, 0.317225564449),
    }
    for (name, salt), expected in shares.items():
        router = Router(name, salt)
        found = [router.share(unit) for unit in ("user 1", "7", "Zoë 🙂")]
        assert found == pytest.approx(expected, abs=1e-12)
    test = ABTest("old", "new", name="reranker")
    assert "".join(test.route(user) for user in range(20)) == "baaababaabbbbbbabaab"
    assert test.route("7") == test.route(7)


@pytest.mark.parametrize("split", [0.5, 0.1, 0.999])
def test_the_split_is_kept_and_shares_are_even(split: float) -> None:
    test = ABTest("old", "new", split, name="any")
    in_a = sum(test.route(f"user {at}") == "a" for at in range(50_000))
    assert binomial_p(in_a, 50_000, split) > 0.001
    shares = np.sort([Router("any").share(str(at)) for at in range(20_000)])
    assert np.abs(shares - np.linspace(0, 1, 20_000)).max() < 1.95 / np.sqrt(20_000)  # 0.1%


def test_other_tests_and_salts_deal_independently() -> None:
    arms = [
        np.array([router.arm(str(at)) == "a" for at in range(20_000)])
        for router in (Router("one"), Router("two"), Router("one", "salt"))
    ]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert binomial_p(int((arms[first] == arms[second]).sum()), 20_000) > 0.001


@pytest.mark.parametrize("unit", ["", None, 1.5, True, b"user", "\ud800"])
def test_what_is_no_unit_is_refused(unit: object) -> None:
    with pytest.raises(UsageError, match="unit"):
        ABTest("old", "new").route(unit)  # type: ignore[arg-type]
