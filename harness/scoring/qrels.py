"""Judgements as columns, from qrels files, dictionaries or a prepared dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError, require_ids
from harness.runfiles.arrow import strings, to_numpy
from harness.runfiles.fields import QRELS, grade_of
from harness.runfiles.raw import read_lines
from harness.runfiles.tables import (
    Columns,
    Frame,
    form_of,
    has_header,
    of_delimited,
    of_frame,
    of_parquet,
)

if TYPE_CHECKING:
    from harness.datasets.reader import Dataset

QrelsDict = Mapping[str, Mapping[str, int]]
"""Judgements in memory, as pytrec_eval has them: query id -> document id -> grade."""


@dataclass(frozen=True)
class Qrels:
    """Judgements of n queries as columns of length m, sorted by query.

    `query` holds indices into `query_ids`, `evidence_id` codes of the pieces of evidence (rows with
    the same code carry the same piece; by default each row is its own).
    """

    query_ids: Sequence[str]
    query: npt.NDArray[np.int32]
    document: pa.Array
    grade: npt.NDArray[np.int32]
    evidence_id: npt.NDArray[np.int32]

    @cached_property
    def first_of_document(self) -> npt.NDArray[np.bool_]:
        """True for one judgement of each document of a query: the first of its highest grade.

        A document stands more than once where it carries several pieces of evidence.
        """
        first = np.zeros(len(self.query), bool)
        pairs = self.query.astype(np.int64) << 32 | self.document_code
        order = np.lexsort((-self.grade, pairs))
        first[order[np.diff(pairs[order], prepend=-1) != 0]] = True
        return first

    @cached_property
    def document_code(self) -> npt.NDArray[np.int64]:
        """A number for each judgement's document: equal ids, equal numbers."""
        return to_numpy(self.document.dictionary_encode().indices).astype(np.int64)

    @property
    def n(self) -> int:
        """Number of queries."""
        return len(self.query_ids)


def from_dataset(dataset: Dataset, key: str = "default") -> Qrels:
    """One answer key of a dataset; every query of the dataset is there, judged or not."""
    judged = dataset.qrels(key)
    return Qrels(
        dataset.query_ids, judged.query, judged.document_id, judged.grade, judged.evidence_id
    )


def from_dict(qrels: QrelsDict) -> Qrels:
    """Judgements from `{query: {document: grade}}`.

    Raises UsageError for a dictionary of another form, ids that are no text, and grades that are no
    whole numbers of 32 bits.
    """
    require_ids(qrels, "the judged query")
    for id_, judged in qrels.items():
        if not isinstance(judged, Mapping):
            raise UsageError(
                f"the judgements of query {id_!r} are {type(judged).__name__}, where "
                "{document: grade} is needed"
            )
    documents = [document for judged in qrels.values() for document in judged]
    try:
        require_ids(documents, "the judged document")
    except UsageError:
        for id_, judged in qrels.items():  # at once they take a third of the time
            require_ids(judged, f"of query {id_!r}, the judged document")
    sizes = [len(judged) for judged in qrels.values()]
    query = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    document = strings(documents)
    try:
        given = np.fromiter((g for j in qrels.values() for g in j.values()), np.float64, len(query))
    except (TypeError, ValueError, OverflowError):
        given = np.full(1, np.nan)
    if not (np.abs(given) < 1 << 31).all() or (given != np.rint(given)).any():
        raise UsageError(
            f"the judgements hold a grade that is not a whole number of 32 bits: {_odd(qrels)}"
        )
    grade = given.astype(np.int32)
    return Qrels(list(qrels), query, document, grade, np.arange(len(query), dtype=np.int32))


def _odd(qrels: QrelsDict) -> str:
    """The first grade that is none, and where it stands."""
    for query, judged in qrels.items():
        for document, grade in judged.items():
            try:
                if abs(float(grade)) < 1 << 31 and float(grade).is_integer():
                    continue
            except (TypeError, ValueError, OverflowError):
                pass
            return f"{grade!r:.40}, of document {document!r} for query {query!r}"
    raise AssertionError("unreachable")


def read_qrels(source: str | Path | Frame) -> Qrels:
    """A TREC qrels file (`query 0 document grade`), BEIR's (`query document score`, with header),
    one of {query, document, grade} in any form that runs come in, or a frame.

    In TREC's, lines that begin with # are comments, as for trec_eval 10. A grade is 1 where there
    is no such column. Raises UsageError with the line for anything else, and for a pair that stands
    twice with different grades.
    """
    if not isinstance(source, str | PathLike):
        return _of_columns(of_frame(source, QRELS, "the judgements"))
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{path}: no such qrels file")
    form = form_of(path)
    if form == ".parquet":
        return _of_columns(of_parquet(path, QRELS))
    if form in (".json", ".jsonl"):
        from harness.runfiles.json_rows import of_json

        return _of_columns(of_json(path, QRELS, lines=form == ".jsonl"))
    if form == ".csv" or (form == ".tsv" and has_header(path, QRELS)):
        return _of_columns(of_delimited(path, QRELS))
    return _of_lines(path)


def _of_columns(rows: Columns) -> Qrels:
    named = set(rows.table["qrels_set"].to_pylist()) if "qrels_set" in rows else set()
    if named - {None, "", "default"}:
        raise UsageError(f"{rows.source}: holds several qrels sets; leave the rows of one")
    queries, documents = (rows.ids(name).to_pylist() for name in ("query", "document"))
    grades = rows.grades()
    given = [1] * len(queries) if grades is None else grades.tolist()
    qrels: dict[str, dict[str, int]] = {}
    for row, (query, document, grade) in enumerate(zip(queries, documents, given, strict=True)):
        before = qrels.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            raise rows.error(row, _twice(document, query, before, grade))
    if not qrels:
        raise UsageError(f"{rows.source}: no judgements in it")
    return from_dict(qrels)


def _heads(path: Path, fields: list[bytes]) -> bool:
    """Whether these are the names of columns. Raises UsageError for those of another order."""
    names = [field.decode(errors="replace") for field in fields]
    if len(names) < 3 or not QRELS.heads(names):
        return False
    order = [QRELS.field(name) for name in (names[0], *names[-2:])]
    if order != ["query", "document", "grade"] or len(names) not in (3, 4):
        raise UsageError(
            f"{path}, line 1: the columns {', '.join(names)} are not query, document, grade; with "
            "other ones the file is called .csv or .tsv"
        )
    return True


def _twice(document: str, query: str, before: int, grade: int) -> str:
    return f"{document!r} is judged twice for query {query!r}, with grades {before} and {grade}"


def _of_lines(path: Path) -> Qrels:
    """TREC's form, and BEIR's."""
    qrels: dict[str, dict[str, int]] = {}
    beir = False
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split()
        if number == 1 and (beir := _heads(path, fields)):
            continue
        if not fields or (fields[0].startswith(b"#") and not beir):
            continue
        try:
            if len(fields) not in (3, 4):
                raise ValueError(f"{len(fields)} fields")
            query, document, given = (one.decode() for one in (fields[0], *fields[-2:]))
            grade = grade_of(given)
        except ValueError as error:
            raise UsageError(
                f"{path}, line {number}: expected `query 0 document grade` or "
                f"`query<TAB>document<TAB>grade` ({error})"
            ) from None
        judged = qrels.setdefault(query, {})
        if judged.setdefault(document, grade) != grade:
            raise UsageError(
                f"{path}, line {number}: {_twice(document, query, judged[document], grade)}"
            )
    if not qrels:
        raise UsageError(f"{path}: no judgements in it")
    return from_dict(qrels)
