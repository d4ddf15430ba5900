"""Labels of the datasets and systems of a suite, which are stable between nightly runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_NOT_SHOWN = {"name", "only", "dataset", "retriever"}
_PLAIN = ("granularity", "text", "split", "source")
_HEXADECIMAL = set("0123456789abcdef")


def labels(tables: Sequence[Mapping[str, object]], bases: Sequence[str]) -> list[str]:
    """Returns a label for each table of a suite: its `name`, else its base (`locomo`, `bm25`).

    If tables share a base, the options that differ are added: `locomo session`, `bm25 k1=0.9`. So
    labels do not depend on the order of the tables, and a parameter change in a table with a unique
    base keeps the label and its line in the history.
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
    """Returns the options of a table by name, each as it is shown in a label."""
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
    """Formats a setting as short text: files without folders, digests by their first digits."""
    text = "-" if value is None else str(value)
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return f"{Path(file).name}:{name}"
    if text.startswith(("/", "~/", "./", "../")) or text[1:3] in (":\\", ":/"):
        return text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if len(text) in (40, 64) and set(text) <= _HEXADECIMAL:
        return text[:8]
    return text if len(text) <= 80 else f"{text[:77]}..."
