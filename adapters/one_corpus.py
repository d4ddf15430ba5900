"""Writes and checks one corpus, for adapters with a single haystack."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.datasets.adapters.formats.text import DocumentBatch, TextFile
from harness.datasets.adapters.formats.trec import QrelLine
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

HAYSTACK = "corpus"
"""Id of the only haystack."""
_TWICE = "duplicate documents with the same content: merged"
_NO_QUERY = "judgements of unknown queries: excluded"


def progress(*, quiet: bool) -> Any:
    """Shows a progress bar over documents, on a terminal and unless `quiet`."""
    from tqdm import tqdm

    return tqdm(
        desc="documents", unit="", unit_scale=True, leave=False, disable=True if quiet else None
    )


def write_documents(
    batches: Iterable[DocumentBatch],
    file: TextFile,
    out: DatasetWriter,
    *,
    again: Iterable[DocumentBatch],
    quiet: bool,
) -> int:
    """Writes a corpus and the haystack of all its documents; returns the number of documents.

    `again` re-reads the batches and is called only for duplicate ids. Identical documents are
    merged. Raises UsageError for an id with different contents and for an empty corpus.
    """
    n = 0
    with progress(quiet=quiet) as bar:
        for batch in batches:
            out.documents(batch.ids, batch.texts, batch.titles)
            n += len(batch.ids)
            bar.update(len(batch.ids))
    if not n:
        raise UsageError(f"{file}: contains no documents; is it the right file?")
    if candidates := out.repeated_ids():
        documents = (
            (line, [id_], (text, title or None))
            for b in again
            for line, id_, text, title in zip(
                b.lines, b.ids, b.texts, b.titles or [None] * len(b.ids), strict=True
            )
        )
        n -= len(drop_repeated(documents, candidates, file, "the document id", out))
    out.haystack(HAYSTACK)
    return n


def drop_repeated(
    documents: Iterable[tuple[int, Sequence[Hashable], object]],
    candidates: set[int],
    file: TextFile,
    what: str,
    out: DatasetWriter,
) -> list[int]:
    """Removes documents identical to an earlier one; returns their rows.

    `documents` gives line, unique keys and content of each row; `candidates` are hashes of possibly
    duplicate keys; `what` names the key in errors. Raises UsageError if contents differ.
    """
    seen: dict[Hashable, tuple[int, object]] = {}
    rows: list[int] = []
    for row, (line, keys, content) in enumerate(documents):
        for key in keys:
            if hash(key) not in candidates:
                continue
            at, other = seen.setdefault(key, (line, content))
            if at != line and other != content:
                raise file.error(
                    line,
                    f"{what} {key!r} is already used on {file.at(at)}, with different content; "
                    "ids must be unique, remove or rename one",
                )
            if at != line and row not in rows[-1:]:
                rows.append(row)
                id_ = key[-1] if isinstance(key, tuple) else key
                out.repair(_TWICE, f"{file.path.name}:{line} {id_}")
    if rows:
        out.drop_documents(rows)
    return rows


def judged(
    qrels: Iterable[QrelLine], file: TextFile, out: DatasetWriter
) -> dict[str, list[QrelLine]]:
    """Groups judgements by query, one per document.

    A repeated judgement is dropped; a contradicting one replaces the earlier one, as in BEIR's
    loader. Both are recorded. Raises UsageError when there are no judgements.
    """
    found: dict[str, dict[str, QrelLine]] = {}
    for qrel in qrels:
        of_query = found.setdefault(qrel.query, {})
        before = of_query.get(qrel.document)
        if before is not None:
            kind = "repeated judgements: merged"
            if before.grade != qrel.grade:
                kind = (
                    "judgements that contradict an earlier one of the same document: last one kept"
                )
            out.repair(kind, f"{file.path.name}:{qrel.line} {qrel.query} {qrel.document}")
        of_query[qrel.document] = qrel
    if not found:
        raise UsageError(f"{file}: contains no judgements; is it the right file?")
    return {query: list(documents.values()) for query, documents in found.items()}


def write_judged_queries(
    queries: Iterable[tuple[int, str, str]],
    file: TextFile,
    key: dict[str, list[QrelLine]],
    key_file: TextFile,
    out: DatasetWriter,
    ability: Ability = Ability.LOOKUP,
) -> None:
    """Writes judged queries and their judgements; the other queries are recorded.

    Raises UsageError for a duplicate query id, and if no query is judged.
    """
    seen: dict[str, int] = {}
    for line, id_, text in unique(queries, file, seen):
        if id_ in key:
            out.query(id_, text, HAYSTACK, ability=ability)
        else:
            out.repair("queries without a judgement: excluded", f"{file.path.name}:{line} {id_}")
    known = without_unknown_queries(key, seen, file, key_file, out)
    for query in known:
        for qrel in key[query]:
            out.qrel(query, qrel.document, qrel.grade)


def unique(
    queries: Iterable[tuple[int, str, str]], file: TextFile, seen: dict[str, int]
) -> Iterator[tuple[int, str, str]]:
    """Yields the queries and adds them to `seen`. Raises UsageError for a duplicate id."""
    for line, id_, text in queries:
        if id_ in seen:
            raise file.error(
                line, f"the query id {id_!r} is already used on line {seen[id_]}; rename one"
            )
        seen[id_] = line
        yield line, id_, text


def without_unknown_queries(
    judged: Iterable[str],
    known: Collection[str],
    file: TextFile,
    qrels: object,
    out: DatasetWriter,
) -> list[str]:
    """Returns the judged queries that are in `file`; the others are recorded.

    Raises UsageError if there are none.
    """
    there = []
    for query in judged:
        if query in known:
            there.append(query)
        else:
            out.repair(_NO_QUERY, query)
    if not there:
        raise UsageError(f"{qrels}: judges none of the queries of {file}; are the ids the same?")
    return there
