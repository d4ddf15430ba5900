"""The rankings of a run, read from its files row by row, and the order of equal scores."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.errors import UsageError

FILES = ("rankings.parquet", "rankings.jsonl", "rankings.trec")
"""Where a folder keeps its rankings; where several are there, they must say the same."""


@dataclass
class Ranking:
    """What was returned for one query, as it stands in the file; no scores where none were given.

    The lists are of equal length.
    """

    documents: list[str]
    scores: array[float] | None


Run = dict[str, Ranking]
"""Query id -> what was returned for it, in the order in which the file first names the queries."""


Row = tuple[str, str | None, float | None]
"""A query, a document that was returned for it, and its score; no document: nothing was."""


def read_run(path: Path) -> Run:
    """The rankings of one file, by its ending. Raises UsageError for what cannot be read."""
    rows = {".trec": _trec, ".parquet": _parquet, ".jsonl": _jsonl}[path.suffix]
    run: Run = {}
    same: dict[str, str] = {}  # one object an id, however often it was returned
    last: str | None = None
    documents: list[str] = []
    scores: array[float] | None = None
    try:
        for query, document, score in rows(path):
            if query != last:
                if query not in run:
                    run[query] = Ranking([], None if score is None else array("d"))
                last, documents, scores = query, run[query].documents, run[query].scores
            if document is None:
                continue  # returned nothing
            documents.append(same.setdefault(document, document))
            if (scores is None) != (score is None):
                raise ValueError(f"only some documents of {query!r} have a score")
            if scores is not None and score is not None:
                scores.append(score)
    except (OSError, ValueError, LookupError, TypeError, NotImplementedError) as error:
        raise UsageError(f"{path}: cannot be read as rankings ({error})") from None
    for query, ranking in run.items():
        if ranking.scores is not None and any(score != score for score in ranking.scores):
            raise UsageError(f"{path}: a score of {query!r} is NaN, which has no place in an order")
    return run


def parquet_rows(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a table. Raises UsageError for what is none, or lacks a `needed` column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None
    lacking = [name for name in needed if name not in table.column_names]
    if lacking:
        raise UsageError(f"{path}: has no column {', '.join(lacking)}")
    return list(table.to_pylist())


def _trec(path: Path) -> Iterator[Row]:
    """Lines of `query Q0 document rank score tag`; the rank is not looked at."""
    with open(path, "rb") as file:
        for line in file:
            fields = line.split()
            if fields:
                yield fields[0].decode(), fields[2].decode(), float(fields[4])


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    names = [n for n in ("query", "document", "score") if n in file.schema_arrow.names]
    for batch in file.iter_batches(columns=names):
        columns = [batch.column(name).to_pylist() for name in names]
        if "score" not in names:
            columns.append([None] * len(batch))
        yield from zip(*columns, strict=True)


def _jsonl(path: Path) -> Iterator[Row]:
    """Lines of {query, document, score}, or {query, documents, scores}."""
    import orjson

    with open(path, "rb") as file:
        for line in filter(None, map(bytes.strip, file)):
            one: dict[str, Any] = orjson.loads(line)
            several = "documents" in one
            documents = one["documents"] if several else [one["document"]]
            scores = one.get("scores") if several else [one.get("score")]
            if not documents:
                yield one["query"], None, None
            for document, score in zip(documents, scores or [None] * len(documents), strict=True):
                yield one["query"], document, score


def best_first(ranking: Ranking) -> Ranking:
    """Scores descending; equal ones stay in the order in which they stand in the file."""
    scores = ranking.scores
    if scores is None or all(a >= b for a, b in pairwise(scores)):
        return ranking
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    return Ranking([ranking.documents[i] for i in order], array("d", (scores[i] for i in order)))


def cleaned(ranking: Ranking, leave_out: str | None = None) -> tuple[Ranking, int]:
    """Best first, each document once (where it stands best), and how many stood there again.

    `leave_out` is a document that does not count: the query's own, where the dataset says so.
    """
    ranking = best_first(ranking)
    documents = ranking.documents
    if len(set(documents)) == len(documents) and leave_out not in documents:
        return ranking, 0
    seen: set[str] = set()
    kept = []
    for i, document in enumerate(documents):
        if document not in seen and document != leave_out:
            kept.append(i)
        seen.add(document)
    scores = None if ranking.scores is None else array("d", (ranking.scores[i] for i in kept))
    return Ranking([documents[i] for i in kept], scores), len(documents) - len(seen)


def compared(ranking: Ranking, ties: str) -> list[float] | None:
    """The scores as a rule compares them: trec_eval 9 has 32 bits for one, trec_eval 10 has 64."""
    if ranking.scores is None:
        return None
    return array("f", ranking.scores).tolist() if ties == "trec" else ranking.scores.tolist()


def ordered(ranking: Ranking, ties: str) -> list[str]:
    """The documents of a `cleaned` ranking, best first, by a rule for equal scores.

    `order`: equals as they were returned. `trec` and `trec64`: equals by id, descending, as bytes.
    """
    scores = compared(ranking, ties)
    if scores is None or ties == "order":
        return ranking.documents
    if all(a > b for a, b in pairwise(scores)):
        return ranking.documents  # no equals
    pairs = zip(scores, ranking.documents, strict=True)
    return [d for _, d in sorted(pairs, key=lambda p: (p[0], p[1].encode()), reverse=True)]


def differing(one: Run, other: Run) -> list[str]:
    """Queries for which two files hold other rankings: other documents, order, or scores."""
    different = []
    for query in dict.fromkeys((*one, *other)):
        a, b = one.get(query), other.get(query)
        a, b = a and best_first(a), b and best_first(b)
        first, second = (x.documents if x else [] for x in (a, b))
        scored = a and b and a.scores is not None and b.scores is not None
        if first != second or (scored and a.scores != b.scores):  # type: ignore[union-attr]
            different.append(query)
    return different
