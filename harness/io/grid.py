"""Draws tables of text, no wider than the terminal, and counts things in words."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from harness.io.printed import visible

_NUMBER = r"[-+<]?[\d,]*\.?\d+(e-?\d+)?[%*]?"
_NUMERIC = re.compile(rf"({_NUMBER}(( to |-){_NUMBER})?|-|)")
_GAP = 2
_LEAST = 12
"""A column of text is never wrapped to less than this."""


def terminal_width() -> int | None:
    """How many characters a line may have: COLUMNS, else the terminal's width, where one reads.

    None where the output goes to a file or another program, which get every line whole.
    """
    if (said := os.environ.get("COLUMNS", "")).isdecimal() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):  # not a terminal; closed; replaced by a program
        return None


def grid(
    rows: Sequence[Sequence[Any]],
    headers: Sequence[str] = (),
    *,
    keys: int = 1,
    most: Sequence[int | None] = (),
    width: int | None = None,
    style: str = "simple",
    one_line: bool = False,
) -> str:
    """A table, its columns of numbers to the right.

    Where it is wider than `width` (default: the terminal), text is wrapped, and if that is not
    enough the columns stand in several tables below each other, each beginning with the first
    `keys` columns. `most`: the width from which a column is wrapped in any case. `style` is a
    format of tabulate's; only `simple` and `plain` are fitted. `one_line`: each line
    is cut at `width`, and nothing is wrapped.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    n = max([len(headers), *(len(row) for row in cells)], default=0)
    right = [all(_NUMERIC.fullmatch(row[at]) for row in cells if at < len(row)) for at in range(n)]
    limits = [*most, *[None] * (n - len(most))]
    columns = list(range(n))
    width = terminal_width() if width is None else width
    if one_line or width is None or style not in ("simple", "plain") or not cells:
        table = _drawn(cells, headers, columns, right, limits, style)
        return "\n".join(map(partial(_cut, width=width), table.split("\n"))) if one_line else table
    natural = [_width(cells, headers, at, limits[at]) for at in columns]
    wrapped = _wrapped(natural, right, width)
    if wrapped is None:  # several tables, where only what is too wide for one is wrapped
        room = width - sum(natural[at] + _GAP for at in range(min(keys, n)))
        most_room = [max(_LEAST, room if at >= keys else width) for at in columns]
        limits = [
            limit if right[at] or natural[at] <= most_room[at] else most_room[at]
            for at, limit in enumerate(limits)
        ]
        parts = _parts([min(natural[at], most_room[at]) for at in columns], keys, width)
    else:
        parts = [columns]
        limits = [a if b == c else b for a, b, c in zip(limits, wrapped, natural, strict=True)]
    return "\n\n".join(_drawn(cells, headers, part, right, limits, style) for part in parts)


def _cut(line: str, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    return line[: width - 3] + ("..." if line.strip("- ") else "---")


def _text(cell: Any) -> str:
    return "" if cell is None else visible(str(cell))


def _width(
    cells: Sequence[Sequence[str]], headers: Sequence[str], at: int, most: int | None
) -> int:
    texts = [row[at] for row in cells if at < len(row)]
    lines = [line for text in texts for line in text.splitlines()]
    widest = max(map(len, lines), default=0)
    head = len(headers[at]) + _GAP if at < len(headers) else 0  # as tabulate pads them
    return max(head, min(widest, most or widest))


def _wrapped(natural: Sequence[int], right: Sequence[bool], width: int) -> list[int] | None:
    """Widths that fit, the widest columns of text made narrower; None where none would do."""
    now = list(natural)
    too_wide = sum(now) + _GAP * (len(now) - 1) - width
    for _ in range(max(0, too_wide)):
        wide = [at for at in range(len(now)) if not right[at] and now[at] > _LEAST]
        if not wide:
            return None
        now[max(wide, key=lambda at: now[at])] -= 1
    return now


def _parts(widths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """Columns in as many tables as it takes, each with the key columns first."""
    first = list(range(min(keys, len(widths))))
    start = sum(widths[at] + _GAP for at in first)
    parts: list[list[int]] = [[]]
    used = start
    for at in range(len(first), len(widths)):
        if parts[-1] and used + widths[at] > width:
            parts.append([])
            used = start
        parts[-1].append(at)
        used += widths[at] + _GAP
    return [[*first, *part] for part in parts]


def _drawn(
    cells: Sequence[Sequence[str]],
    headers: Sequence[str],
    columns: Sequence[int],
    right: Sequence[bool],
    limits: Sequence[int | None],
    style: str,
) -> str:
    from tabulate import tabulate

    return str(
        tabulate(
            [[row[at] if at < len(row) else "" for at in columns] for row in cells],
            [headers[at] for at in columns] if headers else (),
            tablefmt=style,
            maxcolwidths=[limits[at] for at in columns] if any(limits) and cells else None,
            maxheadercolwidths=[limits[at] for at in columns] if any(limits) and headers else None,
            colalign=["right" if right[at] else "left" for at in columns] if cells else None,
            disable_numparse=True,
        )
    )


def digits(value: float | None) -> str:
    """Return a number with four digits after the point; "-" for None."""
    return "-" if value is None else f"{value:.4f}"


def counted(n: int, many: str) -> str:
    """Returns a number and its noun: `12 haystacks`, `1 query`."""
    return f"{n} {one_of(many) if n == 1 else many}"


def one_of(many: str) -> str:
    """Returns the singular of a plural noun."""
    return many.removesuffix("ies") + "y" if many.endswith("ies") else many.removesuffix("s")
