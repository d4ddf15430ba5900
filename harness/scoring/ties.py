"""What equal scores could do to a number: the best, the worst and the expected order of ties."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from harness.scoring.arrays import Ints, Values, count_by, ratio, sum_by
from harness.scoring.metrics import Metric
from harness.scoring.metrics.ranked import FORMS, ideal_dcg
from harness.scoring.random_baseline import all_found, none_found
from harness.scoring.ranks import NOT_RETRIEVED, Ranked


class TieOrders:
    """Other orders of the tied documents of a run, as rankings of their own.

    Only queries in which a judged document shares its score are looked at; judgements with units
    are not (`any` is False then).
    """

    def __init__(self, ranked: Ranked) -> None:
        self._ranked = ranked
        tied = ranked.tied > 1
        self.any = ranked.has_ties and not ranked.shares_evidence
        self._queries = count_by(ranked.query[tied], ranked.n) > 0

    def bounds(self, metric: Metric) -> tuple[Values, Values]:
        """Value a query with the relevant ones first, and last, among equals; each (n,)."""
        return metric(self._best), metric(self._worst)

    @cached_property
    def _best(self) -> Ranked:
        return self._ordered(best=True)

    @cached_property
    def _worst(self) -> Ranked:
        return self._ordered(best=False)

    def expected(self, metric: Metric) -> Values:
        """Mean a query over all orders of equals, exactly; (n,)."""
        own = metric(self._ranked)
        return np.where(self._queries, _expected(metric, self._ranked), own)

    def _ordered(self, *, best: bool) -> Ranked:
        ranked = self._ranked
        # Grade 0 goes along, for judged@k alone: behind the relevant ones in the best order, above
        # them in the worst, where it changes nothing else.
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
    """Place of each row among the rows of the same query and score, and how many those are."""
    new = (np.diff(query, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
    group = np.cumsum(new) - 1
    sizes = np.bincount(group, minlength=0)
    starts = np.cumsum(sizes) - sizes
    return np.arange(len(query)) - starts[group], sizes[group]


# -- The mean over all orders of equals ------------------------------------------------------------


def _expected(metric: Metric, ranked: Ranked) -> Values:
    """The mean over all orders of equals; (n,), NaN where the metric has no value.

    A group of t equals below `above` others fills the ranks above + 1 to above + t, each document
    with probability 1 / t at each: all that a metric needs which is a sum over documents. For the
    others, how many of its r relevant ones stand in its first so many is hypergeometric.
    """
    n, name = ranked.n, metric.name
    least = 0 if name == "judged" else 1 if name in FORMS else metric.rel
    wanted = ranked.grade >= least
    total = count_by(ranked.query[wanted], n)
    cut = np.full(n, metric.k if metric.k is not None else NOT_RETRIEVED - 1)
    cut = total if name == "rprec" else cut
    rows = np.flatnonzero(wanted & (ranked.rank != NOT_RETRIEVED))
    query, above, tied = ranked.query[rows], ranked.above[rows], ranked.tied[rows]
    inside = np.clip(cut[query] - above, 0, tied)  # ranks of the group within the cut-off
    found = sum_by(query, inside / tied, n)
    if name in FORMS:
        form = FORMS[name]
        ranks = np.arange(1.0, (above + inside).max(initial=0) + 1)
        upto = np.concatenate([[0.0], np.cumsum(1 / form.discount(ranks))])
        gains = form.gain(ranked.grade[rows].astype(float))
        dcg = sum_by(query, gains * (upto[above + inside] - upto[above]) / tied, n)
        return ratio(dcg, ideal_dcg(ranked, cut, form))
    if name in ("precision_returned", "judged"):
        value = ratio(found, np.minimum(ranked.returned, cut), 0.0)
    elif name == "precision":
        value = found / cut
    elif name == "f1":
        value = 2 * found / (cut + total)
    elif name in ("recall", "rprec"):
        value = ratio(found, total)
    else:
        value = _by_groups(name, ranked, rows, cut, total)
    known = count_by(ranked.query, n) if name == "judged" else total
    return np.where(known > 0, value, np.nan)


def _by_groups(name: str, ranked: Ranked, rows: Ints, cut: Ints, total: Ints) -> Values:
    """hit, recall_all, mrr and map: of the relevant documents at `rows`, by groups of equals."""
    n = len(total)
    rows = rows[np.lexsort((ranked.above[rows], ranked.query[rows]))]
    query, above = ranked.query[rows], ranked.above[rows]
    new = (np.diff(query, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
    begins = np.flatnonzero(new)
    query, above, t = query[begins], above[begins], ranked.tied[rows[begins]]
    r = np.diff(np.append(begins, len(rows)))
    inside = np.clip(cut[query] - above, 0, t)
    value = np.ones(n)
    if name == "hit":
        np.multiply.at(value, query, none_found(t, r, inside))
        return 1 - value
    if name == "recall_all":
        np.multiply.at(value, query, all_found(t, r, inside))
        return np.where(count_by(ranked.query[rows], n) == total, value, 0.0)
    if name == "mrr":
        # Whatever stands in the first group with a relevant document, the first one is of it.
        first = np.diff(query, prepend=-1) != 0
        found = np.where(first & (inside > 0), 1 / (above + 1), 0.0)
        for group in np.flatnonzero(first & (t > 1)).tolist():
            case = (int(one[group]) for one in (above, t, r, inside))
            found[group] = _first_of_group(*case)
        return sum_by(query, found, n)
    # map: of a relevant document at rank above + j, that rank and those above it are expected to
    # hold before + 1 + (j - 1) (r - 1) / (t - 1) relevant ones; summed over j by harmonic numbers.
    before = np.cumsum(r) - r
    before = before - before[np.searchsorted(query, query)]
    harmonic = np.cumsum([0.0, *(1 / np.arange(1, (above + inside).max(initial=0) + 1))])
    sums = harmonic[above + inside] - harmonic[above]
    slope = (r - 1) / np.maximum(t - 1, 1)
    found = r / t * ((before + 1) * sums + slope * (inside - (above + 1) * sums))
    return ratio(sum_by(query, found, n), total)


def _first_of_group(above: int, t: int, r: int, inside: int) -> float:
    """Sum over j < inside of P(j documents of the group stand above all r relevant ones) / rank."""
    j = np.arange(min(inside, t - r + 1))
    clear = np.cumprod([1.0, *((t - r - j[:-1]) / (t - j[:-1]))])[: len(j)]
    return float(np.sum(clear * r / (t - j) / (above + j + 1)))
