"""Messages between a run and the sandboxed process of a retriever: a line of JSON each."""

from __future__ import annotations

import json
from operator import index
from typing import Any, Literal

import msgspec

from harness.io.records import Record, convert
from harness.records.run import Params


class BuildRequest(Record, tag="build", tag_field="type"):
    """Asks for the retriever to be built and described."""

    name: str
    params: Params
    plugins: list[str]
    seed: int


class IndexRequest(Record, tag="index", tag_field="type"):
    """Asks for a corpus to be indexed, which follows as an Arrow stream."""


class SearchRequest(Record, tag="search", tag_field="type"):
    """Asks for the results of questions: the fields of each."""

    questions: list[tuple[str, int | None, str | None, tuple[str, ...]]]
    k: int


class ReportRequest(Record, tag="report", tag_field="type"):
    """Asks for the retriever's report."""


Request = BuildRequest | IndexRequest | SearchRequest | ReportRequest


class RetrieverDescription(Record, tag="built", tag_field="type"):
    """The properties of a built retriever that a run needs."""

    params: Params = msgspec.field(default_factory=dict)
    version: str | None = None
    revision: str | None = None
    is_oracle: bool = False
    batch_size: int = 1
    returns_dataset_ids: bool = False
    reports: bool = False


class Indexed(Record, tag="indexed", tag_field="type"):
    """The corpus is indexed."""

    seconds: float


class RawResult(Record):
    """The result of a question in plain values, not validated; `error` is a trace instead."""

    ids: Any = None
    scores: Any = None
    confidence: Any = None
    abstain: bool = False
    hits: list[tuple[Any, Any, Any]] | None = None
    answer: Any = None
    ranked_by: str = ""
    error: str | None = None


class SearchReply(Record, tag="found", tag_field="type"):
    """Results of questions, in their order."""

    results: list[RawResult]
    seconds: float


class Reported(Record, tag="reported", tag_field="type"):
    """The retriever's report."""

    report: Params


class Failed(Record, tag="failed", tag_field="type"):
    """The retriever raised; `rate_limit`: seconds to wait, if a rate limit was exceeded."""

    trace: str
    rate_limit: float | None = None


class Ended(Record, tag="ended", tag_field="type"):
    """An error that ends the run: a UsageError or a RunError."""

    kind: Literal["usage", "run"]
    message: str


Response = RetrieverDescription | Indexed | SearchReply | Reported | Failed | Ended


def dump(message: Record) -> bytes:
    """Encodes a message as a line, with the `json` module, which holds NaN and big integers."""
    return json.dumps(msgspec.to_builtins(message, enc_hook=plain), default=plain).encode() + b"\n"


def load(line: bytes, kind: Any, where: str) -> Any:
    """Decodes a message of this kind. Raises UsageError for another, ValueError for bad JSON."""
    return convert(json.loads(line), kind, where)


def plain(value: Any) -> Any:
    """Converts a value that JSON cannot encode: to numbers, a list, or else its text."""
    if hasattr(value, "tolist"):  # NumPy's, torch's
        return value.tolist()
    if hasattr(value, "__index__"):
        return index(value)
    if hasattr(value, "__float__"):
        return float(value)
    return list(value) if hasattr(value, "__iter__") else str(value)
