"""Work items of a run and their results, as the checkpoint stores them and processes send them."""

from __future__ import annotations

from array import array
from binascii import a2b_base64
from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from harness.records.run import PlainValue


@dataclass(frozen=True)
class WorkItem:
    """Some queries (rows) of one haystack; `number` is its position in the plan.

    Items of one `chain` are of one haystack at increasing times; one worker runs them in order.
    """

    number: int
    haystack: int
    queries: list[int]
    chain: int | None = None


class _Result(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base of results, which are filled in while the work is running."""


class ResultHit(_Result):
    """A returned text: `rows` and `sessions` (the dataset's ids) are what the system named as its
    sources, `unknown` counts other names."""

    text: str
    rows: list[int]
    unknown: int
    score: float | None
    sessions: list[str] = []


class QueryResult(_Result):
    """Documents and scores for one query, best first, or the trace of an error.

    `beyond_k`, `duplicates` and `padding` (-1 for no document) count what was removed. `hits` are
    texts that the system returned, `answer` is its own answer to the question.
    """

    query: int
    rows: npt.NDArray[np.int32] = msgspec.field(default_factory=lambda: np.zeros(0, np.int32))
    scores: npt.NDArray[np.float64] | None = None
    confidence: float | None = None
    abstained: bool = False
    seconds: float | None = None
    beyond_k: int = 0
    duplicates: int = 0
    padding: int = 0
    hits: list[ResultHit] | None = None
    answer: str | None = None
    error: str | None = None


class WorkResult(_Result):
    """Results of a work item; a long item yields several, and the last one is `complete`.

    `process` identifies the retriever of `reported`. `ingestion_usage` and `usage` are the
    increases of its counts since the previous result, while it indexed and while it searched: their
    sum over all results is the total usage. `indexed`: documents so far, while it indexes.
    `cached`: an earlier run indexed the haystack.
    """

    item: int
    haystack: int
    queries: list[QueryResult]
    index_seconds: float | None = None
    documents: int = 0
    process: int = 0
    reported: dict[str, PlainValue] | None = None
    usage: dict[str, int | float] | None = None
    ingestion_usage: dict[str, int | float] | None = None
    indexed: int | None = None
    cached: bool = False
    complete: bool = True


@dataclass(frozen=True)
class ResultTable:
    """The last result of each query, sorted by query, as columns.

    `query`, `size`, `scored`, `failed`, `seconds` (NaN: unknown), `row_start` and `score_start`
    have an entry for each query; `rows` and `scores` hold those of all results. `others` are the
    results with more than a ranking and a time, such as errors.
    """

    query: npt.NDArray[np.int32]
    size: npt.NDArray[np.int64]
    scored: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]
    seconds: npt.NDArray[np.float64]
    row_start: npt.NDArray[np.int64]
    score_start: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    others: list[QueryResult]

    def __len__(self) -> int:
        return len(self.query)

    def objects(self) -> list[QueryResult]:
        """Returns the results as records."""
        others = {one.query: one for one in self.others}
        return [
            others.get(query) or self._object(at, query)
            for at, query in enumerate(self.query.tolist())
        ]

    def _object(self, at: int, query: int) -> QueryResult:
        rows = self.rows[self.row_start[at] :][: self.size[at]]
        scores = self.scores[self.score_start[at] :][: self.size[at]] if self.scored[at] else None
        return QueryResult(query, rows, scores, seconds=float(self.seconds[at]))


class ResultLog:
    """Collects results in columns, since a million objects would take gigabytes."""

    def __init__(self, results: Iterable[QueryResult] = ()) -> None:
        self._query, self._size, self._scored = array("i"), array("i"), array("b")
        self._seconds, self._rows, self._scores = array("d"), array("i"), array("d")
        self._others: dict[int, QueryResult] = {}  # by position
        for one in results:
            self.add(one)

    def add(self, one: QueryResult) -> None:
        """Appends a result."""
        if one.seconds is None or _has_more(one):
            self._others[len(self._query)] = one
        self._query.append(one.query)
        self._size.append(len(one.rows))
        self._scored.append(one.scores is not None)
        self._seconds.append(nan if one.seconds is None else one.seconds)
        self._rows.frombytes(one.rows.tobytes())
        if one.scores is not None:
            self._scores.frombytes(one.scores.tobytes())

    @property
    def answered(self) -> set[int]:
        """The queries that were answered without a failure."""
        failed = {at for at, one in self._others.items() if one.error is not None}
        return {query for at, query in enumerate(self._query) if at not in failed}

    def last(self) -> tuple[ResultTable, list[QueryResult]]:
        """Returns the last result of each query, and the failures before it."""
        query, size = np.frombuffer(self._query, np.int32), np.frombuffer(self._size, np.int32)
        scored = np.frombuffer(self._scored, np.bool_)
        order = np.argsort(query, kind="stable")
        is_last = np.ones(len(order), bool)
        is_last[:-1] = np.diff(query[order]) != 0
        again = zip(order[1:][~is_last[:-1]].tolist(), order[~is_last].tolist(), strict=True)
        kept = order[is_last]
        failed = np.zeros(len(query), bool)
        failed[[at for at, one in self._others.items() if one.error is not None]] = True
        row_end, score_end = np.cumsum(size, dtype=np.int64), np.cumsum(size * scored)
        table = ResultTable(
            query[kept],
            size[kept].astype(np.int64),
            scored[kept],
            failed[kept],
            np.frombuffer(self._seconds)[kept],
            (row_end - size)[kept],
            (score_end - size * scored)[kept],
            np.frombuffer(self._rows, np.int32),
            np.frombuffer(self._scores),
            [self._others[at] for at in kept[np.isin(kept, [*self._others])].tolist()],
        )
        return table, [self._others[at] for _, at in sorted(again) if at in self._others]


def _has_more(one: QueryResult) -> bool:
    """Tests whether a result has more than a ranking and its time."""
    corrected = one.beyond_k or one.duplicates or one.padding or one.abstained
    texts = one.error is not None or one.hits is not None or one.answer is not None
    return bool(corrected) or texts or one.confidence is not None


def encode_result(result: WorkResult) -> bytes:
    """Encodes a result as JSON."""
    return _encoder.encode(result)


def decode_result(data: bytes) -> WorkResult:
    """Decodes a result. Raises MsgspecError or OverflowError for invalid data."""
    return _decoder.decode(data)


def _encode_array(array: Any) -> bytes:
    """Encodes an array as its bytes, which JSON holds as base64: exact, small and fast."""
    if not isinstance(array, np.ndarray) or array.dtype not in (np.int32, np.float64):
        raise TypeError(f"cannot store {array!r:.60}")
    return np.ascontiguousarray(array).tobytes()


def _decode_array(kind: Any, text: Any) -> npt.NDArray[Any]:
    """Decodes an array of the annotated type."""
    (number,) = kind.__args__[1].__args__
    return np.frombuffer(a2b_base64(text), number).copy()


_encoder = msgspec.json.Encoder(enc_hook=_encode_array)
_decoder = msgspec.json.Decoder(WorkResult, dec_hook=_decode_array)
