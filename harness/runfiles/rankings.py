"""Rankings as columns: what a retriever returned, from memory, or from run files of any usual form.

A ranking on disk is all that scoring needs. Ids here are the dataset's own ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError, require_ids
from harness.runfiles.arrow import take, to_numpy
from harness.runfiles.fields import RUN
from harness.runfiles.pairs import RankedPairs
from harness.runfiles.tables import (
    Columns,
    Frame,
    form_of,
    has_header,
    is_frame,
    of_delimited,
    of_frame,
    of_parquet,
)

if TYPE_CHECKING:
    from harness.runfiles.json_files import Answers

T = TypeVar("T")

Run = Mapping[str, Mapping[str, float]]
"""Rankings in memory, as pytrec_eval and BEIR have them: query id -> document id -> score."""


@dataclass(frozen=True, repr=False)
class Rankings:
    """Rankings of many queries, one row a returned document.

    Shapes: `query`, `document` and `score` have length n and are grouped by query; the rows of a
    query stand in the order in which they were returned. `query` holds indices into `query_ids`.
    `score` is None where the system gave none: then only the order counts.
    """

    query_ids: list[str]
    query: npt.NDArray[np.int32]
    document: pa.ChunkedArray
    score: npt.NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.query)

    def __repr__(self) -> str:
        """How many; not which."""
        scored = "" if self.score is not None else ", without scores"
        return f"<Rankings of {len(self.query_ids)} queries: {len(self)} documents{scored}>"

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Row where each query's ranking begins; shape (len(query_ids) + 1,)."""
        return np.searchsorted(self.query, np.arange(len(self.query_ids) + 1))


def read_rankings(source: str | Path | Run | Frame | Rankings) -> Rankings:
    """Rankings from a file, a dict, or a frame of pandas, polars, Arrow or Hugging Face.

    A file is read by its ending: .jsonl, .json, .parquet, .csv, .tsv with a header line, else TREC;
    .gz too. Columns may have any usual name (see the reference on rankings).

    Raises UsageError, naming file and line, for what cannot be read and for scores that are NaN.
    """
    if isinstance(source, Rankings):
        return source
    if isinstance(source, Mapping):
        return from_dict(source)
    if is_frame(source):
        return _of_columns(of_frame(source, RUN, "the run"))
    if not isinstance(source, str | PathLike):
        raise UsageError(
            f"the run must be a file, {{query: {{document: score}}}} or a frame, not {source!r:.60}"
        )
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{path}: no such run file")
    if is_trec(path):
        return _read_trec(path)
    form = form_of(path)
    if form in (".jsonl", ".json"):
        return _read_json(path, form)
    return _of_columns((of_parquet if form == ".parquet" else of_delimited)(path, RUN))


def is_trec(path: Path) -> bool:
    """True for a file whose ending says nothing else, and for .tsv without a header line."""
    form = form_of(path)
    return not form or (form == ".tsv" and not has_header(path, RUN))


def from_dict(run: Run) -> Rankings:
    """Rankings from `{query: {document: score}}`; the caller's dictionary is left as it is.

    Raises UsageError for a dictionary of another form, ids that are no text, and scores that are
    NaN.
    """
    require_ids(run, "the run's query")
    try:
        sizes = [len(documents) for documents in run.values()]
        scores = np.fromiter((s for r in run.values() for s in r.values()), np.float64, sum(sizes))
        for id_, ranking in run.items():
            require_ids(ranking, f"in the run, of query {id_!r}, the document")
        documents = pa.array((d for ranking in run.values() for d in ranking), pa.string())
    except (AttributeError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise UsageError(
            f"the run must be {{query: {{document: score}}}}, ids text and scores numbers ({error})"
        ) from None
    query = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return _checked(list(run), query, pa.chunked_array([documents]), scores, "the run")


# -- TREC -----------------------------------------------------------------------------------------


def _read_trec(path: Path) -> Rankings:
    from harness.runfiles.trec import map_blocks, nan_line

    table = pa.concat_tables(map_blocks(path, lambda block: block))
    queries = table["query"].unify_dictionaries().combine_chunks()
    scores = to_numpy(table["score"])
    if np.isnan(scores).any():
        raise UsageError(
            f"{path}, line {nan_line(path)}: the score is NaN, which has no place in an order; "
            "mend the system that wrote it"
        )
    return _checked(
        queries.dictionary.to_pylist(),
        to_numpy(queries.indices),
        table["document"],
        scores,
        str(path),
    )


def map_trec(path: Path, work: Callable[[Rankings], T]) -> Iterator[T]:
    """What `work`, in a few threads, makes of a TREC run file, block by block: in little memory.

    A query whose lines stand apart in the file may come in several blocks, and NaN scores are not
    refused yet; `read_rankings` sees to both.
    """

    from harness.runfiles.trec import map_blocks

    def call(block: pa.Table) -> T:
        queries = block["query"].chunk(0)
        return work(
            _grouped(
                queries.dictionary.to_pylist(),
                to_numpy(queries.indices),
                block["document"],
                to_numpy(block["score"]),
            )
        )

    return map_blocks(path, call)


# -- JSON and tables ------------------------------------------------------------------------------


def _read_json(path: Path, form: str) -> Rankings:
    from harness.runfiles.json_files import read_run, rows_of_lines

    table = rows_of_lines(path) if form == ".jsonl" else None
    if table is not None:
        return _of_columns(Columns(table, str(path), lambda row: f"line {row + 1}"))
    return _of_answers(read_run(path, lines=form == ".jsonl"), str(path))


def _of_answers(answers: Answers, where: str) -> Rankings:
    scores = np.array(answers.scores, np.float64) if answers.scores else None
    ranks = np.array(answers.ranks, np.float64) if answers.ranks else None
    query = np.array(answers.query, np.int32)
    document = pa.chunked_array([pa.array(answers.documents, pa.string())])
    return _ordered(list(answers.ids), query, document, scores, ranks, where)


def _of_columns(rows: Columns) -> Rankings:
    """Rows with query, document and, where there are scores, score; or else rank."""
    names, document, score = rows.ids("query"), rows.ids("document"), rows.numbers("score")
    queries = names.dictionary_encode().unify_dictionaries().combine_chunks()
    if len(rows.table) == 0:
        return _ordered([], np.zeros(0, np.int32), document, score, None, rows.source)
    return _ordered(
        queries.dictionary.to_pylist(),
        to_numpy(queries.indices),
        document,
        score,
        rows.numbers("rank") if score is None else None,
        rows.source,
    )


def _ordered(
    query_ids: list[str],
    query: npt.NDArray[np.int32],
    document: pa.ChunkedArray,
    score: npt.NDArray[np.float64] | None,
    rank: npt.NDArray[np.float64] | None,
    where: str,
) -> Rankings:
    """Rankings of rows in any order; without scores the ranks order them, if there are any.

    Raises UsageError for NaN, and for a rank that is no number or stands twice in a query.
    """
    if score is None and rank is not None:
        if len(odd := np.flatnonzero(~np.isfinite(rank))):
            raise UsageError(
                f"{where}: the rank {rank[odd[0]]:g} of query {query_ids[query[odd[0]]]!r} is no "
                "place; mend it, or give scores"
            )
        order = np.lexsort((rank, query))
        query, rank, document = query[order], rank[order], take(document, order)
        again = np.flatnonzero((query[1:] == query[:-1]) & ~(rank[1:] > rank[:-1]))
        if len(again):
            raise UsageError(
                f"{where}: the rank {rank[again[0]]:g} stands twice for query "
                f"{query_ids[query[again[0]]]!r}, so it is no order; mend it, or give scores"
            )
    return _checked(query_ids, query, document, score, where)


# -- what every way in ends with ------------------------------------------------------------------


def _checked(
    query_ids: list[str],
    query: npt.NDArray[np.int32],
    document: pa.ChunkedArray,
    score: npt.NDArray[np.float64] | None,
    where: str,
) -> Rankings:
    """Rankings of rows in any order. Raises UsageError for NaN."""
    if score is not None and np.isnan(score).any():
        bad = np.flatnonzero(np.isnan(score))
        raise UsageError(
            f"{where}: {len(bad)} scores are NaN, first for query {query_ids[query[bad[0]]]!r}; "
            "a NaN has no place in an order, so mend the system that wrote it"
        )
    return _grouped(query_ids, query, document, score)


def _grouped(
    query_ids: list[str],
    query: npt.NDArray[np.int32],
    document: pa.ChunkedArray,
    score: npt.NDArray[np.float64] | None,
) -> Rankings:
    """Group the rows by query, in order of first mention; order is kept inside."""
    if (query[1:] < query[:-1]).any():
        order = np.argsort(query, kind="stable")
        query, document = query[order], take(document, order)
        score = None if score is None else score[order]
    return Rankings(query_ids, query.astype(np.int32, copy=False), document, score)


def duplicates(rankings: Rankings) -> npt.NDArray[np.int64]:
    """Rows whose document stands in the same query's ranking above them already."""
    return RankedPairs(rankings.query, rankings.document).repeated()


def best_first(rankings: Rankings) -> Rankings:
    """The rankings with each query's scores descending; equals stay in the order they stand in.

    Run files and dictionaries may come in any order; most come so already and cost one look.
    """
    score, query = rankings.score, rankings.query
    if score is None or not ((score[1:] > score[:-1]) & (query[1:] == query[:-1])).any():
        return rankings
    order = np.lexsort((-score, query))
    document = take(rankings.document, order)
    return Rankings(rankings.query_ids, query, document, score[order])


def without(rankings: Rankings, rows: npt.NDArray[np.int64]) -> Rankings:
    """The rankings less some rows."""
    keep = np.ones(len(rankings), bool)
    keep[rows] = False
    return Rankings(
        rankings.query_ids,
        rankings.query[keep],
        rankings.document.filter(pa.array(keep)),
        None if rankings.score is None else rankings.score[keep],
    )


def without_queries(rankings: Rankings, query_ids: Collection[str]) -> Rankings:
    """Returns the rankings without those of some queries."""
    gone = np.isin(rankings.query_ids, list(query_ids))
    if not gone.any():
        return rankings
    rest = without(rankings, np.flatnonzero(gone[rankings.query]))
    number = np.cumsum(~gone, dtype=np.int32) - 1
    ids = [name for name, out in zip(rankings.query_ids, gone.tolist(), strict=True) if not out]
    return Rankings(ids, number[rest.query], rest.document, rest.score)
