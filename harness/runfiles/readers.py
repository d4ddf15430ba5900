"""Reads rankings from run files of all common formats, dictionaries and data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError
from harness.runfiles.arrow import take, to_numpy
from harness.runfiles.fields import RUN, FieldError, Fields
from harness.runfiles.rankings import (
    Rankings,
    Run,
    checked_rankings,
    from_dict,
    grouped_rankings,
)
from harness.runfiles.raw import MARKED
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


def read_rankings(
    source: str | Path | Run | Frame | Rankings, *, score_column: str = ""
) -> Rankings:
    """Reads rankings from a file, a dict, or a frame of pandas, polars, Arrow or Hugging Face.

    The ending gives the format: .jsonl, .json, .parquet, .csv, .tsv with a header line, else TREC
    or `query document rank`; each may be compressed (.gz). Columns may have any common name (see
    the reference on rankings); `score_column` is a different name of the scores.

    Raises UsageError, naming file and line, for unreadable input, for NaN scores, and for an
    unknown column of numbers if the rows have neither scores nor ranks.
    """
    if isinstance(source, Rankings):
        return source
    if isinstance(source, Mapping):
        return from_dict(source)
    fields = _fields(score_column)
    if is_frame(source):
        return _of_columns(of_frame(source, fields, "the run"))
    if not isinstance(source, str | PathLike):
        raise UsageError(
            f"the run must be a file, {{query: {{document: score}}}} or a frame, not {source!r:.60}"
        )
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{path}: no such run file")
    form = form_of(path)
    if form in (".jsonl", ".json"):
        return _read_json(path, form, score_column)
    if form in (".parquet", ".csv") or (form == ".tsv" and (score_column or has_header(path, RUN))):
        return _of_columns((of_parquet if form == ".parquet" else of_delimited)(path, fields))
    if score_column:
        raise UsageError(f"{path}: --score-column is for tables: .csv, .tsv, .parquet or JSON")
    return _read_trec(path, ranks=not is_trec(path))


def is_trec(path: Path) -> bool:
    """Tests whether a file has neither a header line nor three columns (query document rank)."""
    from harness.runfiles.trec import has_three_columns

    form = form_of(path)
    if form and (form != ".tsv" or has_header(path, RUN)):
        return False
    return not has_three_columns(path)


def _fields(score_column: str) -> Fields:
    try:
        return RUN.scored_by(score_column) if score_column else RUN
    except FieldError as error:
        raise UsageError(f"--score-column {error}") from None


def _read_trec(path: Path, *, ranks: bool) -> Rankings:
    """Reads a TREC file; with `ranks`, one of three columns whose score column holds ranks."""
    from harness.runfiles.trec import map_blocks, nan_line

    table = pa.concat_tables(map_blocks(path, lambda block: block))
    queries = table["query"].unify_dictionaries().combine_chunks()
    names, query = _unmarked(queries.dictionary.to_pylist(), path), to_numpy(queries.indices)
    scores = to_numpy(table["score"])
    if ranks:
        order = np.lexsort((scores, query))
        begin = np.searchsorted(query[order], query[order])
        first = scores[order] + begin - np.arange(len(order))
        if len(wrong := np.flatnonzero((first != first[begin]) | ~np.isin(first, (0, 1)))):
            raise UsageError(
                f"{path}: the third column is no rank, as query {names[query[order[wrong[0]]]]!r} "
                "has not 1, 2, 3, ...; of scores write a header with score, in a .csv or .tsv"
            )
        return _ordered(names, query, table["document"], None, scores, str(path))
    if np.isnan(scores).any():
        raise UsageError(
            f"{path}, line {nan_line(path)}: the score is NaN, which has no place in an order; "
            "correct the system that wrote it"
        )
    return checked_rankings(names, query, table["document"], scores, str(path))


def _unmarked(queries: list[str], path: Path) -> list[str]:
    """Returns the query ids. Raises UsageError if one begins with a byte-order mark."""
    for query in queries:
        if query.startswith("\ufeff"):
            raise UsageError(f"{path}: the query {query!r} {MARKED}")
    return queries


def map_trec(path: Path, work: Callable[[Rankings], T]) -> Iterator[T]:
    """Yields the result of `work` for each block of a TREC run file, using little memory.

    `work` runs in a few threads. Unlike `read_rankings`, it may get a query in several blocks, if
    its lines are not adjacent in the file, and NaN scores.
    """

    from harness.runfiles.trec import map_blocks

    def call(block: pa.Table) -> T:
        queries = block["query"].chunk(0)
        return work(
            grouped_rankings(
                _unmarked(queries.dictionary.to_pylist(), path),
                to_numpy(queries.indices),
                block["document"],
                to_numpy(block["score"]),
            )
        )

    return map_blocks(path, call)


def _read_json(path: Path, form: str, score_column: str) -> Rankings:
    from harness.runfiles.json_files import read_run, rows_of_lines

    table = rows_of_lines(path, _fields(score_column)) if form == ".jsonl" else None
    if table is not None:
        return _of_columns(Columns(table, str(path), lambda row: f"line {row + 1}"))
    answers = read_run(path, lines=form == ".jsonl", score_column=score_column)
    return _of_answers(answers, str(path))


def _of_answers(answers: Answers, where: str) -> Rankings:
    scores = np.array(answers.scores, np.float64) if answers.scores else None
    ranks = np.array(answers.ranks, np.float64) if answers.ranks else None
    query = np.array(answers.query, np.int32)
    document = pa.chunked_array([pa.array(answers.documents, pa.string())])
    return _ordered(list(answers.ids), query, document, scores, ranks, where)


def _of_columns(rows: Columns) -> Rankings:
    """Converts rows of query, document and score, if any, or rank to rankings."""
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
    """Converts rows in any order to rankings; without scores, ranks order them, if there are any.

    Raises UsageError for NaN, and for a rank that is not a number or occurs twice in a query.
    """
    if score is None and rank is not None:
        if len(odd := np.flatnonzero(~np.isfinite(rank))):
            raise UsageError(
                f"{where}: the rank {rank[odd[0]]:g} of query {query_ids[query[odd[0]]]!r} is not "
                "a rank; correct it, or give scores"
            )
        order = np.lexsort((rank, query))
        query, rank, document = query[order], rank[order], take(document, order)
        again = np.flatnonzero((query[1:] == query[:-1]) & ~(rank[1:] > rank[:-1]))
        if len(again):
            raise UsageError(
                f"{where}: the rank {rank[again[0]]:g} occurs twice for query "
                f"{query_ids[query[again[0]]]!r}, so the order is unknown; correct it or add scores"
            )
    return checked_rankings(query_ids, query, document, score, where)
