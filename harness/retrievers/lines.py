"""What a command writes on its standard output: one reply a line, among what its libraries print.

A line that is no JSON is no reply, and is passed over. Anything else is taken for one; so what was
not asked for has to be seen, or each answer would be taken for that to the next question.
"""

from __future__ import annotations

import logging
import os
import select
from typing import IO, Any

from harness.io.masking import excerpt
from harness.retrievers.wire import LONGEST_REPLY

_log = logging.getLogger(__name__)

MOST = 10_000
"""Lines that may be passed over for one reply: a program that never replies must not go on."""

_AT_ONCE = 1 << 16


class NoReplyError(ValueError):
    """What came in place of a reply; which line answers which message is not known any more."""


class Lines:
    """Reads what a command writes, however often it is started.

    `passed_over` counts the lines that were no replies: they are put among what it wrote on its
    standard error, and the first of them is said.
    """

    def __init__(self) -> None:
        self.passed_over = 0

    def begin(self, source: IO[bytes], aside: IO[bytes]) -> None:
        """Read from another process's standard output; `aside` has what it writes on stderr."""
        self._source, self._aside = source.fileno(), aside
        self._read = bytearray()
        self._searched = 0

    def reply(self) -> Any:
        """The next reply; waits for it.

        Raises EOFError where no more come, NoReplyError for half an object, for a line without an
        end, and where nothing but other lines come.
        """
        for _ in range(MOST):
            found, reply = self._parsed(self._line())
            if found:
                return reply
        raise NoReplyError(f"the command wrote {MOST:,} lines that are no JSON, and no reply")

    def refuse_unasked(self) -> None:
        """Raises NoReplyError where a reply has come that nobody asked for, or a line without an
        end."""
        waiting = select.poll()
        waiting.register(self._source, select.POLLIN)
        while self._end() >= 0 or (waiting.poll(0) and self._more()):
            if self._end() >= 0:
                line = self._line()
                if self._parsed(line)[0]:
                    raise NoReplyError(
                        f"the command wrote a line that nobody asked for: {excerpt(line)}"
                    )

    def _parsed(self, line: bytes) -> tuple[bool, Any]:
        """Whether a line is a reply, and what it says."""
        import orjson

        try:
            return True, orjson.loads(line)
        except orjson.JSONDecodeError:
            if line.lstrip().startswith(b"{"):
                raise NoReplyError(f"the command's reply is no JSON: {excerpt(line)}") from None
        if line.strip():
            self._pass_over(line)
        return False, None

    def _pass_over(self, line: bytes) -> None:
        os.write(self._aside.fileno(), b"stdout: " + line.rstrip(b"\r") + b"\n")
        self.passed_over += 1
        if self.passed_over == 1:
            _log.warning(
                "note: the command's standard output is for replies; other lines are passed over, "
                f"as {excerpt(line, 80)}"
            )

    def _line(self) -> bytes:
        while (end := self._end()) < 0:
            if not self._more():
                raise EOFError
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        self._searched = 0
        return line

    def _end(self) -> int:
        """Where the next line ends; below 0 while that has not come. Nothing is searched twice."""
        end = self._read.find(b"\n", self._searched)
        self._searched = len(self._read) if end < 0 else end
        return end

    def _more(self) -> bool:
        if len(self._read) > LONGEST_REPLY:
            begins = bytes(self._read[:80])
            self._read = bytearray()
            raise NoReplyError(
                f"the command wrote a line of more than {LONGEST_REPLY / 1e6:.0f} MB, which is no "
                f"reply; it begins with {begins!r}"
            )
        part = os.read(self._source, _AT_ONCE)
        self._read += part
        return bool(part)
