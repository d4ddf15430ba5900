"""JSONL run files: lines of {query, document, score?}, or {query, documents, scores?}."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError

Columns = tuple[list[str], npt.NDArray[np.int32], list[str], npt.NDArray[np.float64] | None]


def read_jsonl(path: Path) -> Columns:
    """Query ids, and for each returned document its query's index there, its id and its score.

    A query whose documents are an empty list was answered with nothing. The scores are None where
    no line has one. Raises UsageError, naming file and line, for anything else.
    """
    import orjson

    ids: dict[str, int] = {}
    query: list[int] = []
    documents: list[str] = []
    scores: list[float] = []
    first: dict[bool, int] = {}  # the first line with scores, and the first without
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            name, found, given = _fields(orjson.loads(line))
        except (KeyError, TypeError, ValueError) as error:
            said = f"no field {error}" if isinstance(error, KeyError) else str(error)
            raise UsageError(
                f'{path}, line {number}: expected {{"query": id, "document": id, "score": number}} '
                f"({said})"
            ) from None
        query += [ids.setdefault(name, len(ids))] * len(found)
        documents += found
        scores += given or []
        if found:
            first.setdefault(given is not None, number)
    if len(first) == 2:
        raise UsageError(
            f"{path}, line {first[False]}: no score, but line {first[True]} has one; "
            "give all or none"
        )
    if not ids:
        raise UsageError(
            f'{path}: empty; a run has lines {{"query": id, "document": id, "score": number}}'
        )
    values = np.array(scores, np.float64) if True in first else None
    return list(ids), np.array(query, np.int32), documents, values


def read_lines(path: Path) -> list[bytes]:
    """The lines of a file, unpacked where it is. Raises UsageError where it cannot be read."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            data: bytes = stream.read()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None
    return data.split(b"\n")


def _fields(record: Any) -> tuple[str, list[str], list[float] | None]:
    """Query, documents and scores of one line. Raises KeyError, TypeError and ValueError."""
    if not isinstance(record, dict):
        raise TypeError("not an object")
    query = record["query"]
    listed = "documents" in record
    found = record["documents"] if listed else [record["document"]]
    given = record.get("scores") if listed else record.get("score")
    if given is not None and not listed:
        given = [given]
    if not isinstance(found, list) or not isinstance(given, list | None):
        raise TypeError("documents and scores must be lists")
    if not isinstance(query, str) or not all(isinstance(id_, str) for id_ in found):
        raise TypeError("ids must be text")
    if given is not None and not all(type(score) in (int, float) for score in given):
        raise TypeError("scores must be numbers")
    if given is not None and len(given) != len(found):
        raise ValueError(f"{len(found)} documents, {len(given)} scores")
    return query, found, given
