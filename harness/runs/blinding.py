"""A haystack as a retriever sees it, and the mapping from its handles to documents.

Dated documents are in order of time, documents of the same time in the order of their session,
sessions of the same time shuffled. Undated documents are shuffled. Handles are numbered at random,
and no number is used in two haystacks: a document left in a system's memory from an earlier
haystack is not an answer in this one. Both depend on the seed and the haystack only, never on the
qrels.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset, last_of_base
from harness.retrievers.contract import Corpus, Question
from harness.retrievers.corpus import Changed, handle, is_handle, unknown_handle, user_handle
from harness.retrievers.outputs import in_range
from harness.runfiles.arrow import take

Int32 = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class BlindedCorpus:
    """The documents of one haystack as a retriever sees them."""

    def __init__(self, dataset: Dataset, haystack: int, seed: int, run: str = "") -> None:
        """In a haystack as of some time (see AsOfWriter), documents have the handles and the order
        of the haystacks of later times. `run` identifies the run in `Corpus.namespace`."""
        self._dataset = dataset
        self._haystack = haystack
        shown = haystack
        as_of = dataset.manifest.as_of
        if as_of:
            haystack = last_of_base(dataset.haystack_ids, haystack)
        rng = np.random.default_rng([seed, zlib.crc32(dataset.haystack_bases[haystack].encode())])
        rows = dataset.haystack_rows(haystack)
        dated = dataset.haystack_timestamps(haystack)
        sessions = self._sessions(rows)
        shuffle = rng.permutation(len(rows))
        if dated.null_count == len(dated):
            # One broadcast value, to save memory with millions of documents.
            order, stamps = shuffle, np.broadcast_to(np.float64("nan"), len(rows))
        else:
            stamps = dated.to_numpy(zero_copy_only=False).astype(float)
            # Undated documents precede every question.
            when = np.where(np.isnan(stamps), -np.inf, stamps) if as_of else stamps
            order = self._in_time(rows, when, sessions, shuffle, rng)
            stamps = stamps[order]
        self.rows = rows[order]
        # There are no more sessions than documents, so session numbers are unique too.
        self._start = int(dataset.haystack_starts[haystack])
        self._numbers = rng.permutation(len(rows))
        self._numbers += self._start
        if sessions is not None:
            sessions = _renamed(sessions[order], rng)
            sessions[sessions >= 0] += self._start
        self._handles = len(rows)
        self._user_numbers: npt.NDArray[np.int64] | None = None
        if dataset.scopes is not None:
            names = len(dataset.scopes.names)
            self._user_numbers = np.append(rng.permutation(names) + haystack * names, -1)
        if shown != haystack:
            said = np.isin(self.rows, dataset.haystack_rows(shown))
            self.rows, self._numbers, stamps = self.rows[said], self._numbers[said], stamps[said]
            sessions = None if sessions is None else sessions[said]
        self.corpus = Corpus(
            dataset.shown_documents,
            self.rows,
            self._numbers,
            stamps,
            sessions,
            dataset.fingerprint,
            self._changes(shown) if dataset.has_changes else (),
            self._users(),
        ).with_owner(run)

    def _users(self) -> npt.NDArray[np.int64] | None:
        """Returns the numbers of the documents' users, -1 for none; None without users."""
        scopes, numbers = self._dataset.scopes, self._user_numbers
        return None if scopes is None or numbers is None else numbers[scopes.owner[self.rows]]

    def _changes(self, haystack: int) -> list[Changed]:
        """Returns the changes of the shown documents, by handle, without those known from the qrels
        only."""
        numbers = self._numbers.tolist()
        name = {row: handle(n) for row, n in zip(self.rows.tolist(), numbers, strict=True)}
        return [
            Changed(one.kind, name[one.row], one.timestamp, name.get(one.by_row))
            for one in self._dataset.changes(haystack)
            if one.kind != "key-update"
        ]

    def _sessions(self, rows: Int32) -> npt.NDArray[np.int64] | None:
        documents = self._dataset.documents
        if documents.lack("session") == len(documents):
            return None
        column = self._dataset.documents.column("session", rows)
        if column.null_count == len(column):
            return None
        codes = column.combine_chunks().dictionary_encode()
        if hasattr(codes, "num_chunks"):
            codes = codes.combine_chunks()
        return np.asarray(codes.indices.fill_null(-1).to_numpy(), np.int64)

    def _in_time(
        self,
        rows: Int32,
        stamps: Floats,
        sessions: npt.NDArray[np.int64] | None,
        shuffle: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        positions = self._dataset.documents.column("position", rows)
        place = np.asarray(positions.to_numpy(), float)
        place = np.where(np.isnan(place), shuffle, place)
        if sessions is None:
            return np.lexsort((shuffle, place, stamps))
        return np.lexsort((shuffle, place, _renamed(sessions, rng), stamps))

    def question(self, query: int) -> Question:
        """Returns the text and the time of a query, and the handles of its user and groups."""
        return self.questions([query])[query]

    def questions(self, queries: Sequence[int]) -> dict[int, Question]:
        """Returns what is shown of some queries; see `question`."""
        table, rows = self._dataset.query_table, np.array(queries, np.int64)
        texts, times = (take(table[name], rows).to_pylist() for name in ("text", "timestamp"))
        asked = map(self._reader, queries)
        shown = zip(texts, times, asked, strict=True)
        found = (Question(text, time, *reader) for text, time, reader in shown)
        return dict(zip(queries, found, strict=True))

    def _reader(self, query: int) -> tuple[str | None, tuple[str, ...]]:
        """Returns the handles of a query's user and groups."""
        scopes, numbers = self._dataset.scopes, self._user_numbers
        if scopes is None or numbers is None:
            return None, ()
        user, groups = scopes.reader(query)
        if user is None:
            return None, ()
        first, *others = (user_handle(numbers[scopes.number(one)]) for one in (user, *groups))
        return first, tuple(one for one in others if one)

    @cached_property
    def _position_of_handle(self) -> npt.NDArray[np.int64]:
        positions = np.full(self._handles, -1)
        positions[self._numbers - self._start] = np.arange(len(self._numbers))
        return positions

    @cached_property
    def _session_of_handle(self) -> dict[str, str]:
        ids = self._dataset.documents.column("session", self.rows).to_pylist()
        shown = (document.session for document in self.corpus)
        return {handle: id_ for handle, id_ in zip(shown, ids, strict=True) if handle}

    @cached_property
    def _position_of_id(self) -> dict[str, int]:
        ids = self._dataset.documents.column("id", self.rows).to_pylist()
        return {id_: position for position, id_ in enumerate(ids)}

    def positions(self, ids: Iterable[Any], *, returns_dataset_ids: bool) -> npt.NDArray[np.int64]:
        """Converts handles, positions or (`returns_dataset_ids`) ids of the dataset to positions.

        Raises ValueError for one that is not in the haystack.
        """
        named = list(ids) if returns_dataset_ids else ids
        return in_range(named, len(self.rows), lambda one: self._position(one, returns_dataset_ids))

    def distinct_positions(self, ids: Sequence[Any]) -> npt.NDArray[np.int64] | None:
        """Converts handles or positions as `positions` does, in less time.

        None for repeated, invalid and other ids.
        """
        kinds = {*map(type, ids)}
        if kinds not in ({str}, {int}) or len({*ids}) < len(ids):
            return None
        if kinds == {str}:
            try:
                numbers = [int(id_[1:]) for id_ in ids]
            except ValueError:
                return None
            first, last = min(numbers) - self._start, max(numbers) - self._start
            if [*map(handle, numbers)] != ids or first < 0 or last >= self._handles:
                return None
            found = self._position_of_handle[np.array(numbers) - self._start]
            return found if found.min() >= 0 else None
        return np.array(ids, np.int64) if min(ids) >= 0 and max(ids) < len(self.rows) else None

    def known(
        self, ids: Iterable[Any], *, returns_dataset_ids: bool
    ) -> tuple[list[int], list[str], int]:
        """Returns the positions of ids in the haystack and the dataset's ids of its sessions that
        handles name, each once, and the number of other ids.

        Raises ValueError for a handle of another haystack, which is never a memory's own id.
        """
        found: dict[int, None] = {}
        sessions: dict[str, None] = {}
        unknown = 0
        for id_ in ids:
            try:
                found[int(self.positions([id_], returns_dataset_ids=returns_dataset_ids)[0])] = None
            except ValueError:
                if not returns_dataset_ids and isinstance(id_, str) and is_handle(id_):
                    raise
                if not returns_dataset_ids and id_ in self._session_of_handle:
                    sessions[self._session_of_handle[id_]] = None
                else:
                    unknown += 1
        return list(found), list(sessions), unknown

    def _position(self, id_: Any, returns_dataset_ids: bool) -> int:
        if returns_dataset_ids:
            position = self._position_of_id.get(str(id_))
            if position is None:
                raise ValueError(f"{id_!r} is not the id of a document in this haystack")
            return position
        if isinstance(id_, str):
            number = int(id_[1:]) - self._start if is_handle(id_) else -1
            position = self._position_of_handle[number] if 0 <= number < self._handles else -1
            if position >= 0:
                return int(position)
            raise unknown_handle(id_)
        return index(id_)

    def gold_positions(self, gold_rows: Sequence[int]) -> npt.NDArray[np.int64]:
        """Returns positions of document rows, in the order of the rows; for the oracle only."""
        at = {row: position for position, row in enumerate(self.rows.tolist())}
        return np.array([at[row] for row in gold_rows if row in at], np.int64)


def _renamed(sessions: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Returns session codes renumbered at random; -1, no session, stays."""
    names = rng.permutation(int(sessions.max()) + 1)
    return np.where(sessions < 0, -1, names[sessions])
