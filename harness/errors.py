"""Errors of the harness. Commands print them as one line, without a traceback."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_LONGEST_WORD = 400  # a path may be long


_LONGEST = 8_000  # characters of a whole message


def shorten(text: str, most: int = _LONGEST) -> str:
    """Shortens a text to at most `most` characters by omitting its middle."""
    if len(text) <= most:
        return text
    return f"{text[: most * 3 // 4]} [...] {text[-most // 5 :]}"


class HarnessError(Exception):
    """Base class of the harness's errors. `exit_status` is the command's exit status.

    Messages may quote third-party text of any length, so they are `shortened`.
    """

    exit_status = 1

    def __init__(self, message: object = "") -> None:
        """`message` is shown to the user."""
        super().__init__(shorten(str(message)))


class UsageError(HarnessError):
    """Raised for wrong use or bad input: what is wrong, where, and what to do. Exit status 2.

    The message is one line, even if it quotes a file or another library's error: line ends become
    spaces, and words of more than 400 characters lose their middle.
    """

    exit_status = 2

    def __init__(self, message: str) -> None:
        """`message` is shown to the user."""
        words = " ".join(message.splitlines()).split(" ")
        super().__init__(
            " ".join(f"{w[:200]}...{w[-40:]}" if len(w) > _LONGEST_WORD else w for w in words)
        )


class PluginError(UsageError):
    """Raised when a plug-in file is missing or fails at import."""


class RunError(HarnessError):
    """Raised when a correctly requested run or gate fails. Exit status 1."""

    exit_status = 1


class TimedOutError(RunError):
    """Raised when a run exceeds its time limit and is stopped."""


class FileUnavailableError(RunError):
    """Raised when a published `file` cannot be downloaded; `--source` can name a local copy."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file

    def __reduce__(self) -> tuple[type[FileUnavailableError], tuple[str, str]]:
        return type(self), (str(self), self.file)


def require_numbers(**values: object) -> None:
    """Raises ValueError naming the first value that is not a number; for constructors."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number, not {value!r}")


def require_ids(ids: Collection[object], what: str) -> None:
    """Raises UsageError if an id is not text valid in UTF-8; the message calls ids `what`."""
    try:
        together = "".join(ids)  # type: ignore[arg-type]  # a wrong type raises TypeError
        if not together.isascii():
            together.encode()
    except TypeError:
        odd = next(one for one in ids if not isinstance(one, str))
        raise UsageError(
            f"{what} {odd!r:.60} is {type(odd).__name__}, not text: ids are texts, in judgements "
            "and run alike, for instance by str()"
        ) from None
    except UnicodeEncodeError as error:
        odd = next(one for one in ids if error.object[error.start] in str(one))
        raise UsageError(
            f"{what} {odd!r:.60} holds half a surrogate pair, which is no character and cannot be "
            "written: mend where it was read"
        ) from None


def require_names(*names: object) -> None:
    """Raises UsageError for a file name that is not UTF-8, since records cannot hold it."""
    for name in names:
        try:
            str(name).encode()
        except UnicodeEncodeError:
            shown = str(name).encode(errors="backslashreplace").decode()
            raise UsageError(f"{shown}: is not a name in UTF-8; rename it") from None


def require_regular(*paths: Path) -> None:
    """Raises UsageError for a pipe or device, which may be endless."""
    for path in paths:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageError(f"{path}: is a pipe or a device; save what it gives to a file")


class CallTimeoutError(Exception):
    """Raised when a call of a retriever exceeds its time limit; it becomes a result of the run."""


class WorkerDiedError(RunError):
    """Raised when a worker process dies before it has finished its work."""


class ResponseMismatchError(RunError):
    """Raised when responses may belong to other queries; they are discarded."""

    left_with = 75
    """Exit status of a worker process that detects this."""


def suggest(name: str, known: list[str]) -> str:
    """Returns `; did you mean a, b?` for names close to `name`, else `; known: ...`."""
    import difflib

    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    close = difflib.get_close_matches(name, close, n=3, cutoff=0.7) or close
    if close:
        return f"; did you mean {', '.join(close)}?"
    names = sorted(filter(None, known))
    more = f" and {len(names) - 40} more" if len(names) > 50 else ""
    shown = ", ".join(names[:40] if more else names)
    return f"; known: {shown}{more}" if names else ""
