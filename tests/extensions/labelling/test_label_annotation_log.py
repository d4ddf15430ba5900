"""The log of an annotator: whole on the disk, and replayed to the current annotations."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation, AnnotationLog, Annotations
from harness.io.records import convert
from harness.schema import Ability


@pytest.fixture
def log(tmp_path: Path) -> AnnotationLog:
    return AnnotationLog(tmp_path / "annotations" / "ann.jsonl")


def grade(value: int | None, document: str = "d1") -> Annotation:
    return Annotation(query="q1", document=document, grade=value)


def test_the_last_line_about_a_thing_counts(log: AnnotationLog) -> None:
    log.append(grade(1))
    log.append(grade(3), grade(0, "d2"), Annotation(query="q1", ability=Ability.TEMPORAL))
    log.append(Annotation(query="q1", unanswerable=True), Annotation(query="q1", unanswerable=None))
    log.append(Annotation(query="q1", document="d1", note="unsure"))
    current = AnnotationLog(log.path).current
    assert current.grades == {("q1", "d1"): 3, ("q1", "d2"): 0}
    assert (current.abilities, current.unanswerable) == ({"q1": "temporal"}, {})
    assert current.notes == {("q1", "d1"): "unsure"}
    log.append(grade(None))
    assert AnnotationLog(log.path).current.grades == {("q1", "d2"): 0}


def test_a_line_that_was_cut_off_is_dropped_and_said(
    log: AnnotationLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.append(grade(1), grade(2, "d2"))
    with open(log.path, "ab") as file:
        file.write(b'{"query": "q1", "document": "d3", "gra')
    again = AnnotationLog(log.path)
    assert "its last line was cut off and is dropped" in caplog.text
    caplog.clear()
    assert again.current.grades == {("q1", "d1"): 1, ("q1", "d2"): 2}
    again.append(grade(3, "d3"))
    assert len(log.path.read_bytes().splitlines()) == 3
    assert AnnotationLog(log.path).current.grades[("q1", "d3")] == 3
    assert caplog.text == ""


def test_a_whole_line_without_its_end_is_kept(log: AnnotationLog) -> None:
    log.append(grade(1))
    with open(log.path, "ab") as file:
        file.write(b'{"query": "q1", "document": "d2", "grade": 2}')
    again = AnnotationLog(log.path)
    again.append(grade(3, "d3"))
    log.refresh()
    assert log.current == again.current == AnnotationLog(log.path).current
    assert log.current.grades == {("q1", "d1"): 1, ("q1", "d2"): 2, ("q1", "d3"): 3}


def test_a_broken_line_in_the_middle_is_no_crashs_work(log: AnnotationLog) -> None:
    log.append(grade(1))
    log.path.write_bytes(b'{"query": "q1"}\n' + log.path.read_bytes())
    with pytest.raises(UsageError, match=r"ann.jsonl, line 1: exactly one of .* is needed"):
        AnnotationLog(log.path)


@pytest.mark.parametrize(
    "line",
    [
        {"query": "q1", "document": "d1", "grade": 4},
        {"query": "q1", "document": "d1", "grade": True},
        {"query": "q1", "document": "d1", "grade": 1.0},
        {"query": "q1", "grade": 1},
        {"query": "q1", "ability": "abstention"},
        {"query": "q1", "unanswerable": "yes"},
        {"query": 1, "unanswerable": True},
        {"query": "q1", "ability": "lookup", "unanswerable": True},
    ],
)
def test_nothing_else_is_an_annotation(line: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="line 1"):
        convert(line, Annotation, "line 1")


def test_two_writers_do_not_lose_a_line(log: AnnotationLog) -> None:
    other = AnnotationLog(log.path)
    for number in range(10):
        (log, other)[number % 2].append(grade(number % 4, f"d{number}"))
    log.refresh()
    other.refresh()
    assert log.current == other.current
    assert len(log.current.grades) == 10


def test_undo_restores_the_earlier_value() -> None:
    temporal = Annotation(query="q1", ability=Ability.TEMPORAL)
    current = Annotations()
    for line in (grade(1), grade(2), temporal):
        current.add(line)
    assert current.undo_stack[-1] == Annotation(query="q1", ability=None)
    current.add(replace(current.undo_stack[-1], undo=True))
    current.add(replace(current.undo_stack[-1], undo=True))
    assert (current.grades, current.abilities) == ({("q1", "d1"): 1}, {})
    current.add(replace(current.undo_stack[-1], undo=True))
    assert (current.grades, current.undo_stack) == ({}, [])
