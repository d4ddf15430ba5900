"""Inter-process locks and service addresses. Waits are logged and excluded from latencies."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, urlsplit

from harness.errors import HarnessError, RunError
from harness.io.masking import refuse_address
from harness.retrievers.timing import waiting

if TYPE_CHECKING:
    from filelock import BaseFileLock

_SILENT = 5.0
"""Seconds of waiting after which a note is logged."""

_log = logging.getLogger(__name__)

_mine: set[Path] = set()
"""The locks that this process holds."""


@contextmanager
def locked(path: Path, note: Callable[[], str], silent: float = _SILENT) -> Iterator[None]:
    """Holds the lock of a file; logs `note` after `silent` seconds of waiting.

    The file stays: if it were removed, two processes could hold locks on files of one name.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    # If an abandoned call of this process holds it, waiting counts, so that a time limit ends it.
    with nullcontext() if path in _mine else waiting():
        try:
            lock.acquire(timeout=silent)
        except Timeout:
            _log.warning(f"note: {note()}")
            lock.acquire()
    _mine.add(path)
    try:
        yield
    finally:
        _mine.discard(path)
        lock.release()


@contextmanager
def in_turn(path: Path, what: str) -> Iterator[None]:
    """Holds the lock of a file that several processes need repeatedly, each in turn.

    Waiting processes hold a second lock, the gate, so that a process that just released the lock
    must queue. The log names the process that holds the lock, and `what` it does.
    """
    holder = path.with_suffix(".by")

    def note() -> str:
        try:
            process = f"process {int(holder.read_text())}"
        except (OSError, ValueError):
            process = "another process"
        return f"waiting for {process}, which {what}"

    with ExitStack() as mine:
        with locked(path.with_suffix(".gate"), note):
            mine.enter_context(locked(path, note))
        holder.write_text(str(os.getpid()))
        yield


@dataclass
class _Held:
    """A lock that this process holds, and the retriever that owns it."""

    lock: BaseFileLock
    by: weakref.ref[ServiceLock]


_held: dict[str, _Held] = {}


class ServiceLock:
    """A lock on the service at an address, which can hold only one haystack at a time.

    Processes of one machine wait for each other, by a lock file per address; of two retrievers in
    one process the later takes the lock over. `waited` is the total in seconds. Acquire several
    locks in the order of their addresses.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.waited = 0.0
        weakref.finalize(self, _forgotten, address)  # a retriever need not be closed

    def acquire(self) -> None:
        """Waits for the lock and takes it. Raises RuntimeError if it would have to wait while this
        process holds the lock of a later address."""
        if self._address in _held:
            _held[self._address].by = weakref.ref(self)
            return
        from filelock import FileLock, Timeout

        start = monotonic()
        lock = FileLock(_file(self._address), thread_local=False)  # any thread may release it
        before = max(_held, default="") > self._address
        try:
            with waiting():
                lock.acquire(timeout=0 if before else _SILENT)
        except Timeout:
            if before:  # two processes could deadlock
                raise RuntimeError(
                    f"{self._address} is in use and holds one haystack at a time, and this process "
                    f"holds {max(_held)}: let both hold several haystacks, or use one worker"
                ) from None
            _log.warning(
                f"note: waiting for {self._address}: it holds one haystack at a time, and another "
                "run or worker is using it"
            )
            with waiting():
                lock.acquire()
        self.waited += monotonic() - start
        _held[self._address] = _Held(lock, weakref.ref(self))

    @property
    def owned(self) -> bool:
        """True while this retriever has the lock and no other in this process took it over."""
        held = _held.get(self._address)
        return held is not None and held.by() is self

    def release(self) -> None:
        """Releases the lock if it is owned."""
        if self.owned:
            _let_go(self._address)


def _let_go(address: str) -> None:
    _held.pop(address).lock.release()


def _forgotten(address: str) -> None:
    if address in _held and _held[address].by() is None:
        _let_go(address)


def _file(address: str) -> Path:
    """Returns the lock file of an address: one per user and machine, for any cache folder."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    folder = Path(tempfile.gettempdir()) / f"harness-services-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}.lock"


T = TypeVar("T")


def check_url(what: str, url: str, secret: str = "") -> SplitResult:
    """Returns the parts of an HTTP address; `secret` is the variable for a secret. Raises
    ValueError for another address, and UsageError for one with a user or a password."""
    refuse_address(f"{what}: url", url, *([f"give a secret as {secret}"] if secret else []))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url must begin with http:// or https://, not {url!r}")
    return parts


def reach(what: str, url: str, ask: Callable[[], T]) -> T:
    """Returns a server's answer to its first call. Raises RunError with the reason if it fails."""
    try:
        return ask()
    except HarnessError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200] or "no reason given"
        raise RunError(f"{what}: no answer from {url}: {type(error).__name__}: {said}") from error
