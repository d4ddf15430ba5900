"""What a system has used and what that costs: as it counts it itself, and by prices.

Counts are numbers by name: `calls`, `prompt_tokens`, `completion_tokens`, `embedded_tokens`, `usd`.
What a model was asked for is `prompt_tokens@MODEL`; what is in `usd` already is `prompt_tokens@`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from harness.errors import UsageError, near
from harness.records.run import Usage

USED = ("calls", "prompt_tokens", "completion_tokens", "embedded_tokens")
"""What is used and may have a price."""

COUNTS = (*USED, "usd")
"""What a system's `report()` may count since its start; see Retriever."""

Counts = dict[str, float]
Prices = Mapping[str, Mapping[str, float]]
"""US dollars a million of each of USED, by model; `*` is any other, and where none is named."""

_MILLION = 1_000_000


def counted(report: Any) -> Counts:
    """The counts in a report, of systems that stand inside another too."""
    if isinstance(report, list):
        return total(map(counted, report))
    if not isinstance(report, Mapping):
        return {}
    own = _numbers(report)
    if not own and not isinstance(report.get("models"), Mapping):
        return total(map(counted, report.values()))
    if "usd" in own:
        return {name if name == "usd" else f"{name}@": n for name, n in own.items()}
    by_model = {
        f"{name}@{model}": n
        for model, used in (report.get("models") or {}).items()
        for name, n in _numbers(used).items()
        if name in USED
    }
    named = totals(by_model)
    rest = {name: n - named.get(name, 0) for name, n in own.items()}
    return {**by_model, **{name: n for name, n in rest.items() if n > 0 or name not in named}}


def total(parts: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    found: Counts = {}
    for part in parts:
        for name, n in part.items():
            found[name] = found.get(name, 0) + n
    return found


def usage_delta(after: Counts, before: Counts) -> Counts:
    """By how much counts rose."""
    return {name: n - before.get(name, 0) for name, n in after.items()}


def totals(counts: Counts) -> Counts:
    """Without the models: calls, tokens and dollars, in that order."""
    found = total({name.partition("@")[0]: n} for name, n in counts.items())
    return {name: found[name] for name in COUNTS if name in found}


def usd(counts: Counts, prices: Prices) -> float | None:
    """US dollars: what the system says, and the priced rest.

    None where nothing says, or tokens of some model have no price; calls need none.
    """
    found, known = counts.get("usd", 0.0), "usd" in counts
    for name, n in counts.items():
        price = _price(name, prices)
        if price is not None:
            found, known = found + n * price / _MILLION, True
    return found if known and not without_price(counts, prices) else None


def without_price(counts: Counts, prices: Prices) -> list[str]:
    """Tokens that were used and have no price, as `prompt_tokens of MODEL`."""
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


def _numbers(values: Any) -> Counts:
    if not isinstance(values, Mapping):
        return {}
    kinds = (int, float)
    return {
        name: values[name]
        for name in COUNTS
        if isinstance(values.get(name), kinds) and isfinite(values[name])
    }


def usage(counts: Counts, prices: Prices) -> Usage | None:
    """Summarises counts: sums, dollars where they are known, and the counts of each model."""
    if not counts:
        return None
    models: dict[str, Counts] = {}
    for name, n in counts.items():
        what, _, model = name.partition("@")
        if model and n:
            models.setdefault(model, {})[what] = n
    sums = {name: n for name, n in totals(counts).items() if name != "usd"}
    return Usage(**sums, usd=usd(counts, prices), models=models)


def checked_prices(table: Any, where: str) -> Prices:
    """A table of prices. Raises UsageError for what is none; `where` says which table it is."""
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
