"""The `[nightly]` table of a list of runs, and what the list calls its datasets and systems.

[nightly]
history = "results/nightly"    # folder of history and summary; default: `out`; false: neither
max_drop = 0.02                # a main metric that falls by more, and significantly, fails it:
                               # status 1; 2 where no drop could have been shown, as at a gate
alpha = 0.05                   # for all tests of a night together (Holm)
cluster_by = "auto"            # what is independent: haystacks, queries, auto
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from harness.errors import UsageError
from harness.records.base import Record, convert

_NOT_SHOWN = {"name", "only", "dataset", "retriever"}
_PLAIN = ("granularity", "text", "split", "source")
_HEXADECIMAL = set("0123456789abcdef")


@dataclass(frozen=True)
class Plan:
    """`folder` holds history and summary; `max_drop` None: no drop fails the list."""

    folder: Path
    max_drop: float | None = None
    alpha: float = 0.05
    cluster_by: str = "auto"


class NightlyTable(Record):
    """The `[nightly]` table; `history` false: no history is kept, empty: in the folder of runs."""

    history: str | Literal[False] = ""
    max_drop: Annotated[float, Meta(ge=0, lt=1)] | None = None
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    cluster_by: Literal["auto", "haystacks", "queries"] = "auto"


def read_plan(file: Path, table: object, out: str) -> Plan | None:
    """Reads the table of a config; `out` is the folder of the runs. None: no history is kept.

    Raises UsageError for unknown keys and values of the wrong kind.
    """
    where = f"--config {file}: [nightly]"
    found = convert(table, NightlyTable, where)
    if found.history is not False:
        return Plan(Path(found.history or out), found.max_drop, found.alpha, found.cluster_by)
    if found != NightlyTable(history=False):
        raise UsageError(
            f"{where}: history = false keeps nothing that a last time could be compared with; "
            "leave it, or the other keys, out"
        )
    return None


# -- Names that stay the same from night to night --------------------------------------------------


def labels(tables: Sequence[Mapping[str, object]], bases: Sequence[str]) -> list[str]:
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


def _flat(table: Mapping[str, object]) -> dict[str, str]:
    """The options of a table, each as it is shown in a label."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in _NOT_SHOWN:
            continue
        if isinstance(value, Mapping):
            flat |= {f"{name}.{k}": f"{k}={short_text(v)}" for k, v in value.items()}
        else:
            flat[name] = short_text(value) if name in _PLAIN else f"{name}={short_text(value)}"
    return flat


def short_text(value: object) -> str:
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
