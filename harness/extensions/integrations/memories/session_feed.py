"""Feeds a haystack's documents to a memory in time order, by session or turn."""

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
    """Documents of one session that are added together."""

    documents: Sequence[Document]

    @property
    def date(self) -> datetime | None:
        """Returns the date of the first dated document."""
        stamps = (document.timestamp for document in self.documents)
        return next((as_datetime(stamp) for stamp in stamps if stamp is not None), None)

    @property
    def source(self) -> str | None:
        """Returns the only document of the batch, or None if there are several.

        A memory extracted from twenty turns usually derives from one or two of them. Naming all
        twenty would credit documents that it may not have used, so none is named and the text is
        matched instead.
        """
        return self.documents[0].id if len(self.documents) == 1 else None


def batches(corpus: Corpus, by: str, name: str) -> Iterator[Batch]:
    """Yields the corpus in time order, in sessions or documents; `name` labels the progress bar.

    Raises ValueError if `by` is not in BATCHES.
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
    """Returns `by`. Raises ValueError if it is not in BATCHES."""
    if by not in BATCHES:
        raise ValueError(f"batch must be {' or '.join(BATCHES)}, not {by!r}")
    return by


def role(document: Document) -> str:
    """Returns user or assistant; a named speaker is a user."""
    return document.speaker if document.speaker in ROLES else "user"


def line(document: Document, roles: bool = False) -> str:
    """Formats a turn with the speaker's name, unless the text starts with it.

    user and assistant are not names and are included only with `roles`.
    """
    name, text = document.speaker, document.content
    if not name or (name in ROLES and not roles):
        return text
    stands = re.match(rf"(?:\[[^\]]*\] )?{re.escape(name)}(?::| said\b)", text)
    return text if stands else f"{name}: {text}"
