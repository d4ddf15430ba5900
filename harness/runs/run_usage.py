"""Usage and cost of a run so far: shown beside its progress, and checked against its budget."""

from __future__ import annotations

from collections.abc import Sequence

from harness.runs.budget import Budget, BudgetExceededError
from harness.runs.money import Counts, total, totals, usd, without_price
from harness.runs.results import WorkItem, WorkResult
from harness.runs.settings import Settings


class RunUsage:
    """Sums the usage of a run, earlier attempts included, and stops it at its spending limit."""

    def __init__(
        self, settings: Settings, done: Sequence[WorkResult], rest: Sequence[WorkItem], workers: int
    ) -> None:
        """`done`: results of earlier attempts; `rest`: the items left, for so many workers."""
        self._budget, self._prices = Budget(settings.max_usd), settings.prices
        self._workers = workers
        self._by_account: dict[int, Counts] = {}
        self._max_ingest = self._max_step = 0.0
        self._partial: dict[int, float] = {}  # cost of an unfinished ingestion, by account
        self._answered = False
        self._haystacks = {item.haystack for item in rest}
        self._queries = sum(len(item.queries) for item in rest)
        for result in done:
            self._count(result)
        self._check(ingests=True)

    def add(self, result: WorkResult) -> str:
        """Adds a result and returns the text beside the progress bar.

        Raises BudgetExceededError if a step as expensive as the most expensive one so far (the
        ingestion of a haystack, or the searches between two reports) would exceed the limit, and
        if the cost is unknown. The cost of the first step cannot be predicted.
        """
        self._count(result)
        self._haystacks.discard(result.haystack)
        self._queries -= len(result.queries)
        self._answered = self._answered or any(answer.error is None for answer in result.queries)
        self._check(ingests=result.complete and bool(self._haystacks))
        return self._progress(result)

    def _count(self, result: WorkResult) -> None:
        if result.usage is None:
            return
        before = self._budget.spent
        self._by_account[result.account] = result.usage
        self._budget.spent = usd(total(self._by_account.values()), self._prices) or 0.0
        ingested = usd(result.ingestion_usage or {}, self._prices) or 0.0
        if result.index_seconds is not None:  # the rest was searched
            self._max_ingest = max(self._max_ingest, ingested)
            before += ingested - self._partial.pop(result.account, 0.0)
        elif result.ingestion_usage:
            self._partial[result.account] = ingested
        self._max_step = max(self._max_step, self._budget.spent - before)

    def _check(self, ingests: bool) -> None:
        """Checks the budget; `ingests` tells whether a haystack will be ingested next."""
        if self._budget.limit is None or not self._by_account or self._queries <= 0:
            return
        counts = total(self._by_account.values())
        if lacking := without_price(counts, self._prices):
            raise BudgetExceededError(
                f"--max-usd cannot be kept: {lacking[0]} have no price; see --prices"
            )
        silent = not counts or (any(counts.values()) and usd(counts, self._prices) is None)
        if silent and self._answered:
            raise BudgetExceededError(
                "--max-usd cannot be kept: the system reports neither usd nor tokens; see report()"
            )
        step = max(self._max_step, self._max_ingest) if ingests else self._max_step
        self._budget.require(step * self._workers)

    def _progress(self, result: WorkResult) -> str:
        """Describes the haystack that is being ingested, calls, tokens and dollars so far."""
        parts = []
        if result.indexed is not None:
            parts.append(f"{result.indexed:,} of {result.documents:,} documents handed over")
        counts = total(self._by_account.values())
        dollars = usd(counts, self._prices)
        parts += [
            f"{n:,.0f} {name.replace('_', ' ')}"
            for name, n in totals(counts).items()
            if n and name != "usd"
        ]
        if dollars is not None:
            parts.append(f"{dollars:.2f} USD" if dollars >= 1 else f"{dollars:.4f} USD")
        return ", ".join(parts)
