"""Writes to a terminal: text of others made safe, secrets masked, tables no wider than its lines.

Control characters in ids, names and texts cannot move the cursor.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

from harness.io.masking import masked

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Controls but line feed and tab, line separators, turns of direction, halves of characters."""
_OURS = re.compile(r"\r|(?:\n|\x1b\[A)+\Z")
"""How tqdm begins to draw a bar again, and how it goes from one bar to another."""
_GREY = re.compile(r"(\x1b\[[02]m)")

_NUMBER = r"[-+<]?[\d,]*\.?\d+(e-?\d+)?[%*]?"
_NUMERIC = re.compile(rf"({_NUMBER}(( to |-){_NUMBER})?|-|)")
_GAP = 2
_LEAST = 12
"""A column of text is never wrapped to less than this."""

CLEARED = "\x1b[H\x1b[J"
"""What clears a terminal, for `draw`."""


def visible(text: str) -> str:
    """A text with its control characters written out, as `\\u001b`, the way JSON does.

    Line feeds and tabs stay: see `one_line`.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: object) -> str:
    """An id, a name or a title of a stranger where it is to be in one line: `visible`, wholly."""
    return visible(str(text)).replace("\n", "\\n").replace("\t", "\\t")


class Printed:
    """A stream that writes `visible` text, in which the secrets of this process are masked.

    On a terminal the codes of bars, and those of grey text, go through. Everything else is that of
    the stream that it stands before.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str, mask: Callable[[str], str] = masked) -> int:
        """Write a text; gives its length, as streams do. Where code under test has closed the
        stream, nobody is left to read it."""
        if self.stream.closed:
            return len(text)
        ours = _OURS.match(text) if self.stream.isatty() else None
        begin = "" if ours is None else ours[0]
        rest = mask(text[len(begin) :])
        if self.stream.isatty():
            parts = _GREY.split(rest)
            parts[::2] = map(visible, parts[::2])
            rest = "".join(parts)
        else:
            rest = visible(rest)
        try:
            self.stream.write(begin + rest)
        except UnicodeEncodeError as error:
            known = rest.encode(error.encoding, "backslashreplace").decode(error.encoding)
            self.stream.write(begin + known)
        except BrokenPipeError:
            self._nobody_reads()
        return len(text)

    def flush(self) -> None:
        """What is written goes out."""
        try:
            if not self.stream.closed:
                self.stream.flush()
        except BrokenPipeError:
            self._nobody_reads()

    def _nobody_reads(self) -> None:
        """`harness gate ... | head`: the command goes on, and ends with the status that it has."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())  # what is still in the buffer goes there, too
        os.close(nowhere)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def draw(code: str) -> None:
    """Write a code of ours to standard output."""
    stream = sys.stdout
    try:
        (stream.stream if isinstance(stream, Printed) else stream).write(code)
    except BrokenPipeError:
        stream.flush()


def _open_all() -> None:
    """`harness ... >&-`: what is closed leads nowhere, and is given to no file that is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - to the end


@contextmanager
def printed() -> Iterator[None]:
    """Whatever is printed in here is `Printed`."""
    _open_all()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, Printed) else Printed(stream) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


# -- Tables and numbers ------------------------------------------------------------------------


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
