"""Assigns fixed splits: by the hash of a group, never by order, and no group is in two splits.

A group is connected: documents that are judged or proposed for one query, and documents that share
a query. Its split is that of its earlier queries, if it has any; else the hash of one of its
documents decides. So documents and queries that are added later move no earlier one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from harness.errors import UsageError
from harness.extensions.labelling.project import Split

NAMES: tuple[Split, ...] = get_args(Split)
"""The splits that the dataset `labelled` knows."""
DEFAULT = "test=0.5,dev=0.2,train=0.3"


def parse(text: str) -> dict[Split, float]:
    """Parses `test=0.5,dev=0.2,train=0.3`. Raises UsageError for anything else."""
    shares: dict[Split, float] = {}
    for part in text.split(","):
        given, _, value = part.strip().partition("=")
        name = next((split for split in NAMES if split == given), None)
        try:
            share = float(value)
        except ValueError:
            share = math.nan
        if name is None or name in shares or not 0 < share <= 1:
            raise UsageError(
                f"--split {text}: {part.strip()!r} is no share; write {DEFAULT}, each of "
                f"{', '.join(NAMES)} at most once, above 0"
            )
        shares[name] = share
    if not math.isclose(sum(shares.values()), 1, abs_tol=1e-6):
        raise UsageError(f"--split {text}: the shares sum to {sum(shares.values()):g}, not to 1")
    return {name: shares[name] for name in NAMES if name in shares}


def fraction(seed: int, text: str) -> float:
    """Returns a number in [0, 1) that the seed and the text fix: 53 bits of their sha256."""
    data = hashlib.sha256(f"{seed}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(data[:8], "big") >> 11) / (1 << 53)


def groups(n: int, ties: Iterable[Sequence[int]]) -> list[int]:
    """Returns the group of each of n documents; `ties` are documents that belong together."""
    from scipy.cluster.hierarchy import DisjointSet

    sets = DisjointSet(range(n))
    for first, *others in ties:
        for other in others:
            sets.merge(first, other)
    return [sets[row] for row in range(n)]


def assign(
    group_of: Sequence[int],
    keys: Sequence[str],
    shares: Mapping[Split, float],
    seed: int,
    before: Iterable[tuple[int, Split]] = (),
) -> list[Split | None]:
    """Returns the split of each query; None for one that would tie queries of two splits together.

    `group_of` and `keys` have, for each query, its group and the key of its document; `before`
    are groups of queries that have a split already, with it.
    """
    fixed: dict[int, set[Split]] = {}
    for group, split in before:
        fixed.setdefault(group, set()).add(split)
    first: dict[int, tuple[float, str]] = {}
    for group, key in zip(group_of, keys, strict=True):
        one = (fraction(seed, f"first\0{key}"), key)
        first[group] = min(one, first.get(group, one))
    found: list[Split | None] = []
    for group in group_of:
        # Another hash than the one that chose the key: the least of many lies near 0.
        splits = fixed.get(group) or {_at(shares, fraction(seed, f"split\0{first[group][1]}"))}
        found.append(next(iter(splits)) if len(splits) == 1 else None)
    return found


def _at(shares: Mapping[Split, float], position: float) -> Split:
    """Returns the split at a position in [0, 1)."""
    passed = 0.0
    for name, share in shares.items():
        passed += share
        if position < passed:
            return name
    return list(shares)[-1]  # the shares' sum was rounded
