"""OpenTelemetry spans of retrievals, as plain records with the names that a log has by default.

Two forms are read: OTLP as JSON, which the collector's file exporter and the SDKs' file exporters
write ({"resourceSpans": ...} a line), and what the Python SDK's ConsoleSpanExporter prints. Two
vocabularies: the GenAI semantic conventions (operations `retrieval` and `search_memory`;
gen_ai.retrieval.*, gen_ai.memory.*) and OpenInference (spans of kind RETRIEVER;
retrieval.documents.<i>.document.*). In the GenAI conventions query and documents are opt-in: a span
without documents says nothing of what was returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

OPERATIONS = ("retrieval", "search_memory")
_NUMBERED = re.compile(r"retrieval\.documents\.(\d+)\.document\.(id|score|content)")
_ERROR = ("ERROR", "STATUS_CODE_ERROR", 2)

Record = dict[str, Any]


def is_spans(record: Record) -> bool:
    """Whether a JSON object holds spans, in one of the two forms."""
    return "resourceSpans" in record or (
        "attributes" in record and "start_time" in record and "context" in record
    )


def retrievals(record: Record) -> Iterator[Record | None]:
    """The retrieval spans of a JSON object as plain records, and None for each other span.

    Raises ValueError, TypeError, KeyError or AttributeError for what has another form.
    """
    if "resourceSpans" not in record:
        resource = (record.get("resource") or {}).get("attributes") or {}
        yield _console(record, resource)
        return
    for group in record["resourceSpans"]:
        resource = _attributes((group.get("resource") or {}).get("attributes"))
        for scope in group.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                yield _otlp(span, resource)


def _otlp(span: Record, resource: Record) -> Record | None:
    attributes = _attributes(span.get("attributes"))
    if not _is_retrieval(attributes):
        return None
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    failed = (span.get("status") or {}).get("code") in _ERROR
    about = {"name": span.get("name"), "request_id": span.get("spanId") or None}
    return _plain(about, attributes, resource, start / 1e9, (end - start) / 1e9, failed)


def _console(span: Record, resource: Record) -> Record | None:
    attributes = span["attributes"] or {}
    if not _is_retrieval(attributes):
        return None
    start = datetime.fromisoformat(span["start_time"]).timestamp()
    end = datetime.fromisoformat(span["end_time"]).timestamp()
    failed = (span.get("status") or {}).get("status_code") in _ERROR
    about = {"name": span.get("name"), "request_id": span["context"].get("span_id")}
    return _plain(about, attributes, resource, start, end - start, failed)


def _is_retrieval(attributes: Record) -> bool:
    return (
        attributes.get("gen_ai.operation.name") in OPERATIONS
        or attributes.get("openinference.span.kind") == "RETRIEVER"
    )


def _plain(
    about: Record, attributes: Record, resource: Record, time: float, seconds: float, failed: bool
) -> Record:
    of = attributes.get
    record = {
        **about,
        "time": time,
        "seconds": max(seconds, 0.0),
        "failed": failed or of("error.type") is not None,
        "query": _first(
            of, "gen_ai.retrieval.query.text", "gen_ai.memory.query.text", "input.value"
        ),
        "query_id": _first(of, "harness.query_id", "query_id"),
        "session_id": _first(of, "gen_ai.conversation.id", "session.id"),
        "user_id": _first(of, "user.id", "enduser.id"),
        "system": resource.get("service.name"),
        "attributes": attributes,
        "resource": resource,
    }
    documents = _documents(attributes)
    if documents is not None:
        record["returned"] = documents
    return record


def _first(of: Any, *names: str) -> Any:
    return next((found for name in names if (found := of(name)) is not None), None)


def _documents(attributes: Record) -> list[Any] | None:
    """The documents in their order; None where the span does not say."""
    for name in ("gen_ai.retrieval.documents", "gen_ai.memory.records"):
        given = attributes.get(name)
        if isinstance(given, str):
            import orjson

            given = orjson.loads(given)
        if given is not None:
            return list(given)
    numbered: dict[int, Record] = {}
    for name, value in attributes.items():
        if name.startswith("retrieval.documents.") and (found := _NUMBERED.fullmatch(name)):
            numbered.setdefault(int(found[1]), {})[found[2]] = value
    if numbered:
        return [numbered[i] for i in sorted(numbered)]
    if attributes.get("gen_ai.memory.record.count") == 0:
        return []
    return None


def _attributes(pairs: Any) -> Record:
    return {pair["key"]: _value(pair.get("value")) for pair in pairs or ()}


def _value(value: Any) -> Any:
    """A value of OTLP's JSON; whole numbers stand there as text, as they may have 64 bits."""
    if not value:
        return None
    ((kind, given),) = value.items()
    if kind == "intValue":
        return int(given)
    if kind == "arrayValue":
        return [_value(one) for one in given.get("values") or ()]
    if kind == "kvlistValue":
        return _attributes(given.get("values"))
    return given
