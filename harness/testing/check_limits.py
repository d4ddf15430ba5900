"""Counts and limits the calls that `harness check` makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from harness.errors import UsageError
from harness.retrievers import calls
from harness.retrievers.contract import Corpus, Found, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runs.usage import (
    Budget,
    BudgetExceededError,
    Prices,
    add_counts,
    cost_usd,
    counts_in,
    unpriced_models,
)
from harness.runs.worker_state import plain_report


@dataclass(frozen=True)
class CheckLimits:
    """Limits of the checks of a retriever: US dollars by `prices`, and documents plus questions."""

    max_usd: float | None = None
    max_calls: int | None = None
    prices: Prices = field(default_factory=dict)


class CheckMeter:
    """Counts the documents and questions of all retrievers of a check, and stops at a limit."""

    def __init__(self, limits: CheckLimits) -> None:
        """Raises UsageError for limits that are not positive."""
        if limits.max_calls is not None and limits.max_calls < 1:
            raise UsageError(f"--max-calls must be 1 or more, not {limits.max_calls}")
        self._limits, self._budget = limits, Budget(limits.max_usd)
        self._retrievers: list[Any] = []
        self._lock = Lock()
        self._under_way, self._max_step = 0, 0.0
        self.documents = self.haystacks = self.questions = 0

    def metered(self, retriever: Any) -> Any:
        """Returns the retriever with counted calls.

        Raises UsageError if it cannot report what it has used and there is a limit on that.
        """
        if self._limits.max_usd is not None and not callable(getattr(retriever, "report", None)):
            raise UsageError(
                "--max-usd cannot be kept: the system has no report() that says what it has used; "
                "--max-calls needs none"
            )
        self._retrievers.append(retriever)
        return _MeteredRetriever(retriever, self)

    def begin(self, documents: int, questions: int) -> None:
        """Counts a call. Raises BudgetExceededError if it may exceed a limit."""
        with self._lock:
            limit = self._limits.max_calls
            count = self.documents + self.questions
            if limit is not None and count + documents + questions > limit:
                raise BudgetExceededError(
                    f"--max-calls {limit}: {self.documents} documents were indexed and "
                    f"{self.questions} questions asked; the checks that are left were not made"
                )
            self._budget.require(self._max_step * (self._under_way + 1), 0.0)
            self.documents, self.questions = self.documents + documents, self.questions + questions
            self._under_way += 1

    def end(self) -> None:
        """Adds the cost of a call, if there is a limit. Raises BudgetExceededError without one."""
        with self._lock:
            self._under_way -= 1
            if self._limits.max_usd is None:
                return
            counts = add_counts(counts_in(plain_report(one.report)) for one in self._retrievers)
            spent = cost_usd(counts, self._limits.prices)
            if spent is None and any(counts.values()):
                lacking = unpriced_models(counts, self._limits.prices) or "calls have no price"
                raise BudgetExceededError(f"--max-usd cannot be kept: {lacking}")
            self._max_step = max(self._max_step, (spent or 0.0) - self._budget.spent)
            self._budget.spent = spent or 0.0


class _MeteredRetriever:
    """A retriever whose calls are counted; everything else is its own."""

    ready = None  # `index` waits for it

    def __init__(self, retriever: Any, meter: CheckMeter) -> None:
        self.unmetered, self._meter = retriever, meter
        self.thread_safe = calls.is_concurrent(retriever)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unmetered, name)

    def index(self, corpus: Corpus) -> None:
        """Counts and indexes a corpus."""
        self._meter.begin(len(corpus), 0)
        self._meter.haystacks += 1
        try:
            calls.index(self.unmetered, corpus)
        finally:
            self._meter.end()

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """Counts and answers questions."""
        self._meter.begin(0, len(queries))
        try:
            return calls.search(self.unmetered, queries, k)
        finally:
            self._meter.end()


@dataclass(frozen=True)
class MeteredSpec(RetrieverSpec):
    """Builds retrievers with counted calls, of a spec or of a class without parameters."""

    spec: Any = None
    meter: Any = None

    def build(self, seed: int = 0) -> Any:
        """Builds a retriever with counted calls. Raises as `RetrieverSpec.build` does."""
        built = self.spec.build(seed) if isinstance(self.spec, RetrieverSpec) else self.spec()
        return self.meter.metered(built)
