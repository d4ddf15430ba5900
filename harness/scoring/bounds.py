"""Computes reference values: random baselines, upper bounds, tie ranges and sensitivity to depth.

A random ranking orders the N documents of the haystack uniformly; each metric has a formula for it.

If documents share evidence items or have several, the best top k for recall is a maximum coverage
problem: k documents that together have the most items. It is NP-hard in general but small here,
since it splits into components of documents that share items. Each component is solved by
enumerating the unions of 1, 2, 3... documents; for too large ones, the upper bound is reported (a
greedy solution gives the lower one).

A ranking with as many results as requested was truncated. A deeper one would have the same top k
for every k up to the truncation or, if ties are ordered by id, up to the last group of ties, as
documents with the same score may have been cut off. A ranking of fewer results, or of the whole
haystack, is complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.runfiles.rankings import Rankings
from harness.scoring.arrays import Flags, Ints, Values, count_by
from harness.scoring.metrics import Metric
from harness.scoring.metrics.counted import pieces_of
from harness.scoring.metrics.definition import RandomOrders, TiedDocuments
from harness.scoring.ranks import NOT_RETRIEVED, Ranked, Ties, of_width

_LARGEST = 1_000_000
"""Haystacks above this size get no random baseline for metrics over the whole ranking."""


def random_baseline(metric: Metric, ranked: Ranked, present: Flags, size: Ints) -> Values | None:
    """Returns the metric's expected value for a random ranking; (n,), NaN without relevant ones.

    `present` (m,): the judged document is in the haystack; `size` (n,): documents in it. None if
    the metric has no formula, or it would take too long: for whole rankings of haystacks above
    _LARGEST, and queries with evidence in too many sets of documents.
    """
    definition, ranked = metric.definition, metric.with_relevance(ranked)
    if ranked.shares_evidence:
        if definition.random_pieces is not None:
            return _random_pieces(metric, ranked, present, size)
        # The other metrics count documents, regardless of evidence items.
        once = ranked.first_of_document
        ranked, present = _rows(ranked, once), present[once]
    if definition.random_baseline is None:
        return None
    if metric.k is None and size.max(initial=0) > _LARGEST:
        return None
    relevant = ranked.grade >= definition.least_grade
    rows = np.flatnonzero(relevant & present)
    total, inside = (count_by(ranked.query[part], ranked.n) for part in (relevant, rows))
    cutoff = definition.cutoffs(ranked, metric.k)
    orders = RandomOrders(ranked, size, total, inside, rows, cutoff, np.minimum(cutoff, size))
    return definition.where_defined(definition.random_baseline(orders), ranked, total)


def _random_pieces(metric: Metric, ranked: Ranked, present: Flags, size: Ints) -> Values | None:
    """Computes random_baseline if documents share evidence items or have several.

    An item is found if any of its documents is. None if a query has too many items.
    """
    expected = metric.definition.random_pieces
    assert expected is not None
    values = np.full(ranked.n, np.nan)
    top = np.minimum(metric.definition.cutoffs(ranked, metric.k), size)
    for query, pieces in pieces_of(ranked, ranked.grade >= 1, present).items():
        value = expected([*map(frozenset, pieces)], int(size[query]), int(top[query]))
        if value is None:
            return None
        values[query] = value
    return values


def _rows(ranked: Ranked, rows: Flags) -> Ranked:
    """Selects judgements."""
    columns = (
        "query",
        "grade",
        "evidence_id",
        "document",
        "first_of_document",
        "rank",
        "above",
        "tied",
    )
    return replace(ranked, **{name: getattr(ranked, name)[rows] for name in columns})


_STEPS = 50_000
"""Maximum number of unions that are enumerated for a step of a component."""


class UpperBound(NamedTuple):
    """The best value of each query, (n,), NaN without relevant ones; if not `exact`, possibly no
    ranking reaches it."""

    values: Values
    exact: Flags


class UpperBounds:
    """Upper bounds of metrics on one qrels set; shared intermediate results are cached."""

    def __init__(self, ranked: Ranked, present: Flags) -> None:
        """`present` (m,): a ranking can contain the judged document."""
        self._ranked, self._present = ranked, present
        self._covers: dict[int, dict[int, Cover]] = {}

    def __call__(self, metric: Metric) -> UpperBound | None:
        """Returns the upper bound of a metric; None if it has none."""
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
        """Returns the upper bound if `ranked` has turns scored as sessions; see `sessions`.

        The evidence item is the session: k counts distinct sessions, and any turn finds one.
        """
        if metric.definition.piece_value is not None:
            return self._of_pieces(metric)
        # Gold first, best grade first, is ideal at any effective k, unless some gold is missing:
        # then the best value depends on the sessions.
        relevant = self._ranked.grade >= 1
        query, n = self._ranked.query, self._ranked.n
        total = count_by(query[relevant], n)
        there = count_by(query[relevant & self._present], n)
        values = np.where(total > 0, (there > 0).astype(float), np.nan)
        return UpperBound(values, (there == total) | (there == 0))

    def _of_pieces(self, metric: Metric) -> UpperBound:
        """Computes the bound of a metric of evidence items that documents share."""
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
        """Returns the cover of each query with relevant documents."""
        if metric.rel not in self._covers:
            ranked = metric.with_relevance(self._ranked)
            found = pieces_of(ranked, ranked.grade >= 1, self._present)
            covers = {query: Cover.of_query(pieces) for query, pieces in found.items()}
            self._covers[metric.rel] = covers
        return self._covers[metric.rel]


class Cover(NamedTuple):
    """Bounds of the most evidence items (of `pieces`) that 0, 1, 2... documents have together."""

    pieces: int
    most: Ints
    least: Ints

    def of(self, cutoff: int | None) -> tuple[int, int]:
        """Returns both bounds for k documents."""
        at = len(self.most) - 1 if cutoff is None else min(cutoff, len(self.most) - 1)
        return int(self.most[at]), int(self.least[at])

    @classmethod
    def of_query(cls, pieces: Sequence[set[int]]) -> Cover:
        """Computes the cover from the documents of each item."""
        if len(pieces) == 1:
            only = np.arange(1 + bool(pieces[0]))
            return cls(1, only, only)
        carried: dict[int, int] = defaultdict(int)  # by document, one bit per item
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
        # Documents that share no item with another, the largest first.
        curve = np.cumsum([0, *sorted(alone, reverse=True)])
        return cls(len(pieces), _together(most, curve), _together(least, curve))


def _parts(sets: Iterable[int]) -> list[list[int]]:
    """Splits bit sets into connected components, and drops the subsets of other sets, as the larger
    set is always at least as good."""
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
    """Returns upper and lower bounds of the most bits that 0, 1, 2... sets have together, which are
    equal as long as all unions were enumerated."""
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
    while least[-1] < whole:  # greedy, from the best known union
        best |= max(sets, key=lambda one: (best | one).bit_count())
        least.append(best.bit_count())
        taken = len(least) - 1
        beyond = most[solved] + sum(sizes[: taken - solved])
        most.append(min(whole, sum(sizes[:taken]), beyond))
    return np.array(most, np.int64), np.array(least, np.int64)


def _together(a: Ints, b: Ints) -> Ints:
    """Combines the maxima for 0, 1, 2... documents of two components."""
    if len(b) > len(a):
        a, b = b, a
    out = np.zeros(len(a) + len(b) - 1, np.int64)
    for taken, found in enumerate(b.tolist()):
        part = out[taken : taken + len(a)]
        np.maximum(part, a + found, out=part)
    return out


def ideal(ranked: Ranked, present: Flags, least: int = 1) -> Ranked:
    """Returns the ranking of only the documents of grade `least` or more, best grade first."""
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


class TieOrders:
    """Alternative orders of the tied documents of a run, as separate rankings.

    Only queries with a tied judged document are considered, and no qrels with shared evidence items
    (`any` is then False).
    """

    def __init__(self, ranked: Ranked) -> None:
        self._ranked = ranked
        tied = ranked.tied > 1
        self.any = ranked.has_ties and not ranked.shares_evidence
        self._queries = count_by(ranked.query[tied], ranked.n) > 0

    def bounds(self, metric: Metric) -> tuple[Values, Values]:
        """Returns each query's values with relevant documents first, and last, in ties; (n,)."""
        return metric(self._best), metric(self._worst)

    @cached_property
    def _best(self) -> Ranked:
        return self._ordered(best=True)

    @cached_property
    def _worst(self) -> Ranked:
        return self._ordered(best=False)

    def expected(self, metric: Metric) -> Values | None:
        """Returns each query's exact mean over all orders of ties; (n,). None without formula."""
        expected = metric.definition.expected_over_ties
        if expected is None:
            return None
        tied, own = self._tied(metric), metric(self._ranked)
        mean = metric.definition.where_defined(expected(tied), tied.ranked, tied.total)
        return np.where(self._queries, mean, own)

    def _tied(self, metric: Metric) -> TiedDocuments:
        definition, ranked = metric.definition, metric.with_relevance(self._ranked)
        wanted = ranked.grade >= definition.least_grade
        cutoff = definition.cutoffs(ranked, metric.k)
        rows = np.flatnonzero(wanted & (ranked.rank != NOT_RETRIEVED))
        query, above, tied = ranked.query[rows], ranked.above[rows], ranked.tied[rows]
        return TiedDocuments(
            ranked,
            cutoff,
            count_by(ranked.query[wanted], ranked.n),
            rows,
            query,
            above,
            tied,
            inside=np.clip(cutoff[query] - above, 0, tied),
        )

    def _ordered(self, *, best: bool) -> Ranked:
        ranked = self._ranked
        # Grade 0 is included for judged@k only: after relevant documents in the best order, before
        # them in the worst, where it does not affect other metrics.
        found = (ranked.rank != NOT_RETRIEVED) & (ranked.grade >= 0)
        grade = -ranked.grade if best else ranked.grade
        order = np.lexsort((grade, ranked.above, ranked.query))
        order = order[found[order]]
        place, size = _place_in_group(ranked.query[order], ranked.above[order])
        start = ranked.above[order] + (0 if best else ranked.tied[order] - size)
        rank = ranked.rank.copy()
        rank[order] = start + place + 1
        return replace(ranked, rank=rank)


def _place_in_group(query: Ints, above: Ints) -> tuple[Ints, Ints]:
    """Returns each row's position among the rows of the same query and score, and their number."""
    new = (np.diff(query, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
    group = np.cumsum(new) - 1
    sizes = np.bincount(group, minlength=0)
    starts = np.cumsum(sizes) - sizes
    return np.arange(len(query)) - starts[group], sizes[group]


def stable_depth(
    rankings: Rankings,
    query_ids: Sequence[str],
    sizes: Ints,
    results: Ints | None,
    depth: int,
    ties: Ties,
) -> Ints:
    """Returns the rank up to which a deeper ranking of each query would be equal, shape (n,).

    NOT_RETRIEVED if the ranking is complete. `rankings` are best first; `sizes` (n,): documents
    in the haystack; `results` (n,): the number of results, if they are not documents; `depth`: the
    number requested.
    """
    returned, equal = np.zeros(len(query_ids), np.int64), np.zeros(len(query_ids), np.int64)
    known = {name: at for at, name in enumerate(rankings.query_ids)}
    at = np.array([known.get(name, -1) for name in query_ids], np.int64)
    if len(rankings):
        returned[at >= 0] = np.diff(rankings.starts)[at[at >= 0]]
        equal[at >= 0] = _last_equals(rankings, ties)[at[at >= 0]]
    # A result may resolve to no new document, or to several, the last of them truncated.
    most = returned if results is None else np.maximum(returned, results)
    whole = (returned >= sizes) | (most < depth) | (returned == 0)
    return np.where(whole, NOT_RETRIEVED, returned - equal)


def _last_equals(rankings: Rankings, ties: Ties) -> Ints:
    """Returns how many documents have the last one's score, by ranking; 0 for Ties.ORDER."""
    starts = rankings.starts
    sizes = np.diff(starts)
    found = np.zeros(len(sizes), np.int64)
    if ties is Ties.ORDER or rankings.score is None:
        return found
    score = of_width(rankings.score, ties)
    some = sizes > 0
    last = np.repeat(score[starts[1:][some] - 1], sizes[some])
    found[some] = np.add.reduceat((score == last).astype(np.int64), starts[:-1][some])
    return found


def depth_sensitive(
    metric: Metric, ranked: Ranked, stable: Ints, cutoff: Ints | None = None
) -> Flags:
    """Tests whether deeper rankings could change the metric of each query, (n,).

    A metric with a cutoff k uses ranks up to k, R-precision up to the number of relevant documents,
    others all ranks. `stable` is from `stable_depth`; `cutoff`, (n,), replaces the metric's cutoff
    by one per query.
    """
    if cutoff is None:
        cutoff = metric.definition.cutoffs(metric.with_relevance(ranked), metric.k)
    return np.asarray(cutoff > stable)
