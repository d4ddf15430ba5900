"""Lines of an A/B test's event log: the plan, fixed before the test, and the records."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.errors import UsageError, suggest
from harness.io.records import Record, to_plain

Arm = Literal["a", "b"]


class Router:
    """Routes units to arms: BLAKE2b of the unit, keyed by the test's name and salt, as a number.

    The arm depends only on the unit's id and is the same on every machine. Another name or salt
    routes the same units independently.
    """

    def __init__(self, name: str, salt: str = "", split: float = 0.5) -> None:
        self._split = split
        key = hashlib.blake2b(name.encode() + b"\0" + salt.encode(), digest_size=32).digest()
        self._keyed = hashlib.blake2b(key=key, digest_size=8)

    def arm(self, unit: str) -> Arm:
        """Returns the unit's arm."""
        return "a" if self.share(unit) < self._split else "b"

    def share(self, text: str) -> float:
        """Maps a text to a pseudo-random number in [0, 1), always the same for a text."""
        state = self._keyed.copy()
        state.update(text.encode())
        # 53 bits fit exactly into a float, so 1 is never reached.
        return (int.from_bytes(state.digest(), "big") >> 11) / 2**53


def as_unit_id(unit: object) -> str:
    """Converts a unit's id, text or a whole number, to text. Raises UsageError."""
    if isinstance(unit, int) and not isinstance(unit, bool):
        return str(unit)
    if not isinstance(unit, str) or not unit:
        raise UsageError(f"a unit id must be text or a whole number, not {unit!r}")
    try:
        unit.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"unit id {unit!r} has an unpaired surrogate, which UTF-8 cannot store"
        ) from None
    return unit


# -- Team-draft interleaving -----------------------------------------------------------------------


@dataclass(frozen=True)
class Interleaved:
    """A ranking for the reader. `teams` has "a", "b" or None for each of `documents`."""

    documents: tuple[str, ...]
    teams: tuple[Arm | None, ...]

    def credit(self, clicked: Iterable[str]) -> tuple[int, int]:
        """Counts the clicked documents of team a and of team b; each document counts once.

        Raises UsageError for a document that was not shown.
        """
        if isinstance(clicked, str):
            raise UsageError("clicked must be a list of ids, not one text")
        found = dict(zip(self.documents, self.teams, strict=True))
        wins: dict[Arm | None, int] = {"a": 0, "b": 0, None: 0}
        for document in set(clicked):
            if document not in found:
                raise UsageError(f"document {document!r} was clicked, but was not shown")
            wins[found[document]] += 1
        return wins["a"], wins["b"]


def team_draft(
    a: Sequence[str], b: Sequence[str], k: int, coin: Callable[[int], bool]
) -> Interleaved:
    """Interleaves two rankings to at most `k` documents; if `coin(round)` is true, a picks first.

    Team draft after Radlinski, Kurup & Joachims 2008, How does clickthrough data reflect retrieval
    quality?, CIKM: in each round both teams pick their best document that is not yet shown, the
    coin's winner first. Three rules remove bias from random clicks: the common prefix of both
    rankings has no team; the draft ends if one team has no document left, or would have none if the
    other picked first; and the remaining documents have no team. A repeated document counts at its
    best rank. Raises UsageError for k below 1 and ids that are not text.
    """
    if not isinstance(k, int) or k < 1:
        raise UsageError(f"k must be a whole number above 0, not {k!r}")
    left, right = _unique(a), _unique(b)
    same = 0
    while same < min(len(left), len(right), k) and left[same] == right[same]:
        same += 1
    shown: dict[str, Arm | None] = dict.fromkeys(left[:same])
    turn = 0
    while len(shown) < k:
        picks: dict[Arm, list[str]] = {"a": _best(left, shown), "b": _best(right, shown)}
        if not (picks["a"] and picks["b"]):
            break
        alike = picks["a"][0] == picks["b"][0]
        if alike and len(shown) < k - 1 and min(map(len, picks.values())) < 2:
            break
        order: tuple[Arm, Arm] = ("a", "b") if coin(turn) else ("b", "a")
        turn += 1
        shown[picks[order[0]][0]] = order[0]
        if len(shown) < k:
            shown[picks[order[1]][1 if alike else 0]] = order[1]
    for document in (*left, *right):  # one ranking has at most one document left
        if len(shown) < k:
            shown.setdefault(document, None)
    return Interleaved(tuple(shown), tuple(shown.values()))


def _best(ranking: list[str], shown: dict[str, Arm | None]) -> list[str]:
    """Returns the best two documents that are not shown."""
    return list(islice((document for document in ranking if document not in shown), 2))


def _unique(ranking: Sequence[str]) -> list[str]:
    """Returns the ranking without duplicates. Raises UsageError."""
    found = [] if isinstance(ranking, str) else list(ranking)
    if isinstance(ranking, str) or not all(isinstance(document, str) for document in found):
        raise UsageError(
            f"a ranking must be a list of document ids, best first, not {ranking!r:.80}"
        )
    return list(dict.fromkeys(found))


Bounds = tuple[float, float] | None
_NAME = r"^(?=.*\S)[^\x00-\x1f\x7f]{1,200}\Z"
Line = Annotated[str, Meta(pattern=_NAME)]
"""A non-empty text of one line."""


class ABTestPlan(Record, omit_defaults=False, tag_field="log", tag="abtest/1"):
    """The plan of an A/B test. Raises UsageError for invalid values.

    `split` is the share of units that are routed to a. `randomization_unit` names the unit of
    routing ("user", "query"). `one_observation_per_unit`: each unit is observed once. `metrics`
    maps the allowed metrics to (lowest, highest), or None for no bounds; empty allows any name.
    `on_failure` maps a metric to its value for a failed request: by default 0 if the bounds are
    (0, 1), else None (no value). `min_effects` maps a metric to the difference to detect.
    """

    name: Line
    a: Line = "a"
    b: Line = "b"
    split: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    salt: str = ""
    randomization_unit: Line = "user"
    one_observation_per_unit: bool = False
    interleave: bool = False
    metrics: dict[Line, Bounds] = msgspec.field(default_factory=dict)
    min_effects: dict[str, float] = msgspec.field(default_factory=dict)
    on_failure: dict[str, float | None] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise self._error(f"both systems are named {self.a!r}; give them different names")
        if self.interleave and (
            self.split != 0.5 or self.metrics or self.min_effects or self.on_failure
        ):
            raise self._error(
                "an interleaved test compares clicks; remove split, metrics, min_effects and "
                "on_failure"
            )
        self._check_metrics()

    def _check_metrics(self) -> None:
        for metric, bounds in self.metrics.items():
            if bounds is not None and not -math.inf < bounds[0] < bounds[1] < math.inf:
                raise self._error(
                    f"metric {metric!r} has bounds {bounds!r}; give (lowest, highest), or None "
                    "for no bounds"
                )
        for argument in ("min_effects", "on_failure"):
            for metric in getattr(self, argument):
                if self.metrics and metric not in self.metrics:
                    known_names = suggest(metric, list(self.metrics))
                    raise self._error(f"{argument} has an unknown metric {metric!r}{known_names}")
        for metric, effect in self.min_effects.items():
            if not (effect and math.isfinite(effect)):
                raise self._error(
                    f"min_effects of {metric!r} must be a number other than 0, not {effect!r}"
                )
        for metric, value in self.on_failure.items():
            low, high = self.metrics.get(metric) or (-math.inf, math.inf)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise self._error(
                    f"on_failure of {metric!r} must be a number within its bounds or None, not "
                    f"{value!r}"
                )

    def _error(self, message: str) -> UsageError:
        return UsageError(f"A/B test {self.name!r}: {message}")

    def failure_values(self) -> dict[str, float]:
        """Returns the value of a failed request by metric; see `on_failure`."""
        successes = {name: 0.0 for name, bounds in self.metrics.items() if bounds == (0, 1)}
        counted = {**successes, **self.on_failure}
        return {name: float(value) for name, value in counted.items() if value is not None}

    def router(self) -> Router:
        """Returns the router of units to arms, which depends only on name, salt and split."""
        return Router(self.name, self.salt, self.split)

    @property
    def record_type(self) -> type[Observation | Impression]:
        """The type of the records of this test."""
        return Impression if self.interleave else Observation

    def check_value(self, metric: str, value: float) -> None:
        """Raises UsageError for a metric that is not in the plan, and a value out of bounds."""
        if self.metrics and metric not in self.metrics:
            known = suggest(metric, list(self.metrics))
            raise UsageError(f"metric {metric!r} is not in the plan{known}")
        low, high = self.metrics.get(metric) or (-math.inf, math.inf)
        if not low <= value <= high:
            raise UsageError(
                f"metric {metric!r} is {value:g}, outside its bounds {low:g} to {high:g}"
            )

    def check_same(self, other: ABTestPlan, where: str) -> None:
        """Raises UsageError that names the first field in which another plan differs."""
        mine, theirs = to_plain(self), to_plain(other)
        for key, value in mine.items():
            if theirs[key] != value:
                raise UsageError(
                    f"{where}: this test started with {key}={theirs[key]!r}, not {value!r}; the "
                    "plan of a running test cannot change: use another name and log"
                )


# -- Records ---------------------------------------------------------------------------------------

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799
"""The range of times, in seconds since 1970: the years 1 to 9999."""

Time = Annotated[float, Meta(ge=EARLIEST, le=LATEST)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Observation(Record):
    """Metrics of one request of a unit; `error` is the kind of error of its system, if it failed.

    `id` is unique to each record, so equal lines are copies.
    """

    time: Time
    unit_id: str
    arm: Arm
    metrics: dict[str, float]
    error: str | None = None
    id: str = ""


class Clicks(Record):
    """Clicks on the documents of each team."""

    a: Count
    b: Count


class Impression(Record):
    """Clicks on an interleaved ranking, or the `error` of the system of `arm`."""

    time: Time
    unit_id: str
    clicks: Clicks | None = None
    arm: Arm | None = None
    error: str | None = None
    id: str = ""

    def __post_init__(self) -> None:
        if (self.clicks is None) == (self.error is None):
            raise ValueError("needs either clicks or error")
        if (self.arm is None) != (self.error is None):
            raise ValueError("needs both arm and error, or neither")

    @property
    def credit(self) -> Clicks:
        """The clicks; a failed system loses the impression by 0 clicks to 1."""
        if self.clicks is not None:
            return self.clicks
        return Clicks(a=int(self.arm == "b"), b=int(self.arm == "a"))
