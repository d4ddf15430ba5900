"""Writes rankings as TREC, Parquet and JSON Lines files, in blocks of rows to save memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UsageError
from harness.runfiles.arrow import integers, to_numpy
from harness.runfiles.rankings import Rankings

ROWS = 1 << 16
ROW_GROUP = 1 << 20  # the default of pyarrow's write_table

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class RankedBatch:
    """Consecutive rows of rankings. Shapes: (n,), except `query_ids`.

    `query` holds indices into `query_ids`, `rank` counts from 1, `score` is None if the system gave
    no scores. `left`: the number of documents of the same query after a row.
    """

    query_ids: pa.Array
    query: Ints
    document: pa.Array
    rank: Ints
    score: npt.NDArray[np.float64] | None
    left: Ints


def blocks(rankings: Rankings, rows: int = ROWS) -> Iterator[RankedBatch]:
    """Yields rankings in batches of `rows` rows."""
    query_ids = pa.array(rankings.query_ids, pa.string())
    starts = rankings.starts
    for start in range(0, len(rankings), rows):
        query = rankings.query[start : start + rows]
        at = np.arange(start, start + len(query))
        document = pa.concat_arrays(rankings.document.slice(start, rows).chunks)
        yield RankedBatch(
            query_ids,
            query,
            document.cast(pa.string()),
            at - starts[query] + 1,
            None if rankings.score is None else rankings.score[start : start + rows],
            starts[query.astype(np.int64) + 1] - at - 1,
        )


def read_blocks(path: Path, rows: int = ROWS) -> Iterator[RankedBatch]:
    """Yields the rankings.parquet of a run folder in batches of up to `rows` rows."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, read_dictionary=["query"]) as file:
        sizes: dict[str, int] = {}
        if "score" not in file.schema_arrow.names:  # then `left` is needed
            for batch in _batches(file, rows, ["query"]):
                for one in pc.value_counts(batch["query"]).to_pylist():
                    sizes[one["values"]] = sizes.get(one["values"], 0) + one["counts"]
        for batch in _batches(file, rows):
            names = batch["query"].dictionary
            query, rank = to_numpy(batch["query"].indices), to_numpy(batch["rank"])
            score = to_numpy(batch["score"]) if "score" in batch.schema.names else None
            left = np.zeros(len(rank), np.int64)
            if score is None:
                left = np.array([sizes.get(one, 0) for one in names.to_pylist()])[query] - rank
            yield RankedBatch(names, query, batch["document"], rank, score, left)


def _batches(file: Any, rows: int, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields batches of a Parquet file per row group, so that its reader frees earlier groups."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(rows, [group], columns, use_threads=False)


def write_trec(of: Iterable[RankedBatch], path: Path, tag: str, header: bytes = b"") -> None:
    """Writes a TREC run file after `header`. Rankings without scores get the scores n, n-1, ..., 1.

    Raises UsageError, and leaves no file, for ids that are empty or contain white space, which the
    format does not allow, and for query ids that begin with #, like comments.
    """
    seen: pa.Array | None = None
    try:
        with path.open("wb") as file:
            file.write(header)
            for block in of:
                if block.query_ids is not seen:
                    seen = block.query_ids
                    if pc.any(pc.starts_with(seen, "#")).as_py():
                        raise UsageError(
                            "query ids that begin with # are comments in a TREC run file"
                        )
                    _refuse_blank(seen, "query")
                _refuse_blank(block.document, "document")
                if len(block.query):
                    file.write(_trec_lines(block, tag))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def parquet_schema(*, scored: bool) -> pa.Schema:
    """Returns the schema of rankings.parquet; `scored`: whether the system gave scores."""
    fields = [
        ("query", pa.dictionary(pa.int32(), pa.string())),
        ("document", pa.string()),
        ("rank", pa.int32()),
    ]
    return pa.schema([*fields, ("score", pa.float64())] if scored else fields)


def write_parquet(rankings: Rankings, path: Path) -> None:
    """Writes rankings.parquet: query, document, rank and, if there are any, score."""
    scored = rankings.score is not None
    write_parquet_batches(blocks(rankings, ROW_GROUP), path, scored=scored)


def write_parquet_batches(of: Iterable[RankedBatch], path: Path, *, scored: bool) -> None:
    """Writes rankings.parquet from batches of ROW_GROUP rows."""
    import pyarrow.parquet as pq

    schema = parquet_schema(scored=scored)
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for block in of:
            # Each row group stores its own queries only, not all of the run.
            low = int(block.query.min(initial=len(block.query_ids)))
            ids = block.query_ids.slice(low, int(block.query.max(initial=low)) - low + 1)
            columns = {
                "query": pa.DictionaryArray.from_arrays(integers(block.query - low), ids),
                "document": block.document,
                "rank": integers(block.rank.astype(np.int32)),
            }
            if block.score is not None:
                columns["score"] = pa.array(block.score)
            file.write_table(pa.table(columns, file.schema), ROW_GROUP)


def write_jsonl(of: Iterable[RankedBatch], path: Path) -> None:
    """Writes a line per query, best first: {"query": ..., "documents": [...], "scores": [...]}."""
    with path.open("wb") as file:
        for query, documents, scores in _by_query(of):
            line: dict[str, object] = {"query": query, "documents": documents}
            if scores is not None:
                line["scores"] = scores
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def _by_query(of: Iterable[RankedBatch]) -> Iterator[tuple[str, list[str], list[float] | None]]:
    """Yields (id, documents, scores) of each query."""
    name: str | None = None
    documents: list[str] = []
    scores: list[float] | None = None
    for block in of:
        edges = np.flatnonzero(np.diff(block.query)) + 1
        ends = [*edges.tolist(), len(block.query)]
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            if start == end:
                continue
            query = block.query_ids[int(block.query[start])].as_py()
            if query != name:
                if name is not None:
                    yield name, documents, scores
                name, documents = query, []
                scores = None if block.score is None else []
            documents += block.document.slice(start, end - start).to_pylist()
            if scores is not None and block.score is not None:
                scores += block.score[start:end].tolist()
    if name is not None:
        yield name, documents, scores


def _trec_lines(block: RankedBatch, tag: str) -> memoryview:
    """Returns the lines of a batch as bytes; Arrow joins them without Python code per row."""
    score = block.left + 1 if block.score is None else block.score
    parts = [
        block.query_ids.take(integers(block.query)),
        "Q0",
        block.document,
        integers(block.rank).cast(pa.string()),
        integers(score.astype(np.float64)).cast(pa.string()),
        f"{tag}\n",
    ]
    # Arrow's CSV writer is not used, since it refuses ids with a quotation mark.
    lines = pc.binary_join_element_wise(*parts, " ")
    return memoryview(lines.buffers()[2])[: np.frombuffer(lines.buffers()[1], np.int32)[len(lines)]]


def _refuse_blank(ids: pa.Array, what: str) -> None:
    """Raises UsageError for an id that is empty or contains white space of any script."""
    offsets = np.frombuffer(ids.buffers()[1], np.int32)[ids.offset : ids.offset + len(ids) + 1]
    data = np.frombuffer(ids.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    if (data < 0x80).all():  # takes a tenth of the time of a regular expression
        blank = (data == ord(" ")) | (data - ord("\t") < 5)
        found = bool(blank.any()) or bool((offsets[1:] == offsets[:-1]).any())
    else:
        found = bool(pc.any(pc.match_substring_regex(ids, r"[\s\v\x{85}\pZ]|^$")).as_py())
    if found:
        raise UsageError(
            f"{what} ids that are empty or hold white space cannot stand in a TREC run file"
        )
