"""One recall as a system logged it, and what people did with it: clicks and ratings in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Recall:
    """One query that was answered. Whatever the log does not say is None.

    `returned` holds document ids, best first; an empty tuple is an answer with nothing, None means
    that the log does not say. `scores` and `texts`, if any, are as long as `returned` (`texts`
    alone where the system names no ids). `time` is seconds since 1970 UTC, `seconds` how long the
    recall took. `failed` says that it ended in an error. `clicked` are ids of documents that a
    person opened (empty: watched, and none was), `rating` is their opinion as a number. `request`
    names the recall, so that feedback can refer to it.
    """

    returned: tuple[str, ...] | None = None
    query: str | None = None
    query_id: str | None = None
    scores: tuple[float, ...] | None = None
    texts: tuple[str, ...] | None = None
    time: float | None = None
    seconds: float | None = None
    abstained: bool = False
    confidence: float | None = None
    failed: bool = False
    system: str | None = None
    session: str | None = None
    user: str | None = None
    ability: str | None = None
    clicked: tuple[str, ...] | None = None
    rating: float | None = None
    request: str | None = None


@dataclass(slots=True)
class Feedback:
    """What a person did with an earlier recall, named by its `request`."""

    request: str
    clicked: tuple[str, ...] | None = None
    rating: float | None = None
    time: float | None = None


# -- What people did with what they were shown -----------------------------------------------------

CAVEATS = (
    "Clicks tell of what was shown and where: a document that was not returned cannot be clicked, "
    "and higher places are clicked more whatever stands there.",
    "No click is not a judgement: the person may have read enough in the list, or gone away.",
    "So there is no recall in clicks, and a click rate compares only under the same page.",
    "Ratings come from those who care to rate; they are not a sample of all.",
)
"""Shown wherever such numbers are."""


def with_feedback(recalls: Sequence[Recall], feedback: Iterable[Feedback]) -> int:
    """Put feedback that came later to the recall that it names; returns how many named none.

    Clicks add up; of several ratings the last one counts.
    """
    by_request = {recall.request: recall for recall in recalls if recall.request is not None}
    lost = 0
    for one in feedback:
        recall = by_request.get(one.request)
        if recall is None:
            lost += 1
            continue
        if one.clicked is not None:
            recall.clicked = tuple(dict.fromkeys((recall.clicked or ()) + one.clicked))
        if one.rating is not None:
            recall.rating = one.rating
    return lost


def clicked_ranks(recall: Recall) -> list[int]:
    """Ranks of the clicked documents in what was returned, from 1; those not returned have none."""
    places = {name: rank for rank, name in enumerate(dict.fromkeys(recall.returned or ()), 1)}
    return sorted(places[name] for name in recall.clicked or () if name in places)


def feedback_summary(recalls: Sequence[Recall]) -> dict[str, Any] | None:
    """Clicks by rank and ratings over recalls; None where no recall has any.

    `click_rate` is over recalls whose log says what was clicked, be it nothing; `first_click_mrr`
    over those with a click on something that was returned; each with its n.
    """
    watched = [recall for recall in recalls if recall.clicked is not None]
    ratings = [recall.rating for recall in recalls if recall.rating is not None]
    if not watched and not ratings:
        return None
    ranks = [clicked_ranks(recall) for recall in watched]
    first = [found[0] for found in ranks if found]
    by_rank = Counter(rank for found in ranks for rank in found)
    clicks = sum(len(recall.clicked or ()) for recall in watched)
    return {
        "recalls": len(recalls),
        "click_rate": {"value": _ratio(len(first), len(watched)), "n": len(watched)},
        "first_click_mrr": {
            "value": _ratio(sum(1 / r for r in first), len(first)),
            "n": len(first),
        },
        "clicks_by_rank": {str(rank): by_rank[rank] for rank in sorted(by_rank)},
        "clicks_on_what_was_not_returned": clicks - sum(by_rank.values()),
        "rating": {"value": _ratio(sum(ratings), len(ratings)), "n": len(ratings)},
        "caveats": list(CAVEATS),
    }


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None
