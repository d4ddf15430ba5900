"""The contract between the harness and what is under test, on one page.

A retriever is a class with `index(corpus)` and `search(queries, k)`. It sees texts, titles, dates,
speakers and opaque handles; never an id of the dataset, a judgement, an answer, a category, nor an
order that depends on the gold. Dated documents come in time order, undated ones shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Documents
from harness.schema import Document


@dataclass(frozen=True, slots=True)
class Question:
    """What a retriever sees of a query: its text, and when it is asked (seconds, see schema)."""

    text: str
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one question, best first.

    `ids` are handles (str) or positions in the corpus (int, or an integer array). `scores`, if any,
    align with them; where they rise, the harness sorts by them. `confidence` says how sure the
    system is that there is an answer at all (any scale, higher is surer); `abstain` that it says
    there is none.
    """

    ids: Sequence[str] | Sequence[int] | npt.NDArray[np.integer[Any]]
    scores: Sequence[float] | npt.NDArray[np.floating[Any]] | None = None
    confidence: float | None = None
    abstain: bool = False


Found = Result | Sequence[str] | Sequence[int] | Sequence[tuple[str | int, float]]
"""What `search` may return for a question: a Result, ids, or (id, score) pairs."""


@runtime_checkable
class Retriever(Protocol):
    """What is under test.

    Optional: `batch_size`, how many questions `search` wants at once (1 if absent); `report()`, a
    dict of what the system says of itself (calls, tokens); `version`, a string.
    """

    def index(self, corpus: Corpus) -> None:
        """Take in a corpus, in place of whatever was indexed before."""
        ...

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """One result a question, of at most k documents."""
        ...


class Corpus(Sequence[Document]):
    """The documents of one haystack as a retriever sees them; `id` and `session` are handles.

    Iterating gives Document records; `contents`, `handles` and `timestamps` give whole columns.
    """

    def __init__(
        self,
        documents: Documents,
        rows: npt.NDArray[np.int32],
        numbers: npt.NDArray[np.int64],
        timestamps: npt.NDArray[np.float64],
        sessions: npt.NDArray[np.int64] | None,
    ) -> None:
        """`rows`, `numbers` (those of the handles), `timestamps` (NaN: undated) align."""
        self._documents = documents
        self._rows = rows
        self._numbers = numbers
        self._timestamps = timestamps
        self._sessions = sessions

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, position: int) -> Document:  # type: ignore[override]
        if not -len(self) <= position < len(self):
            raise IndexError(f"position {position} of {len(self)} documents")
        found = self._documents[int(self._rows[position])]
        stamp = self._timestamps[position]
        return Document(
            handle(self._numbers[position]),
            found.text,
            found.title,
            None if np.isnan(stamp) else int(stamp),
            None if self._sessions is None else f"s{self._sessions[position]}",
            found.speaker,
            found.position,
        )

    def __iter__(self) -> Iterator[Document]:
        return (self[i] for i in range(len(self)))

    @property
    def handles(self) -> list[str]:
        """Handle of each document; random, and new for every haystack."""
        return [handle(number) for number in self._numbers.tolist()]

    @property
    def contents(self) -> list[str]:
        """Title and text of each document, joined by a space: what to index."""
        return self._documents.contents(self._rows)

    @property
    def timestamps(self) -> list[int | None]:
        """When each document was said, in seconds; None where nobody knows."""
        return [None if np.isnan(t) else int(t) for t in self._timestamps.tolist()]


def handle(number: int) -> str:
    """The opaque name of a document in its haystack."""
    return f"d{number}"
