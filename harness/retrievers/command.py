"""A retriever that is a command: messages of wire.py as lines on its stdin and stdout."""

from __future__ import annotations

import logging
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from threading import Timer
from typing import IO, Any

from harness.errors import ResponseMismatchError, RunError, UsageError
from harness.io.masking import excerpt, masked
from harness.io.records import encode
from harness.retrievers import wire
from harness.retrievers.calls import READY_TIMEOUT
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.sources import environment, revision
from harness.retrievers.wire import LONGEST_REPLY, Counts, Message, Reply, message_type

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


_READ, _TOLD = 1 << 16, 2000
"""Bytes of the command's stderr that are read, so that no secret is cut before it is masked, and
characters that an error shows."""


class Command(wire.WireRetriever):
    """A command in any language that reads one JSON message a line and writes one reply a line.

    `run` is the command with its arguments, see wire.py for the messages. It is started
    once and told to reset for every haystack. `timeout` is seconds a message: a command that takes
    longer is killed; killed or crashed, it is started again for the next haystack. What it writes
    on stderr is shown where it fails. `documents` are so many a message, `questions` too;
    `ready_timeout` is seconds from the final document to the answer that all can be found. `venv`
    is the folder of a virtual environment in which it runs, with packages of its own.
    """

    # `run` names the program, whose files are in its revision.
    search_params = ("timeout", "documents", "questions", "ready_timeout")

    def __init__(
        self,
        run: str,
        timeout: float = 300.0,
        documents: int = 100,
        questions: int = 1,
        ready_timeout: float = READY_TIMEOUT,
        venv: str = "",
    ) -> None:
        if documents < 1 or questions < 1 or min(timeout, ready_timeout) <= 0:
            raise ValueError(
                "documents and questions must be 1 or more, timeout and ready_timeout above 0"
            )
        self._command = shlex.split(run)
        self._environment = environment(venv)
        path = None if self._environment is None else self._environment["PATH"]
        if not self._command or shutil.which(self._command[0], path=path) is None:
            raise UsageError(f"retriever 'command': there is no program {run!r}")
        self.revision, self._venv = revision(self._command, venv), venv
        super().__init__(documents, *self._command, self.revision or "")
        self._timeout = timeout
        self.batch_size = questions
        self.ready_timeout = ready_timeout
        self._lines = Lines()
        self._process: subprocess.Popen[bytes] | None = None

    def has_index(self, key: str, corpus: Corpus) -> bool:
        """Reset; whether the command says that it has kept what it was sent under this key.

        Starts the command where it is not up.
        """
        # A process that was killed may not be known to be gone yet.
        if self._process is None or not self._end.alive or self._process.poll() is not None:
            self._start()
        return self._reset(corpus, key).has_index

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Ask; answers in the order of the questions."""
        reply = self._exchange(self._messages.search(queries, k))
        try:
            return wire.results(reply, len(queries))
        except ValueError:  # the answers may be in the next line, where this one was a log's
            self._end()
            raise

    def report(self) -> Counts:
        """What the command says that its replies have cost, summed; lines that were no replies."""
        passed = self._lines.passed_over
        return {**super().report(), **({"lines_passed_over": passed} if passed else {})}

    def close(self) -> None:
        """Closes its stdin, and terminates it if that is not enough. Raises ResponseMismatchError
        if a reply arrived after the last one that was requested."""
        if self._process is not None:
            if self._process.stdin is not None:
                with suppress(BrokenPipeError):
                    self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
            try:
                if self._end.alive:
                    self._lines.refuse_unasked()
            except NoReplyError as error:
                raise ResponseMismatchError(
                    f"retriever 'command': {error}, after its last reply: that may be the answer "
                    "to the last question, and what was taken for it another's; print what is no "
                    "reply on stderr, and repeat each message's number in its reply"
                ) from None
            finally:
                self._end()

    def _start(self) -> None:
        if revision(self._command, self._venv) != self.revision:
            raise RunError(
                f"retriever 'command': the code of {shlex.join(self._command)!r} was changed since "
                "this run began, so it would be of two systems; run it anew"
            )
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with self
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=self._environment,
                start_new_session=True,  # so that what it starts itself can be ended with it
            )
        except OSError as error:
            raise RunError(
                f"retriever 'command': {shlex.join(self._command)!r} cannot be started: {error}"
            ) from error
        self._end = weakref.finalize(self, _kill, self._process, _watch(self._process))
        assert self._process.stdout is not None  # a pipe, as asked for
        self._lines.begin(self._process.stdout, self._stderr)

    def _exchange(self, message: Message) -> Reply:
        """The reply to a message.

        Raises RuntimeError when the command ends or hangs, NoReplyError for what is no reply. Both
        end it: its next line could be the answer to this message.
        """
        process = self._process
        if process is None or process.stdin is None or not self._end.alive:
            raise RuntimeError("the command is not running any more: it failed before, see there")
        # Both sides may block on a full pipe: to kill the command is what ends that.
        alarm = Timer(self._timeout, self._end)
        alarm.start()
        reply, ended = None, False
        try:
            self._lines.refuse_unasked()
            process.stdin.write(encode(message) + b"\n")
            process.stdin.flush()
            reply = self._lines.reply()
        except (BrokenPipeError, EOFError):
            ended = True  # said below, with what it wrote before it ended
        except BaseException:  # Ctrl-C, too: its reply would be taken for that to the next message
            self._end()
            raise
        finally:
            alarm.cancel()
        if ended:
            hung = not self._end.alive
            self._end()
            how = f"took longer than {self._timeout:g} s and was killed" if hung else "ended"
            status = "" if hung else f", status {process.wait()}"
            raise RuntimeError(
                f"the command {how}{status}, at {message_type(message)!r}{self._told()}"
            )
        try:
            return self._checked(reply, message)
        except ValueError as error:
            if isinstance(error, wire.NotTheReplyError) or not isinstance(reply, dict):
                self._end()
            raise

    def _told(self) -> str:
        """The end of what the command wrote on stderr."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _READ))
        said = masked(self._stderr.read().decode(errors="replace"))
        lines = said[-_TOLD:].strip().splitlines()
        if len(lines) < 2:
            return f"; on stderr: {lines[0]}" if lines else ""
        whole = "\n".join(lines)
        return f"; last on stderr: {lines[-1].strip()}\nall of it:\n{whole}"


def _watch(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """A process that kills another and all that it started, when this one is gone, however it went:
    it reads from a pipe that ends then."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r _; kill -s KILL -- "-$0"', str(process.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes], watch: subprocess.Popen[bytes]) -> None:
    watch.kill()  # before that number can be another's
    watch.wait()
    if watch.stdin is not None:
        watch.stdin.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
