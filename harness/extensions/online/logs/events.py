"""Logged requests, their labelled queries, and statistics of clicks and ratings."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from harness.io.records import Record


@dataclass(slots=True)
class RetrievalEvent:
    """One request of a log. None: the log does not have the value.

    `returned` holds document ids, best first; an empty tuple is an empty result. `scores` and
    `texts`, if any, have the length of `returned` (`texts` alone if the system returns no ids).
    `time` is in seconds since 1970 UTC, `seconds` the duration. `failed`: it ended in an error.
    `clicked` are ids of documents that a person opened (empty: no click, but clicks were logged),
    `rating` is a person's rating as a number. Feedback refers to the request by `request_id`.
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
    session_id: str | None = None
    user_id: str | None = None
    ability: str | None = None
    clicked: tuple[str, ...] | None = None
    rating: float | None = None
    request_id: str | None = None


@dataclass(slots=True)
class Feedback:
    """Clicks and a rating of an earlier request."""

    request_id: str
    clicked: tuple[str, ...] | None = None
    rating: float | None = None
    time: float | None = None


# -- Labelled queries of requests ------------------------------------------------------------------

AMBIGUOUS = -2
UNKNOWN = -1


class QueryIndex:
    """Index of labelled queries, to find the query of a request."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        """`ids` and `texts` have the same length; an empty text matches nothing."""
        self._by_id = {name: row for row, name in enumerate(ids)}
        self._by_text: dict[str, int] = {}
        for row, text in enumerate(texts):
            key = normalise_text(text)
            if key:
                self._by_text[key] = AMBIGUOUS if key in self._by_text else row

    def find(self, query_id: str | None, query: str | None) -> tuple[int, bool]:
        """Returns (row, by id) of the labelled query; row may be UNKNOWN, or AMBIGUOUS by text.

        If the log has no id, the query text is also looked up as an id.
        """
        name = query if query_id is None else query_id
        row = UNKNOWN if name is None else self._by_id.get(name, UNKNOWN)
        if row != UNKNOWN or query is None:
            return row, True
        return self._by_text.get(normalise_text(query), UNKNOWN), False


def normalise_text(text: str) -> str:
    """Normalises to Unicode's composed form (NFC) with single spaces; keeps letters and case."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(unicodedata.normalize("NFC", text).split())


# -- Clicks and ratings ----------------------------------------------------------------------------


class RateStats(Record):
    """A mean over `n` values; None if n is 0."""

    value: float | None
    n: int


class FeedbackStats(Record):
    """Clicks and ratings, and their limits.

    `click_rate` is over requests with logged clicks, including none; `first_click_mrr` is over
    those with a click on a returned document.
    """

    click_rate: RateStats
    first_click_mrr: RateStats
    rating: RateStats
    caveats: list[str]


class FeedbackSummary(FeedbackStats):
    """feedback.json of a run folder."""

    requests: int
    clicks_by_rank: dict[int, int]
    clicks_not_returned: int


CAVEATS = (
    "Clicks are biased: a document that was not returned cannot be clicked, and higher ranks get "
    "more clicks. So clicks do not measure recall.",
    "No click is not a judgement: the result list may have answered the query.",
    "Compare click rates only for the same page design.",
    "Ratings come from people who choose to rate, not from a random sample.",
)
"""Shown with all feedback statistics."""


def add_feedback(events: Sequence[RetrievalEvent], feedback: Iterable[Feedback]) -> int:
    """Adds later feedback to its requests; returns the number of items for unknown requests.

    Clicks accumulate; of several ratings the last one counts.
    """
    by_request = {event.request_id: event for event in events if event.request_id is not None}
    lost = 0
    for one in feedback:
        event = by_request.get(one.request_id)
        if event is None:
            lost += 1
            continue
        if one.clicked is not None:
            event.clicked = tuple(dict.fromkeys((event.clicked or ()) + one.clicked))
        if one.rating is not None:
            event.rating = one.rating
    return lost


def clicked_ranks(event: RetrievalEvent) -> list[int]:
    """Returns the ranks of the clicked documents that were returned, from 1."""
    places = {name: rank for rank, name in enumerate(dict.fromkeys(event.returned or ()), 1)}
    return sorted(places[name] for name in event.clicked or () if name in places)


def feedback_summary(events: Sequence[RetrievalEvent]) -> FeedbackSummary | None:
    """Summarises clicks and ratings; None if no request has any."""
    watched = [event for event in events if event.clicked is not None]
    ranks = [clicked_ranks(event) for event in watched]
    stats = feedback_stats(
        np.array([min(clicked, default=0) for clicked in ranks], np.int64),
        np.array([event.rating for event in events if event.rating is not None], np.float64),
    )
    if stats is None:
        return None
    by_rank = Counter(rank for clicked in ranks for rank in clicked)
    clicks = sum(len(event.clicked or ()) for event in watched)
    return FeedbackSummary(
        requests=len(events),
        clicks_by_rank={rank: by_rank[rank] for rank in sorted(by_rank)},
        clicks_not_returned=clicks - sum(by_rank.values()),
        **asdict(stats),
    )


def feedback_stats(
    first_clicks: npt.NDArray[np.integer[Any]], ratings: npt.NDArray[np.float64]
) -> FeedbackStats | None:
    """Summarises the rank of the first click of each watched request (0: none), and ratings."""
    if not len(first_clicks) and not len(ratings):
        return None
    clicked = first_clicks[first_clicks > 0]
    return FeedbackStats(
        click_rate=rate(len(clicked), len(first_clicks)),
        first_click_mrr=rate(float((1 / clicked).sum()), len(clicked)),
        rating=rate(float(ratings.sum()), len(ratings)),
        caveats=list(CAVEATS),
    )


def rate(total: float, n: int) -> RateStats:
    """Returns the mean of `n` values with this total; None if n is 0."""
    return RateStats(value=total / n if n else None, n=n)
