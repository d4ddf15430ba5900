"""Recall at equal prompt cost: recall within a token budget, and token counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.records.scores import BudgetRecall, BudgetResult, TokensResult, TokenSummary
from harness.runfiles.arrow import integers
from harness.schema import Ability
from harness.scoring.arrays import Flags, Ints, Values, mean
from harness.scoring.metrics import Metric
from harness.scoring.metrics.counted import pieces_of
from harness.scoring.ranks import Ranked
from harness.scoring.resolve import Resolved, in_haystack
from harness.scoring.score_columns import QueryStatus, slices

BUDGETS = (500, 1000, 2000, 5000)

TOKENIZER = "words+marks/2"
r"""Name of the token count, which anyone can reproduce.

A token is a run of ASCII letters, digits, underscores and non-ASCII bytes of the UTF-8 text, or a
single other visible character: `[\w\x80-\xff]+|[!-~]` on bytes. Scripts without spaces count by
characters (script_tokens.py). It needs no vocabulary file and no model; model tokenizers give more
tokens for rare words, so budgets here compare systems with each other, not with a price list.
"""

_LET_GO = 1 << 28  # bytes read from the file before its memory pages are released
_DENSE = 32  # if more than 1/32 of the documents are read, most pages are
_MARKED = 32  # if more than 1/32 of the documents are new, marking them is faster than sorting
_ROWS = 1 << 20
_BLOCK = 1 << 9  # documents; some hundred KB, which fit in the processor's cache


def run_tokens(
    dataset: Dataset,
    ranked: Ranked,
    resolved: Resolved,
    answered: QueryStatus,
    counted: Flags,
    depth: int,
    signature: str,
) -> TokensResult:
    """Computes the token costs of rankings, and recall within BUDGETS over answerable queries.

    Costs are over `counted` queries, (n,), that did not fail, so that failures do not lower the
    cost. They are those of the returned texts, else of the documents. The random baseline uses
    random orders of `depth` documents of the haystack.
    """
    of_documents = TokenCounts(dataset)
    costs = answered.tokens
    budget = TokenBudget(
        ranked, resolved, of_documents.of(resolved.row) if costs is None else costs
    )
    scored = counted & ranked.has_relevant & (dataset.abilities != str(Ability.ABSTENTION))
    levels = recall_random_baseline(dataset, ranked, scored, depth, BUDGETS, of_documents)
    masks = {name: mask for name, mask in slices(dataset).items() if name in set(Ability)}
    succeeded = counted & ~answered.failed
    within = {}
    for tokens, random in zip(BUDGETS, levels.T, strict=True):
        values, ended = budget.recall(tokens)
        within[str(tokens)] = BudgetResult(
            recall=mean(values[scored]),
            n=int(scored.sum()),
            random_baseline=mean(random[scored]),
            ended=int(ended[scored].sum()),
            by_ability={
                name: BudgetRecall(
                    recall=mean(values[mine]),
                    n=int(mine.sum()),
                    random_baseline=mean(random[mine]),
                )
                for name, mask in masks.items()
                if (mine := scored & mask).any()
            },
        )
    return TokensResult(
        tokenizer=TOKENIZER,
        per_query=token_summary(budget.per_query[succeeded]),
        per_query_top_10=token_summary(budget.tokens_at(10, resolved)[succeeded]),
        recall_within_budget=within,
        random_method=f"from {ORDERS} random orders of each haystack",
        signature=signature,
    )


class TokenBudget:
    """The prompt cost of every prefix of every ranking."""

    def __init__(
        self, ranked: Ranked, resolved: Resolved, tokens: npt.NDArray[np.integer[Any]]
    ) -> None:
        """`tokens` (n,) aligns with `resolved`; `ranked` must be in the returned order."""
        self._ranked = ranked
        starts = np.searchsorted(resolved.query, np.arange(ranked.n + 1))
        total = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(tokens, out=total[1:])
        before = total[starts]
        self.per_query = np.diff(before)
        self._query, self._spent = resolved.query, total[1:]
        for start in range(0, len(tokens), _ROWS):  # one copy of all rows is enough
            part = slice(start, start + _ROWS)
            self._spent[part] -= before[self._query[part]]

    def recall(self, budget: int) -> tuple[Values, np.ndarray]:
        """Returns recall of the longest prefix of at most `budget` tokens, and whether the ranking
        ended below the budget (a deeper one might have found more); each (n,)."""
        fits = self._spent <= budget
        cut = np.bincount(self._query[fits], minlength=self._ranked.n)
        ended = (cut == self._ranked.returned) & (self.per_query < budget)
        return Metric("recall")(self._ranked, cut), ended

    def tokens_at(self, cutoff: int, resolved: Resolved) -> Ints:
        """Returns the tokens of each query's top k; shape (n,)."""
        inside = resolved.rank <= cutoff
        spent = np.zeros(self._ranked.n, np.int64)
        np.maximum.at(spent, self._query[inside], self._spent[inside])
        return spent


def token_summary(tokens: Ints) -> TokenSummary:
    """Returns mean and percentiles over n queries."""
    if len(tokens) == 0:
        return TokenSummary(n=0, mean=None, p50=None, p95=None)
    p50, p95 = np.percentile(tokens, [50, 95])
    found = mean(tokens.astype(float))
    return TokenSummary(n=len(tokens), mean=found, p50=float(p50), p95=float(p95))


class TokenCounts:
    """Tokens of a dataset's documents, title included; each document is counted once."""

    def __init__(self, dataset: Dataset) -> None:
        self._documents = dataset.documents
        self._counts = np.full(len(dataset.documents) + 1, -1, np.int32)
        self._counts[-1] = 0  # of rows of -1

    def of(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Returns the tokens of the documents at `rows`; shape of `rows`. 0 for rows of -1."""
        new = rows[self._counts[rows] < 0]
        if len(new) > len(self._counts) // _MARKED:
            found = np.zeros(len(self._counts), bool)
            found[new] = True
            new = np.flatnonzero(found).astype(np.int32)
        else:
            new = np.unique(new)
        self._count(new)
        return self._counts[rows].astype(np.int64)

    def _count(self, rows: npt.NDArray[np.int32]) -> None:
        """Counts tokens of documents, given in order, by chunks, so that memory is bounded."""
        self._counts[rows] = 0
        for name in ("text", "title"):
            if not len(rows) or self._documents.lack(name) == len(self._documents):
                continue
            starts = np.array(self._documents.starts)
            cuts = np.searchsorted(rows, starts)
            read = 0
            for number in np.flatnonzero(np.diff(cuts)).tolist():
                part = rows[cuts[number] : cuts[number + 1]]
                chunk = self._documents.chunk(name, number, part - starts[number])
                if len(part) * _DENSE > len(chunk):
                    self._documents.fetch(chunk)
                for some in np.array_split(part, -(-len(part) // _BLOCK)):
                    texts = chunk.take(integers(some - starts[number]))
                    self._counts[some] += _count(texts)
                read += chunk.nbytes
                if read > _LET_GO:
                    self._documents.release()
                    read = 0


def token_counts(dataset: Dataset, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Returns tokens of the documents at `rows`, title included; (rows,). 0 for rows of -1."""
    return TokenCounts(dataset).of(rows)


def text_tokens(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Returns the tokens of each text."""
    return _count(pa.array(texts, pa.string()))


def _count(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the tokens of each string; 0 for null."""
    if len(texts) == 0 or texts.buffers()[2] is None:
        return np.zeros(len(texts), np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[
        texts.offset : texts.offset + len(texts) + 1
    ]
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    counts = _count_words(data, starts, np.diff(offsets))
    if data.max(initial=0) >= 0xE0:
        # First bytes of characters of scripts without spaces, and of a few others.
        from harness.scoring.script_tokens import without_runs

        found = np.flatnonzero((data >= 0xE0) & (data != 0xE2))
        for row in np.unique(np.searchsorted(starts, found, side="right") - 1).tolist():
            rest, tokens = without_runs(texts[row].as_py())
            if tokens:
                written = np.frombuffer(rest.encode(), np.uint8)
                whole = np.zeros(1, np.int32), np.array([len(written)])
                counts[row] = tokens + int(_count_words(written, *whole)[0])
    return counts


def _count_words(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32], sizes: Ints
) -> npt.NDArray[np.int64]:
    """Returns the runs of word bytes and the other visible characters of each text."""
    # Comparisons of unsigned bytes, which wrap below zero, are vectorised by NumPy.
    word = (data | 0x20) - 97 < 26
    word |= data - 48 < 10
    word |= data >= 128
    word |= data == 95
    visible = (data - 33 < 94) | word
    begins = visible.copy()
    begins[1:] &= ~(word[1:] & word[:-1])
    # A word at the beginning of a text is a token even if the previous text ended in a word.
    filled = sizes > 0
    first = starts[filled]
    begins[first] = visible[first]
    counts = np.zeros(len(starts), np.int64)
    if len(first):
        # Sums of small integers are faster, and no text has more tokens than bytes.
        small = np.uint16 if sizes.max() < 1 << 16 else np.int64
        counts[filled] = np.add.reduceat(begins.view(np.uint8), first, dtype=small)
    return counts


ORDERS = 100
"""Number of random orders of each haystack for the baseline of recall within a budget."""

_SEED = 0xC4A2
_SHUFFLED = 20_000  # maximum size of haystacks that are shuffled whole; larger ones are sampled


def recall_random_baseline(
    dataset: Dataset,
    ranked: Ranked,
    scored: Flags,
    depth: int,
    budgets: Sequence[int],
    counts: TokenCounts,
) -> Values:
    """Returns expected recall of the longest prefix of a random order, `depth` documents deep, that
    costs at most each budget of tokens; (n, budgets), NaN if a query is not `scored`.

    `ranked` is of the default qrels. Costs are the documents' token `counts`.
    """
    judged = dataset.qrels()
    present = in_haystack(dataset, judged.query, judged.document)
    found = np.full((ranked.n, len(budgets)), np.nan)
    relevant = (ranked.grade >= 1) & scored[ranked.query]
    by_row = replace(ranked, document=judged.document.astype(np.int64))
    pieces = pieces_of(by_row, relevant, present)
    by_haystack = defaultdict(list)
    for query in pieces:
        by_haystack[int(dataset.query_haystack[query])].append(query)
    rows = judged.document[relevant & present]
    costs = dict(zip(rows.tolist(), counts.of(rows).tolist(), strict=True))
    for haystack, queries in by_haystack.items():
        most = max(len(documents) for query in queries for documents in pieces[query])
        orders = Orders.draw(dataset, haystack, depth, most + 1, budgets, counts)
        alone = orders.of_one({d: costs[d] for q in queries for one in pieces[q] for d in one})
        for query in queries:
            own = -1
            if dataset.manifest.exclude_self:
                own = int(dataset.rows_with_query_id[query])
            chances = [
                alone[min(one)]
                if len(one) == 1 and own < 0
                else orders.of_several({d: costs[d] for d in sorted(one)}, own)
                for one in pieces[query]
            ]
            found[query] = chances[0] if len(chances) == 1 else np.mean(chances, axis=0)
    return found


_END = -2  # marks the end of an order


@dataclass(frozen=True)
class Orders:
    """The first documents of ORDERS random orders of a haystack of `size` documents.

    `row`, (ORDERS, drawn + 1), has their rows and a final _END, `cost` their tokens, and `above`
    the tokens of all documents above each. A ranking is `depth` documents deep.
    """

    size: int
    depth: int
    budgets: tuple[int, ...]
    row: npt.NDArray[np.int32]
    cost: Ints
    above: Ints

    @classmethod
    def draw(
        cls,
        dataset: Dataset,
        haystack: int,
        depth: int,
        more: int,
        budgets: Sequence[int],
        counts: TokenCounts,
    ) -> Orders:
        """Draws orders, seeded by the haystack; `more` than `depth`, as some will be removed."""
        rows = dataset.haystack_rows(haystack)
        rng = np.random.default_rng([_SEED, haystack])
        drawn = min(len(rows), depth + more)
        row = np.full((ORDERS, drawn + 1), _END, np.int32)
        if len(rows) <= _SHUFFLED:
            row[:, :drawn] = rng.permuted(np.tile(rows, (ORDERS, 1)), axis=1)[:, :drawn]
        else:
            places = [rng.choice(len(rows), drawn, replace=False) for _ in range(ORDERS)]
            row[:, :drawn] = rows[np.array(places)]
        cost = np.zeros(row.shape, np.int64)
        cost[:, :drawn] = counts.of(row[:, :drawn])
        above = np.cumsum(cost, axis=1) - cost
        return cls(len(rows), depth, tuple(budgets), row, cost, above)

    def of_one(self, documents: Mapping[int, int]) -> dict[int, Values]:
        """Returns P(document is in the prefix of each budget), (budgets,), from documents' costs.

        All numbers m < n of other documents above it are equally likely. The probability is the
        share of m, up to the depth, for which the first m others leave room for it. Only their
        costs are random: in an order with the document itself, those below it move up by one.
        """
        cost = np.array([*documents.values()], np.int64)
        place = np.full((ORDERS, len(documents)), self.row.shape[1])
        values, flat = self._sorted
        first, last = (
            np.searchsorted(values, [*documents], side=side) for side in ("left", "right")
        )
        for at, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            drawn, column = np.divmod(flat[a:b], self.row.shape[1])
            place[drawn, at] = column
        found = np.zeros((len(self.budgets), len(documents)))
        most = min(self.depth, self.size)
        spent = self.above[:, :most]
        # All orders in one ascending row, each offset by more than the maximum cost.
        width = int(self.above.max(initial=0)) + 2
        beyond = width * np.arange(ORDERS)[:, np.newaxis]
        ascending = (spent + beyond).ravel()
        before = spent.shape[1] * np.arange(ORDERS)[:, np.newaxis]
        for at, budget in enumerate(self.budgets):
            # Number of prefixes of 0, 1, 2... documents that leave room for the document; prefixes
            # that contain it count if they fit the budget.
            left = np.clip(budget - cost, -1, width - 2)
            room = np.searchsorted(ascending, left + beyond, side="right") - before
            whole = (self.above[:, : most + 1] <= budget).sum(axis=1, keepdims=True)
            behind = np.maximum(whole - place - 2, 0)
            among = np.minimum(room, place + 1) + behind
            found[at] = np.where(place < most, among, room).sum(axis=0)
        found /= ORDERS * self.size
        return dict(zip(documents, found.T, strict=True))

    def of_several(self, documents: Mapping[int, int], own: int) -> Values:
        """Returns P(any of `documents`, with their costs, is in each budget's prefix); (budgets,).

        The first of r has m others above it with probability C(n - r, m) / C(n, m) times
        r / (n - m), is equally likely any of the r, and is in the prefix if it and those m cost no
        more than the budget. `own`: a document that is excluded from the haystack, or -1.
        """
        if not documents:
            return np.zeros(len(self.budgets))
        r, n = len(documents), self.size - (own >= 0)
        m = np.arange(min(self.depth, n - r + 1))
        none = np.cumprod([1.0, *((n - r - m[:-1]) / (n - m[:-1]))])
        first = none / (n - m)  # P(one of them is the first, with m others above it)
        kept = ~np.isin(self.row, [*documents, own])
        place: Ints = np.cumsum(kept, axis=1) - kept
        cost = np.where(kept, self.cost, 0)
        above = np.cumsum(cost, axis=1) - cost
        weight = np.where(kept & (place < len(m)), first[np.minimum(place, len(m) - 1)], 0.0)
        return np.array(
            [
                sum(weight[above <= budget - cost].sum() for cost in documents.values()) / ORDERS
                for budget in self.budgets
            ]
        )

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.int32], Ints]:
        """All rows in ascending order, with their flat positions in `row`."""
        flat = np.argsort(self.row, axis=None)
        return self.row.ravel()[flat], flat
