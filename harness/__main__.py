"""Entry point of the command line, for `harness` and `python -m harness`."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from harness.cli.parser import build_parser, find_commands
from harness.errors import FileUnavailableError, HarnessError, UsageError, require_names
from harness.io.files import sweep
from harness.io.terminal import safe_output

_LEAST_ADDRESSES, _MANY_ADDRESSES = 2**30, 2**33
"""Address space in bytes below which the libraries may hang, and above which they have enough."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Exit status: 0, 1 for a failed run or gate, 2 for wrong use."""
    with safe_output():
        return _command(arguments)


def _command(arguments: Sequence[str] | None) -> int:
    if "_ARGCOMPLETE" in os.environ:  # a shell requests completions
        from harness.cli.completion import complete

        complete(build_parser(load_all=True))
    given = sys.argv[1:] if arguments is None else arguments
    options = argparse.Namespace()
    try:
        _require_folder()
        options = _parsed(given)
        if "call" not in options:
            sys.stdout.flush()
            return 0
        _respect_address_limit()
        require_names(*given)
        for place in filter(None, (getattr(options, name, "") for name in ("results", "out"))):
            sweep(Path(place) if os.path.isdir(place) else Path(place).parent)
        show_log()
        with _silent(options), _no_silent_end():
            status = int(options.call(options))
        sys.stdout.flush()
        return status
    except HarnessError as error:
        print(f"harness: {error}{_with_source(error, options, given)}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        # Only a run can be resumed.
        more = "; the same command with --resume continues from here" if "resume" in options else ""
        print(f"harness: stopped{more}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # from a stream other than standard output
        return 128 + signal.SIGPIPE
    except MemoryError:
        return _out_of_memory()
    except ImportError as error:
        if "failed to map segment" not in str(error) or "not permitted" in str(error):
            raise
        return _out_of_memory()
    except OSError as error:
        from harness.io.files import OF_THE_DISK

        if error.errno == errno.ENOMEM:
            return _out_of_memory()
        if error.errno not in {*OF_THE_DISK, errno.EBADF}:  # EBADF: standard output is closed
            raise
        return _not_written(error)


def _require_folder() -> None:
    """Raises UsageError if the working directory was removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError("the working directory was removed; change to another one") from None


def _respect_address_limit() -> None:
    """Prepares the libraries for `ulimit -v`: OpenBLAS and Arrow reserve far more address space
    than memory, and hang without it. Raises UsageError for a limit that is too low."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    if limit < _LEAST_ADDRESSES:
        raise UsageError(
            f"ulimit -v is {limit // 1024:,}, too low for SciPy and Arrow to load: set it to "
            f"{_LEAST_ADDRESSES // 1024:,} or more"
        )
    if limit < _MANY_ADDRESSES:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _out_of_memory() -> int:
    print("harness: out of memory; give the command more, or fewer --workers", file=sys.stderr)
    return 1


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed options; prints requested help and returns an empty namespace."""
    if not given:
        build_parser().print_help()
        return argparse.Namespace()
    if given[0].startswith("--") and given[0] not in ("--help", "--version"):
        command = next((word for word in given if word in find_commands()), "run")
        options = shlex.join(word for word in given if word != command)
        raise UsageError(f"name the command first, for example: harness {command} {options}")
    try:
        return build_parser(given[0]).parse_args(given)
    except SystemExit as end:
        if end.code:
            raise
        return argparse.Namespace()


def show_log() -> None:
    """Prints the library's log messages to standard error, one plain line each."""
    import logging

    if logging.lastResort is not None:
        logging.getLogger("harness").addHandler(logging.lastResort)


@contextlib.contextmanager
def _silent(options: argparse.Namespace) -> Iterator[None]:
    """Disables all progress bars, including those of other packages, for --quiet and --json."""
    before = os.environ.get("TQDM_DISABLE")
    silent = getattr(options, "quiet", False) or getattr(options, "json", False)
    if silent:
        os.environ["TQDM_DISABLE"] = "1"
    try:
        yield
    finally:
        if silent and before is None:
            os.environ.pop("TQDM_DISABLE", None)
        elif silent:
            os.environ["TQDM_DISABLE"] = str(before)


@contextlib.contextmanager
def _no_silent_end() -> Iterator[None]:
    """Reports `os._exit` calls by code under test, and makes them exit with status 1."""
    own, leave = os.getpid(), os._exit

    def told(status: int) -> NoReturn:
        if os.getpid() == own:  # its child processes may exit
            words = f"the code under test ended this process by os._exit({status}): nothing of"
            print(f"harness: {words} what it was at is finished", file=sys.stderr, flush=True)
            status = 1
        leave(status)

    os._exit = told
    try:
        yield
    finally:
        os._exit = leave


def _not_written(error: OSError) -> int:
    """Reports that a file or standard output cannot be read or written; returns the status."""
    what = error.filename if isinstance(error.filename, str) else "what is printed"
    said = UsageError(  # on one line
        f"{what}: cannot be read or written ({error.strerror}): change its permissions, free space "
        "there, or name another place"
    )
    print(f"harness: {said}", file=sys.stderr)
    with contextlib.suppress(OSError):  # the buffer cannot be flushed
        sys.stdout.close()
    return 2


def _with_source(error: HarnessError, options: argparse.Namespace, given: Sequence[str]) -> str:
    """Returns the command to run after obtaining the unavailable file manually."""
    if not isinstance(error, FileUnavailableError) or "source" not in options:
        return ""
    return f"; with it: {shlex.join(['harness', *given, '--source', error.file])}"


if __name__ == "__main__":
    sys.exit(main())
