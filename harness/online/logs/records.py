"""Records of logs: counts of what was read, and what a run folder holds of the log behind it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.base import Record


@dataclass
class LogCounts:
    """Counts of what was read, by kind.

    `other`: lines that `where` skips, and spans that are no retrievals. `unreadable`: lines that
    are no JSON or hold a wrong value; `first_error` names the first of them. `without_result`:
    requests that do not say what was returned. `torn`: last lines that a writer did not finish,
    which is no fault.
    """

    requests: int = 0
    feedback: int = 0
    other: int = 0
    unreadable: int = 0
    without_result: int = 0
    torn: int = 0
    first_error: str = ""

    @property
    def first_error_location(self) -> str:
        """File and line of the first line that cannot be read, without its content."""
        return self.first_error.partition(": ")[0]


@dataclass
class JoinCounts:
    """Counts of how requests joined labelled queries."""

    by_id: int = 0
    by_text: int = 0
    unlabelled: int = 0
    ambiguous_text: int = 0
    repeated: int = 0


class Rate(Record):
    """A mean over `n`; None over nothing."""

    value: float | None
    n: int


class FeedbackStats(Record):
    """Clicks and ratings, with what they cannot tell.

    `click_rate` is over requests whose log says what was clicked, be it nothing; `first_click_mrr`
    over those with a click on a document that was returned.
    """

    click_rate: Rate
    first_click_mrr: Rate
    rating: Rate
    caveats: list[str]


class FeedbackSummary(FeedbackStats):
    """feedback.json of a run folder."""

    requests: int
    clicks_by_rank: dict[int, int]
    clicks_not_returned: int
