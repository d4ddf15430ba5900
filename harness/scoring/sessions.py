"""Scores turn rankings at session level as LongMemEval does (evaluate_retrieval_turn2session).

Turns are mapped to their sessions, and an effective k grows from k until the top has k distinct
sessions or the ranking ends; turn positions are then scored at that effective k.

The random baseline is exact, except for nDCG, which is simulated. A random order of the turns meets
the sessions in the order of their first turns. Give each turn a random time, uniform on 0 to 1: at
time 1 - u a session of n turns has been met with probability 1 - u^n, independently of the other
sessions, so the number of sessions met is a sum of independent indicators. The baseline is an
integral over u of a polynomial: the density of meeting a session at 1 - u, times the probability
that fewer than k others have been met. Gauss-Legendre quadrature is exact up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset, DatasetQrels
from harness.scoring.arrays import Flags, Ints, Values
from harness.scoring.bounds import UpperBounds, depth_sensitive
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Protocol
from harness.scoring.ranks import NOT_RETRIEVED, Ranked
from harness.scoring.resolve import Resolved, sizes_by_query
from harness.scoring.score_columns import Column, finisher


class SessionLevel:
    """The sessions of the turns of a run, for one qrels set."""

    def __init__(
        self,
        dataset: Dataset,
        resolved: Resolved,
        judged: DatasetQrels,
        ranked: Ranked,
        depth: int,
        *,
        renamed: bool,
    ) -> None:
        """`resolved` and `ranked` have the same order; `depth`: maximum length of a ranking.

        `renamed`: turns of a session that are not gold form a separate session (`noans_`).
        """
        self._ranked = ranked
        # A ranking of fewer than `depth` documents, or of the whole haystack, is complete.
        self._ended = (ranked.returned >= sizes_by_query(dataset)) | (ranked.returned < depth)
        self.renamed = renamed
        group = sessions_of(dataset, resolved.row)
        # Unknown documents of the run and of the qrels must have different codes.
        self.of_judgement = sessions_of(dataset, judged.document, beyond=len(resolved.row))
        if renamed:
            gold = judged.grade >= 1
            pairs = judged.query[gold].astype(np.int64) << 32 | judged.document[gold]
            is_gold = np.isin(resolved.query.astype(np.int64) << 32 | resolved.row, pairs)
            group = group * 2 + is_gold
        # The rank at which each query meets its 1st, 2nd, ... distinct session.
        keys = resolved.query.astype(np.int64) << 33 | group
        self._met, first = np.unique(keys, return_index=True)
        self._met_at = np.append(resolved.rank[first], NOT_RETRIEVED)
        first.sort()
        self._query, self._rank = resolved.query[first], resolved.rank[first]
        self._starts = np.searchsorted(self._query, np.arange(ranked.n + 1))

    @staticmethod
    def most_sessions(dataset: Dataset) -> int:
        """Returns the maximum number of sessions in a haystack."""
        haystacks = range(len(dataset.haystack_ids))
        codes = dataset.session_codes
        return max((len(np.unique(codes[dataset.haystack_rows(h)])) for h in haystacks), default=0)

    def ranked(self) -> Ranked:
        """Returns the judged turns with their session as the evidence item.

        Any turn of a session finds the session, unless its other turns are renamed.
        """
        pieces = self._ranked.query.astype(np.int64) << 33 | self.of_judgement
        _, evidence_id = np.unique(pieces, return_inverse=True)
        rank = self._ranked.rank
        if not self.renamed:
            at = np.searchsorted(self._met, pieces)
            known = np.append(self._met, -1)[at] == pieces
            rank = np.where(known, self._met_at[at], NOT_RETRIEVED)
        return replace(self._ranked, evidence_id=evidence_id.astype(np.int32), rank=rank)

    def effective_cutoff(self, cutoff: int) -> tuple[Ints, np.ndarray]:
        """Returns each query's effective cutoff, and whether the ranking is deep enough for it.

        A ranking truncated before k distinct sessions is not: run with a larger k.
        """
        wanted = self._starts[:-1] + cutoff - 1
        enough = wanted < self._starts[1:]
        cut = self._ranked.returned + 1
        cut[enough] = self._rank[wanted[enough]]
        return cut, enough | self._ended


def sessions_of(dataset: Dataset, rows: npt.NDArray[np.int32], beyond: int = 0) -> Ints:
    """Returns the session code of each document row. Documents without a session and unknown
    ones (-1) get unique codes; codes of the latter start after `beyond` unused ones."""
    codes = dataset.session_codes.astype(np.int64)
    named = int(codes.max(initial=-1)) + 1
    codes = np.where(codes >= 0, codes, named + np.arange(len(codes)))
    own = named + len(codes) + beyond + np.arange(len(rows))
    return own if len(codes) == 0 else np.where(rows >= 0, codes[rows], own)


DRAWS = 100
"""Number of random orders of a query's turns over which a simulated baseline is the mean."""

_SEED = 0x5E55


class Turns(NamedTuple):
    """The turns of a query's haystack: `session`, (turns,), the session of each under the protocol;
    `place`, the position of each relevant judgement among the turns, -1 if absent."""

    session: Ints
    place: Ints


class Sizes(NamedTuple):
    """Turns of the sessions with evidence and of the others, each ascending; and how many sessions
    have evidence, also such as are not there."""

    gold: tuple[int, ...]
    others: tuple[int, ...]
    pieces: int


class SessionBaseline:
    """Random baseline of the session metrics of a qrels set at `cutoffs`."""

    def __init__(
        self,
        dataset: Dataset,
        judged: DatasetQrels,
        level: SessionLevel,
        scored: Flags,
        present: Flags,
        cutoffs: Sequence[int],
    ) -> None:
        """`scored` (n,): counted queries; `present` (m,): a ranking can contain the turn."""
        self._dataset, self._judged, self._cutoffs = dataset, judged, list(cutoffs)
        self._ranked, self._renamed = level.ranked(), level.renamed
        self._of_judgement = level.of_judgement
        self._relevant, self._present = judged.grade >= 1, present
        self._starts = np.searchsorted(judged.query, np.arange(self._ranked.n + 1))
        counts = np.bincount(judged.query[self._relevant], minlength=self._ranked.n)
        self._queries: list[int] = np.flatnonzero(scored & (counts > 0)).tolist()
        self._sessions: dict[int, tuple[Ints, Ints]] = {}
        self._means: dict[str, Values] = {}  # of simulated metrics, by name

    def __call__(self, metric: Metric) -> tuple[Values, str]:
        """Returns each query's expected value, (n,), NaN if it is unscored or has no relevant turn;
        and the method, if it is not exact."""
        at = self._cutoffs.index(metric.k or 0)
        if metric.definition.graded:
            if metric.name not in self._means:
                self._means[metric.name] = self._simulated(metric.name)
            return self._means[metric.name][:, at], f"from {DRAWS} random orders a query"
        return self._exact[metric.name][:, at], ""

    @cached_property
    def _exact(self) -> dict[str, Values]:
        """Exact values of recall, hit and recall_all by name; each (n, ks)."""
        names = ExpectedSessions._fields
        found = {name: np.full((self._ranked.n, len(self._cutoffs)), np.nan) for name in names}
        known: dict[Sizes, ExpectedSessions] = {}
        for query in self._queries:
            sizes = self._sizes(query)
            if sizes not in known:
                known[sizes] = expected_sessions(*sizes, self._cutoffs)
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
        # A turn may have several judgements.
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
        """Returns the rows of a query's relevant judgements."""
        start, end = self._starts[query : query + 2].tolist()
        return np.asarray(np.flatnonzero(self._relevant[start:end]) + start)

    def _simulated(self, name: str) -> Values:
        """Returns the mean of the metric over random orders, (n, ks)."""
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
    """Draws DRAWS random orders: ranks of the relevant turns, (DRAWS, relevant), and for each k the
    rank at which k sessions have been met, (DRAWS,)."""
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
    """Represents orders of a query's judgements, `rank` (orders, rows), as separate queries."""
    orders, m = rank.shape
    columns = {
        name: np.tile(getattr(ranked, name)[rows], orders)
        for name in ("grade", "evidence_id", "document", "first_of_document", "above", "tied")
    }
    query = np.repeat(np.arange(orders, dtype=np.int32), m)
    returned, answered = np.full(orders, m), np.ones(orders, bool)
    return Ranked(returned, answered, query, rank=rank.ravel(), **columns)


# -- The order in which sessions are met -----------------------------------------------------------


class ExpectedSessions(NamedTuple):
    """Expected recall, hit and recall_all at each k, (ks,)."""

    recall: Values
    hit: Values
    recall_all: Values


def expected_sessions(
    gold: Sequence[int], others: Sequence[int], pieces: int, cutoffs: Sequence[int]
) -> ExpectedSessions:
    """Computes expected metrics of the first k sessions met by a random order of turns.

    `gold` and `others` are the sizes of sessions with and without evidence; `pieces` is the number
    with evidence, including absent ones.
    """
    if not gold:
        return ExpectedSessions(*(np.zeros(len(cutoffs)) for _ in ExpectedSessions._fields))
    u, weight = _quadrature(sum(gold) + sum(others))
    most = min(max(cutoffs), len(gold) + len(others))  # at most this many can be met before another
    counts = np.zeros((most, len(u)))
    counts[0] = 1
    counts = _add(counts, u, others)

    def integral(density: Values, counts: Values, fewer: Ints) -> Values:
        """Integrates over u `density` times P(fewer than `fewer`, (ks,), sessions are met)."""
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
    return ExpectedSessions(found / pieces, hit, every)


def _quadrature(turns: int) -> tuple[Values, Values]:
    """Returns nodes from 0 to 1 and their weights, for polynomials of degree below `turns`.

    In general, half as many nodes as turns are needed. These polynomials are smooth and have most
    of their mass near 1, so they need far fewer: twice as many would change only the last digits.
    """
    return _gauss(min(turns // 2 + 1, 128 + 2 * isqrt(turns)))


@lru_cache(maxsize=256)
def _gauss(nodes: int) -> tuple[Values, Values]:
    node, weight = np.polynomial.legendre.leggauss(nodes)
    return (node + 1) / 2, weight / 2


def _add(counts: Values, u: Values, sizes: Iterable[int]) -> Values:
    """Adds sessions of these sizes to P(0, 1, 2... sessions met by time 1 - u), (most, nodes)."""
    for size in sizes:
        missed = counts * u**size
        counts = counts - missed
        missed[1:] += counts[:-1]
        counts = missed
    return counts


def session_columns(
    dataset: Dataset,
    protocol: Protocol,
    cutoffs: Sequence[int],
    level: SessionLevel,
    scored: Flags,
    present: Flags,
    stable: Ints,
) -> list[Column]:
    """Computes every session metric of the protocol at `cutoffs`, on turns.

    `present` (m,) and `stable` (n,) are as for documents.
    """
    by_session = level.ranked()
    upper_bounds = UpperBounds(by_session, present)
    levels = SessionBaseline(dataset, dataset.qrels(protocol.key), level, scored, present, cutoffs)
    columns = []
    for template in protocol.session_metrics:
        for cutoff in cutoffs:
            metric = Metric.parse(template.format(k=cutoff))
            cut, measurable = level.effective_cutoff(cutoff)
            finish = finisher(protocol, metric, scored)
            baseline, how = levels(metric)
            top = upper_bounds.of_sessions(metric)
            columns.append(
                Column(
                    metric,
                    finish(metric(by_session, cut)),
                    measurable,
                    finish(baseline),
                    finish(top.values),
                    exact=top.exact,
                    random_method=how,
                    depth_sensitive=depth_sensitive(metric, by_session, stable, cut),
                )
            )
    return columns
