"""What a memory is told: a haystack's documents in time order, by session or turn by turn."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.retrievers.contract import Corpus
from harness.retrievers.timing import current
from harness.schema import Document, as_datetime

ROLES = ("user", "assistant")
BATCHES = ("session", "turn")


@dataclass(frozen=True)
class Batch:
    """Documents that a memory is told at once, of one session."""

    documents: Sequence[Document]

    @property
    def date(self) -> datetime | None:
        """When it was said, by the dataset's own clock: the date of the first dated document."""
        stamps = (document.timestamp for document in self.documents)
        return next((as_datetime(stamp) for stamp in stamps if stamp is not None), None)

    @property
    def source(self) -> str | None:
        """The document that everything here comes from; None where there are several.

        What a memory makes of twenty turns it made of one or two of them, and nobody knows which.
        To name all twenty would be credit for nineteen that it may never have looked at; so none is
        named, and the text decides.
        """
        return self.documents[0].id if len(self.documents) == 1 else None


def batches(corpus: Corpus, by: str, name: str) -> Iterator[Batch]:
    """The corpus in time order, a session or a document at once; `name` stands at the progress.

    Raises ValueError for a `by` that is not in BATCHES.
    """
    from tqdm import tqdm

    told = (
        [Batch([document]) for documents in corpus.sessions()[:] for document in documents]
        if check_batch(by) == "turn"
        else [Batch(documents) for documents in corpus.sessions()[:]]
    )
    clock = current()
    for batch in tqdm(
        told, f"{name} is told", unit=by, leave=False, disable=not sys.stderr.isatty()
    ):
        yield batch
        clock.taken_in(len(batch.documents))


def check_batch(by: str) -> str:
    """`by` itself. Raises ValueError where it is not in BATCHES."""
    if by not in BATCHES:
        raise ValueError(f"batch must be {' or '.join(BATCHES)}, not {by!r}")
    return by


def role(document: Document) -> str:
    """user or assistant; a speaker with a name of their own is a user."""
    return document.speaker if document.speaker in ROLES else "user"


def line(document: Document, roles: bool = False) -> str:
    """What was said, with the speaker's name before it unless it stands there already.

    user and assistant are no names, and are written only with `roles`.
    """
    name, text = document.speaker, document.content
    if not name or (name in ROLES and not roles):
        return text
    stands = re.match(rf"(?:\[[^\]]*\] )?{re.escape(name)}(?::| said\b)", text)
    return text if stands else f"{name}: {text}"
