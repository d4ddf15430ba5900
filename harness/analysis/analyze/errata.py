"""Errata of qrels, and scores of a run by the original and the corrected qrels.

Errata are separate files; the qrels are never changed. Each line, or each element of a JSON list,
is a faulty question:

    {"query": "q7", "kind": "wrong citation", "evidence": ["d3"], "note": "d2 only greets"}

`evidence` lists the documents that are evidence (ids of the dataset, at the granularity of the
run); null means unknown: the question is excluded from the corrected number. `kind` and `note` are
optional free text. The public audit of LoCoMo (dial481/locomo-audit, errors.json) is supported
unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from harness.datasets.reader import Dataset, DatasetQrels
from harness.errors import UsageError
from harness.io.files import digest
from harness.records.scores import MetricResult
from harness.scoring.scores import Scores
from harness.scoring.signature_meaning import parse_signature


@dataclass(frozen=True)
class Erratum:
    """One faulty question: its id, the kind of fault, the ids of its evidence (None: unknown)."""

    query: str
    kind: str
    evidence: tuple[str, ...] | None
    note: str = ""


@dataclass(frozen=True)
class Errata:
    """All errata of a file, by row of the query table; `sha256` is the file's.

    `documents` are the rows of the documents that are evidence; None: unknown.
    """

    file: str
    sha256: str
    entries: dict[int, Erratum]
    documents: dict[int, tuple[int, ...] | None]


def read_errata(path: Path, dataset: Dataset) -> Errata:
    """Read errata for this dataset.

    Raises UsageError, naming the entry, for an invalid form, a query or document that the dataset
    lacks, and a repeated query.
    """
    records = _records(path)
    if _is_audit(records):
        read = _from_audit(records, dataset, path)
    else:
        read = [_erratum(record, f"{path}, entry {n}") for n, record in enumerate(records, 1)]
    query_of = dataset.query_rows
    places: dict[int, dict[str, int]] = {}
    found = Errata(path.name, digest(path), {}, {})
    for number, one in enumerate(read, 1):
        where = f"{path}, entry {number}"
        query = query_of.get(one.query)
        if query is None:
            raise UsageError(f"{where}: {dataset.name} has no query {one.query!r}")
        if query in found.entries:
            raise UsageError(f"{where}: the query {one.query!r} occurs twice; keep one entry")
        haystack = int(dataset.query_haystack[query])
        if haystack not in places:
            rows = dataset.haystack_rows(haystack)
            ids = dataset.documents.column("id", rows).to_pylist()
            places[haystack] = dict(zip(ids, rows.tolist(), strict=True))
        if lost := [name for name in one.evidence or () if name not in places[haystack]]:
            raise UsageError(
                f"{where}: the haystack of {one.query!r} has no document {lost[0]!r} at "
                f"granularity {dataset.manifest.granularity}; correct it, or use null for unknown"
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
        raise UsageError(f"{path}: contains no errata")
    return records


def _erratum(record: Any, where: str) -> Erratum:
    expected = '{"query": id, "kind": text, "evidence": [id, ...] or null, "note": text}'
    if not isinstance(record, dict) or not {"query", "evidence"} <= record.keys():
        raise UsageError(f"{where}: expected {expected}")
    query, evidence = record["query"], record["evidence"]
    kind, note = record.get("kind") or "not given", record.get("note") or ""
    if not _texts([query, kind, note]) or not (evidence is None or _texts(evidence)):
        raise UsageError(f"{where}: expected {expected}")
    if evidence == []:
        raise UsageError(f"{where}: no evidence; use null for unknown evidence")
    return Erratum(query, kind, None if evidence is None else tuple(evidence), note)


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


_QUESTION = re.compile(r"locomo_(\d+)_qa(\d+)")
_TURN = re.compile(r"D(\d+):\d+")


def _is_audit(records: Sequence[Any]) -> bool:
    """Whether records have the fields of the audit."""
    fields = {"question_id", "question", "error_type", "correct_evidence"}
    return all(isinstance(record, dict) and fields <= record.keys() for record in records)


def _from_audit(records: Sequence[Any], dataset: Dataset, path: Path) -> list[Erratum]:
    """The audit's entries, with the ids of this dataset.

    It lists faults of categories 1 to 4: wrong answers and wrong citations, each with the turns
    of the evidence. Without turns the evidence is unknown.
    `locomo_{conversation}_qa{index}` counts conversations and their questions from 0 in the order
    of the file; the text of each question is checked. Sessions and their summaries
    are named by the session of a turn. Raises UsageError for another dataset, a question with
    another text, and observations, which have no turns.
    """
    unit = dataset.manifest.granularity
    if dataset.name != "locomo" or unit == "observation":
        raise UsageError(
            f"{path}: is an audit of LoCoMo's turns, which does not fit {dataset.name} by {unit}"
        )
    texts = dict(zip(dataset.query_ids, dataset.query_table["text"].to_pylist(), strict=True))
    found = []
    for number, record in enumerate(records, 1):
        named = _QUESTION.fullmatch(record["question_id"])
        at = int(named[1]) if named else len(dataset.haystack_ids)
        inside = at < len(dataset.haystack_ids)
        query = f"{dataset.haystack_ids[at]}_qa{named[2]}" if named and inside else ""
        if texts.get(query) != record["question"]:
            raise UsageError(
                f"{path}, entry {number}: {record['question_id']!r} is not a question of this "
                "file of LoCoMo; use the original one"
            )
        turns = record["correct_evidence"]
        if unit != "turn":
            turns = dict.fromkeys(_TURN.sub(r"S\1", turn) for turn in turns)
        kind = record["error_type"].lower().replace("_", " ")
        found.append(Erratum(query, kind, tuple(turns) or None, record.get("reasoning", "")))
    return found


# -- Scores by the original and the corrected qrels ------------------------------------------------

Results = dict[str, MetricResult]
"""The results of one slice, by metric."""


@dataclass(frozen=True)
class BothKeys:
    """Numbers by both qrels, and how many of the scored queries the errata name.

    `named` is the sum of queries with `corrected` evidence, with `confirmed` evidence (the error is
    elsewhere, as in the answer), and with `unknown` evidence, excluded from the corrected numbers.
    """

    file: str
    sha256: str
    named: int
    corrected: int
    confirmed: int
    unknown: int
    kinds: dict[str, int]
    by_original: dict[str, Results]
    by_corrected: dict[str, Results]


class CorrectedDataset(Dataset):
    """A dataset with other default qrels."""

    def __init__(self, dataset: Dataset, judged: DatasetQrels) -> None:
        self.__dict__.update(dataset.__dict__)
        self._corrected = judged

    def qrels(self, name: str = "default") -> DatasetQrels:
        """Returns a qrels set; the corrected one for the default."""
        return self._corrected if name == "default" else super().qrels(name)


def corrected(judged: DatasetQrels, errata: Errata, dataset: Dataset) -> DatasetQrels:
    """The qrels with the evidence of the errata for the queries they name.

    Queries with unknown evidence have none. Documents that were judged not relevant stay so, unless
    the errata name them as evidence.
    """
    evidence = {query: rows or () for query, rows in errata.documents.items()}
    named = np.isin(judged.query, list(evidence))
    pairs = judged.query.astype(np.int64) << 32 | judged.document
    new = [(query, row) for query, rows in evidence.items() for row in rows]
    query, row = (np.array([pair[i] for pair in new], np.int32) for i in (0, 1))
    again = np.isin(pairs, query.astype(np.int64) << 32 | row)
    kept = np.flatnonzero(~named | ((judged.grade < 1) & ~again))
    ids = dataset.documents.column("id", row).combine_chunks()
    order = np.argsort(np.concatenate([judged.query[kept], query]), kind="stable")
    free = int(judged.evidence_id.max(initial=-1)) + 1
    return DatasetQrels(
        np.concatenate([judged.query[kept], query])[order],
        np.concatenate([judged.document[kept], row])[order],
        pa.concat_arrays([judged.document_id.take(pa.array(kept)), ids]).take(pa.array(order)),
        np.concatenate([judged.grade[kept], np.ones(len(new), np.int32)])[order],
        np.concatenate(
            [judged.evidence_id[kept], np.arange(free, free + len(new), dtype=np.int32)]
        )[order],
    )


def both_keys(
    dataset: Dataset, errata: Errata, original: Scores, by_errata: Scores, asked: np.ndarray
) -> BothKeys:
    """Both scores; `asked`, shape (queries,), are the queries that the run can measure."""
    judged = dataset.qrels()
    named = [query for query in errata.entries if asked[query]]
    same, unknown = 0, 0
    for query in named:
        rows = errata.documents[query]
        mine = judged.document[(judged.query == query) & (judged.grade >= 1)]
        unknown += rows is None
        same += rows is not None and set(rows) == set(mine.tolist())
    return BothKeys(
        errata.file,
        errata.sha256,
        len(named),
        len(named) - same - unknown,
        same,
        unknown,
        dict(Counter(errata.entries[query].kind for query in named).most_common()),
        results_of(original),
        {
            name: {m: _signed(one, errata) for m, one in part.items()}
            for name, part in results_of(by_errata).items()
        },
    )


def results_of(scores: Scores) -> dict[str, Results]:
    """Returns the results of the single scored protocol, by slice and metric."""
    protocol = next(one for one in scores.report.protocols if one.level != "turn>session")
    return {name: part.metrics for name, part in protocol.slices.items()}


def _signed(result: MetricResult, errata: Errata) -> MetricResult:
    """Returns the result with a signature that names the errata."""
    signature = parse_signature(result.signature)
    protocol = f"{signature.protocol}+errata#{errata.sha256[:8]}"
    return msgspec.structs.replace(result, signature=str(replace(signature, protocol=protocol)))
