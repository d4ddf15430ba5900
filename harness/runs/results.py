"""Work items of a run and their results, as the checkpoint stores them and processes send them."""

from __future__ import annotations

from binascii import a2b_base64
from dataclasses import dataclass
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
