"""Writes subsets of a task: documents, haystacks, queries and judgements.

Content shared by subsets is written once; queries and judgements are selected as in mteb.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.adapters.formats.trec import QrelLine
from harness.datasets.adapters.mteb import tables
from harness.datasets.adapters.one_corpus import HAYSTACK, judged, unique
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


Rows = npt.NDArray[np.int32]


class CorpusWriter:
    """Writer of the documents of all subsets; a document identical in two subsets is one row."""

    def __init__(self, out: DatasetWriter, *, several: bool) -> None:
        """`several` is true if there are several subsets."""
        self._out = out
        self._several = several
        self._n = 0
        self._known = pa.chunked_array([], pa.string())
        self._known_rows = np.zeros(0, np.int32)
        self._known_texts = np.zeros(0, np.int64)

    def add(self, paths: Sequence[Path]) -> tuple[pa.Array, Rows]:
        """Writes a corpus; returns the ids of its documents and their rows.

        Raises UsageError for an empty corpus or a duplicate id.
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
                seen = np.append(self._known_texts, 0)[before]  # -1 (missing) selects the last
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
    """Writer of the haystacks of all subsets; equal haystacks are merged under the first name."""

    def __init__(self, out: DatasetWriter) -> None:
        self._out = out
        self._names: dict[bytes, str] = {}

    def everything(self) -> str:
        """Returns the haystack of all documents."""
        self._out.haystack(HAYSTACK)
        return HAYSTACK

    def of(self, rows: Rows, name: str) -> str:
        """Returns the name of the haystack with these rows; a new one gets `name`."""
        content = hashlib.sha256(rows.tobytes()).digest()
        if content not in self._names:
            self._names[content] = name
            self._out.haystack(name, rows)  # type: ignore[arg-type]  # of numbers, as a list is
        return self._names[content]


def top_ranked(
    paths: Sequence[Path], ids: pa.Array, rows: Rows, out: DatasetWriter
) -> Iterator[tuple[str, Rows]]:
    """Yields each query with the rows of its documents, in ascending order (not a ranking).

    `ids` and `rows` belong to the corpus. Unknown and duplicate documents in a list are excluded
    and recorded.
    """
    for _, _, batch in tables.batches(paths, tables.TOP_RANKED):
        lists = batch["documents"]
        sizes = pc.list_value_length(lists).to_numpy()
        named = lists.flatten()
        at = _places(named, ids)
        for place in np.flatnonzero(at < 0).tolist():
            kind = "documents of top_ranked missing from the corpus: excluded"
            out.repair(kind, str(named[place]))
        cuts = np.cumsum(sizes)[:-1]
        for query, part in zip(batch["query"].to_pylist(), np.split(at, cuts), strict=True):
            there = part[part >= 0]
            found = np.unique(rows[there])
            if len(found) < len(there):
                out.repair("duplicate documents in a list of top_ranked: merged", query)
            yield query, found


def _places(ids: pa.Array, there: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the index of each id in the known ids, or -1."""
    found = pc.fill_null(pc.index_in(ids, value_set=there), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def _ids(paths: Sequence[Path]) -> pa.Array:
    """Returns the ids of a corpus. Raises UsageError for an empty corpus or a duplicate id."""
    only = {"id": tables.CORPUS["id"]}
    found = [batch["id"] for _, _, batch in tables.batches(paths, only)]
    ids = pa.concat_arrays(found) if found else pa.array([], pa.string())
    if not len(ids):
        raise UsageError(f"{paths[0]}: contains no documents; is it the right file?")
    if pc.count_distinct(ids).as_py() < len(ids):
        counts = pc.value_counts(ids)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        raise UsageError(
            f"{paths[0]}: {len(twice)} duplicate document ids, first "
            f"{twice[0]['values'].as_py()!r}; ids must be unique in a corpus"
        )
    return ids


def _hashes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Hashes title and text of each document."""
    texts = batch["text"].to_pylist()
    titles = batch["title"].to_pylist() if "title" in batch.schema.names else [None] * len(texts)
    both = ((title or "", text) for title, text in zip(titles, texts, strict=True))
    return np.fromiter(map(hash, both), np.int64, len(texts))


Paths = Mapping[str, Sequence[Path]]
"""Files of a subset by table."""

_NOT_HELD = (
    "judgements of documents outside the query's haystack: kept; they count as relevant and "
    "cannot be found"
)


@dataclass(frozen=True)
class Questions:
    """Judged queries of a subset, with texts and judgements by id."""

    texts: Mapping[str, str]
    key: Mapping[str, list[QrelLine]]


def read_questions(files: Paths, out: DatasetWriter) -> Questions:
    """Reads the judged queries; excluded ones are recorded.

    The instruction of a query, if any, is appended to its text, as mteb does for a model. Raises
    UsageError for duplicate ids, and if no query is judged.
    """
    file = tables.opened(files["qrels"][0])
    key = judged(_qrels(files["qrels"]), file, out)
    instructions = _instructions(files.get("instruction", ()))
    texts: dict[str, str] = {}
    seen: dict[str, int] = {}
    for path in files["queries"]:
        queries = tables.opened(path)
        for _, id_, text in unique(_queries(path, instructions), queries, seen):
            if id_ in key:
                texts[id_] = text
            else:
                out.repair("queries without a judgement: excluded", id_)
    for query in key.keys() - texts.keys():
        out.repair("judgements of unknown queries: excluded", query)
    if not texts:
        raise UsageError(f"{file}: judges none of the queries of {files['queries'][0]}")
    return Questions(texts, key)


def _qrels(paths: Sequence[Path]) -> Iterator[QrelLine]:
    for _, number, row in tables.rows(paths, tables.QRELS):
        yield QrelLine(number, row["query"], row["document"], row["score"])


def _queries(path: Path, instructions: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    for file, number, row in tables.rows([path], tables.QUERIES):
        said = instructions.get(row["id"]) if instructions else row.get("instruction")
        if instructions and said is None:
            raise file.error(number, f"the query {row['id']!r} has no row in instruction")
        yield number, row["id"], f"{row['text']} {said}" if said is not None else row["text"]


def _instructions(paths: Sequence[Path]) -> dict[str, str]:
    found = tables.rows(paths, tables.INSTRUCTIONS)
    return {row["query"]: row["instruction"] for _, _, row in found}


@dataclass(frozen=True)
class Subset:
    """A subset of a task: name ("" if there is only one), files, judged queries, ability."""

    name: str
    files: Paths
    questions: Questions
    ability: Ability


def write_subset(
    subset: Subset,
    shared: Collection[str],
    documents: CorpusWriter,
    haystacks: HaystackWriter,
    out: DatasetWriter,
) -> None:
    """Writes documents, haystacks, queries and judgements of a subset.

    A query id in `shared`, which other subsets use too, becomes `subset/id`. Raises UsageError for
    a query without a row in `top_ranked`.
    """
    ids, rows = documents.add(subset.files["corpus"])
    row_of = _rows_of_judged(subset.questions, ids, rows)
    lists = _lists(subset, ids, rows, out) if "top_ranked" in subset.files else None
    whole = ""
    if lists is None:
        whole = haystacks.of(np.sort(rows), subset.name) if subset.name else haystacks.everything()
    for query, text in subset.questions.texts.items():
        name = f"{subset.name}/{query}" if query in shared else query
        haystack, held = whole, None
        if lists is not None:
            held = lists[query]
            haystack = haystacks.of(held, f"{subset.name}/{query}" if subset.name else query)
        out.query(name, text, haystack, ability=subset.ability, category=subset.name)
        for qrel in subset.questions.key[query]:
            row = row_of[qrel.document]
            if row < 0 or (held is not None and not _holds(held, row)):
                out.repair(_NOT_HELD, f"{name} {qrel.document}")
                row = -1
            out.qrel(name, row, qrel.grade, document_id=qrel.document)


def _rows_of_judged(questions: Questions, ids: pa.Array, rows: Rows) -> dict[str, int]:
    """Returns the row of each judged document, or -1 if it is missing from the corpus."""
    documents = list(dict.fromkeys(qrel.document for of in questions.key.values() for qrel in of))
    at = _places(pa.array(documents, pa.string()), ids)
    return dict(zip(documents, np.where(at < 0, -1, rows[at]).tolist(), strict=True))


def _lists(subset: Subset, ids: pa.Array, rows: Rows, out: DatasetWriter) -> dict[str, Rows]:
    paths = subset.files["top_ranked"]
    found = dict(top_ranked(paths, ids, rows, out))
    for query in subset.questions.texts:
        if query not in found or not len(found[query]):
            raise UsageError(
                f"{paths[0]}: no documents for the query {query!r}; each judged query needs rows"
            )
    return found


def _holds(held: Rows, row: int) -> bool:
    """Returns whether ascending rows contain this one."""
    at = int(np.searchsorted(held, row))
    return at < len(held) and int(held[at]) == row
