"""The documents of one haystack as a retriever sees them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import count, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.reader import Documents
from harness.retrievers.timing import Sessions, counting_iterator
from harness.runfiles.arrow import take
from harness.schema import Document

_WINDOW = 1 << 28
"""Bytes of text that `blocks` loads at once."""

_PIECES = 16
"""Number of reads in which it loads them."""

_RECORDS = 1024
"""Documents that iteration reads at once."""


@dataclass(frozen=True)
class Changed:
    """A change of a document from `timestamp` on: an `update` replaces it by the document `by`, a
    `forget` asks to forget it (in the document `by`, if any). Documents are named by handles.
    """

    kind: str
    document: str
    timestamp: int
    by: str | None = None


class Corpus(Sequence[Document]):
    """The documents of one haystack as a retriever sees them; `id` and `session` are handles.

    Iteration yields Document records, `sessions()` groups them by session; `contents`, `handles`
    and `timestamps` are whole columns; `blocks()` yields parts of a corpus that is too large for
    memory. Dataset ids are not included. This prevents accidental access to the qrels, not
    deliberate reading of the dataset's files; only isolated runs prevent that.
    """

    def __init__(  # noqa: PLR0913 - the columns of a corpus
        self,
        documents: Documents,
        rows: npt.NDArray[np.int32],
        numbers: npt.NDArray[np.int64],
        timestamps: npt.NDArray[np.float64],
        sessions: npt.NDArray[np.int64] | None,
        dataset: str = "",
        changes: Sequence[Changed] = (),
        users: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """`rows`, `numbers` (of the handles), `timestamps` (NaN: undated), `sessions` and `users`
        (-1: none) align; `documents` is the dataset's `shown_documents`, `dataset` its
        fingerprint."""
        self.changes = tuple(changes)
        """Changes of documents, in time order; most datasets have none."""
        self._documents = documents
        self._rows = rows
        self._numbers = numbers
        self._timestamps = timestamps
        self._sessions = sessions
        self._users = users
        self._dataset = dataset
        self._owner = ""

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, position: int) -> Document:  # type: ignore[override]
        if not -len(self) <= position < len(self):
            raise IndexError(f"position {position} of {len(self)} documents")
        found = self._documents[int(self._rows[position])]
        return self._document(position, found.text, found.title, found.speaker, found.position)

    def _document(
        self, at: int, text: str, title: str | None, speaker: str | None, position: int | None
    ) -> Document:
        stamp = self._timestamps[at]
        in_session = self._sessions is not None and self._sessions[at] >= 0
        return Document(
            handle(self._numbers[at]),
            text,
            title or "",
            None if math.isnan(stamp) else int(stamp),
            f"s{self._sessions[at]}" if in_session else None,  # type: ignore[index]
            speaker,
            position,
            None if self._users is None else user_handle(self._users[at]),
        )

    def __iter__(self) -> Iterator[Document]:
        return counting_iterator(self._records())

    def _records(self) -> Iterator[Document]:
        """Yields all documents; reading them one by one would take 20 times as long."""
        for start in range(0, len(self), _RECORDS):
            rows = self._rows[start : start + _RECORDS]
            fields = (
                self._documents.column(name, rows).to_pylist()
                for name in ("text", "title", "speaker", "position")
            )
            yield from map(self._document, count(start), *fields)

    def sessions(self) -> list[list[Document]]:
        """Groups documents by session, in time order; one without a session is a session."""
        sessions: dict[str, list[Document]] = {}
        for document in self._records():
            sessions.setdefault(document.session or document.id, []).append(document)
        return Sessions(sessions.values())

    def events(self, before: Corpus | None = None) -> Iterator[list[Document] | Changed]:
        """Yields sessions and changes in time order; a change follows the session of its time.

        Omits documents and changes of `before`, an earlier state of this corpus. The rest of a
        session that continued is ordered by its own time.
        """
        known = set() if before is None else {*before.handles}
        sessions = [[d for d in session if d.id not in known] for session in self.sessions()[:]]
        sessions = [session for session in sessions if session]
        if before is not None:
            sessions.sort(key=lambda session: session[0].timestamp or -math.inf)
        old = () if before is None else before.changes
        waiting = [change for change in self.changes if change not in old]
        for documents in sessions:
            when = documents[0].timestamp
            while waiting and when is not None and waiting[0].timestamp < when:
                yield waiting.pop(0)
            yield documents
        yield from waiting

    def blocks(self, size: int = 1 << 16) -> Iterator[Corpus]:
        """Yields the documents in order, in corpora of at most `size` each.

        Positions in results refer to the whole corpus, not to a block. A large corpus is shuffled,
        so windows of 256 MB of text are read sequentially from the file and then put in the
        corpus's order.
        """
        if len(self) <= size:
            yield self
            return
        for start, end in self._windows():
            documents = Documents(self._gathered(slice(start, end)))
            for low in range(start, end, size):
                part = slice(low, min(low + size, end))
                yield Corpus(
                    documents,
                    np.arange(low - start, part.stop - start, dtype=np.int32),
                    self._numbers[part],
                    self._timestamps[part],
                    None if self._sessions is None else self._sessions[part],
                    users=None if self._users is None else self._users[part],
                )

    def _windows(self) -> list[tuple[int, int]]:
        """Returns (start, end) of parts that hold at most about a window of text."""
        lengths = pc.binary_length(self._documents.column("text"))
        filled = np.cumsum(np.asarray(lengths.to_numpy(), np.int64)[self._rows]) // _WINDOW
        cuts = (np.flatnonzero(np.diff(filled)) + 1).tolist()
        return [*pairwise([0, *cuts, len(self)])]

    def _shown(self, part: slice | npt.NDArray[np.int64]) -> pa.Table:
        rows = self._rows[part]
        return pa.table(
            {name: self._documents.column(name, rows) for name in self._documents.names}
        )

    def _gathered(self, part: slice) -> pa.Table:
        """Returns a window, read in parts of the file that are released one by one."""
        order = np.argsort(self._rows[part])
        pieces = []
        for some in np.array_split(order + part.start, _PIECES):
            pieces.append(self._shown(some))
            self._documents.release()
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        table = pa.concat_tables(pieces)
        return pa.table({name: take(table[name], back) for name in table.column_names})

    @cached_property
    def key(self) -> bytes:
        """Digest of everything shown, 16 bytes; equal for the same documents shown the same way.

        It covers texts, titles, speakers, dates, sessions, users, handles, changes, and the order.
        """
        digest = hashlib.blake2b(digest_size=16)
        for block in self.blocks():
            for name in ("text", "title", "speaker", "position"):
                column = block._documents.column(name, block._rows)
                _digest(column.combine_chunks(), digest)
            for numbers in (block._timestamps, block._numbers, block._sessions, block._users):
                if numbers is not None:
                    digest.update(np.ascontiguousarray(numbers).tobytes())
        if self.changes:
            digest.update(json.dumps([astuple(change) for change in self.changes]).encode())
        return digest.digest()

    @cached_property
    def namespace(self) -> str:
        """Name for this haystack at a service, such as its `user_id` or the name of a collection.

        It has 32 characters: "h" and 31 lowercase hexadecimal digits. It depends on the documents,
        the system, the settings and the name of the run; a resumed run has the same one.
        """
        digest = hashlib.blake2b(self.key + self._owner.encode(), digest_size=16)
        return f"h{digest.hexdigest()[1:]}"

    def with_owner(self, name: str) -> Corpus:
        """Returns this corpus for a run, or a part of its system, with a namespace of its own."""
        corpus = copy(self)
        corpus.__dict__.pop("namespace", None)
        corpus._owner = f"{self._owner}/{name}"
        return corpus

    def fingerprint(self) -> str | None:
        """Returns a digest that is equal in every run for the same documents in the same order; it
        identifies cached indexes. None in a block and in an isolated run, where it is unknown.
        """
        if not self._dataset:
            return None
        digest = hashlib.blake2b(self._dataset.encode(), digest_size=16)
        digest.update(self._rows.tobytes())
        if self._users is not None:
            digest.update(self._users.tobytes())
        return digest.hexdigest()

    @property
    def handles(self) -> list[str]:
        """Handle of each document; random, and unique to this haystack of the run."""
        return [handle(number) for number in self._numbers.tolist()]

    @property
    def user_ids(self) -> list[str | None]:
        """User of each document; None if everyone may read it."""
        if self._users is None:
            return [None] * len(self)
        return [user_handle(number) for number in self._users.tolist()]

    @property
    def contents(self) -> list[str]:
        """Title and text of each document, joined by a space: the text to index."""
        return self._documents.contents(self._rows)

    def text_column(self) -> pa.Array:
        """Returns `contents` as an Arrow column of large strings, without Python objects."""
        text = self._documents.column("text", self._rows).cast(pa.large_string())
        if self._documents.lack("title") < len(self._documents):
            title = self._documents.column("title", self._rows).cast(pa.large_string())
            title = pc.if_else(pc.equal(title, ""), None, title)
            joined = pc.binary_join_element_wise(title, text, pa.scalar(" ", pa.large_string()))
            text = pc.coalesce(joined, text)
        return text.combine_chunks() if text.num_chunks != 1 else text.chunk(0)

    @property
    def timestamps(self) -> list[int | None]:
        """Timestamp of each document, in seconds; None if undated."""
        return [None if np.isnan(t) else int(t) for t in self._timestamps.tolist()]


def _digest(values: pa.Array, into: Any) -> None:
    """Adds a column to a hash: its numbers, or all its texts and then their lengths."""
    if isinstance(values, pa.ChunkedArray):  # of no chunks
        values = pa.concat_arrays([pa.nulls(0, values.type), *values.chunks])
    if not pa.types.is_integer(values.type):
        lengths = pc.binary_length(values)
        texts = pc.fill_null(values.cast(pa.large_string()), "")
        whole = pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), texts)
        into.update(pc.binary_join(whole, pa.scalar("", pa.large_string()))[0].as_buffer())
        values = lengths
    into.update(pc.fill_null(values.cast(pa.int64()), -1).to_numpy())


def handle(number: int) -> str:
    """Returns the opaque handle of a document."""
    return f"d{number}"


def user_handle(number: int) -> str | None:
    """Returns the opaque name of a user; None for -1."""
    return None if number < 0 else f"u{number}"


def is_handle(text: Any) -> bool:
    """Tests whether a value has the form of a handle."""
    return isinstance(text, str) and text[:1] == "d" and text[1:].isascii() and text[1:].isdecimal()


def unknown_handle(id_: str) -> ValueError:
    """Returns the error for a returned text that is not a handle of the corpus."""
    if is_handle(id_):
        advice = "index(corpus) is called once per haystack and must forget earlier documents"
    else:
        advice = "return document.id or a position in the corpus, or Hit(text=...) for a text"
    return ValueError(f"{id_[:60]!r} is not a handle of this haystack; {advice}")
