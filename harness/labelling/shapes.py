"""What the files of a project hold: told where a disk, a copy or a hand has made them otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.labelling.records import Candidate, Pair

REMEDY = "mend it by hand, or get the folder again from where it is whole"

Shape = Mapping[str, tuple[type, ...]]
"""The kinds that a field may be of; where None is one of them, the field may be missing."""

_NONE = type(None)
TEXT: Shape = {"id": (str,), "text": (str,), "haystack": (str, list, _NONE)}
"""A line of documents.jsonl or queries.jsonl."""
CANDIDATE: Shape = {
    "query": (str,),
    "document": (str,),
    "ranks": (dict, _NONE),
    "proposed": (dict, _NONE),
}
"""A line of pool.jsonl."""

_SETTINGS: Shape = {
    "k": (int, _NONE),
    "seed": (int, _NONE),
    "relevant_from": (int, _NONE),
    "overlap": (int, float, _NONE),
    "systems": (list, _NONE),
    "answers": (list, _NONE),
    "sources": (list, _NONE),
}
_ITEMS: Mapping[str, Shape] = {
    "systems": {"system": (str,), "name": (str,), "params": (dict,), "plugins": (list, _NONE)},
    "answers": {"folder": (str,), "system": (str,), "sha256": (str,)},
    "sources": {"role": (str,), "file": (str,), "sha256": (str,)},
}


def check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Raises UsageError for a label.json of another shape than `harness label` writes."""
    _check(f"{path}", settings, _SETTINGS)
    for name, shape in _ITEMS.items():
        for number, one in enumerate(settings.get(name) or (), 1):
            _check(f"{path}: {name}, item {number}", one, shape)


def check_records(path: Path, shape: Shape, records: Iterable[Mapping[str, Any]]) -> None:
    """Raises UsageError for the first record of a file that is of another shape, by its number."""
    for number, one in enumerate(records, 1):
        _check(f"{path}: record {number}", one, shape)


def check_pool(
    folder: Path,
    queries: Sequence[Mapping[str, Any]],
    documents: Iterable[Mapping[str, Any]],
    pool: Iterable[Candidate],
) -> None:
    """Raises UsageError for a query or a candidate that stands twice, and for a candidate of a
    query or with a document that is not there."""
    names, ids = {one["id"] for one in queries}, {one["id"] for one in documents}
    if len(names) < len(queries):
        raise UsageError(f"{folder / 'queries.jsonl'}: has an id twice; {REMEDY}")
    seen: set[Pair] = set()
    for one in pool:
        pair = one.query, one.document
        if pair in seen or one.query not in names or one.document not in ids:
            wrong = "twice" if pair in seen else "of which one is in no file beside it"
            raise UsageError(
                f"{folder / 'pool.jsonl'}: names query {one.query!r} with document "
                f"{one.document!r}, {wrong}; {REMEDY}"
            )
        seen.add(pair)


def _check(where: str, record: Any, shape: Shape) -> None:
    if not isinstance(record, Mapping):
        raise UsageError(f"{where}: is no JSON object; {REMEDY}")
    for name, kinds in shape.items():
        value = record.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise UsageError(
                f"{where}: {name} is missing, or not as `harness label` writes it; {REMEDY}"
            )
