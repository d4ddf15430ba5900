"""What goes to a terminal: text of strangers cannot move its cursor, nor tell our secrets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from harness.io.masking import masked

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Controls but line feed and tab, line separators, turns of direction, halves of characters."""
_OURS = re.compile(r"\r|(?:\n|\x1b\[A)+\Z")
"""How tqdm begins to draw a bar again, and how it goes from one bar to another."""
_GREY = re.compile(r"(\x1b\[[02]m)")

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
