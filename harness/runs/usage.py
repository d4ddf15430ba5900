"""Usage of systems and models, its cost, and the spending limit of a run.

Counts are numbers by name: `calls`, `prompt_tokens`, `completion_tokens`, `embedded_tokens`, `usd`.
Counts of a model are `prompt_tokens@MODEL`; those that `usd` already includes are `prompt_tokens@`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from harness.errors import RunError, UsageError, suggest
from harness.records.run import Usage
from harness.runs.results import WorkItem, WorkResult

USED = ("calls", "prompt_tokens", "completion_tokens", "embedded_tokens")
"""Counts that can have a price."""

SILENT = "calls_without_usage"
"""Number of calls without reported usage, whose cost is unknown."""

COUNTS = (*USED, SILENT, "usd")
"""Counts that a system's `report()` may contain, since its start; see Capabilities."""

Counts = dict[str, float]
Prices = Mapping[str, Mapping[str, float]]
"""US dollars per million of each count in USED, by model; `*` is for other and unnamed models."""

TOKENS_A_PRICE = 1_000_000
"""Prices are for a million tokens."""


def counts_in(report: Any) -> Counts:
    """Returns the counts in a report, nested systems included."""
    if isinstance(report, list):
        return add_counts(map(counts_in, report))
    if not isinstance(report, Mapping):
        return {}
    own = _own_counts(report)
    if not own and not isinstance(report.get("models"), Mapping):
        return add_counts(map(counts_in, report.values()))
    if "usd" in own:
        return {name if name == "usd" else f"{name}@": n for name, n in own.items()}
    by_model = {
        f"{name}@{model}": n
        for model, used in (report.get("models") or {}).items()
        for name, n in _own_counts(used).items()
        if name in USED
    }
    named = counts_by_name(by_model)
    rest = {name: n - named.get(name, 0) for name, n in own.items()}
    return {**by_model, **{name: n for name, n in rest.items() if n > 0 or name not in named}}


def add_counts(parts: Iterable[Counts]) -> Counts:
    """Returns the sum of counts."""
    found: Counts = {}
    for part in parts:
        for name, n in part.items():
            found[name] = found.get(name, 0) + n
    return found


def usage_delta(after: Counts, before: Counts) -> Counts:
    """Returns the increase of each count; a count that fell was reset to 0."""
    was = {name: before.get(name, 0) for name in after}
    return {name: n - was[name] if n >= was[name] else n for name, n in after.items()}


def counts_by_name(counts: Counts) -> Counts:
    """Returns counts without the models: calls, tokens and dollars, in that order."""
    found = add_counts({name.partition("@")[0]: n} for name, n in counts.items())
    return {name: found[name] for name in COUNTS if name in found}


def cost_usd(counts: Counts, prices: Prices) -> float | None:
    """Returns the cost in US dollars: reported dollars, and priced counts; calls need no price.

    None if no cost is known, if calls have no usage, or if tokens of a model have no price.
    """
    found, known = counts.get("usd", 0.0), "usd" in counts
    for name, n in counts.items():
        price = price_of(name, prices)
        if price is not None:
            found, known = found + n * price / TOKENS_A_PRICE, True
    return found if known and not unpriced_models(counts, prices) else None


def format_usd(dollars: float) -> str:
    """Formats US dollars: with cents from 10 dollars on, below that with four digits."""
    return f"{dollars:,.2f}" if dollars >= 10 or not dollars else f"{dollars:.4g}"


def unpriced_models(counts: Counts, prices: Prices) -> str:
    """Describes usage without a known price: `prompt_tokens of MODEL have no price`, or ""."""
    for name, n in counts.items():
        if n and name == SILENT:
            return f"{n:,.0f} calls did not report what they used"
        if n and "tokens" in name and not name.endswith("@") and price_of(name, prices) is None:
            return f"{name.replace('@', ' of ')} have no price; see --prices"
    return ""


def price_of(name: str, prices: Prices) -> float | None:
    """Returns the price of a count, such as `prompt_tokens@MODEL`; None without one."""
    what, _, model = name.partition("@")
    if name.endswith("@") or what not in USED:
        return None
    return prices.get(model, prices.get("*", {})).get(what)


def _own_counts(values: Any) -> Counts:
    if not isinstance(values, Mapping):
        return {}
    kinds = (int, float)
    return {
        name: values[name]
        for name in COUNTS
        if isinstance(values.get(name), kinds) and isfinite(values[name])
    }


def usage_record(counts: Counts, prices: Prices) -> Usage | None:
    """Summarises counts: sums, dollars if known, and the counts of each model."""
    if not counts:
        return None
    models: dict[str, Counts] = {}
    for name, n in counts.items():
        what, _, model = name.partition("@")
        if model and n:
            models.setdefault(model, {})[what] = n
    sums = {name: n for name, n in counts_by_name(counts).items() if name != "usd"}
    return Usage(**sums, usd=cost_usd(counts, prices), models=models)


def checked_prices(table: Any, where: str) -> Prices:
    """Returns a table of prices. Raises UsageError, which names `where`, for an invalid one."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table of models")
    for model, prices in table.items():
        if not isinstance(prices, Mapping):
            raise UsageError(f'{where}: give each model a table: [prices."{model}"]')
        for what, price in prices.items():
            if what not in USED:
                raise UsageError(f"{where}: {model} has no {what!r}{suggest(what, list(USED))}")
            number = isinstance(price, int | float) and not isinstance(price, bool)
            if not (number and isfinite(price) and price >= 0):
                raise UsageError(
                    f"{where}: {what} of {model} must be US dollars a million, not {price!r}"
                )
    return dict(table)


class BudgetExceededError(RunError):
    """Raised when the spending limit is reached."""


class Budget:
    """Stops before more is spent than a limit."""

    def __init__(self, limit: float | None) -> None:
        """`limit`: US dollars, None for no limit. Raises UsageError if it is not positive."""
        if limit is not None and not limit > 0:
            raise UsageError(f"--max-usd must be above 0, not {limit:g}")
        self.limit = limit
        self.spent = 0.0

    def require(self, upcoming: float, unknown: float) -> None:
        """Raises BudgetExceededError if `upcoming` US dollars would exceed the limit, given that
        `unknown` more may have been spent already."""
        if self.exceeded_by(upcoming + unknown):
            raise self.error(upcoming, unknown)

    def exceeded_by(self, upcoming: float) -> bool:
        """Tests whether this many more US dollars would exceed the limit."""
        return self.limit is not None and self.spent + upcoming > self.limit

    def error(self, upcoming: float, unknown: float = 0.0) -> BudgetExceededError:
        """Returns the error of a step that may cost `upcoming` US dollars."""
        lost = f", steps that were cut off may have cost {unknown:.4f}" if unknown else ""
        return BudgetExceededError(
            f"--max-usd {self.limit:g}: {self.spent:.4f} USD are spent{lost}, and the next step "
            f"may cost {upcoming:.4f}"
        )


class RunUsage:
    """Sums the usage of a run, earlier attempts included, and stops it at its spending limit."""

    def __init__(
        self,
        budget: Budget,
        prices: Prices,
        done: Sequence[WorkResult],
        rest: Sequence[WorkItem],
        at_once: tuple[int, int],
        cut_off: int,
    ) -> None:
        """`done`: results of earlier attempts; `cut_off`: steps under way when those ended; `rest`:
        the remaining items; `at_once`: workers, and calls in each of them."""
        self._budget, self._prices = budget, prices
        self._workers, concurrency = at_once
        self.alone = at_once == (1, 1)
        self._items = len(rest)
        # Calls under way in each process while others are reported.
        self._under_way = concurrency if concurrency > 1 else 0
        self._searches, self._searched = 0.0, 0  # cost and number of questions
        self._cut_off = cut_off
        self._counts: Counts | None = None  # None: no report so far
        self._max_ingest = self._max_step = self._max_rise = 0.0
        self._partial: dict[int, float] = {}  # cost of an unfinished ingestion, by process
        self._answered = False
        self._haystacks = {item.haystack for item in rest}
        self._queries = sum(len(item.queries) for item in rest)
        for result in done:
            self._count(result)
        self._check(ingests=True)

    @property
    def steps(self) -> int:
        """Number of workers that may have a step under way, at most 255."""
        return min(self._workers, self._items, 255)

    def add(self, result: WorkResult) -> str:
        """Adds a result and returns the text of the progress bar.

        Raises BudgetExceededError if a step as expensive as the most expensive one so far (the
        ingestion of a haystack, or the searches between two reports) would exceed the limit, and if
        the cost is unknown. The cost of the first step cannot be predicted.
        """
        self._count(result)
        self._haystacks.discard(result.haystack)
        self._items -= result.complete
        self._queries -= len(result.queries)
        self._answered = self._answered or any(answer.error is None for answer in result.queries)
        self._check(ingests=result.complete and bool(self._haystacks))
        return self._progress(result)

    def _count(self, result: WorkResult) -> None:
        parts = [one for one in (result.ingestion_usage, result.usage) if one is not None]
        if parts:
            self._counts = add_counts([self._counts or {}, *parts])
            self._budget.spent = cost_usd(self._counts, self._prices) or 0.0
        ingested = cost_usd(result.ingestion_usage or {}, self._prices) or 0.0
        step = cost_usd(result.usage or {}, self._prices) or 0.0
        self._max_rise = max(self._max_rise, ingested + step)
        self._searches += step if result.queries else 0.0  # else its answers were discarded
        self._searched += len(result.queries)
        haystack = self._partial.pop(result.process, 0.0) + ingested
        self._max_ingest = max(self._max_ingest, haystack)
        if result.indexed is not None:
            self._partial[result.process], step = haystack, ingested
        self._max_step = max(self._max_step, step)

    def _check(self, ingests: bool) -> None:
        """Checks the budget; `ingests`: a haystack will be ingested next."""
        counts = self._counts
        if self._budget.limit is None or counts is None or self._queries <= 0:
            return
        lacking = unpriced_models(counts, self._prices)
        silent = not counts or (any(counts.values()) and cost_usd(counts, self._prices) is None)
        if not lacking and silent and self._answered:
            lacking = "the system reports neither usd nor tokens; see report()"
        if lacking:
            raise BudgetExceededError(f"--max-usd cannot be kept: {lacking}")
        step = max(self._max_step, self._max_ingest) if ingests else self._max_step
        step += self._under_way * self._searches / max(1, self._searched)
        self._budget.require(step * self._workers, self._max_rise * self._cut_off)

    def _progress(self, result: WorkResult) -> str:
        """Describes the haystack that is being ingested, and calls, tokens and dollars so far."""
        parts = []
        if result.indexed is not None:
            parts.append(f"{result.indexed:,} of {result.documents:,} documents handed over")
        counts = self._counts or {}
        dollars = cost_usd(counts, self._prices)
        parts += [
            f"{n:,.0f} {name.replace('_', ' ')}"
            for name, n in counts_by_name(counts).items()
            if n and name != "usd"
        ]
        if dollars is not None:
            parts.append(f"{format_usd(dollars)} USD")
        return ", ".join(parts)
