"""The alarms that a monitor raised: which stand, what was told of them, and where it is kept."""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from harness.errors import UsageError
from harness.masking import masked

Alert = dict[str, Any]
"""An event of an alarm, as JSON.

alert (its name), kind, state (raised or cleared), episode, request (its number), time, value, n, and
`said`, a sentence.
"""

_Key = tuple[str, int, str]
"""Alarm, episode and state of an event."""

_KEPT = 100  # events of the history
_LONGEST_PAUSE = 60.0  # seconds between two tries


@dataclass
class _Event:
    """An event of which something is to be done: to be written into the journal, or told."""

    alert: Alert
    written: bool
    told: bool


class Alerts:
    """Which alarms stand, and what became of the last ones: raised once, standing until cleared.

    The journal holds one line an event. An event that stands there already (the same alarm and
    episode, raised or cleared) is not told again: a monitor that was killed reads some requests
    twice, and comes to the same events.

    `event` counts, and `deliver` writes and tells, so that neither a journal that cannot be written
    nor a `tell` that raises costs a request, or the other one an event. What failed is tried again,
    ever more seldom, is said on stderr, and stands in `trouble` until it works.
    """

    def __init__(self, journal: Path | None, tell: Callable[[Alert], None] | None) -> None:
        self._journal, self._tell = journal, tell
        self.standing: dict[str, Alert] = {}
        self.history: deque[Alert] = deque(maxlen=_KEPT)
        self.raised: Counter[str] = Counter()
        self.trouble = ""
        self._done: set[_Key] = set()
        self._waiting: dict[_Key, _Event] = {}
        self._delivers = Lock()
        self._pause = self._next = 0.0

    def open(self) -> None:
        """Read what the journal tells of already. A last line that was not finished is cut off.

        Raises UsageError for a journal that cannot be written.
        """
        if self._journal is not None:
            try:
                self._journal.parent.mkdir(parents=True, exist_ok=True)
                with open(self._journal, "ab"):
                    pass
            except OSError as error:
                raise UsageError(
                    f"{self._journal}: the journal cannot be written ({error.strerror}); name "
                    "another file"
                ) from None
        there = _read(self._journal)
        for key in there & {*self._waiting}:  # it was written after the state was
            self._waiting[key].written = True
        self._done = there - {*self._waiting}

    def event(self, alert: Alert) -> None:
        """Take in that an alarm was raised or cleared; it waits to be delivered."""
        name = alert["alert"]
        if alert["state"] == "raised":
            self.raised[name] += 1
            alert["episode"] = self.raised[name]
            self.standing[name] = alert
        else:
            alert["episode"] = self.raised[name]
            self.standing.pop(name, None)
        self.history.append(alert)
        key = _key(alert)
        if key not in self._done and key not in self._waiting:
            self._waiting[key] = _Event(alert, self._journal is None, self._tell is None)

    def deliver(self, *, at_once: bool = False) -> None:
        """Write and tell what waits, in its order, unless another thread is at it, or it failed a
        moment ago (but `at_once`)."""
        if not self._waiting or (monotonic() < self._next and not at_once):
            return
        if not self._delivers.acquire(blocking=False):
            return
        try:
            failed = {*self._write(), *self._say()}
            for key, one in [*self._waiting.items()]:
                if one.written and one.told:
                    self._done.add(key)
                    del self._waiting[key]
            self._pause = min(max(1.0, 2 * self._pause), _LONGEST_PAUSE) if failed else 0.0
            self._next = monotonic() + self._pause
            trouble = "; ".join(sorted(failed))
            if trouble and trouble != self.trouble:
                print(f"warning: {trouble}; tried again", file=sys.stderr, flush=True)
            self.trouble = trouble
        finally:
            self._delivers.release()

    def _write(self) -> Iterator[str]:
        for one in [*self._waiting.values()]:
            if self._journal is not None and not one.written:
                try:
                    _append(self._journal, one.alert)
                except OSError as error:
                    yield f"{self._journal}: alarms cannot be written ({error.strerror})"
                    return
                one.written = True

    def _say(self) -> Iterator[str]:
        for one in [*self._waiting.values()]:
            if self._tell is not None and not one.told:
                try:
                    self._tell(one.alert)
                except Exception as error:  # somebody else's code
                    yield f"alarms cannot be told ({type(error).__name__}: {masked(str(error))})"
                    return
                one.told = True

    def state(self) -> dict[str, Any]:
        """JSON for `resume`."""
        return {
            "standing": self.standing,
            "history": list(self.history),
            "raised": dict(self.raised),
            "waiting": [asdict(one) for one in [*self._waiting.values()]],
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up where `state` left."""
        self.standing = state["standing"]
        self.history.extend(state["history"])
        self.raised.update(state["raised"])
        for one in state.get("waiting", ()):
            event = _Event(**one)
            event.written = event.written or self._journal is None
            event.told = event.told or self._tell is None
            self._waiting[_key(event.alert)] = event


def _key(alert: Alert) -> _Key:
    return alert["alert"], alert["episode"], alert["state"]


def _read(journal: Path | None) -> set[_Key]:
    import orjson

    told: set[_Key] = set()
    if journal is None or not journal.is_file():
        return told
    data = journal.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(journal, whole)
    for line in data[:whole].splitlines():
        try:
            one = orjson.loads(line)
            told.add(_key(one))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue  # a line of somebody else's
    return told


def _append(journal: Path, alert: Alert) -> None:
    import orjson

    journal.parent.mkdir(parents=True, exist_ok=True)
    line = orjson.dumps(alert) + b"\n"
    with open(journal, "ab", buffering=0) as file:
        whole = file.seek(0, os.SEEK_END)
        try:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            os.truncate(journal, whole)  # half a line would spoil the next one
            raise
