"""The lines of an A/B test's event log: its plan, fixed before it begins, and then records."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.errors import UsageError, near
from harness.io.records import Record, to_plain

Arm = Literal["a", "b"]


class Router:
    """Routes units to arms: BLAKE2b of the unit, keyed by the test's name and salt, as a number.

    A unit's arm is a function of its id, the same on every machine, for ever. Another name or salt
    routes the same units independently.
    """

    def __init__(self, name: str, salt: str = "", split: float = 0.5) -> None:
        self._split = split
        key = hashlib.blake2b(name.encode() + b"\0" + salt.encode(), digest_size=32).digest()
        self._keyed = hashlib.blake2b(key=key, digest_size=8)

    def arm(self, unit: str) -> Arm:
        """The unit's arm."""
        return "a" if self.share(unit) < self._split else "b"

    def share(self, text: str) -> float:
        """A number from 0 to below 1 that is as good as drawn for this text, and never changes."""
        state = self._keyed.copy()
        state.update(text.encode())
        # 53 bits are what a float holds exactly: 1 itself is never reached.
        return (int.from_bytes(state.digest(), "big") >> 11) / 2**53


def as_unit_id(unit: object) -> str:
    """Converts a unit's id, text or a whole number, to text. Raises UsageError."""
    if isinstance(unit, int) and not isinstance(unit, bool):
        return str(unit)
    if not isinstance(unit, str) or not unit:
        raise UsageError(f"a unit id is text or a whole number, not {unit!r}")
    try:
        unit.encode()
    except UnicodeEncodeError:
        raise UsageError(f"unit id {unit!r} has half a character, which cannot be stored") from None
    return unit


# -- Team-draft interleaving -----------------------------------------------------------------------


@dataclass(frozen=True)
class Interleaved:
    """One ranking for the reader. `teams` has "a", "b" or None for each of `documents`."""

    documents: tuple[str, ...]
    teams: tuple[Arm | None, ...]

    def credit(self, clicked: Iterable[str]) -> tuple[int, int]:
        """How many clicked documents are of team a, and of team b; each document once.

        Raises UsageError for a document that was not shown.
        """
        if isinstance(clicked, str):
            raise UsageError("clicked documents are a list of ids, not one text")
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
    """Interleave two rankings to at most `k` documents; `coin(round)` is true when a picks first.

    After Radlinski, Kurup & Joachims 2008, How does clickthrough data reflect retrieval quality?,
    CIKM: two rankings become one, and each document has a team.

    In each round both teams pick their best document that is not yet shown, the coin's winner
    first. Three rules keep chance clicks fair and quiet. What both rank the same from the top comes
    first and is of no team: a click there is no preference (two equal rankings always tie). The
    draft ends where one team has nothing left to pick, or would have nothing if the other picked
    first; what is left is shown, of no team. So on every place, in the mean over coins, both teams
    are equally often. A document that a ranking repeats counts at its best rank. Raises
    UsageError for k below 1 and ids that are no text.
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
    for document in (*left, *right):  # one of them has at most one left
        if len(shown) < k:
            shown.setdefault(document, None)
    return Interleaved(tuple(shown), tuple(shown.values()))


def _best(ranking: list[str], shown: dict[str, Arm | None]) -> list[str]:
    """The best two that are not shown."""
    return list(islice((document for document in ranking if document not in shown), 2))


def _unique(ranking: Sequence[str]) -> list[str]:
    """The ranking with each document once. Raises UsageError."""
    found = [] if isinstance(ranking, str) else list(ranking)
    if isinstance(ranking, str) or not all(isinstance(document, str) for document in found):
        raise UsageError(f"a ranking is a list of document ids, best first, not {ranking!r:.80}")
    return list(dict.fromkeys(found))


Bounds = tuple[float, float] | None
_NAME = r"^(?=.*\S)[^\x00-\x1f\x7f]{1,200}\Z"
Line = Annotated[str, Meta(pattern=_NAME)]
"""A text of one line that is not empty."""


class ABTestPlan(Record, omit_defaults=False, tag_field="log", tag="abtest/1"):
    """The plan of an A/B test.

    `split` is the share of units that are routed to a. `randomization_unit` names what is routed as
    a whole ("user", "query"). `one_observation_per_unit` promises that each unit is observed once.
    `metrics` maps the names that may be recorded to (lowest, highest), or None for no bounds; empty
    allows any name, without bounds. `on_failure` is by metric the value of a request whose system
    raised: 0 by default if the bounds are (0, 1), a success or not; None, as for all other metrics:
    no value. `min_effects` is by metric the true difference that the test is to detect. Raises
    UsageError for wrong values.
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
                "an interleaved test compares clicks, each reader sees both systems: it has no "
                "split, metrics or min_effects"
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
                    known_names = near(metric, list(self.metrics))
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
                    f"a failure cannot count as {value!r} in {metric!r}: give a number within its "
                    "bounds, or None for no value"
                )

    def _error(self, message: str) -> UsageError:
        return UsageError(f"A/B test {self.name!r}: {message}")

    def failure_values(self) -> dict[str, float]:
        """Returns the value of a failed request by metric; see `on_failure`."""
        successes = {name: 0.0 for name, bounds in self.metrics.items() if bounds == (0, 1)}
        counted = {**successes, **self.on_failure}
        return {name: float(value) for name, value in counted.items() if value is not None}

    def router(self) -> Router:
        """Returns the router of units to arms, a function of name, salt and split alone."""
        return Router(self.name, self.salt, self.split)

    @property
    def record_type(self) -> type[Observation | Impression]:
        """The type of the records of such a test."""
        return Impression if self.interleave else Observation

    def check_value(self, metric: str, value: float) -> None:
        """Raises UsageError for a metric that the plan does not have, and a value out of bounds."""
        if self.metrics and metric not in self.metrics:
            known = near(metric, list(self.metrics))
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
                    f"{where}: this test was begun with {key}={theirs[key]!r}, not {value!r}; "
                    "the plan of a running test cannot change: use another name and log"
                )


# -- Records ---------------------------------------------------------------------------------------

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds since 1970: the range of times."""

Time = Annotated[float, Meta(ge=EARLIEST, le=LATEST)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Observation(Record):
    """What was measured of one request of a unit; `error`: the kind of error of its system.

    `id` is another one for each record: equal lines are copies of one.
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
            raise ValueError("one of clicks and error is needed")
        if (self.arm is None) != (self.error is None):
            raise ValueError("arm and error are needed together")

    @property
    def credit(self) -> Clicks:
        """The clicks; a failed system has lost the impression, with no click against one."""
        if self.clicks is not None:
            return self.clicks
        return Clicks(a=int(self.arm == "b"), b=int(self.arm == "a"))
