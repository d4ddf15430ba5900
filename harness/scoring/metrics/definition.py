"""Defines a metric as a record of its functions and its description.

The table of metrics in the documentation, the glossary of the pages, `harness explain` and the
property tests are generated from these records. The functions below compute probabilities of
relevant documents in the top k of a random order. SciPy's hypergeom is slower and, for 8.8 million
documents, less accurate (errors of 7e-10; products 1e-15).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.scoring.arrays import Ints, Values, count_by, ratio, sum_by
from harness.scoring.ranks import NOT_RETRIEVED, Ranked


@dataclass(frozen=True)
class MetricDescription:
    """The description of a metric.

    `about` is one sentence for readers of a page, where `k` is the cutoff. `formula` and `source`
    are for reimplementing it; `elsewhere` has its names in other tools.
    `section` is the heading of its table in the documentation, `unit` the range of its values.
    """

    name: str
    about: str
    formula: str
    source: str = "ours"
    elsewhere: str = ""
    section: str = "Of documents"
    unit: str = "0 to 1"

    @property
    def formula_and_source(self) -> str:
        """The formula, with its source in brackets."""
        return self.formula if self.source == "ours" else f"{self.formula} ({self.source})"


@dataclass(frozen=True)
class RandomOrders:
    """Random orders of the N documents of each query's haystack; every array has shape (n,).

    `size` is N. The haystack holds `inside` of the `total` relevant documents; `rows`, (inside,),
    are their judgements. `cutoff` is as requested, `top` the same but at most N.
    """

    ranked: Ranked
    size: Ints
    total: Ints
    inside: Ints
    rows: Ints
    cutoff: Ints
    top: Ints

    @property
    def share(self) -> Values:
        """Share of relevant documents in the haystack."""
        return ratio(self.inside, self.size, 0.0)


@dataclass(frozen=True)
class TiedDocuments:
    """Relevant documents that were returned, each in its group of documents with equal scores.

    A group of t tied documents below `above` others has the ranks above + 1 to above + t, each
    document with probability 1 / t. Shapes (rows,): `rows` of the judgements, `query`, `above`,
    `tied` (t), and `inside`, the number of the group's ranks within the cutoff. Shapes (n,):
    `cutoff`, and `total`, the number of relevant documents of each query.
    """

    ranked: Ranked
    cutoff: Ints
    total: Ints
    rows: Ints
    query: npt.NDArray[np.int32]
    above: Ints
    tied: Ints
    inside: Ints

    @cached_property
    def found(self) -> Values:
        """Expected number of relevant documents within the cutoff; (n,)."""
        return sum_by(self.query, self.inside / self.tied, self.ranked.n)

    @cached_property
    def groups(self) -> TieGroups:
        """Groups of ties with these documents."""
        order = np.lexsort((self.above, self.query))
        query, above = self.query[order], self.above[order]
        new = (np.diff(query, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
        begins = np.flatnonzero(new)
        query, above, tied = query[begins], above[begins], self.tied[order][begins]
        relevant = np.diff(np.append(begins, len(order)))
        inside = np.clip(self.cutoff[query] - above, 0, tied)
        return TieGroups(query, above, tied, relevant, inside)


@dataclass(frozen=True)
class TieGroups:
    """Groups of ties by query and rank, with `relevant` documents each; shapes (groups,)."""

    query: npt.NDArray[np.int32]
    above: Ints
    tied: Ints
    relevant: Ints
    inside: Ints


@dataclass(frozen=True, kw_only=True)
class MetricDefinition(MetricDescription):
    """A metric of rankings: its functions and the syntax of its name.

    `function` computes one value from 0 to 1 per query, NaN if the query has no relevant document,
    from the ranks of its judged documents and a cutoff per query. `random_baseline` computes the
    expected value over random orders, `expected_over_ties` that over orders of ties; both are
    optional. `has_upper_bound`: the best ranking has the relevant documents first, best grade
    first.

    For metrics of evidence items, `piece_value` computes the value from the number of items found
    and of all items, and `random_pieces` the expected value if documents share items, from the
    documents of each item, the size of the haystack and the cutoff.

    `graded` metrics use grades, and do not allow `(rel=N)`; `of_judged` ones count judged
    documents, relevant or not. `needs_cutoff`: `@k` is required; `own_cutoff` computes the cutoff
    of each query if `@k` is not allowed. `aliases` are names in other tools. `reference` is the
    measure of trec_eval with the same values.
    """

    function: Callable[[Ranked, Ints], Values]
    random_baseline: Callable[[RandomOrders], Values] | None = None
    expected_over_ties: Callable[[TiedDocuments], Values] | None = None
    has_upper_bound: bool = True
    piece_value: Callable[[Values, Ints], Values] | None = None
    random_pieces: Callable[[Sequence[frozenset[int]], int, int], float | None] | None = None
    graded: bool = False
    of_judged: bool = False
    needs_cutoff: bool = False
    own_cutoff: Callable[[Ranked], Ints] | None = None
    aliases: tuple[str, ...] = ()
    reference: str = ""

    @property
    def least_grade(self) -> int:
        """Minimum grade of counted documents, after grades below `rel` are set to 0."""
        return 0 if self.of_judged else 1

    def cutoffs(self, ranked: Ranked, k: int | None) -> Ints:
        """Returns the cutoff of each query, (n,); greater than every rank if there is none."""
        if self.own_cutoff is not None:
            return self.own_cutoff(ranked)
        return np.full(ranked.n, k if k is not None else NOT_RETRIEVED - 1)

    def where_defined(self, values: Values, ranked: Ranked, total: Ints) -> Values:
        """Returns the values, with NaN for queries without counted documents (`total` is 0)."""
        known = (count_by(ranked.query, ranked.n) if self.of_judged else total) > 0
        return np.where(known, values, np.nan)


def none_found(size: Ints, relevant: Ints, top: Ints) -> Values:
    """P(no relevant document in the top k) = product over i < R of (N - k - i) / (N - i)."""
    value = np.ones(len(size))
    for i in range(int(relevant.max(initial=0))):
        active = relevant > i
        factor = np.maximum(size - top - i, 0) / np.maximum(size - i, 1)
        value[active] *= factor[active]
    return value


def all_found(size: Ints, relevant: Ints, top: Ints) -> Values:
    """P(all relevant documents in the top k) = product over i < R of (k - i) / (N - i)."""
    value = np.ones(len(size))
    for i in range(int(relevant.max(initial=0))):
        active = relevant > i
        factor = np.maximum(top - i, 0) / np.maximum(size - i, 1)
        value[active] *= factor[active]
    return value


def first_found(size: int, relevant: int, top: int, above: int = 0) -> float:
    """Returns the sum over j < top of P(the first of R relevant documents has j others of N above
    it) divided by its rank, above + j + 1."""
    if relevant == 0:
        return 0.0
    j = np.arange(min(top, size - relevant + 1))
    missed = (size - relevant - j[:-1]) / (size - j[:-1])
    clear = np.cumprod(np.concatenate([[1.0], missed]))[: len(j)]
    return float(np.sum(clear * relevant / (size - j) / (above + j + 1)))
