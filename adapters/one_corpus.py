"""Writing and checking one corpus: for adapters whose queries are all answered from it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from harness.datasets.adapters.formats.text import DocumentBatch, TextFile
from harness.datasets.adapters.formats.trec import QrelLine
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

HAYSTACK = "corpus"
"""Id of the one haystack."""


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

    `again` reads the same batches a second time; it is used only to find the lines of an id that
    stands twice. Raises UsageError for that, and for an empty corpus.
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
        lines = ((line, id_) for b in again for line, id_ in zip(b.lines, b.ids, strict=True))
        refuse_repeated(lines, candidates, file, "the document id")
    out.haystack(HAYSTACK)
    return n


def refuse_repeated(
    keys: Iterable[tuple[int, Hashable]], candidates: set[int], file: TextFile, what: str
) -> None:
    """Raise UsageError for the first key that stands on two lines; `what` says what it is."""
    seen: dict[Hashable, int] = {}
    for line, key in keys:
        if hash(key) in candidates:
            if key in seen:
                raise file.error(
                    line,
                    f"{what} {key!r} stands on {file.at(seen[key])} already; ids must be unique, "
                    "take one out or rename it",
                )
            seen[key] = line


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

    Raises UsageError for a query id that stands twice and for judgements of unknown queries.
    """
    seen: dict[str, int] = {}
    for line, id_, text in unique(queries, file, seen):
        if id_ in key:
            out.query(id_, text, HAYSTACK, ability=ability)
        else:
            out.repair("queries without a judgement: left out", f"{file.path.name}:{line} {id_}")
    refuse_unknown_queries(key, key_file, seen, file)
    for of_query in key.values():
        for qrel in of_query:
            out.qrel(qrel.query, qrel.document, qrel.grade)


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


def refuse_unknown_queries(
    key: dict[str, list[QrelLine]], key_file: TextFile, known: Collection[str], file: TextFile
) -> None:
    """Raise UsageError at the first judgement of a query that is not there."""
    unknown = [of_query[0] for query, of_query in key.items() if query not in known]
    if unknown:
        raise key_file.error(
            unknown[0].line,
            f"the query {unknown[0].query!r} is not in {file} (nor are {len(unknown) - 1} others); "
            "add it, or take its judgements out",
        )
