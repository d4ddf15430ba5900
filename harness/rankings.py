"""Rankings as columns: what a retriever returned, from memory, TREC run files, JSONL or Parquet.

A ranking on disk is all that scoring needs. Ids here are the dataset's own ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UsageError

Run = Mapping[str, Mapping[str, float]]
"""Rankings in memory, as pytrec_eval and BEIR have them: query id -> document id -> score."""


@dataclass(frozen=True)
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

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Row where each query's ranking begins; shape (len(query_ids) + 1,)."""
        return np.searchsorted(self.query, np.arange(len(self.query_ids) + 1))


def read_rankings(source: str | Path | Run | Rankings) -> Rankings:
    """Rankings from a file (by its ending: .parquet, .jsonl, else TREC; .gz too) or a dict.

    Raises UsageError, naming file and line, for what cannot be read and for scores that are NaN.
    """
    if isinstance(source, Rankings):
        return source
    if isinstance(source, Mapping):
        return from_dict(source)
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{path}: no such run file")
    endings = path.suffixes
    if ".parquet" in endings:
        return _read_parquet(path)
    if ".jsonl" in endings:
        return _read_jsonl(path)
    return _read_trec(path)


def from_dict(run: Run) -> Rankings:
    """Rankings from `{query: {document: score}}`; the caller's dictionary is left as it is."""
    sizes = [len(documents) for documents in run.values()]
    documents = pa.array((d for ranking in run.values() for d in ranking), pa.string())
    scores = np.fromiter((s for r in run.values() for s in r.values()), np.float64, sum(sizes))
    query = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return _checked(list(run), query, pa.chunked_array([documents]), scores, "the run")


# -- TREC: query Q0 document rank score tag -------------------------------------------------------

_TREC = ["query", "q0", "document", "rank", "score", "tag"]


def _read_trec(path: Path) -> Rankings:
    first = _first_line(path)
    if not first:
        raise UsageError(f"{path}: empty; a run file has lines `query Q0 document rank score tag`")
    delimiter = "\t" if first.count(b"\t") == 5 and b" " not in first else " "
    columns = _TREC[: len(first.split())]
    if len(columns) < 5:
        raise UsageError(
            f"{path}, line 1: {len(columns)} fields, but a run file has "
            "`query Q0 document rank score tag`"
        )
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            table = _csv(stream, columns, delimiter)
    except pa.ArrowInvalid:
        # Columns aligned with several blanks, or a broken line: fold the blanks and look again.
        try:
            table = _csv(pa.BufferReader(_folded(path)), columns, " ")
        except pa.ArrowInvalid as error:
            raise UsageError(f"{path}: {_broken_line(path, len(columns), str(error))}") from None
    queries = table["query"].unify_dictionaries().combine_chunks()
    return _checked(
        queries.dictionary.to_pylist(),
        queries.indices.to_numpy(),
        table["document"],
        table["score"].to_numpy(),
        str(path),
    )


def _csv(stream: Any, columns: list[str], delimiter: str) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(
        stream,
        read_options=csv.ReadOptions(column_names=columns, block_size=1 << 22),
        parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False, escape_char=False),
        convert_options=csv.ConvertOptions(
            include_columns=["query", "document", "score"],
            column_types={
                "query": pa.dictionary(pa.int32(), pa.string()),
                "document": pa.string(),
                "score": pa.float64(),
            },
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _first_line(path: Path) -> bytes:
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            head: bytes = stream.read(1 << 16)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None
    return head.lstrip().split(b"\n", 1)[0].strip()


def _folded(path: Path) -> bytes:
    with pa.input_stream(str(path), compression="detect") as stream:
        data: bytes = stream.read()
    data = re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t\r]+", b" ", data))
    # What follows the tag is ignored, as trec_eval does.
    return re.sub(rb"(?m)^(\S+(?: \S+){5}) .*$", rb"\1", data)


def _broken_line(path: Path, fields: int, error: str) -> str:
    """Which line of a run file cannot be read, and why; found by reading it line by line."""
    with pa.input_stream(str(path), compression="detect") as stream:
        lines = stream.read().split(b"\n")
    for number, line in enumerate(lines, 1):
        values = line.split()
        if values and len(values) < fields:
            return f"line {number}: {len(values)} fields where line 1 has {fields}"
        try:
            _ = line.decode(), values and float(values[4])
        except UnicodeDecodeError:
            return f"line {number}: not UTF-8"
        except ValueError:
            return f"line {number}: the score {values[4].decode()!r} is not a number"
    return f"cannot be read ({error})"


# -- JSONL and Parquet ----------------------------------------------------------------------------


def _read_jsonl(path: Path) -> Rankings:
    """Lines of {query, document, score?}, or {query, documents: [...], scores?: [...]}."""
    import orjson

    ids: dict[str, int] = {}
    query: list[int] = []
    documents: list[str] = []
    scores: list[float | None] = []
    with pa.input_stream(str(path), compression="detect") as stream:
        lines = stream.read().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
            found = record["documents"] if "documents" in record else [record["document"]]
            given = record.get("scores") or [record.get("score")] * len(found)
            if len(given) != len(found):
                raise ValueError(f"{len(found)} documents, {len(given)} scores")
            query += [ids.setdefault(record["query"], len(ids))] * len(found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f'{path}, line {number}: expected {{"query": id, "document": id, "score": number}} '
                f"({error})"
            ) from None
        documents += found
        scores += given
    none = [score is None for score in scores]
    if any(none) and not all(none):
        raise UsageError(
            f"{path}: {sum(none)} of {len(none)} documents have no score; give all or none"
        )
    try:
        column = pa.array(documents, pa.string())
        values = None if all(none) else np.array(scores, np.float64)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(f"{path}: ids must be text and scores numbers ({error})") from None
    codes = np.array(query, np.int32)
    return _checked(list(ids), codes, pa.chunked_array([column]), values, str(path))


def _read_parquet(path: Path) -> Rankings:
    """Columns query, document and, where there are scores, score; other columns are ignored."""
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
        missing = {"query", "document"} - set(names)
        if missing:
            raise UsageError(f"{path}: no column {', '.join(sorted(missing))}; it has {names}")
        wanted = [name for name in ("query", "document", "score") if name in names]
        table = pq.read_table(path, columns=wanted)
    except pa.ArrowException as error:
        raise UsageError(f"{path}: not a readable Parquet file ({error})") from None
    queries = table["query"].cast(pa.string()).dictionary_encode().unify_dictionaries()
    queries = queries.combine_chunks()
    scores = None
    if "score" in wanted and table["score"].null_count < len(table):
        if table["score"].null_count:
            raise UsageError(
                f"{path}: {table['score'].null_count} scores are missing; give all or none"
            )
        scores = table["score"].cast(pa.float64()).to_numpy()
    return _checked(
        queries.dictionary.to_pylist() if len(table) else [],
        queries.indices.to_numpy(zero_copy_only=False) if len(table) else np.zeros(0, np.int32),
        table["document"].cast(pa.string()),
        scores,
        str(path),
    )


# -- what every way in ends with ------------------------------------------------------------------


def _checked(
    query_ids: list[str],
    query: npt.NDArray[np.int32],
    document: pa.ChunkedArray,
    score: npt.NDArray[np.float64] | None,
    where: str,
) -> Rankings:
    """Group the rows by query (in order of first mention, order kept inside) and refuse NaN."""
    if score is not None and np.isnan(score).any():
        bad = np.flatnonzero(np.isnan(score))
        raise UsageError(
            f"{where}: {len(bad)} scores are NaN, first for query {query_ids[query[bad[0]]]!r}; "
            "a NaN has no place in an order, so mend the system that wrote it"
        )
    if len(query) and (np.diff(query) < 0).any():
        order = np.argsort(query, kind="stable")
        query, document = query[order], document.take(pa.array(order))
        score = None if score is None else score[order]
    return Rankings(query_ids, query.astype(np.int32, copy=False), document, score)


def duplicates(rankings: Rankings) -> npt.NDArray[np.int64]:
    """Rows whose document stands in the same query's ranking above them already."""
    keys = np.concatenate([np.zeros(0, np.uint64), *map(_hashes, rankings.document.chunks)])
    keys ^= rankings.query.astype(np.uint64) * _MIX
    ordered = np.sort(keys)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if len(twice) == 0:
        return np.zeros(0, np.int64)
    # Equal hashes are suspects only: compare the ids themselves.
    suspects = np.flatnonzero(np.isin(keys, twice))
    seen: set[tuple[int, str]] = set()
    again = []
    documents = rankings.document.take(pa.array(suspects)).to_pylist()
    for row, document in zip(suspects, documents, strict=True):
        pair = (int(rankings.query[row]), document)
        if pair in seen:
            again.append(row)
        seen.add(pair)
    return np.array(again, np.int64)


_MIX = np.uint64(0x9E3779B97F4A7C15)


def _hashes(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each string, eight bytes a step over all strings at once."""
    if len(ids) == 0:
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(ids.buffers()[1], np.int32)[ids.offset : ids.offset + len(ids) + 1]
    data = np.frombuffer(ids.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    at, left = offsets[:-1] - offsets[0], np.diff(offsets)
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    hashes = left.astype(np.uint64)
    masks = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
    for step in range(0, int(left.max()), 8):
        word = words[np.minimum(at + step, len(words) - 1)] & masks[np.clip(left - step, 0, 8)]
        hashes = (hashes ^ word) * _MIX
        hashes ^= hashes >> np.uint64(29)
    return hashes


def best_first(rankings: Rankings) -> Rankings:
    """The rankings with each query's scores descending; equals stay in the order they stand in.

    Run files and dictionaries may come in any order; most come so already and cost one look.
    """
    score, query = rankings.score, rankings.query
    if score is None or not ((score[1:] > score[:-1]) & (query[1:] == query[:-1])).any():
        return rankings
    order = np.lexsort((-score, query))
    document = rankings.document.take(pa.array(order))
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


def write_trec(rankings: Rankings, path: Path, tag: str) -> None:
    """Write a TREC run file. Systems without scores get n, n-1, ... so that the order is kept.

    Raises UsageError when an id holds white space, which the format cannot carry.
    """
    from pyarrow import csv

    for what, values in (("query", pa.array(rankings.query_ids)), ("document", rankings.document)):
        blank = pc.match_substring_regex(values, r"\s")
        if pc.any(blank).as_py():
            raise UsageError(f"{what} ids with white space cannot be written to a TREC run file")
    starts = rankings.starts
    position = np.arange(len(rankings)) - np.repeat(starts[:-1], np.diff(starts))
    score = rankings.score
    if score is None:
        score = np.repeat(np.diff(starts), np.diff(starts)) - position.astype(np.float64)
    n = len(rankings)
    columns: Iterable[tuple[str, Any]] = [
        ("query", pa.DictionaryArray.from_arrays(rankings.query, pa.array(rankings.query_ids))),
        ("q0", pa.repeat("Q0", n)),
        ("document", rankings.document),
        ("rank", pa.array(position + 1)),
        ("score", pa.array(score)),
        ("tag", pa.repeat(tag, n)),
    ]
    table = pa.table({name: _plain(values) for name, values in columns})
    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    csv.write_csv(table, str(path), options)


def _plain(values: Any) -> Any:
    return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values
