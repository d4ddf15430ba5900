"""Keys from a person: one at a time from a terminal, a line each from anything else."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, TextIO

_ESCAPES = {"[C": "right", "[D": "left", "OC": "right", "OD": "left"}
_BACK = {"\x7f": "left", "\b": "left"}


class Keys:
    """Where keys come from. Used as a context, so that a terminal is left as it was found.

    A key is a character, `left` or `right`; an empty text is the end of input. On a terminal it
    counts at once; without one (a pipe, Windows) it is the first character of a line.
    """

    def __init__(self, source: TextIO | None = None) -> None:
        self._source = sys.stdin if source is None else source
        self._saved: list[Any] | None = None

    def __enter__(self) -> Keys:
        if self._source.isatty():
            try:
                import termios
                import tty
            except ImportError:  # Windows
                return self
            self._saved = termios.tcgetattr(self._source)
            tty.setcbreak(self._source)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    @property
    def single(self) -> bool:
        """Whether a key counts at once, without Enter."""
        return self._saved is not None

    def key(self) -> str:
        """The next key."""
        if self._saved is None:
            line = self._source.readline()
            text = line.rstrip("\r\n")
            return line and ((text.strip() or text)[:1] or "\n")
        data = os.read(self._source.fileno(), 1)
        while data and not _whole(data):
            data += os.read(self._source.fileno(), 1)
        text = data.decode(errors="replace")
        if text == "\x1b":
            return _ESCAPES.get(self._escape(), "?")
        return "" if text == "\x04" else _BACK.get(text, text)

    def line(self, prompt: str) -> str:
        """A whole line, as it is typed."""
        print(prompt, end="", flush=True)
        saved = self._saved
        self._restore()
        try:
            return self._source.readline().strip()
        finally:
            if saved is not None:
                import tty

                tty.setcbreak(self._source)
                self._saved = saved

    def _escape(self) -> str:
        """What follows an escape at once; nothing where a person pressed Escape itself."""
        import select

        found = ""
        while len(found) < 2 and select.select([self._source], [], [], 0.05)[0]:
            found += os.read(self._source.fileno(), 1).decode(errors="replace")
        return found

    def _restore(self) -> None:
        if self._saved is not None:
            import termios

            termios.tcsetattr(self._source, termios.TCSADRAIN, self._saved)
            self._saved = None


def _whole(data: bytes) -> bool:
    """Whether the bytes are a whole character in UTF-8, or can never be one."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return len(data) >= 4
    return True
