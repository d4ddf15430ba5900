"""Terminal output: escapes control characters, masks secrets, and fits tables to the width.

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

from harness.io.masking import redact

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters except line feed and tab, line separators, bidi controls, surrogates."""
_OURS = re.compile(r"\r|(?:\n|\x1b\[A)+\Z")
"""Codes by which tqdm redraws a bar or moves to another one."""
_GREY = re.compile(r"(\x1b\[[02]m)")

_NUMBER = r"[-+<]?[\d,]*\.?\d+(e-?\d+)?[%*]?"
_NUMERIC = re.compile(rf"({_NUMBER}(( to |-){_NUMBER})?|-|)")
_UNBROKEN = re.compile(rf"{_NUMERIC.pattern}|\[[^]]*\]")
_GAP = 2
_LEAST = 12
"""Minimum width of a wrapped text column."""

CLEARED = "\x1b[H\x1b[J"
"""Code that clears the terminal, for `draw`."""


def visible(text: str) -> str:
    """Escapes the control characters of a text as JSON does, for example `\\u001b`.

    Keeps line feeds and tabs; see `one_line`.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: object) -> str:
    """Escapes all control characters of a third-party id, name or title."""
    return visible(str(text)).replace("\n", "\\n").replace("\t", "\\t")


class SafeStream:
    """A stream that writes `visible` text with the secrets of this process masked.

    On a terminal, the codes of progress bars and grey text are kept. All other attributes are those
    of the wrapped stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str, mask: Callable[[str], str] = redact) -> int:
        """Writes a text and returns its length. Discards it if code under test has closed the
        stream."""
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
        """Flushes the stream."""
        try:
            if not self.stream.closed:
                self.stream.flush()
        except BrokenPipeError:
            self._nobody_reads()

    def _nobody_reads(self) -> None:
        """Discards further output (`harness gate ... | head`), keeping the exit status."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())  # also takes the rest of the buffer
        os.close(nowhere)

    def writelines(self, lines: Any) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def draw(code: str) -> None:
    """Writes a terminal code of the harness to standard output."""
    stream = sys.stdout
    try:
        (stream.stream if isinstance(stream, SafeStream) else stream).write(code)
    except BrokenPipeError:
        stream.flush()


def _open_all() -> None:
    """Opens closed standard streams on /dev/null, so that no other file gets their numbers."""
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
def safe_output() -> Iterator[None]:
    """Wraps standard output and standard error in `Printed`."""
    _open_all()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if isinstance(stream, SafeStream) else SafeStream(stream) for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


# -- Tables and numbers ------------------------------------------------------------------------


def terminal_width() -> int | None:
    """Returns the maximum characters of a line: COLUMNS, else the terminal's width.

    Returns None if the output goes to a file or another program, so that no line is cut.
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
    """Formats a table with right-aligned columns of numbers.

    If it is wider than `width` (default: the terminal), texts are wrapped, but no intervals; if
    that is not enough, it is split into tables that each begin with the first `keys` columns.
    `most`: the width at which a column is always wrapped. `style` is a tabulate format; only
    `simple` and `plain` are fitted. `one_line`: cuts each line at `width` instead of wrapping.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    n = max([len(headers), *(len(row) for row in cells)], default=0)
    right, unbroken = (
        [all(kind.fullmatch(row[at]) for row in cells if at < len(row)) for at in range(n)]
        for kind in (_NUMERIC, _UNBROKEN)
    )
    limits = [*most, *[None] * (n - len(most))]
    columns = list(range(n))
    width = terminal_width() if width is None else width
    if one_line or width is None or style not in ("simple", "plain") or not cells:
        table = _drawn(cells, headers, columns, right, limits, style)
        return "\n".join(map(partial(_cut, width=width), table.split("\n"))) if one_line else table
    natural = [_width(cells, headers, at, limits[at]) for at in columns]
    wrapped = _wrapped(natural, unbroken, width)
    if wrapped is None:  # several tables; only columns too wide for one are wrapped
        room = width - sum(natural[at] + _GAP for at in range(min(keys, n)))
        most_room = [max(_LEAST, room if at >= keys else width) for at in columns]
        limits = [
            limit if unbroken[at] or natural[at] <= most_room[at] else most_room[at]
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


def _wrapped(natural: Sequence[int], unbroken: Sequence[bool], width: int) -> list[int] | None:
    """Narrows the widest text columns until the table fits; None if that is impossible."""
    now = list(natural)
    too_wide = sum(now) + _GAP * (len(now) - 1) - width
    for _ in range(max(0, too_wide)):
        wide = [at for at in range(len(now)) if not unbroken[at] and now[at] > _LEAST]
        if not wide:
            return None
        now[max(wide, key=lambda at: now[at])] -= 1
    return now


def _parts(widths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """Splits columns into as many tables as needed, each with the key columns first."""
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
    """Formats a number with four decimals; "-" for None."""
    return "-" if value is None else f"{value:.4f}"


def count_of(n: int, many: str) -> str:
    """Returns a number and its noun: `12 haystacks`, `1 query`."""
    return f"{n} {singular(many) if n == 1 else many}"


def singular(many: str) -> str:
    """Returns the singular of a plural noun."""
    return many.removesuffix("ies") + "y" if many.endswith("ies") else many.removesuffix("s")
