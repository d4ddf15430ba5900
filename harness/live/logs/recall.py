"""One recall as a system logged it, and feedback that came later."""

from __future__ import annotations

from dataclasses import dataclass


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
