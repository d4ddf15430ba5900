"""Team-draft interleaving: two rankings become one, and each document has a team.

Radlinski, Kurup & Joachims 2008, How does clickthrough data reflect retrieval quality?, CIKM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from harness.errors import UsageError
from harness.live.abtest.routing import Arm


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
            raise UsageError("clicked documents come as a list of ids, not as one text")
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

    In each round both teams pick their best document that is not yet shown, the coin's winner
    first. Three rules keep chance clicks fair and quiet. What both rank the same from the top comes
    first and is of no team: a click there is no preference (two equal rankings always tie). The
    draft ends where one team has nothing left to pick, or would have nothing if the other picked
    first; what is left is shown, of no team. So on every place, in the mean over coins, both teams
    stand equally often. A document that a ranking repeats counts where it first stands. Raises
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
