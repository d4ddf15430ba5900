"""The two ways a command ends badly. Both are one line for a person, never a traceback."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_LONGEST_WORD = 400  # a path may be long


_LONGEST = 8_000  # characters that somebody may read


def shortened(text: str, most: int = _LONGEST) -> str:
    """A text of at most so many characters: of a longer one the midst is left out."""
    if len(text) <= most:
        return text
    return f"{text[: most * 3 // 4]} [...] {text[-most // 5 :]}"


class HarnessError(Exception):
    """Base of every error raised on purpose. `exit_status` is what the command returns.

    What others said may be of any length, and is `shortened`.
    """

    exit_status = 1

    def __init__(self, message: object = "") -> None:
        """`message` for a person."""
        super().__init__(shortened(str(message)))


class UsageError(HarnessError):
    """Wrong use or bad input: what is wrong, where, and what to do. Exit status 2.

    It is one line, whatever of a file or of another library's error it quotes: line ends are
    blanks, and of a word that no person reads through (an id, a number) the middle is left out.
    """

    exit_status = 2

    def __init__(self, message: str) -> None:
        """`message` for a person."""
        words = " ".join(message.splitlines()).split(" ")
        super().__init__(
            " ".join(f"{w[:200]}...{w[-40:]}" if len(w) > _LONGEST_WORD else w for w in words)
        )


class PluginError(UsageError):
    """Raised when a plug-in file is missing or fails at import."""


class RunError(HarnessError):
    """A run or a gate failed although it was asked for rightly. Exit status 1."""

    exit_status = 1


class TimedOutError(RunError):
    """A run that took longer than it was given, and was ended."""


class FileUnavailableError(RunError):
    """Raised when a published `file` cannot be downloaded; `--source` can name a local copy."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file

    def __reduce__(self) -> tuple[type[FileUnavailableError], tuple[str, str]]:
        return type(self), (str(self), self.file)


def require_numbers(**values: object) -> None:
    """Raises ValueError, for a constructor, that names the first value which is not a number."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number, not {value!r}")


def require_ids(ids: Collection[object], what: str) -> None:
    """Raises UsageError, which calls them `what`, for ids that are not all text in UTF-8."""
    try:
        together = "".join(ids)  # type: ignore[arg-type]  # that is the question
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
    """Raises UsageError for a name of a file that is not UTF-8: no record could hold it."""
    for name in names:
        try:
            str(name).encode()
        except UnicodeEncodeError:
            shown = str(name).encode(errors="backslashreplace").decode()
            raise UsageError(f"{shown}: is not a name in UTF-8; rename it") from None


def require_regular(*paths: Path) -> None:
    """Raises UsageError for a pipe or a device, which may have no end."""
    for path in paths:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageError(f"{path}: is a pipe or a device; save what it gives to a file")


def install(extra: str) -> str:
    """Returns the command that installs one of this package's extras."""
    return f"pip install -e '.[{extra}]' in the checkout of the harness"


class CallTimeoutError(Exception):
    """Raised when a call of a retriever exceeds its time limit; it becomes a result of the run."""


class WorkerDiedError(RunError):
    """Raised when a worker process dies before it has finished its work."""


class ResponseMismatchError(RunError):
    """Raised when responses may belong to other queries; they are discarded."""

    left_with = 75
    """The exit status of a process that works for another, and has found so."""


def near(name: str, known: list[str]) -> str:
    """`; did you mean a, b?` for names close to `name`, else `; known: ...` with all of them."""
    import difflib

    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {', '.join(close)}?"
    names = sorted(filter(None, known))
    more = f" and {len(names) - 40} more" if len(names) > 50 else ""
    shown = ", ".join(names[:40] if more else names)
    return f"; known: {shown}{more}" if names else ""
