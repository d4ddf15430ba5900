"""The best that any ranking of the haystack could score, which may be a short one.

Where a document carries several pieces of evidence, or a piece has several documents, the best top
k for recall is a maximum coverage problem: k documents that carry the most pieces together. It is
NP-hard in general and small here, as it falls apart into documents that share no piece. Each part
is solved by going through what 1, 2, 3... of its documents can carry; a part with too much to go
through gets a lower bound (greedy) and an upper one, which is then given and called a bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from harness.scoring.arrays import Flags, Ints, Values, count_by
from harness.scoring.metrics import Metric
from harness.scoring.metrics.counted import pieces_of
from harness.scoring.ranks import NOT_RETRIEVED, Ranked

_STEPS = 50_000
"""Unions of documents' pieces that are gone through for one step of one part."""


class UpperBound(NamedTuple):
    """The best value of each query, (n,), NaN without relevant ones; where not `exact`, it is an
    upper bound that no ranking may reach."""

    values: Values
    exact: Flags


class UpperBounds:
    """The upper bounds of one set of judgements; what they share is worked out once."""

    def __init__(self, ranked: Ranked, present: Flags) -> None:
        """`present` (m,): a ranking can hold the judged document."""
        self._ranked, self._present = ranked, present
        self._covers: dict[int, dict[int, Cover]] = {}

    def __call__(self, metric: Metric) -> UpperBound | None:
        """The upper bound of a metric; None for one that has none."""
        definition = metric.definition
        if not definition.has_upper_bound:
            return None
        if definition.piece_value is not None and self._ranked.shares_evidence:
            return self._of_pieces(metric)
        ranked = metric.with_relevance(self._ranked)
        best = ideal(ranked, self._present, definition.least_grade)
        values = definition.function(best, definition.cutoffs(best, metric.k))
        return UpperBound(values, np.ones(ranked.n, bool))

    def of_sessions(self, metric: Metric) -> UpperBound:
        """The same where `ranked` is of turns scored as sessions, see session_level.py.

        The piece of evidence is the session: k is k distinct sessions, and one turn brings one.
        """
        if metric.definition.piece_value is not None:
            return self._of_pieces(metric)
        # Gold first, best grade first, is ideal at any effective k, unless some of it is missing:
        # then what can be reached hangs on where the sessions end.
        relevant = self._ranked.grade >= 1
        query, n = self._ranked.query, self._ranked.n
        total = count_by(query[relevant], n)
        there = count_by(query[relevant & self._present], n)
        values = np.where(total > 0, (there > 0).astype(float), np.nan)
        return UpperBound(values, (there == total) | (there == 0))

    def _of_pieces(self, metric: Metric) -> UpperBound:
        """A metric of pieces of evidence, where documents share them."""
        value = metric.definition.piece_value
        assert value is not None
        values = np.full(self._ranked.n, np.nan)
        exact = np.ones(self._ranked.n, bool)
        for query, cover in self._cover(metric).items():
            pieces = np.full(2, cover.pieces)
            high, low = value(np.array(cover.of(metric.k), float), pieces).tolist()
            values[query], exact[query] = high, high == low
        return UpperBound(values, exact)

    def _cover(self, metric: Metric) -> dict[int, Cover]:
        """What the documents of each query that has relevant ones can carry."""
        if metric.rel not in self._covers:
            ranked = metric.with_relevance(self._ranked)
            found = pieces_of(ranked, ranked.grade >= 1, self._present)
            covers = {query: Cover.of_query(pieces) for query, pieces in found.items()}
            self._covers[metric.rel] = covers
        return self._covers[metric.rel]


class Cover(NamedTuple):
    """The most of a query's `pieces` that 0, 1, 2... documents carry together, between bounds."""

    pieces: int
    most: Ints
    least: Ints

    def of(self, cutoff: int | None) -> tuple[int, int]:
        """Both bounds for k documents."""
        at = len(self.most) - 1 if cutoff is None else min(cutoff, len(self.most) - 1)
        return int(self.most[at]), int(self.least[at])

    @classmethod
    def of_query(cls, pieces: Sequence[set[int]]) -> Cover:
        """From the documents of each piece."""
        if len(pieces) == 1:
            only = np.arange(1 + bool(pieces[0]))
            return cls(1, only, only)
        carried: dict[int, int] = defaultdict(int)  # by document, a bit a piece
        for bit, documents in enumerate(pieces):
            for document in documents:
                carried[document] |= 1 << bit
        sets = set(carried.values())
        some = several = 0
        for one in sets:
            several |= some & one
            some |= one
        most = least = np.zeros(1, np.int64)
        alone = [one.bit_count() for one in sets if not one & several]
        for part in _parts(one for one in sets if one & several):
            if len(part) == 1:
                alone.append(part[0].bit_count())
            else:
                high, low = _covered(part)
                most, least = _together(most, high), _together(least, low)
        # Documents that share no piece with another: the largest first.
        curve = np.cumsum([0, *sorted(alone, reverse=True)])
        return cls(len(pieces), _together(most, curve), _together(least, curve))


def _parts(sets: Iterable[int]) -> list[list[int]]:
    """Sets of bits, apart where they share none; those inside another of their part are left out,
    as nothing is lost by taking the larger."""
    parts: list[tuple[int, list[int]]] = []
    for one in sets:
        joined, members = one, [one]
        apart = []
        for bits, part in parts:
            if bits & one:
                joined, members = joined | bits, members + part
            else:
                apart.append((bits, part))
        parts = [*apart, (joined, members)]
    return [[a for a in part if not any(a != b and a | b == b for b in part)] for _, part in parts]


def _covered(sets: Sequence[int]) -> tuple[Ints, Ints]:
    """The most bits that 0, 1, 2... of the sets have together: an upper and a lower bound, which
    are the same as far as all unions could be gone through."""
    everything = 0
    for one in sets:
        everything |= one
    whole = everything.bit_count()
    sizes = sorted((one.bit_count() for one in sets), reverse=True)
    states, most, best = {0}, [0], 0
    while most[-1] < whole and len(states) * len(sets) <= _STEPS:
        states = {state | one for state in states for one in sets}
        best = max(states, key=int.bit_count)
        most.append(best.bit_count())
    solved, least = len(most) - 1, list(most)
    while least[-1] < whole:  # greedy, from the best that is known
        best |= max(sets, key=lambda one: (best | one).bit_count())
        least.append(best.bit_count())
        taken = len(least) - 1
        beyond = most[solved] + sum(sizes[: taken - solved])
        most.append(min(whole, sum(sizes[:taken]), beyond))
    return np.array(most, np.int64), np.array(least, np.int64)


def _together(a: Ints, b: Ints) -> Ints:
    """The most for 0, 1, 2... documents of two parts, from that of each."""
    if len(b) > len(a):
        a, b = b, a
    out = np.zeros(len(a) + len(b) - 1, np.int64)
    for taken, found in enumerate(b.tolist()):
        part = out[taken : taken + len(a)]
        np.maximum(part, a + found, out=part)
    return out


def ideal(ranked: Ranked, present: Flags, least: int = 1) -> Ranked:
    """The ranking of the documents of grade `least` or more alone, best grade first."""
    once = np.flatnonzero(ranked.first_of_document & present & (ranked.grade >= least))
    once = once[np.lexsort((-ranked.grade[once], ranked.query[once]))]
    returned = count_by(ranked.query[once], ranked.n)
    place = np.arange(len(once)) - np.repeat(np.cumsum(returned) - returned, returned) + 1
    # All judgements of one document share its rank.
    pair = ranked.query.astype(np.int64) << 32 | ranked.document
    pairs, which = np.unique(pair, return_inverse=True)
    rank = np.full(len(pairs), NOT_RETRIEVED)
    rank[which[once]] = place
    return replace(ranked, rank=rank[which], returned=returned)
