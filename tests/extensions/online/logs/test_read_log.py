"""Requests read from logs: plain JSON lines under any names, OpenTelemetry spans, odd files."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.errors import UsageError
from harness.extensions.online.logs.events import Feedback, RetrievalEvent
from harness.extensions.online.logs.field_mapping import FieldMapping
from harness.extensions.online.logs.read import read_log
from harness.io.records import convert

SPANS = Path(__file__).with_name("spans.jsonl")
"""Written by OpenTelemetry's own SDK and its OTLP JSON file exporter, 0.66b1."""


def log(folder: Path, *lines: Any, name: str = "a.jsonl") -> Path:
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def only(folder: Path, line: Any, mapping: FieldMapping | None = None) -> RetrievalEvent:
    (found,) = read_log(log(folder, line), mapping).events
    return found


def test_the_obvious_names_need_no_configuration(tmp_path: Path) -> None:
    first = only(
        tmp_path,
        {
            "timestamp": "2026-01-01T01:00:00+01:00",
            "question_id": "q1",
            "query": "where?",
            "results": [{"id": 7, "score": 0.5, "text": "x"}, {"id": "b", "score": 1, "text": "y"}],
            "latency_ms": 12.5,
            "abstained": False,
            "confidence": 0.25,
            "user_id": "u",
            "clicks": ["b"],
            "rating": "up",
            "request_id": "r",
        },
    )
    assert first == RetrievalEvent(
        ("7", "b"),
        "where?",
        "q1",
        (0.5, 1.0),
        ("x", "y"),
        1767225600.0,
        0.0125,
        confidence=0.25,
        user_id="u",
        clicked=("b",),
        rating=1.0,
        request_id="r",
    )
    nested = {"request": {"query": "who?"}, "response": {"hits": ["a"]}, "duration_s": 2}
    assert only(tmp_path, nested) == RetrievalEvent(("a",), "who?", seconds=2.0)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("2026-01-01T00:00:00", 1767225600.0),  # without a zone: UTC
        ("2026-01-01T00:00:00Z", 1767225600.0),
        (1767225600, 1767225600.0),
        (1767225600.5, 1767225600.5),
        (1767225600500, 1767225600.5),
        (1767225600500000, 1767225600.5),
        (1767225600500000000, 1767225600.5),
    ],
)
def test_times_are_iso_or_epochs_of_any_unit(tmp_path: Path, given: Any, seconds: float) -> None:
    assert only(tmp_path, {"time": given, "returned": []}).time == pytest.approx(seconds, abs=1e-6)


def test_a_mapping_names_other_fields(tmp_path: Path) -> None:
    config = tmp_path / "fields.toml"
    config.write_text(
        '[log]\nduration = "ms"\n[log.fields]\nquery = "request.text"\nseconds = "timing.total"\n'
        'returned = "found[].doc.id"\nscores = "found[].s"\nquery_id = "tags.app.query"\n'
        '[log.where]\nevent = "retrieval"\nrequest.kind = ["a", "b"]\n'
    )
    path = log(
        tmp_path,
        {"event": "start"},
        {"event": "retrieval", "request": {"kind": "c"}},
        {
            "event": "retrieval",
            "request": {"text": "x", "kind": "a"},
            "timing": {"total": 3},
            "tags": {"app.query": "q9"},
            "found": [{"doc": {"id": "z"}, "s": 2}],
        },
    )
    found = read_log(path, FieldMapping.read(config))
    assert found.events == [RetrievalEvent(("z",), "x", "q9", (2.0,), seconds=0.003)]
    assert found.counts.other == 2


def test_nothing_returned_is_not_the_same_as_not_known(tmp_path: Path) -> None:
    assert only(tmp_path, {"query": "x", "results": []}).returned == ()
    assert only(tmp_path, {"query": "x", "results": None}).returned == ()
    assert only(tmp_path, {"query": "x", "abstained": True}).returned == ()
    failed = only(tmp_path, {"query": "x", "error": "Timeout"})
    assert (failed.returned, failed.failed) == (None, True)


def test_feedback_may_stand_on_lines_of_its_own(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        {"query": "x", "returned": ["a"], "request_id": "r1"},
        {"request_id": "r1", "clicked": ["a"], "time": 5},
    )
    assert read_log(path).feedback == [Feedback("r1", ("a",), None, 5.0)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"a": 1, "b": 2}, r"line 2: no field with the returned documents .*the line has a, b"),
        ("[1]", "line 2: not a JSON object"),
        ("nonsense", "line 2: invalid JSON [(]"),
        ({"returned": "x"}, "line 2: returned is not a list: 'x'"),
        ({"returned": [True]}, "line 2: returned is not text or a whole number"),
        ({"returned": [{"id": "a"}, {"x": 1}]}, r"line 2: returned\[1\] has no id; it has x"),
        ({"returned": ["a"], "scores": [1, 2]}, "line 2: 1 returned documents, 2 scores"),
        ({"returned": ["a"], "latency_ms": "fast"}, "line 2: latency_ms is not a number: 'fast'"),
        ({"returned": ["a"], "latency_ms": -1}, "line 2: latency_ms is a negative duration"),
        ({"returned": ["a"], "ts": "yesterday"}, "line 2: ts is not an ISO time: 'yesterday'"),
        ({"returned": ["a"], "abstained": "no"}, "line 2: abstained is not true or false"),
        ('{"returned": ["a"], "seconds": NaN}', "line 2"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number_or_counted(
    tmp_path: Path, line: Any, words: str
) -> None:
    path = log(tmp_path, {"returned": ["a"]}, line)
    with pytest.raises(UsageError, match=rf"a\.jsonl, {words}"):
        read_log(path)
    found = read_log(path, lenient=True)
    assert (len(found.events), found.counts.unreadable) == (1, 1)
    assert found.counts.first_error.startswith(f"{path}, line 2: ")


def test_a_last_line_that_was_torn_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"returned": ["a"]}\n{"returned": ["b"')
    found = read_log(path)
    assert (len(found.events), found.counts.torn) == (1, 1)
    path.write_text('{"returned": ["a"]}\n{"returned": ["b"]}')  # whole, without its end of line
    found = read_log(path)
    assert (len(found.events), found.counts.torn) == (2, 0)


def test_a_path_that_leads_nowhere_is_named_with_what_is_there(tmp_path: Path) -> None:
    path = log(tmp_path, {"hits": [{"key": "a"}], "q": "x"})
    with pytest.raises(UsageError, match=r"line 1: nothing at hits\[\]\.id; .* hits, q"):
        read_log(path, FieldMapping(fields={"returned": "hits[].id"}))
    with pytest.raises(UsageError, match=r"line 1: no field 'found\[\]'; the line has hits, q"):
        read_log(path, FieldMapping(fields={"returned": "found[]"}))
    mapping = FieldMapping(fields={"returned": "hits[].key", "query": "request.text"})
    with pytest.raises(UsageError, match=r"query = 'request.text': no request has it; .* hits, q"):
        read_log(path, mapping)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"format": "xml"}, "format: .*choose one of jsonl, otel"),
        ({"fields": {"retruned": "a"}}, "fields: unknown field .retruned.; did you mean returned"),
        ({"fields": {"query": "a[]b"}}, r"'a\[\]b' is not a path"),
        ({"fields": {"query": ""}}, "a path is empty"),
        ({"fields": {"query": 3}}, "fields.*: expected str"),
        ({"fields": {"seconds": "took"}}, "unit of seconds"),
        ({"duration": "min"}, "duration: .*choose one of s, ms, us, ns"),
        ({"colour": 1}, "colour: unknown field"),
        ({"fields": []}, "fields: expected object"),
    ],
)
def test_a_wrong_mapping_says_what_to_write(table: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        convert(table, FieldMapping, "fields.toml")


def test_a_folder_is_read_oldest_first_and_unpacked(tmp_path: Path) -> None:
    for name, ids in (("app.log", "e"), ("app.log.1", "d"), ("app.log-20260101", "c")):
        log(tmp_path, {"returned": [ids]}, name=name)
    (tmp_path / "app.log.2.gz").write_bytes(gzip.compress(b'{"returned": ["b"]}\n'))
    packed = pa.Codec("zstd").compress(b'{"returned": ["a"]}\n', asbytes=True)
    (tmp_path / "app.log.10.zst").write_bytes(packed)
    log(tmp_path, {"returned": ["x"]}, name=".hidden.log")
    (tmp_path / "notes.md").write_text("not a log")
    found = read_log(tmp_path)
    assert [event.returned for event in found.events] == [(i,) for i in "abdce"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="this folder has no log"):
        read_log(tmp_path / "empty")


def test_long_files_are_read_in_blocks_to_the_same_recalls(tmp_path: Path) -> None:
    lines = [{"query": f"é{i}" * (i % 50), "returned": [str(i)]} for i in range(20_000)]
    found = read_log(log(tmp_path, *lines, '{"x": 1}'), lenient=True)
    assert [event.returned for event in found.events] == [(str(i),) for i in range(20_000)]
    assert ", line 20001: " in found.counts.first_error


def test_otlp_spans_of_every_kind(tmp_path: Path) -> None:
    found = read_log(SPANS)
    ids = [event.returned for event in found.events]
    twelve = tuple(f"d{i}" for i in range(12))
    assert ids == [("d1", "d2"), ("d1", "d2"), None, ("m1",), twelve, None]
    assert [event.query for event in found.events] == [
        "Where is it?",
        "And who?",
        "Opted out?",
        "What does she like?",
        "Where is it?",
        "Broken?",
    ]
    first = found.events[0]
    assert (first.scores, first.system, first.session_id) == ((0.9, 1.0), "memory", "c1")
    assert first.time is not None
    assert first.time > 1.7e9
    assert first.seconds is not None
    assert 0 < first.seconds < 1
    assert [event.failed for event in found.events] == [False] * 5 + [True]
    assert found.events[3].texts == ("Likes tea.",)
    assert (found.counts.other, found.counts.without_result) == (1, 2)


def test_what_the_console_exporter_prints() -> None:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    out = io.StringIO()
    provider = TracerProvider(resource=Resource.create({"service.name": "memory"}))
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out)))
    tracer = provider.get_tracer("test")
    documents = json.dumps([{"id": "d1", "score": 0.5}])
    for text in ("first {\n}", "second"):
        about = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": text}
        about |= {"gen_ai.retrieval.documents": documents, "app.qid": f"q-{text}"}
        with tracer.start_as_current_span("retrieval", attributes=about):
            pass
    with tracer.start_as_current_span("chat"):
        pass
    from harness.extensions.online.logs.read import LogParser, split_objects

    parser = LogParser(FieldMapping(fields={"query_id": "attributes.app.qid"}))
    objects, taken, _ = split_objects(out.getvalue().encode())
    assert taken == len(out.getvalue().encode())
    found = [one for line, text in objects for one in parser.events("console", line, text)]
    assert [(r.query, r.query_id, r.returned, r.scores, r.system) for r in found] == [  # type: ignore[union-attr]
        ("first {\n}", "q-first {\n}", ("d1",), (0.5,), "memory"),
        ("second", "q-second", ("d1",), (0.5,), "memory"),
    ]
    assert parser.counts.other == 1
    half = out.getvalue().encode()[:-30]  # the last one is being written
    assert len(split_objects(half)[0]) == 2


def test_a_log_without_a_recall_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"contains no request \(0 other lines"):
        read_log(log(tmp_path))
    with pytest.raises(UsageError, match="no such log"):
        read_log(tmp_path / "nothing.jsonl")
    (tmp_path / "broken.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(UsageError, match="cannot be read"):
        read_log(tmp_path / "broken.jsonl.gz")
