"""The units of a run, and what comes of them: what is journalled, and sent between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Unit:
    """Some queries (rows) of one haystack; `number` is its place in the plan.

    Units of one `chain` are of one haystack as of ever later times, and run one after the other by
    who ran the first.
    """

    number: int
    haystack: int
    queries: list[int]
    chain: int | None = None


@dataclass
class Answer:
    """What one query got: document rows and scores, best first, or the trace of an error."""

    query: int
    rows: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    scores: npt.NDArray[np.float64] | None = None
    confidence: float | None = None
    abstained: bool = False
    seconds: float | None = None
    cut: int = 0  # documents beyond k that were left out
    repeated: int = 0  # documents that stood in the answer before
    padded: int = 0  # places in which -1 stood for nothing
    reordered: bool = False  # scores rose, so the answer was sorted by them
    hits: list[dict[str, Any]] | None = None  # texts of the system's own: see as_answer
    said: str | None = None  # the system's own answer to the question
    error: str | None = None


@dataclass
class Outcome:
    """What came of a unit, or, of one that takes longer, of some of its queries."""

    unit: int
    haystack: int
    answers: list[Answer]
    index_seconds: float | None = None
    documents: int = 0
    process: int = 0  # which retriever it was, for `reported`
    reported: dict[str, Any] | None = None
    used: dict[str, float] | None = None  # by how much its counts rose in this attempt
    account: int = 0  # of which `used` and `ingested` are: a retriever in one attempt of a run
    ingested: dict[str, float] | None = None  # by how much its counts rose while it indexed
    taken_in: int | None = None  # documents so far, while it is indexing
    kept: bool = False  # the haystack was taken in by an earlier run
    last: bool = True  # no more comes of this unit

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Outcome:
        """From what orjson makes of an outcome."""
        outcome = cls(**{**values, "answers": [Answer(**answer) for answer in values["answers"]]})
        for answer in outcome.answers:
            answer.rows = np.array(answer.rows, np.int32)
            if answer.scores is not None:
                answer.scores = np.array(answer.scores, np.float64)
        return outcome
