"""Inter-process lock for services that can hold only one haystack at a time.

Processes of one machine wait for each other, by a lock on a file that stands for the service's
address; of two retrievers in one process the later one takes it, and the earlier one is told so.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from harness.retrievers.timing import waiting

if TYPE_CHECKING:
    from filelock import BaseFileLock

_log = logging.getLogger(__name__)

_SILENT = 5.0
"""Seconds of waiting after which somebody is told what for."""


@dataclass
class _Held:
    """A lock that this process has, and whose turn it is by it."""

    lock: BaseFileLock
    by: weakref.ref[ServiceLock]


_held: dict[str, _Held] = {}


class ServiceLock:
    """One retriever's lock on the service at an address; `waited` is seconds in total.

    Several locks must be acquired in the order of their addresses.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.waited = 0.0
        weakref.finalize(self, _forgotten, address)  # nobody has to close a retriever

    def acquire(self) -> None:
        """Waits for the lock and takes it.

        Raises RuntimeError if it would have to wait while it holds the lock of a later address.
        """
        if self._address in _held:
            _held[self._address].by = weakref.ref(self)
            return
        from filelock import FileLock, Timeout

        start = monotonic()
        lock = FileLock(_file(self._address), thread_local=False)  # given by whichever thread
        before = max(_held, default="") > self._address
        try:
            with waiting():
                lock.acquire(timeout=0 if before else _SILENT)
        except Timeout:
            if before:  # two that each have what the other waits for would wait for ever
                raise RuntimeError(
                    f"{self._address} is in use, and holds one haystack at a time; this process "
                    f"holds {max(_held)} meanwhile: let both hold several, or take one worker"
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
    """The same for all processes of a user on this machine, whatever cache folder they use."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    folder = Path(tempfile.gettempdir()) / f"harness-services-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}.lock"
