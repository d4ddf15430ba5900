"""The alarms that a monitor raised: which stand, what was told of them, and where it is kept."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import UsageError

Alert = dict[str, Any]
"""An event of an alarm, as JSON.

alert (its name), kind, state (raised or cleared), episode, recall (its number), time, value, n, and
`said`, a sentence.
"""

_KEPT = 100  # events of the history


class Alerts:
    """Which alarms stand, and what became of the last ones: raised once, standing until cleared.

    The journal holds one line an event. An event that stands there already (the same alarm and
    episode, raised or cleared) is not told again: a monitor that was killed reads some recalls
    twice, and comes to the same events.
    """

    def __init__(self, journal: Path | None, tell: Callable[[Alert], None] | None) -> None:
        self._journal, self._tell = journal, tell
        self.standing: dict[str, Alert] = {}
        self.history: deque[Alert] = deque(maxlen=_KEPT)
        self.raised: Counter[str] = Counter()
        self._told: set[tuple[str, int, str]] = set()

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
        self._told = _read(self._journal)

    def event(self, alert: Alert) -> None:
        """Take in that an alarm was raised or cleared."""
        name = alert["alert"]
        if alert["state"] == "raised":
            self.raised[name] += 1
            alert["episode"] = self.raised[name]
            self.standing[name] = alert
        else:
            alert["episode"] = self.raised[name]
            self.standing.pop(name, None)
        self.history.append(alert)
        key = (name, alert["episode"], alert["state"])
        if key in self._told:
            return
        self._told.add(key)
        if self._journal is not None:
            _append(self._journal, alert)
        if self._tell is not None:
            self._tell(alert)

    def state(self) -> dict[str, Any]:
        """JSON for `resume`."""
        return {
            "standing": self.standing,
            "history": list(self.history),
            "raised": dict(self.raised),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up where `state` left."""
        self.standing = state["standing"]
        self.history.extend(state["history"])
        self.raised.update(state["raised"])


def _read(journal: Path | None) -> set[tuple[str, int, str]]:
    import orjson

    told: set[tuple[str, int, str]] = set()
    if journal is None or not journal.is_file():
        return told
    data = journal.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(journal, whole)
    for line in data[:whole].splitlines():
        try:
            one = orjson.loads(line)
            told.add((one["alert"], one["episode"], one["state"]))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue  # a line of somebody else's
    return told


def _append(journal: Path, alert: Alert) -> None:
    import orjson

    journal.parent.mkdir(parents=True, exist_ok=True)
    with open(journal, "ab") as file:
        file.write(orjson.dumps(alert) + b"\n")
        file.flush()
        os.fsync(file.fileno())
