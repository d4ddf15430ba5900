"""Hits of a system that ran elsewhere: lines of {"query": id, "hits": [{text, sources}, ...]}.

A hit may have `id`, `sources` (ids of the dataset), `text` and `score`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.rankings.jsonl import read_lines
from harness.scoring.matching.hits import Hit


@dataclass(frozen=True)
class HitsFile:
    """The hits of a file, the queries of the dataset that it answers, and those it lacks."""

    hits: list[Hit]
    queries: dict[str, None]
    unknown: dict[str, None]


def is_hits_file(path: Path) -> bool:
    """Whether a file is of this kind, by its name and its first line."""
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        return False
    with pa.input_stream(str(path), compression="detect") as stream:
        return b'"hits"' in stream.read(1 << 16).partition(b"\n")[0]


def read_hits_file(path: Path, dataset: Dataset) -> HitsFile:
    """Read one. Raises UsageError, naming file and line, for a line that is not as it must be."""
    import orjson

    known = {name: row for row, name in enumerate(dataset.query_ids)}
    places: dict[int, dict[str, int]] = {}
    file = HitsFile([], {}, {})
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
            query = known.get(record["query"])
            if query is None:
                file.unknown[str(record["query"])] = None
                continue
            file.queries[record["query"]] = None
            haystack = int(dataset.query_haystack[query])
            if haystack not in places:
                places[haystack] = dataset.rows_by_id(haystack)
            for place, one in enumerate(record["hits"], 1):
                file.hits.append(_hit(query, place, one, places[haystack]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f'{path}, line {number}: expected {{"query": id, "hits": [{{"text": ..., '
                f'"sources": [id, ...], "score": number}}, ...]}} ({error})'
            ) from None
    return file


def _hit(query: int, place: int, one: dict[str, Any], rows: dict[str, int]) -> Hit:
    named = [*([one["id"]] if "id" in one else []), *one.get("sources", [])]
    score = one.get("score")
    sources = list(dict.fromkeys(rows[name] for name in named if name in rows))
    unknown = sum(name not in rows for name in named)
    text = one.get("text", "")
    if not isinstance(text, str):
        raise TypeError("a text must be a text")
    return Hit(query, place, text, sources, None if score is None else float(score), unknown)
