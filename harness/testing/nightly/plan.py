"""The `[nightly]` table of a list of runs, and what the list calls its datasets and systems.

[nightly]
history = "results/nightly"    # folder of history and summary; default: `out`; false: neither
max_drop = 0.02                # a main metric that falls by more, and significantly, fails it:
                               # status 1; 2 where no drop could have been shown, as at a gate
alpha = 0.05                   # for all tests of a night together (Holm)
over = "auto"                  # what is independent: haystacks, queries, auto
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near

_OVER = ("auto", "haystacks", "queries")
_NOT_SHOWN = {"name", "only", "dataset", "retriever"}
_PLAIN = ("granularity", "text", "split", "source")
_HEXADECIMAL = set("0123456789abcdef")


@dataclass(frozen=True)
class Plan:
    """`folder` holds history and summary; `max_drop` None: no drop fails the list."""

    folder: Path
    max_drop: float | None = None
    alpha: float = 0.05
    over: str = "auto"


def read_plan(file: Path, table: Any, out: str) -> Plan | None:
    """What the table of a config says; `out` is the folder of the runs. None: no history is kept.

    Raises UsageError for unknown keys and values of the wrong kind.
    """
    if not isinstance(table, dict):
        raise UsageError(f"--config {file}: nightly must be a table: [nightly]")
    known = ("history", "max_drop", "alpha", "over")
    for key in table:
        if key not in known:
            found = near(key, list(known))
            raise UsageError(f"--config {file}: unknown key {key!r} in [nightly]{found}")
    history = table.get("history", out)
    if history is not False and (not isinstance(history, str) or not history):
        raise UsageError(
            f"--config {file}: history must be a folder, or false for none, not {history!r}"
        )
    if history is False and (more := [key for key in table if key != "history"]):
        raise UsageError(
            f"--config {file}: {more[0]} in [nightly] is of what changed since the last time, "
            "which history = false does not keep; leave one of them out"
        )
    over = table.get("over", "auto")
    if over not in _OVER:
        raise UsageError(f"--config {file}: over must be {', '.join(_OVER)}, not {over!r}")
    max_drop = table.get("max_drop")
    plan = Plan(
        Path(history or out),
        None if max_drop is None else _between(file, "max_drop", max_drop, closed=True),
        _between(file, "alpha", table.get("alpha", 0.05), closed=False),
        over,
    )
    return None if history is False else plan


def _between(file: Path, name: str, value: Any, *, closed: bool) -> float:
    """A number from 0 to below 1; `closed` allows 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value) or not (0 <= value < 1) or (value == 0 and not closed):
        least = "from 0" if closed else "above 0"
        raise UsageError(
            f"--config {file}: {name} must be a number {least} to below 1, not {value!r}"
        )
    return float(value)


# -- Names that stay the same from night to night --------------------------------------------------


def labels(tables: Sequence[Mapping[str, Any]], bases: Sequence[str]) -> list[str]:
    """A label for each table of a list: its own `name`, else its base (`locomo`, `bm25`).

    Where tables share a base, the options that differ between them are added: `locomo session`,
    `bm25 k1=0.9`. So a label depends on no place in the list, and a parameter that is changed in
    a list without such twins leaves the label, and with it the line over time, as it was.
    """
    found = []
    for table, base in zip(tables, bases, strict=True):
        if table.get("name"):
            found.append(str(table["name"]))
            continue
        twins = [
            _flat(other)
            for other, name in zip(tables, bases, strict=True)
            if name == base and not other.get("name")
        ]
        mine = _flat(table)
        more = [
            text for key, text in mine.items() if any(other.get(key) != text for other in twins)
        ]
        found.append(" ".join([base, *more]))
    return found


def _flat(table: Mapping[str, Any]) -> dict[str, str]:
    """The options of a table, each as it is shown in a label."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in _NOT_SHOWN:
            continue
        if isinstance(value, Mapping):
            flat |= {f"{name}.{k}": f"{k}={plain(v)}" for k, v in value.items()}
        else:
            flat[name] = plain(value) if name in _PLAIN else f"{name}={plain(value)}"
    return flat


def plain(value: Any) -> str:
    """A setting as short text: files without their folders, digests by their first digits."""
    text = "-" if value is None else str(value)
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return f"{Path(file).name}:{name}"
    if text.startswith(("/", "~/", "./", "../")) or text[1:3] in (":\\", ":/"):
        return text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if len(text) in (40, 64) and set(text) <= _HEXADECIMAL:
        return text[:8]
    return text if len(text) <= 80 else f"{text[:77]}..."
