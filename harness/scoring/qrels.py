"""Judgements as columns, from qrels files, dictionaries or a prepared dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError
from harness.rankings.arrow import strings, to_numpy

if TYPE_CHECKING:
    from harness.dataset.reader import Dataset

QrelsDict = Mapping[str, Mapping[str, int]]
"""Judgements in memory, as pytrec_eval has them: query id -> document id -> grade."""


@dataclass(frozen=True)
class Qrels:
    """Judgements of n queries as columns of length m, sorted by query.

    `query` holds indices into `query_ids`; `unit` holds codes of the pieces of evidence (rows with
    the same code carry the same piece; by default each row is its own).
    """

    query_ids: Sequence[str]
    query: npt.NDArray[np.int32]
    document: pa.Array
    grade: npt.NDArray[np.int32]
    unit: npt.NDArray[np.int32]

    @cached_property
    def first_of_document(self) -> npt.NDArray[np.bool_]:
        """True for one judgement of each document of a query: the first of its highest grade.

        A document stands more than once where it carries several units of evidence.
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
    judged = dataset.judgements(key)
    return Qrels(dataset.query_ids, judged.query, judged.document_id, judged.grade, judged.unit)


def from_dict(qrels: QrelsDict) -> Qrels:
    """Judgements from `{query: {document: grade}}`. Raises UsageError for grades that are none."""
    sizes = [len(judged) for judged in qrels.values()]
    query = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    document = strings(d for judged in qrels.values() for d in judged)
    given = np.fromiter((g for j in qrels.values() for g in j.values()), np.float64, len(query))
    if not (np.abs(given) < 1 << 31).all() or (given != np.rint(given)).any():
        raise UsageError("the judgements hold a grade that is not a whole number of 32 bits")
    grade = given.astype(np.int32)
    return Qrels(list(qrels), query, document, grade, np.arange(len(query), dtype=np.int32))


def read_qrels(path: Path) -> Qrels:
    """A TREC qrels file (`query 0 document grade`) or BEIR's (`query document score`, with header).

    Raises UsageError with the line for anything else, and for a pair that stands twice with
    different grades.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such qrels file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or (number == 1 and fields[0] == b"query-id"):
            continue
        try:
            if len(fields) not in (3, 4):
                raise ValueError(f"{len(fields)} fields")
            query, document, grade = fields[0].decode(), fields[-2].decode(), int(fields[-1])
        except ValueError as error:
            raise UsageError(
                f"{path}, line {number}: expected `query 0 document grade` or "
                f"`query<TAB>document<TAB>grade` ({error})"
            ) from None
        judged = qrels.setdefault(query, {})
        if judged.setdefault(document, grade) != grade:
            raise UsageError(
                f"{path}, line {number}: {document!r} is judged twice for query {query!r}, "
                f"with grades {judged[document]} and {grade}"
            )
    if not qrels:
        raise UsageError(f"{path}: no judgements in it")
    return from_dict(qrels)
