"""Converts OpenTelemetry spans of retrievals to plain records with a log's default field names.

Two forms are read: OTLP as JSON, which the collector's file exporter and the SDKs' file exporters
write ({"resourceSpans": ...} a line), and what the Python SDK's ConsoleSpanExporter prints. Two
vocabularies: the GenAI semantic conventions (operations `retrieval` and `search_memory`;
gen_ai.retrieval.*, gen_ai.memory.*) and OpenInference (spans of kind RETRIEVER;
retrieval.documents.<i>.document.*). In the GenAI conventions query and documents are opt-in: a span
without documents does not say what was returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from harness.io.records import Record

OPERATIONS = ("retrieval", "search_memory")
_NUMBERED = re.compile(r"retrieval\.documents\.(\d+)\.document\.(id|score|content)")
_ERROR = ("ERROR", "STATUS_CODE_ERROR", 2)

Attributes = dict[str, object]


class _Otlp(Record, forbid_unknown_fields=False, rename="camel"):
    """A message of OTLP's JSON, of which some fields are read."""


class _Value(_Otlp):
    """A value of one kind; whole numbers are text, as they may have 64 bits."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None


class _Array(_Otlp):
    values: list[_Value | None] = msgspec.field(default_factory=list)


class _Pair(_Otlp):
    key: str
    value: _Value | None = None


class _Pairs(_Otlp):
    values: list[_Pair] = msgspec.field(default_factory=list)


class _Resource(_Otlp):
    attributes: list[_Pair] | None = None


class _Status(_Otlp):
    code: int | str | None = None


class _Span(_Otlp):
    start_time_unix_nano: int | str
    end_time_unix_nano: int | str
    name: str | None = None
    span_id: str | None = None
    attributes: list[_Pair] | None = None
    status: _Status | None = None


class _ScopeSpans(_Otlp):
    spans: list[_Span] | None = None


class _ResourceSpans(_Otlp):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _Export(_Otlp):
    resource_spans: list[_ResourceSpans]


class _PrintedSpan(Record, forbid_unknown_fields=False):
    """A message of ConsoleSpanExporter, of which some fields are read."""

    start_time: str
    end_time: str
    context: dict[str, object]
    attributes: Attributes | None
    name: str | None = None
    status: dict[str, object] | None = None
    resource: dict[str, Attributes | str | None] | None = None


def is_spans(record: dict[str, object]) -> bool:
    """Tests whether a JSON object holds spans, in one of the two forms."""
    return "resourceSpans" in record or (
        "attributes" in record and "start_time" in record and "context" in record
    )


def retrievals(record: dict[str, object]) -> Iterator[dict[str, object] | None]:
    """Yields the retrieval spans of a JSON object as plain records, and None for each other span.

    Raises ValueError for an object of another form.
    """
    if "resourceSpans" not in record:
        yield _console(msgspec.convert(record, _PrintedSpan))
        return
    for group in msgspec.convert(record, _Export).resource_spans:
        resource = _attributes(group.resource.attributes if group.resource else None)
        for scope in group.scope_spans or ():
            for span in scope.spans or ():
                yield _otlp(span, resource)


def _otlp(span: _Span, resource: Attributes) -> dict[str, object] | None:
    attributes = _attributes(span.attributes)
    if not _is_retrieval(attributes):
        return None
    start, end = int(span.start_time_unix_nano), int(span.end_time_unix_nano)
    failed = span.status is not None and span.status.code in _ERROR
    plain = _plain(attributes, resource, start / 1e9, (end - start) / 1e9, failed)
    return plain | {"name": span.name, "request_id": span.span_id or None}


def _console(span: _PrintedSpan) -> dict[str, object] | None:
    attributes = span.attributes or {}
    if not _is_retrieval(attributes):
        return None
    start = datetime.fromisoformat(span.start_time).timestamp()
    end = datetime.fromisoformat(span.end_time).timestamp()
    failed = (span.status or {}).get("status_code") in _ERROR
    resource = (span.resource or {}).get("attributes")
    known = resource if isinstance(resource, dict) else {}
    plain = _plain(attributes, known, start, end - start, failed)
    return plain | {"name": span.name, "request_id": span.context.get("span_id")}


def _is_retrieval(attributes: Attributes) -> bool:
    return (
        attributes.get("gen_ai.operation.name") in OPERATIONS
        or attributes.get("openinference.span.kind") == "RETRIEVER"
    )


def _plain(
    attributes: Attributes, resource: Attributes, time: float, seconds: float, failed: bool
) -> dict[str, object]:
    def first(*names: str) -> object:
        values = (attributes.get(name) for name in names)
        return next((value for value in values if value is not None), None)

    record: dict[str, object] = {
        "time": time,
        "seconds": max(seconds, 0.0),
        "failed": failed or attributes.get("error.type") is not None,
        "query": first("gen_ai.retrieval.query.text", "gen_ai.memory.query.text", "input.value"),
        "query_id": first("harness.query_id", "query_id"),
        "session_id": first("gen_ai.conversation.id", "session.id"),
        "user_id": first("user.id", "enduser.id"),
        "system": resource.get("service.name"),
        "attributes": attributes,
        "resource": resource,
    }
    documents = _documents(attributes)
    if documents is not None:
        record["returned"] = documents
    return record


def _documents(attributes: Attributes) -> list[object] | None:
    """Returns the documents in their order; None where the span does not say."""
    for name in ("gen_ai.retrieval.documents", "gen_ai.memory.records"):
        given = attributes.get(name)
        if isinstance(given, str):
            given = msgspec.json.decode(given)
        if given is not None:
            return msgspec.convert(given, list[object])
    numbered: dict[int, dict[str, object]] = {}
    for name, value in attributes.items():
        if name.startswith("retrieval.documents.") and (match := _NUMBERED.fullmatch(name)):
            numbered.setdefault(int(match[1]), {})[match[2]] = value
    if numbered:
        return [numbered[i] for i in sorted(numbered)]
    if attributes.get("gen_ai.memory.record.count") == 0:
        return []
    return None


def _attributes(pairs: list[_Pair] | None) -> Attributes:
    return {pair.key: _value(pair.value) for pair in pairs or ()}


def _value(value: _Value | None) -> object:
    if value is None:
        return None
    if value.int_value is not None:
        return int(value.int_value)
    if value.array_value is not None:
        return [_value(one) for one in value.array_value.values]
    if value.kvlist_value is not None:
        return _attributes(value.kvlist_value.values)
    kinds = (value.string_value, value.bool_value, value.double_value, value.bytes_value)
    return next((one for one in kinds if one is not None), None)
