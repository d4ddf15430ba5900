"""Reads relevance judgements from files, data frames and dictionaries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.errors import UsageError, require_ids
from harness.runfiles.arrow import strings
from harness.runfiles.fields import QRELS, grade_of
from harness.runfiles.raw import BYTE_ORDER_MARK, read_lines
from harness.runfiles.tables import (
    Columns,
    Frame,
    form_of,
    has_header,
    of_delimited,
    of_frame,
    of_parquet,
)
from harness.scoring.ranks import Qrels, QrelsDict


def from_dict(qrels: QrelsDict) -> Qrels:
    """Converts `{query: {document: grade}}` to qrels.

    Raises UsageError for a dictionary of another form, ids that are not text, and grades that are
    not 32-bit integers.
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
        for id_, judged in qrels.items():  # slower, but names the query
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
    """Describes the first invalid grade and its position."""
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
    """Reads qrels from a TREC file (`query 0 document grade`), a BEIR file (`query document score`,
    with header), a file of {query, document, grade} in any format of runs, or a frame.

    In TREC files, lines that begin with # are comments, as for trec_eval 10. Without a column of
    grades, grades are 1. Raises UsageError, naming the line, for anything else, and for a duplicate
    pair with different grades.
    """
    if not isinstance(source, str | os.PathLike):
        return _of_columns(of_frame(source, QRELS, "the judgements"))
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{path}: no such qrels file")
    form = form_of(path)
    if form == ".parquet":
        return _of_columns(of_parquet(path, QRELS))
    if form in (".json", ".jsonl"):
        from harness.runfiles.json_files import of_json

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
    """Tests whether these are column names. Raises UsageError for names in another order."""
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
    """Reads TREC's and BEIR's formats."""
    qrels: dict[str, dict[str, int]] = {}
    beir = False
    for number, line in enumerate(read_lines(path), 1):
        fields = line.removeprefix(BYTE_ORDER_MARK).split()
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
