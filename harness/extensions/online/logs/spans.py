"""Converts OpenTelemetry retrieval spans to plain records with a log's default field names.

Formats: OTLP as JSON, as the file exporters of collector and SDKs write it ({"resourceSpans": ...}
per line), and the Python SDK's ConsoleSpanExporter. Vocabularies: the GenAI semantic conventions
(operations `retrieval` and `search_memory`), in which query and documents are opt-in, and
OpenInference (spans of kind RETRIEVER; retrieval.documents.<i>.document.*).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

OPERATIONS = ("retrieval", "search_memory")
_NUMBERED = re.compile(r"retrieval\.documents\.(\d+)\.document\.(id|score|content)")
_ERROR = ("ERROR", "STATUS_CODE_ERROR", 2)

Attributes = dict[str, Any]


def is_spans(record: Attributes) -> bool:
    """Tests whether a JSON object contains spans, in one of the two formats."""
    return "resourceSpans" in record or (
        "attributes" in record and "start_time" in record and "context" in record
    )


def retrievals(record: Attributes) -> list[Attributes | None]:
    """Returns the retrieval spans of a JSON object as plain records, and None for each other span.

    Raises ValueError, TypeError, KeyError or AttributeError for an object of another format.
    """
    if "resourceSpans" not in record:
        start, end = (
            datetime.fromisoformat(record[name]).timestamp() for name in ("start_time", "end_time")
        )
        failed = (record.get("status") or {}).get("status_code") in _ERROR
        resource = (record.get("resource") or {}).get("attributes")
        plain = _plain(record["attributes"] or {}, resource or {}, start, end - start, failed)
        about = {"name": record.get("name"), "request_id": record["context"].get("span_id")}
        return [plain and plain | about]
    return [
        _otlp(span, _attributes((group.get("resource") or {}).get("attributes")))
        for group in record["resourceSpans"]
        for scope in group.get("scopeSpans") or ()
        for span in scope.get("spans") or ()
    ]


def _otlp(span: Attributes, resource: Attributes) -> Attributes | None:
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    failed = (span.get("status") or {}).get("code") in _ERROR
    attributes = _attributes(span.get("attributes"))
    plain = _plain(attributes, resource, start / 1e9, (end - start) / 1e9, failed)
    return plain and plain | {"name": span.get("name"), "request_id": span.get("spanId") or None}


def _plain(
    attributes: Attributes, resource: Attributes, time: float, seconds: float, failed: bool
) -> Attributes | None:
    operation = attributes.get("gen_ai.operation.name")
    if operation not in OPERATIONS and attributes.get("openinference.span.kind") != "RETRIEVER":
        return None

    def first(*names: str) -> object:
        values = (attributes.get(name) for name in names)
        return next((value for value in values if value is not None), None)

    record: Attributes = {
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
    return record if documents is None else record | {"returned": documents}


def _documents(attributes: Attributes) -> list[Any] | None:
    """Returns the documents in order; None if the span does not have them."""
    for name in ("gen_ai.retrieval.documents", "gen_ai.memory.records"):
        given = attributes.get(name)
        if isinstance(given, str):
            given = msgspec.json.decode(given)
        if given is not None:
            return msgspec.convert(given, list[Any])
    numbered: dict[int, Attributes] = {}
    for name, value in attributes.items():
        if name.startswith("retrieval.documents.") and (match := _NUMBERED.fullmatch(name)):
            numbered.setdefault(int(match[1]), {})[match[2]] = value
    if numbered:
        return [numbered[i] for i in sorted(numbered)]
    return [] if attributes.get("gen_ai.memory.record.count") == 0 else None


def _attributes(pairs: list[Attributes] | None) -> Attributes:
    return {pair["key"]: _value(pair.get("value")) for pair in pairs or ()}


def _value(value: Attributes | None) -> object:
    """Converts a value of OTLP's JSON; 64-bit integers are encoded as text."""
    kind, given = next(iter((value or {"": None}).items()))
    if kind == "intValue":
        return int(given)
    if kind == "arrayValue":
        return [_value(one) for one in given.get("values") or ()]
    return _attributes(given.get("values")) if kind == "kvlistValue" else given
