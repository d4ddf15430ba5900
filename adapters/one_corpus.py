"""Writing and checking one corpus: for adapters whose queries are all answered from it."""

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
"""Id of the one haystack."""
_TWICE = "documents that stand twice, word for word: kept once"
_NO_QUERY = "judgements of queries that are not there: left out"


def progress(*, quiet: bool) -> Any:
    """A progress bar over documents, shown on a terminal only, and not when `quiet`."""
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
    """Write a corpus, and the haystack of all its documents; returns how many there are.

    `again` reads the same batches a second time; it is used only where an id stands twice. A
    document that stands twice is kept once; two of one id are a UsageError, and so is an empty
    corpus.
    """
    n = 0
    with progress(quiet=quiet) as bar:
        for batch in batches:
            out.documents(batch.ids, batch.texts, batch.titles)
            n += len(batch.ids)
            bar.update(len(batch.ids))
    if not n:
        raise UsageError(f"{file}: holds no documents; is it the right file?")
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
    """Take out the documents that stand above already, word for word; returns their rows.

    `documents`: line, keys that must be unique and content of each row; `candidates`: hashes of
    keys that may stand twice; `what` says what a key is. Raises UsageError where the content of two
    differs.
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
                    f"{what} {key!r} stands on {file.at(at)} already, with another content; ids "
                    "must be unique, take one out or rename it",
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
    """Judgements by query, one a document.

    A judgement that is repeated is left out; one that contradicts an earlier one takes its place,
    as in BEIR's loader. Both are recorded. Raises UsageError when there are no judgements.
    """
    found: dict[str, dict[str, QrelLine]] = {}
    for qrel in qrels:
        of_query = found.setdefault(qrel.query, {})
        before = of_query.get(qrel.document)
        if before is not None:
            kind = "repeated judgements: left out"
            if before.grade != qrel.grade:
                kind = (
                    "judgements that contradict an earlier one of the same document: the last holds"
                )
            out.repair(kind, f"{file.path.name}:{qrel.line} {qrel.query} {qrel.document}")
        of_query[qrel.document] = qrel
    if not found:
        raise UsageError(f"{file}: holds no judgements; is it the right file?")
    return {query: list(documents.values()) for query, documents in found.items()}


def write_judged_queries(
    queries: Iterable[tuple[int, str, str]],
    file: TextFile,
    key: dict[str, list[QrelLine]],
    key_file: TextFile,
    out: DatasetWriter,
    ability: Ability = Ability.LOOKUP,
) -> None:
    """Write the queries that have a judgement, and the judgements; the others are recorded.

    Raises UsageError for a query id that stands twice, and where no query is judged.
    """
    seen: dict[str, int] = {}
    for line, id_, text in unique(queries, file, seen):
        if id_ in key:
            out.query(id_, text, HAYSTACK, ability=ability)
        else:
            out.repair("queries without a judgement: left out", f"{file.path.name}:{line} {id_}")
    known = without_unknown_queries(key, seen, file, key_file, out)
    for query in known:
        for qrel in key[query]:
            out.qrel(query, qrel.document, qrel.grade)


def unique(
    queries: Iterable[tuple[int, str, str]], file: TextFile, seen: dict[str, int]
) -> Iterator[tuple[int, str, str]]:
    """The queries again, noted in `seen`. Raises UsageError for an id that stands twice."""
    for line, id_, text in queries:
        if id_ in seen:
            raise file.error(
                line, f"the query id {id_!r} stands on line {seen[id_]} already; rename one"
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
    """The judged queries that `file` has; the others are recorded.

    Raises UsageError where it has none of them.
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
