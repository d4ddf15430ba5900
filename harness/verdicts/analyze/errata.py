"""Errata of an answer key: files that correct evidence beside the key, and never in it.

One line, or one element of a JSON list, a faulty question:

    {"query": "q7", "kind": "wrong citation", "evidence": ["d3"], "note": "d2 only greets"}

`evidence` lists the documents that are evidence (ids of the dataset, at the granularity of the
run); null says that nobody knows them: the question is left out of the corrected number. `kind` and
`note` are free text and may be missing. A public audit of LoCoMo is read as it stands, too (see
locomo_audit).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import digest


@dataclass(frozen=True)
class Erratum:
    """One faulty question: its id, the kind of fault, the ids of its evidence (None: unknown)."""

    query: str
    kind: str
    evidence: tuple[str, ...] | None
    note: str = ""


@dataclass(frozen=True)
class Errata:
    """All of a file, by row of the query table; `sha256` is the file's.

    `documents` are the rows of the documents that are evidence; None: nobody knows.
    """

    file: str
    sha256: str
    entries: dict[int, Erratum]
    documents: dict[int, tuple[int, ...] | None]


def read_errata(path: Path, dataset: Dataset) -> Errata:
    """Read an overlay for this dataset.

    Raises UsageError, naming the entry, for what is not of this form, a query or a document that
    the dataset does not have there, and a query that stands twice.
    """
    from harness.verdicts.analyze.locomo_audit import from_audit, is_audit

    records = _records(path)
    if is_audit(records):
        read = from_audit(records, dataset, path)
    else:
        read = [_erratum(record, f"{path}, entry {n}") for n, record in enumerate(records, 1)]
    query_of = {name: row for row, name in enumerate(dataset.query_ids)}
    places: dict[int, dict[str, int]] = {}
    found = Errata(path.name, digest(path), {}, {})
    for number, one in enumerate(read, 1):
        where = f"{path}, entry {number}"
        query = query_of.get(one.query)
        if query is None:
            raise UsageError(f"{where}: {dataset.name} has no query {one.query!r}")
        if query in found.entries:
            raise UsageError(f"{where}: the query {one.query!r} stands twice; keep one entry")
        haystack = int(dataset.query_haystack[query])
        if haystack not in places:
            rows = dataset.haystack_rows(haystack)
            ids = dataset.documents.column("id", rows).to_pylist()
            places[haystack] = dict(zip(ids, rows.tolist(), strict=True))
        if lost := [name for name in one.evidence or () if name not in places[haystack]]:
            raise UsageError(
                f"{where}: the haystack of {one.query!r} has no document {lost[0]!r} at "
                f"granularity {dataset.manifest.granularity}; correct it, or say null for unknown"
            )
        found.entries[query] = one
        found.documents[query] = (
            None
            if one.evidence is None
            else tuple(dict.fromkeys(places[haystack][name] for name in one.evidence))
        )
    return found


def _records(path: Path) -> list[Any]:
    """The elements of a JSON list, or the lines of a JSONL file."""
    import orjson

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        if data.lstrip().startswith(b"["):
            records: list[Any] = orjson.loads(data)
        else:
            records = [orjson.loads(line) for line in data.splitlines() if line.strip()]
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path}: neither a JSON list nor lines of JSON ({error})") from None
    if not records:
        raise UsageError(f"{path}: holds no errata")
    return records


def _erratum(record: Any, where: str) -> Erratum:
    expected = '{"query": id, "kind": text, "evidence": [id, ...] or null, "note": text}'
    if not isinstance(record, dict) or not {"query", "evidence"} <= record.keys():
        raise UsageError(f"{where}: expected {expected}")
    query, evidence = record["query"], record["evidence"]
    kind, note = record.get("kind") or "not said", record.get("note") or ""
    if not _texts([query, kind, note]) or not (evidence is None or _texts(evidence)):
        raise UsageError(f"{where}: expected {expected}")
    if evidence == []:
        raise UsageError(f"{where}: no evidence; say null where nobody knows it")
    return Erratum(query, kind, None if evidence is None else tuple(evidence), note)


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
