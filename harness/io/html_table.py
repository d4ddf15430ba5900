"""HTML tables of results, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Protocol


class Ends(Protocol):
    """The ends of an interval."""

    @property
    def low(self) -> float:
        """The lower end."""

    @property
    def high(self) -> float:
        """The upper end."""


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; texts are escaped."""

    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead>{row('th', head)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )


def with_interval(value: float | None, ends: Ends | None = None) -> str:
    """Formats a number with its interval: `0.549 [0.494, 0.604]`."""
    if value is None or value != value:
        return "-"
    return f"{value:.3f} [{ends.low:.3f}, {ends.high:.3f}]" if ends else f"{value:.3f}"
