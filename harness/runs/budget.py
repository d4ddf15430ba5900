"""Tracks what a run has spent, for its progress bar and against `--max-usd`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import RunError
from harness.runs.money import Counts, total, totals, usd, without_price
from harness.runs.plan import Settings
from harness.runs.results import WorkItem, WorkResult


class BudgetExceededError(RunError):
    """Raised when the spending limit is reached."""


class Budget:
    """Adds up the usage of a run, earlier attempts included, and enforces the limit."""

    def __init__(
        self, settings: Settings, done: Sequence[WorkResult], rest: Sequence[WorkItem], workers: int
    ) -> None:
        """`done`: what came in earlier attempts; `rest`: what is left to do, by so many workers."""
        self._most, self._prices, self._workers = settings.max_usd, settings.prices, workers
        self._by_account: dict[int, Counts] = {}
        self._dearest = self._step = 0.0
        self._told: dict[int, float] = {}  # of a haystack that is being taken in
        self._answered = False
        self._to_come = {item.haystack for item in rest}
        self._left = sum(len(item.queries) for item in rest)
        for result in done:
            self._count(result)
        self._check(more=True)

    def add(self, result: WorkResult) -> str:
        """Count what came; what is to be said of it. Raises BudgetExceededError where it is enough.

        It is enough where the dearest step so far, made again, would spend more than may be: a
        haystack that is taken in whole, or what is searched between two reports. Of the first step
        nobody knows the price before. And where nobody can tell what is spent.
        """
        self._count(result)
        self._to_come.discard(result.haystack)
        self._left -= len(result.queries)
        self._answered = self._answered or any(one.error is None for one in result.queries)
        self._check(more=result.complete and bool(self._to_come))
        return self._said(result)

    def _count(self, result: WorkResult) -> None:
        if result.usage is not None:
            before = self._spent()
            self._by_account[result.account] = result.usage
            taken_in = usd(result.ingestion_usage or {}, self._prices) or 0.0
            if result.index_seconds is not None:  # the rest was searched
                self._dearest = max(self._dearest, taken_in)
                before += taken_in - self._told.pop(result.account, 0.0)
            elif result.ingestion_usage:
                self._told[result.account] = taken_in
            self._step = max(self._step, self._spent() - before)

    def _spent(self) -> float:
        """US dollars so far, of all processes and attempts."""
        return usd(total(self._by_account.values()), self._prices) or 0.0

    def _check(self, more: bool) -> None:
        if self._most is None or not self._by_account or self._left <= 0:
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
        following = self._step * self._workers
        if more:
            following = max(following, self._dearest * self._workers)
        if self._spent() + following > self._most:
            raise BudgetExceededError(
                f"--max-usd {self._most:g}: {self._spent():.4f} USD are spent, and what comes next "
                f"may cost {following:.4f}"
            )

    def _said(self, result: WorkResult) -> str:
        """Documents of the haystack that is being taken in, calls, tokens and dollars so far."""
        said = []
        if result.indexed is not None:
            said.append(f"{result.indexed:,} of {result.documents:,} documents handed over")
        counts = total(self._by_account.values())
        dollars = usd(counts, self._prices)
        said += [
            f"{n:,.0f} {name.replace('_', ' ')}"
            for name, n in totals(counts).items()
            if n and name != "usd"
        ]
        if dollars is not None:
            said.append(f"{dollars:.2f} USD" if dollars >= 1 else f"{dollars:.4f} USD")
        return ", ".join(said)
