"""What a system or a model has used, what that costs by prices, and a limit of what may be spent.

Counts are numbers by name: `calls`, `prompt_tokens`, `completion_tokens`, `embedded_tokens`, `usd`.
What a model was asked for is `prompt_tokens@MODEL`; what is in `usd` already is `prompt_tokens@`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from threading import Condition
from typing import Any

from harness.errors import RunError, UsageError, near
from harness.records.run import Usage
from harness.runs.results import WorkItem, WorkResult

USED = ("calls", "prompt_tokens", "completion_tokens", "embedded_tokens")
"""What is used and may have a price."""

COUNTS = (*USED, "usd")
"""What a system's `report()` may count since its start; see Retriever."""

Counts = dict[str, float]
Prices = Mapping[str, Mapping[str, float]]
"""US dollars a million of each of USED, by model; `*` is any other, and where none is named."""

MODEL_PRICES: Prices = {
    "gpt-4o": {"prompt_tokens": 2.5, "completion_tokens": 10.0},
    "gpt-4o-2024-08-06": {"prompt_tokens": 2.5, "completion_tokens": 10.0},
    "gpt-4o-2024-11-20": {"prompt_tokens": 2.5, "completion_tokens": 10.0},
    "gpt-4o-mini": {"prompt_tokens": 0.15, "completion_tokens": 0.6},
    "gpt-4o-mini-2024-07-18": {"prompt_tokens": 0.15, "completion_tokens": 0.6},
    "gpt-4.1": {"prompt_tokens": 2.0, "completion_tokens": 8.0},
    "gpt-4.1-mini": {"prompt_tokens": 0.4, "completion_tokens": 1.6},
    "gpt-4.1-nano": {"prompt_tokens": 0.1, "completion_tokens": 0.4},
    "gpt-3.5-turbo": {"prompt_tokens": 0.5, "completion_tokens": 1.5},
}
"""Prices that OpenAI listed in 2025. Prices change; `--prices` overrides them."""

_MILLION = 1_000_000


def counts_in(report: Any) -> Counts:
    """Return the counts in a report, of systems that stand inside another too."""
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
    """Return the sum of counts."""
    found: Counts = {}
    for part in parts:
        for name, n in part.items():
            found[name] = found.get(name, 0) + n
    return found


def usage_delta(after: Counts, before: Counts) -> Counts:
    """Return by how much counts rose."""
    return {name: n - before.get(name, 0) for name, n in after.items()}


def counts_by_name(counts: Counts) -> Counts:
    """Return counts without the models: calls, tokens and dollars, in that order."""
    found = add_counts({name.partition("@")[0]: n} for name, n in counts.items())
    return {name: found[name] for name in COUNTS if name in found}


def cost_usd(counts: Counts, prices: Prices) -> float | None:
    """Return US dollars: what the system says, and the priced rest.

    None where nothing says, or tokens of some model have no price; calls need none.
    """
    found, known = counts.get("usd", 0.0), "usd" in counts
    for name, n in counts.items():
        price = _price(name, prices)
        if price is not None:
            found, known = found + n * price / _MILLION, True
    return found if known and not without_price(counts, prices) else None


def without_price(counts: Counts, prices: Prices) -> list[str]:
    """Return tokens that were used and have no price, as `prompt_tokens of MODEL`."""
    return [
        name.replace("@", " of ")
        for name, n in counts.items()
        if n and "tokens" in name and not name.endswith("@") and _price(name, prices) is None
    ]


def _price(name: str, prices: Prices) -> float | None:
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
    """Summarises counts: sums, dollars where they are known, and the counts of each model."""
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
    """Return a table of prices. Raises UsageError for what is none; `where` says which table it
    is."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table of models")
    for model, prices in table.items():
        if not isinstance(prices, Mapping):
            raise UsageError(f'{where}: give each model a table: [prices."{model}"]')
        for what, price in prices.items():
            if what not in USED:
                raise UsageError(f"{where}: {model} has no {what!r}{near(what, list(USED))}")
            number = isinstance(price, int | float) and not isinstance(price, bool)
            if not (number and isfinite(price) and price >= 0):
                raise UsageError(
                    f"{where}: {what} of {model} must be US dollars a million, not {price!r}"
                )
    return dict(table)


def with_model_prices(prices: Prices) -> Prices:
    """Return the prices, with those of MODEL_PRICES for models that they do not name."""
    return {**MODEL_PRICES, **prices}


def tokens_usd(model: str, prompt: int, completion: int, prices: Prices) -> float | None:
    """Return what tokens of a model cost in US dollars; None if one of the two has no price."""
    of_prompt = _price(f"prompt_tokens@{model}", prices)
    of_completion = _price(f"completion_tokens@{model}", prices)
    if of_prompt is None or of_completion is None:
        return None
    return (prompt * of_prompt + completion * of_completion) / _MILLION


class BudgetExceededError(RunError):
    """Raised when the spending limit is reached."""


class Budget:
    """Keeps spending below a limit, concurrent calls included; safe for threads.

    A caller reserves the most that a call can cost before the call, and settles what it did cost
    afterwards.
    """

    def __init__(self, limit: float | None) -> None:
        """`limit`: US dollars, None for no limit. Raises UsageError if it is not positive."""
        if limit is not None and not limit > 0:
            raise UsageError(f"--max-usd must be above 0, not {limit:g}")
        self.limit = limit
        self.spent = 0.0
        self._reserved = 0.0
        self._open = 0  # reservations; their sum in floats need not return to 0
        self._changed = Condition()
        self._exhausted = False

    def require(self, upcoming: float) -> None:
        """Raises BudgetExceededError if `upcoming` US dollars more would exceed the limit."""
        if self._exceeded_by(upcoming):
            raise self._error(upcoming)

    def reserve(self, amount: float) -> None:
        """Reserves an amount, waiting for open reservations to settle where necessary.

        Raises BudgetExceededError if the amount is too high even without them; afterwards every
        other amount is refused as well.
        """
        with self._changed:
            while self._exceeded_by(self._reserved + amount):
                if self._exhausted or not self._open:
                    self._exhausted = True
                    self._changed.notify_all()
                    raise self._error(amount)
                self._changed.wait()
            self._reserved += amount
            self._open += 1

    def settle(self, reserved: float, cost: float) -> None:
        """Replaces a reservation by the real cost."""
        with self._changed:
            self._open -= 1
            self._reserved = self._reserved - reserved if self._open else 0.0
            self.spent += cost
            self._changed.notify_all()

    def _exceeded_by(self, upcoming: float) -> bool:
        return self.limit is not None and self.spent + upcoming > self.limit

    def _error(self, upcoming: float) -> BudgetExceededError:
        return BudgetExceededError(
            f"--max-usd {self.limit:g}: {self.spent:.4f} USD are spent, and the next step may cost "
            f"{upcoming:.4f}"
        )


class RunUsage:
    """Sums the usage of a run, earlier attempts included, and stops it at its spending limit."""

    def __init__(
        self,
        budget: Budget,
        prices: Prices,
        done: Sequence[WorkResult],
        rest: Sequence[WorkItem],
        workers: int,
    ) -> None:
        """`done`: results of earlier attempts; `rest`: the items left, for so many workers."""
        self._budget, self._prices = budget, prices
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
        self._budget.spent = cost_usd(add_counts(self._by_account.values()), self._prices) or 0.0
        ingested = cost_usd(result.ingestion_usage or {}, self._prices) or 0.0
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
        counts = add_counts(self._by_account.values())
        if lacking := without_price(counts, self._prices):
            raise BudgetExceededError(
                f"--max-usd cannot be kept: {lacking[0]} have no price; see --prices"
            )
        silent = not counts or (any(counts.values()) and cost_usd(counts, self._prices) is None)
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
        counts = add_counts(self._by_account.values())
        dollars = cost_usd(counts, self._prices)
        parts += [
            f"{n:,.0f} {name.replace('_', ' ')}"
            for name, n in counts_by_name(counts).items()
            if n and name != "usd"
        ]
        if dollars is not None:
            parts.append(f"{dollars:.2f} USD" if dollars >= 1 else f"{dollars:.4f} USD")
        return ", ".join(parts)
