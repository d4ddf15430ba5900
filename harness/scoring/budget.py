"""Recall at equal prompt cost: what is found within a budget of retrieved tokens."""

from __future__ import annotations

import numpy as np

from harness.scoring.arrays import Ints, Values, mean
from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ranked
from harness.scoring.resolve import Resolved

BUDGETS = (500, 1000, 2000, 5000)


class TokenBudget:
    """The prompt cost of every prefix of every ranking."""

    def __init__(self, ranked: Ranked, resolved: Resolved, tokens: Ints) -> None:
        """`tokens` (n,) aligns with `resolved`; `ranked` must be in the order as returned."""
        self._ranked = ranked
        starts = np.searchsorted(resolved.query, np.arange(ranked.n + 1))
        total = np.concatenate([[0], np.cumsum(tokens)])
        self.per_query = total[starts[1:]] - total[starts[:-1]]
        self._query = resolved.query
        self._spent = total[1:] - total[starts[resolved.query]]

    def recall(self, budget: int) -> tuple[Values, np.ndarray]:
        """Recall of the longest prefix that costs at most `budget` tokens, and whether the ranking
        ended before the budget was spent (a deeper one might have found more); each (n,)."""
        fits = self._spent <= budget
        cut = np.bincount(self._query[fits], minlength=self._ranked.n)
        ended = (cut == self._ranked.returned) & (self.per_query < budget)
        return Metric("recall")(self._ranked, cut), ended

    def tokens_at(self, k: int, resolved: Resolved) -> Ints:
        """Tokens of each query's top k; shape (n,)."""
        inside = resolved.rank <= k
        spent = np.zeros(self._ranked.n, np.int64)
        np.maximum.at(spent, self._query[inside], self._spent[inside])
        return spent


def token_summary(tokens: Ints) -> dict[str, float | None]:
    """Mean and percentiles over n queries."""
    if len(tokens) == 0:
        return {"n": 0, "mean": None, "p50": None, "p95": None}
    p50, p95 = np.percentile(tokens, [50, 95])
    found = mean(tokens.astype(float))
    return {"n": len(tokens), "mean": found, "p50": float(p50), "p95": float(p95)}
