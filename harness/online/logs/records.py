"""Records of logs: statistics of feedback, and what a run folder holds of the log behind it."""

from __future__ import annotations

from harness.records.base import Record


class RateStats(Record):
    """A mean over `n`; None over nothing."""

    value: float | None
    n: int


class FeedbackStats(Record):
    """Clicks and ratings, with what they cannot tell.

    `click_rate` is over requests whose log says what was clicked, be it nothing; `first_click_mrr`
    over those with a click on a document that was returned.
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
