"""Recalls by the names of their requests, so that feedback can find them while they are here."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.live.logs.recall import Feedback, Recall
from harness.live.monitor.columns import name_of
from harness.live.monitor.scorer import ranking
from harness.live.monitor.window import Window

SHOWN = 10
"""Documents of a recall of which a later click is given its rank."""


@dataclass(frozen=True)
class Changed:
    """What feedback has changed of a recall of that time: counts to add, and a sum of ratings."""

    time: float
    watched: int
    clicked: int
    rated: int
    rating: float


class Requests:
    """The requests of a window: numbers of recalls, and hashes of what these returned."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._serial: dict[int, int] = {}  # a hash of the request -> number of its recall
        self.shown: npt.NDArray[np.uint32] | None = None  # (window, SHOWN), once there is a request

    def forget(self, n: int) -> None:
        """Drop the names of the recalls whose slots the next n take."""
        window = self._window
        if not self._serial:
            return
        oldest = window.total - window.n
        for serial in range(oldest, max(oldest, window.total + n - window.size)):
            name = int(window.columns["request"][serial % window.size])
            if name and self._serial.get(name) == serial:
                del self._serial[name]

    def remember(self, recalls: Sequence[Recall], slots: npt.NDArray[np.int64], first: int) -> None:
        """Keep the names of recalls that took `slots`; the first of them has the number `first`."""
        for i, recall in enumerate(recalls):
            if recall.request is None or not self._window.holds(first + i):
                continue
            if self.shown is None:
                self.shown = np.zeros((self._window.size, SHOWN), np.uint32)
            self._serial[name_of(recall.request)] = first + i
            shown = [_place(name) for name in list(ranking(recall))[:SHOWN]]
            self.shown[slots[i]] = shown + [0] * (SHOWN - len(shown))

    def feedback(self, one: Feedback) -> Changed | None:
        """Put feedback to its recall; None where that is not in the window."""
        serial = self._serial.get(name_of(one.request))
        if serial is None or self.shown is None:
            return None
        slot = serial % self._window.size
        columns = self._window.columns
        before, rated = int(columns["click"][slot]), not np.isnan(columns["rating"][slot])
        after, rating = before, 0.0
        if one.clicked is not None:
            shown = self.shown[slot].tolist()
            ranks = [shown.index(p) + 1 for c in one.clicked if (p := _place(c)) in shown]
            after = min([*ranks, *([before] if before > 0 else [])], default=max(before, 0))
            columns["click"][slot] = after
        if one.rating is not None:
            rating = one.rating - (float(columns["rating"][slot]) if rated else 0.0)
            columns["rating"][slot] = one.rating
        return Changed(
            float(columns["time"][slot]),
            int(before < 0 <= after),
            int(before <= 0 < after),
            int(one.rating is not None and not rated),
            rating,
        )

    def resume(self, shown: npt.NDArray[np.uint32]) -> None:
        """Take up what a state has kept, once the window is back."""
        window = self._window
        self.shown = np.zeros((window.size, shown.shape[1]), np.uint32)
        self.shown[: window.n] = shown
        for serial in range(window.total - window.n, window.total):
            name = int(window.columns["request"][serial % window.size])
            if name:
                self._serial[name] = serial


def _place(name: str) -> int:
    """32 bits of a document's id; never 0."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) or 1
