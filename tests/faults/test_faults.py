"""A small part of what tests/faults/run.py tries: nothing silent, no traceback, nothing left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from damages import caches, damages
from full_disks import full_disks
from hostile import hostile
from kills import kills
from other_folders import other_folders

pytestmark = pytest.mark.faults


@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize(
    ("tries", "n"),
    [
        *((kills, 22), (damages, 16), (other_folders, 16), (caches, 16), (full_disks, 22)),
        (hostile, 30),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_faults_are_told_and_survived(
    tries: Callable[[int, int], tuple[dict[str, int], list[str]]], n: int
) -> None:
    found, wrong = tries(n, 7)
    assert wrong == []
    assert found["tried"] > n // 2
