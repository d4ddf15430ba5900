"""Routes units to arms by a hash, and interleaves two rankings by team draft."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from harness.errors import UsageError

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
