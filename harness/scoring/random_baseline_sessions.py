"""What a random order of turns scores at session level: exactly, but for nDCG, which is simulated.

A random order of the turns meets the sessions in the order of their first turns. Give every turn a
moment, uniform on 0 to 1: by the moment 1 - u a session of n turns is met with probability 1 - u^n,
each session independently of the others, so that how many are met by then is a sum of independent
indicators. What is wanted is an integral over u of a polynomial: that a session is met at 1 - u,
times that fewer than k others are by then. Gauss-Legendre quadrature gives it to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np

from harness.datasets.reader import Dataset, DatasetQrels
from harness.scoring.arrays import Flags, Ints, Values
from harness.scoring.metrics import Metric
from harness.scoring.ranks import NOT_RETRIEVED, Ranked
from harness.scoring.session_level import SessionLevel, sessions_of

DRAWS = 100
"""Random orders of a query's turns that a simulated level is the mean of."""

_SEED = 0x5E55


class Turns(NamedTuple):
    """The turns of one query's haystack: `session` of each, (turns,), as the protocol names them;
    and `place` of each relevant judgement among the turns, -1 where it is not there."""

    session: Ints
    place: Ints


class Sizes(NamedTuple):
    """Turns of the sessions with evidence and of the others, each ascending; and how many sessions
    have evidence, also such as are not there."""

    gold: tuple[int, ...]
    others: tuple[int, ...]
    pieces: int


class SessionBaseline:
    """Random baseline of the session metrics of one answer key at `cutoffs`."""

    def __init__(
        self,
        dataset: Dataset,
        judged: DatasetQrels,
        level: SessionLevel,
        scored: Flags,
        present: Flags,
        cutoffs: Sequence[int],
    ) -> None:
        """`scored` (n,): queries that count; `present` (m,): a ranking can hold the turn."""
        self._dataset, self._judged, self._cutoffs = dataset, judged, list(cutoffs)
        self._ranked, self._renamed = level.ranked(), level.renamed
        self._of_judgement = level.of_judgement
        self._relevant, self._present = judged.grade >= 1, present
        self._starts = np.searchsorted(judged.query, np.arange(self._ranked.n + 1))
        counts = np.bincount(judged.query[self._relevant], minlength=self._ranked.n)
        self._queries: list[int] = np.flatnonzero(scored & (counts > 0)).tolist()
        self._sessions: dict[int, tuple[Ints, Ints]] = {}
        self._means: dict[str, Values] = {}  # of what is simulated, by name

    def __call__(self, metric: Metric) -> tuple[Values, str]:
        """Expected value of each query, (n,), NaN where it does not count or has nothing relevant;
        and how it was come by, where it is not exact."""
        at = self._cutoffs.index(metric.k or 0)
        if metric.definition.graded:
            if metric.name not in self._means:
                self._means[metric.name] = self._simulated(metric.name)
            return self._means[metric.name][:, at], f"from {DRAWS} random orders a query"
        return self._exact[metric.name][:, at], ""

    @cached_property
    def _exact(self) -> dict[str, Values]:
        """Recall, hit and recall_all by name; each (n, ks)."""
        names = Met._fields
        found = {name: np.full((self._ranked.n, len(self._cutoffs)), np.nan) for name in names}
        known: dict[Sizes, Met] = {}
        for query in self._queries:
            sizes = self._sizes(query)
            if sizes not in known:
                known[sizes] = met(*sizes, self._cutoffs)
            for name in names:
                found[name][query] = getattr(known[sizes], name)
        return found

    def _sizes(self, query: int) -> Sizes:
        haystack = int(self._dataset.query_haystack[query])
        if haystack not in self._sessions:
            codes = sessions_of(self._dataset, self._dataset.haystack_rows(haystack))
            self._sessions[haystack] = np.unique(codes, return_counts=True)
        codes, turns = self._sessions[haystack]
        rows = self._rows(query)
        there = rows[self._present[rows]]
        # A turn may stand in several judgements.
        _, first = np.unique(self._judged.document[there], return_index=True)
        gold, marked = np.unique(self._of_judgement[there[first]], return_counts=True)
        at = np.searchsorted(codes, gold)
        rest = turns.copy()
        if self._dataset.manifest.exclude_self:
            own = self._dataset.rows_with_query_id[query : query + 1]
            rest[np.isin(codes, sessions_of(self._dataset, own[own >= 0]))] -= 1
        mine = marked if self._renamed else rest[at]
        rest[at] -= mine
        pieces = len(np.unique(self._of_judgement[rows]))
        return Sizes(tuple(np.sort(mine).tolist()), tuple(np.sort(rest[rest > 0]).tolist()), pieces)

    def _rows(self, query: int) -> Ints:
        """Rows of a query's relevant judgements."""
        start, end = self._starts[query : query + 2].tolist()
        return np.asarray(np.flatnonzero(self._relevant[start:end]) + start)

    def _simulated(self, name: str) -> Values:
        """The mean of the metric itself over random orders, (n, ks)."""
        found = np.full((self._ranked.n, len(self._cutoffs)), np.nan)
        for query in self._queries:
            rng = np.random.default_rng([_SEED, query])
            rank, cuts = random_orders(self._turns(query), self._cutoffs, rng)
            orders = _as_queries(self._ranked, self._rows(query), rank)
            for at, (cutoff, cut) in enumerate(zip(self._cutoffs, cuts, strict=True)):
                found[query, at] = Metric(name, cutoff)(orders, cut).mean()
        return found

    def _turns(self, query: int) -> Turns:
        rows = self._dataset.haystack_rows(int(self._dataset.query_haystack[query]))
        if self._dataset.manifest.exclude_self:
            rows = rows[rows != self._dataset.rows_with_query_id[query]]
        session = sessions_of(self._dataset, rows)
        relevant = self._rows(query)
        document = np.where(self._present[relevant], self._judged.document[relevant], -1)
        order = np.argsort(rows, kind="stable")
        at = np.searchsorted(rows, document, sorter=order).clip(max=len(rows) - 1)
        place = np.where(document >= 0, order[at], -1)
        if self._renamed:
            gold = np.zeros(len(rows), bool)
            gold[place[place >= 0]] = True
            session = session * 2 + gold
        return Turns(session, place)


def random_orders(
    turns: Turns, cutoffs: Sequence[int], rng: np.random.Generator
) -> tuple[Ints, list[Ints]]:
    """DRAWS random orders: ranks of the relevant turns, (DRAWS, relevant), and for each k the rank
    at which k sessions have been met, (DRAWS,)."""
    n = len(turns.session)
    moments = rng.random((DRAWS, n))
    by_session = np.argsort(turns.session, kind="stable")
    begins = np.flatnonzero(np.diff(turns.session[by_session], prepend=-1))
    firsts = np.minimum.reduceat(moments[:, by_session], begins, axis=1)
    firsts.sort(axis=1)
    cuts = [
        (moments <= firsts[:, cutoff - 1, None]).sum(axis=1)
        if cutoff <= len(begins)
        else np.full(DRAWS, n)
        for cutoff in cutoffs
    ]
    rank = np.full((DRAWS, len(turns.place)), NOT_RETRIEVED)
    for column in np.flatnonzero(turns.place >= 0).tolist():
        own = moments[:, turns.place[column], None]
        rank[:, column] = (moments <= own).sum(axis=1)
    return rank, cuts


def _as_queries(ranked: Ranked, rows: Ints, rank: Ints) -> Ranked:
    """Orders of one query's judgements, `rank` (orders, rows), as so many queries."""
    orders, m = rank.shape
    columns = {
        name: np.tile(getattr(ranked, name)[rows], orders)
        for name in ("grade", "evidence_id", "document", "first_of_document", "above", "tied")
    }
    query = np.repeat(np.arange(orders, dtype=np.int32), m)
    returned, answered = np.full(orders, m), np.ones(orders, bool)
    return Ranked(returned, answered, query, rank=rank.ravel(), **columns)


# -- The order in which sessions are met -----------------------------------------------------------


class Met(NamedTuple):
    """Expected recall, hit and recall_all at each k, (ks,)."""

    recall: Values
    hit: Values
    recall_all: Values


def met(gold: Sequence[int], others: Sequence[int], pieces: int, cutoffs: Sequence[int]) -> Met:
    """Of a random order of turns, what is expected of the k sessions that it meets first.

    `gold` and `others` are the sizes of sessions with and without evidence; `pieces` counts those
    with evidence, also such as are not there.
    """
    if not gold:
        return Met(*(np.zeros(len(cutoffs)) for _ in Met._fields))
    u, weight = _quadrature(sum(gold) + sum(others))
    most = min(max(cutoffs), len(gold) + len(others))  # no more can have been met before one is
    counts = np.zeros((most, len(u)))
    counts[0] = 1
    counts = _add(counts, u, others)

    def integral(density: Values, counts: Values, fewer: Ints) -> Values:
        """Over u, of `density` times P(fewer sessions than `fewer`, (ks,), are met by then)."""
        exactly = np.cumsum([0.0, *(counts @ (weight * density))])
        return np.asarray(exactly[np.clip(fewer, 0, most)])

    cut = np.array(cutoffs)
    found, last = np.zeros(len(cut)), np.zeros(len(u))
    for at, size in enumerate(gold):
        rest = [*gold[:at], *gold[at + 1 :]]
        now = size * u ** (size - 1)
        found += integral(now, _add(counts, u, rest), cut)
        last += now * np.prod([1 - u**n for n in rest], axis=0)
    first = sum(gold) * u ** (sum(gold) - 1)
    hit = integral(first, counts, cut)
    every = integral(last, counts, cut - len(gold) + 1) * (len(gold) == pieces)
    return Met(found / pieces, hit, every)


def _quadrature(turns: int) -> tuple[Values, Values]:
    """Nodes on 0 to 1 and their weights, for polynomials of degree below `turns`.

    Half as many nodes would do for every such polynomial; these, whose weight lies near 1 and which
    are smooth there, need far fewer: with twice as many the last digits alone change.
    """
    return _gauss(min(turns // 2 + 1, 128 + 2 * isqrt(turns)))


@lru_cache(maxsize=256)
def _gauss(nodes: int) -> tuple[Values, Values]:
    node, weight = np.polynomial.legendre.leggauss(nodes)
    return (node + 1) / 2, weight / 2


def _add(counts: Values, u: Values, sizes: Iterable[int]) -> Values:
    """P(0, 1, 2... sessions met by 1 - u), (most, nodes), with sessions of these sizes as well."""
    for size in sizes:
        missed = counts * u**size
        counts = counts - missed
        missed[1:] += counts[:-1]
        counts = missed
    return counts
