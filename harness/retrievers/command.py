"""Client of retrievers that are commands; the messages of wire.py are lines on stdin and stdout."""

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
from harness.io.masking import excerpt, redact
from harness.io.records import encode
from harness.retrievers import wire
from harness.retrievers.calls import READY_TIMEOUT
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.sources import environment, revision
from harness.retrievers.wire import LONGEST_REPLY, Counts, Message, Reply, message_type

_log = logging.getLogger(__name__)

MOST = 10_000
"""Maximum number of lines skipped before a reply; stops programs that never reply."""

_AT_ONCE = 1 << 16


class NoReplyError(ValueError):
    """Raised for output that is not a reply; later replies may be misplaced too."""


class Lines:
    """Reads replies from a command's standard output, across restarts.

    `passed_over` counts the lines that are not replies: they are appended to the command's standard
    error, and the first one is logged.
    """

    def __init__(self) -> None:
        self.passed_over = 0

    def begin(self, source: IO[bytes], aside: IO[bytes]) -> None:
        """Starts reading a process's standard output; `aside` receives its standard error."""
        self._source, self._aside = source.fileno(), aside
        self._read = bytearray()
        self._searched = 0

    def reply(self) -> Any:
        """Waits for the next reply.

        Raises EOFError at the end of the output, NoReplyError for an incomplete object, a line that
        is too long, and after MOST lines without a reply.
        """
        for _ in range(MOST):
            found, reply = self._parsed(self._line())
            if found:
                return reply
        raise NoReplyError(f"the command wrote {MOST:,} lines that are not JSON, and no reply")

    def refuse_unasked(self) -> None:
        """Raises NoReplyError if an unrequested reply or a line that is too long has arrived."""
        waiting = select.poll()
        waiting.register(self._source, select.POLLIN)
        while self._end() >= 0 or (waiting.poll(0) and self._more()):
            if self._end() >= 0:
                line = self._line()
                if self._parsed(line)[0]:
                    raise NoReplyError(f"the command wrote an unexpected line: {excerpt(line)}")

    def _parsed(self, line: bytes) -> tuple[bool, Any]:
        """Returns whether a line is a reply, and its JSON value."""
        import orjson

        try:
            return True, orjson.loads(line)
        except orjson.JSONDecodeError:
            if line.lstrip().startswith(b"{"):
                raise NoReplyError(f"the command's reply is not JSON: {excerpt(line)}") from None
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
        """Returns the end of the next line, -1 if incomplete. Searches no byte twice."""
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
"""Bytes of the command's stderr that are read, enough not to cut a secret before it is masked, and
characters shown in an error."""


class Command(wire.WireRetriever):
    """A command in any language that reads one JSON message and writes one reply per line.

    `run` is the command with its arguments; wire.py defines the messages. It is started once and
    reset for every haystack. `timeout` is the limit in seconds of a message; a slower command is
    killed. A killed or crashed command is restarted for the next haystack. Errors show its stderr.
    `documents` and `questions` are the numbers per message; `ready_timeout` is the limit in seconds
    from the last document until all can be found. `venv` is the folder of a virtual environment,
    with separate packages, in which the command runs.
    """

    # `run` is not among them: it names the program; the program's files are in `revision`.
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
        """Starts a haystack; returns whether the command reports an index of this key.

        Starts the command if it is not running.
        """
        # The exit of a killed process may not be known yet.
        if self._process is None or not self._end.alive or self._process.poll() is not None:
            self._start()
        return self._reset(corpus, key).has_index

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns results in the order of the questions."""
        reply = self._exchange(self._messages.search(queries, k))
        try:
            return wire.results(reply, len(queries))
        except ValueError:  # the reply may be the next line, if this one was a log message
            self._end()
            raise

    def report(self) -> Counts:
        """Returns the sums of the usage in replies, and the number of lines passed over."""
        passed = self._lines.passed_over
        return {**super().report(), **({"lines_passed_over": passed} if passed else {})}

    def close(self) -> None:
        """Closes the command's stdin, and kills it if it does not end. Raises ResponseMismatchError
        if a reply arrived after the last requested one."""
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
                start_new_session=True,  # so that its child processes can be killed too
            )
        except OSError as error:
            raise RunError(
                f"retriever 'command': {shlex.join(self._command)!r} cannot be started: {error}"
            ) from error
        self._end = weakref.finalize(self, _kill, self._process, _watch(self._process))
        assert self._process.stdout is not None  # a pipe
        self._lines.begin(self._process.stdout, self._stderr)

    def _exchange(self, message: Message) -> Reply:
        """Returns the reply to a message.

        Raises RuntimeError if the command ends or hangs, NoReplyError for other output. Both end
        the command, since its next line could be the reply to this message.
        """
        process = self._process
        if process is None or process.stdin is None or not self._end.alive:
            raise RuntimeError("the command is not running any more: it failed before, see there")
        # Both sides may block on a full pipe; only killing the command ends that.
        alarm = Timer(self._timeout, self._end)
        alarm.start()
        reply, ended = None, False
        try:
            self._lines.refuse_unasked()
            process.stdin.write(encode(message) + b"\n")
            process.stdin.flush()
            reply = self._lines.reply()
        except (BrokenPipeError, EOFError):
            ended = True  # reported below, with its stderr
        except BaseException:  # also Ctrl-C: the reply would be read as that to the next message
            self._end()
            raise
        finally:
            alarm.cancel()
        if ended:
            hung = not self._end.alive
            self._end()
            how = f"took longer than {self._timeout:g} s and was killed" if hung else "ended"
            status = "" if hung else f" with status {process.wait()} instead of a reply"
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
        """Formats the end of the command's stderr for an error message."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _READ))
        said = redact(self._stderr.read().decode(errors="replace"))
        lines = said[-_TOLD:].strip().splitlines()
        if len(lines) < 2:
            return f"; on stderr: {lines[0]}" if lines else ""
        whole = "\n".join(lines)
        return f"; last on stderr: {lines[-1].strip()}\nall of it:\n{whole}"


def _watch(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Starts a process that kills the command and its children when this process ends for any
    reason, which closes the pipe that it reads."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r _; kill -s KILL -- "-$0"', str(process.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes], watch: subprocess.Popen[bytes]) -> None:
    watch.kill()  # before the process id can be reused
    watch.wait()
    if watch.stdin is not None:
        watch.stdin.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
