"""Documents and haystacks of the subsets: what several of them have is written once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.adapters.mteb import tables
from harness.datasets.adapters.one_corpus import HAYSTACK
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

Rows = npt.NDArray[np.int32]


class CorpusWriter:
    """The documents of all subsets; one that another subset has too, to the letter, is one row."""

    def __init__(self, out: DatasetWriter, *, several: bool) -> None:
        """`several`: there are several subsets."""
        self._out = out
        self._several = several
        self._n = 0
        self._known = pa.chunked_array([], pa.string())
        self._known_rows = np.zeros(0, np.int32)
        self._known_texts = np.zeros(0, np.int64)

    def add(self, paths: Sequence[Path]) -> tuple[pa.Array, Rows]:
        """Write a corpus; returns the ids of its documents and their rows.

        Raises UsageError for an empty one, and for an id that stands twice.
        """
        ids = _ids(paths)
        at = np.full(len(ids), -1, np.int64)
        if len(self._known):
            at = _places(ids, self._known.combine_chunks())
        rows = np.empty(len(ids), np.int32)
        texts = np.zeros(len(ids) if self._several else 0, np.int64)
        start = 0
        for _, _, batch in tables.batches(paths, tables.CORPUS):
            here = slice(start, start + len(batch))
            start += len(batch)
            new = np.ones(len(batch), bool)
            if self._several:
                texts[here] = _hashes(batch)
                before = at[here]
                seen = np.append(self._known_texts, 0)[before]  # of -1, which is none: the last
                new = (before < 0) | (seen != texts[here])
                rows[here][~new] = self._known_rows[before[~new]]
            rows[here][new] = self._write(batch if new.all() else batch.filter(pa.array(new)))
        if self._several:
            fresh = at < 0
            self._known = pa.chunked_array([*self._known.chunks, ids.filter(pa.array(fresh))])
            self._known_rows = np.concatenate([self._known_rows, rows[fresh]])
            self._known_texts = np.concatenate([self._known_texts, texts[fresh]])
        return ids, rows

    def _write(self, batch: pa.RecordBatch) -> Rows:
        n = len(batch)
        if n:
            titles = batch["title"].to_pylist() if "title" in batch.schema.names else None
            self._out.documents(batch["id"].to_pylist(), batch["text"].to_pylist(), titles)
        self._n += n
        return np.arange(self._n - n, self._n, dtype=np.int32)


class HaystackWriter:
    """The haystacks of all subsets; the same documents are one haystack, by its first name."""

    def __init__(self, out: DatasetWriter) -> None:
        self._out = out
        self._names: dict[bytes, str] = {}

    def everything(self) -> str:
        """The haystack of all documents."""
        self._out.haystack(HAYSTACK)
        return HAYSTACK

    def of(self, rows: Rows, name: str) -> str:
        """The name of the haystack of these rows, which is `name` if they are new."""
        content = hashlib.sha256(rows.tobytes()).digest()
        if content not in self._names:
            self._names[content] = name
            self._out.haystack(name, rows)  # type: ignore[arg-type]  # of numbers, as a list is
        return self._names[content]


def top_ranked(
    paths: Sequence[Path], ids: pa.Array, rows: Rows, out: DatasetWriter
) -> Iterator[tuple[str, Rows]]:
    """Each query and the rows of its documents, ascending: their order is not a ranking of ours.

    `ids` and `rows` are the corpus'. Documents that it does not hold, and those that stand twice in
    a list, are left out and recorded.
    """
    for _, _, batch in tables.batches(paths, tables.TOP_RANKED):
        lists = batch["documents"]
        sizes = pc.list_value_length(lists).to_numpy()
        named = lists.flatten()
        at = _places(named, ids)
        for place in np.flatnonzero(at < 0).tolist():
            kind = "documents of top_ranked that the corpus does not hold: left out"
            out.repair(kind, str(named[place]))
        cuts = np.cumsum(sizes)[:-1]
        for query, part in zip(batch["query"].to_pylist(), np.split(at, cuts), strict=True):
            there = part[part >= 0]
            found = np.unique(rows[there])
            if len(found) < len(there):
                out.repair("documents that stand twice in a list of top_ranked: once", query)
            yield query, found


def places(ids: Sequence[str], there: pa.Array) -> npt.NDArray[np.int64]:
    """The place of each id among those that are there; -1 where it is none."""
    return _places(pa.array(ids, pa.string()), there)


def _places(ids: pa.Array, there: pa.Array) -> npt.NDArray[np.int64]:
    found = pc.fill_null(pc.index_in(ids, value_set=there), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def _ids(paths: Sequence[Path]) -> pa.Array:
    """The ids of a corpus. Raises UsageError for one that stands twice, and for no documents."""
    only = {"id": tables.CORPUS["id"]}
    found = [batch["id"] for _, _, batch in tables.batches(paths, only)]
    ids = pa.concat_arrays(found) if found else pa.array([], pa.string())
    if not len(ids):
        raise UsageError(f"{paths[0]}: holds no documents; is it the right file?")
    if pc.count_distinct(ids).as_py() < len(ids):
        counts = pc.value_counts(ids)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        raise UsageError(
            f"{paths[0]}: {len(twice)} document ids stand more than once, first "
            f"{twice[0]['values'].as_py()!r}; ids must be unique in a corpus"
        )
    return ids


def _hashes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """A hash of title and text of each document."""
    texts = batch["text"].to_pylist()
    titles = batch["title"].to_pylist() if "title" in batch.schema.names else [None] * len(texts)
    both = ((title or "", text) for title, text in zip(titles, texts, strict=True))
    return np.fromiter(map(hash, both), np.int64, len(texts))
