"""What the tests of one night show together: a change is one only after Holm over the list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.statistics.corrections import holm
from harness.verdicts.history import Line, Series, series_of

ROSE, FELL = "rose", "fell"
NOT_SHOWN, UNCHANGED, OPEN = "no change shown", "unchanged", "cannot be told"

Place = tuple[Series, str, str]
"""Series, slice and metric."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one cell, and its p after Holm (None where it was not tested)."""

    said: str
    p: float | None = None


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a night. `tested` is the number of tests that were corrected together, over
    all queries and by ability."""

    cells: dict[Place, Verdict]
    tested: dict[str, int]
    alpha: float


def verdicts(lines: Iterable[Line]) -> Verdicts:
    """Judge every cell of a night that was compared with the last time.

    Two families, each with Holm's correction: all queries, and by ability. A test that could not
    have given p <= alpha whatever the signs of its differences is in neither: its differences are
    all 0 (`unchanged`), or there are too few independent units (`cannot be told`). To leave it out
    takes nothing from the correction, since it can never be a false finding (Tarone, 1990). A cell
    that no p could have shown beside that many tests `cannot be told` either.
    """
    found: dict[Place, Verdict] = {}
    tested = {}
    alpha = 0.05
    families: dict[str, list[tuple[Place, dict[str, float]]]] = {"all": [], "by ability": []}
    for line in lines:
        change = line.get("change") or {}
        if change.get("state") != "compared":
            continue
        alpha = change["alpha"]
        for part, metrics in change["cells"].items():
            for metric, cell in metrics.items():
                place = (series_of(line), part, metric)
                families["all" if part == "all" else "by ability"].append((place, cell))
    for family, members in families.items():
        able = [
            (place, cell)
            for place, cell in members
            if cell["smallest"] is not None and cell["smallest"] <= alpha
        ]
        tested[family] = len(able)
        found |= {
            place: Verdict(OPEN if cell["won"] or cell["lost"] or not cell["n"] else UNCHANGED)
            for place, cell in members
        }
        adjusted = holm([cell["p"] for _, cell in able])
        for (place, cell), p in zip(able, adjusted, strict=True):
            found[place] = Verdict(_said(cell, float(p), len(able), alpha), float(p))
    return Verdicts(found, tested, alpha)


def _said(cell: dict[str, float], p: float, tests: int, alpha: float) -> str:
    if p <= alpha:
        return ROSE if cell["difference"] > 0 else FELL
    # Holm multiplies the least p of that many tests by their number.
    return OPEN if cell["smallest"] * tests > alpha else NOT_SHOWN
