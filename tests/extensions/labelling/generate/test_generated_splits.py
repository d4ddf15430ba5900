"""Fixed splits: no group in two, none moved by what is added, shares as asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.extensions.labelling.generate import write_project as splits

SHARES = splits.parse_splits(splits.DEFAULT_SPLITS)
ties = st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=4), max_size=40)


def brute_components(n: int, edges: list[list[int]]) -> list[frozenset[int]]:
    reach = np.eye(n, dtype=bool)
    for together in edges:
        for one in together:
            reach[one, together] = True
            reach[together, one] = True
    for _ in range(n):
        reach = reach @ reach
    return [frozenset(np.flatnonzero(row).tolist()) for row in reach]


@given(ties, st.integers(0, 5))
def test_what_hangs_together_is_in_one_split(edges: list[list[int]], seed: int) -> None:
    group = splits.groups(30, edges)
    component = brute_components(30, edges)
    assert all(
        (group[a] == group[b]) == (component[a] == component[b])
        for a in range(30)
        for b in range(30)
    )
    found = splits.assign(group, [f"d{i}" for i in range(30)], SHARES, seed)
    assert all(len({found[i] for i in of}) == 1 for of in component)


@given(ties, ties, st.integers(5, 29))
def test_what_is_added_later_moves_nothing_and_ties_nothing(
    edges: list[list[int]], more: list[list[int]], n: int
) -> None:
    keys = [f"d{i}" for i in range(30)]
    # What the first n documents' queries are tied to cannot change by itself; `more` adds to it.
    first = [[i for i in together if i < n] for together in edges]
    first = [together for together in first if together]
    group = splits.groups(30, first)
    before = splits.assign(group[:n], keys[:n], SHARES, 0)
    bridging = [t for t in more if sum(i < n for i in t) <= 1]  # by new documents alone
    group = splits.groups(30, [*first, *bridging])
    fixed = [(group[i], str(before[i])) for i in range(n)]
    after = splits.assign(group, keys, SHARES, 0, fixed)
    for i in range(n):  # one that is there keeps its split, whatever `assign` says of its group
        assert after[i] in (before[i], None)
    for i in range(n, 30):
        if after[i] is not None:
            assert {before[j] for j in range(n) if group[j] == group[i]} <= {after[i]}


@given(st.permutations(range(20)))
def test_the_order_of_the_documents_makes_no_difference(order: list[int]) -> None:
    keys = [f"d{i}" for i in range(20)]
    edges = [[0, 3], [3, 7], [8, 9]]
    plain = splits.assign(splits.groups(20, edges), keys, SHARES, 1)
    place = {document: at for at, document in enumerate(order)}
    moved = splits.groups(20, [[place[i] for i in together] for together in edges])
    found = splits.assign(moved, [keys[i] for i in order], SHARES, 1)
    assert [found[place[i]] for i in range(20)] == plain


def test_shares_are_kept_also_where_groups_are_large() -> None:
    # The split of a group must not depend on its size, as that of the least of many hashes would.
    for size in (1, 8):
        group = [i // size for i in range(4000 * size)]
        found = splits.assign(group, [f"d{i}" for i in range(len(group))], SHARES, 0)
        counts = [found[::size].count(name) / 4000 for name in ("test", "dev", "train")]
        assert counts == pytest.approx([0.5, 0.2, 0.3], abs=0.03)  # 4 standard errors


@pytest.mark.parametrize(
    "text", ["", "test", "test=x", "test=0.5", "test=0.5,test=0.5", "foo=1", "test=nan", "dev=-1"]
)
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--split"):
        splits.parse_splits(text)
