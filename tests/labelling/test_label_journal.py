"""The journal of an annotator: on the disk, whole, and what its lines come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.labelling.folder import Journal
from harness.labelling.records import Judgements


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "judgements" / "ann.jsonl")


def grade(value: int | None, document: str = "d1") -> dict[str, object]:
    return {"query": "q1", "document": document, "grade": value}


def test_the_last_line_about_a_thing_counts(journal: Journal) -> None:
    journal.append(grade(1))
    journal.append(grade(3), grade(0, "d2"), {"query": "q1", "ability": "temporal"})
    journal.append({"query": "q1", "unanswerable": True}, {"query": "q1", "unanswerable": None})
    journal.append({"query": "q1", "document": "d1", "note": "unsure"})
    held = Journal(journal.path).held
    assert held.grades == {("q1", "d1"): 3, ("q1", "d2"): 0}
    assert (held.abilities, held.unanswerable) == ({"q1": "temporal"}, {})
    assert held.notes == {("q1", "d1"): "unsure"}
    journal.append(grade(None))
    assert Journal(journal.path).held.grades == {("q1", "d2"): 0}


def test_a_line_that_was_cut_off_is_dropped_and_said(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.append(grade(1), grade(2, "d2"))
    with open(journal.path, "ab") as file:
        file.write(b'{"query": "q1", "document": "d3", "gra')
    again = Journal(journal.path)
    assert "its last line was cut off and is dropped" in capsys.readouterr().err
    assert again.held.grades == {("q1", "d1"): 1, ("q1", "d2"): 2}
    again.append(grade(3, "d3"))
    assert len(journal.path.read_bytes().splitlines()) == 3
    assert Journal(journal.path).held.grades[("q1", "d3")] == 3
    assert capsys.readouterr().err == ""


def test_a_whole_line_without_its_end_is_kept(journal: Journal) -> None:
    journal.append(grade(1))
    with open(journal.path, "ab") as file:
        file.write(b'{"query": "q1", "document": "d2", "grade": 2}')
    again = Journal(journal.path)
    again.append(grade(3, "d3"))
    journal.refresh()
    assert journal.held == again.held == Journal(journal.path).held
    assert journal.held.grades == {("q1", "d1"): 1, ("q1", "d2"): 2, ("q1", "d3"): 3}


def test_a_broken_line_in_the_middle_is_no_crashs_work(journal: Journal) -> None:
    journal.append(grade(1))
    journal.path.write_bytes(b'{"query": "q1"}\n' + journal.path.read_bytes())
    with pytest.raises(UsageError, match=r"ann.jsonl, line 1: is no judgement"):
        Journal(journal.path)


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
def test_nothing_else_is_written(journal: Journal, line: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        journal.append(line)
    assert not journal.path.exists()


def test_two_writers_do_not_lose_a_line(journal: Journal) -> None:
    other = Journal(journal.path)
    for number in range(10):
        (journal, other)[number % 2].append(grade(number % 4, f"d{number}"))
    journal.refresh()
    other.refresh()
    assert journal.held == other.held
    assert len(journal.held.grades) == 10


def test_undo_puts_back_what_stood_there() -> None:
    held = Judgements.of([grade(1), grade(2), {"query": "q1", "ability": "temporal"}])
    assert held.undoable[-1] == {"query": "q1", "ability": None}
    held.add({**held.undoable[-1], "undo": True})
    held.add({**held.undoable[-1], "undo": True})
    assert (held.grades, held.abilities) == ({("q1", "d1"): 1}, {})
    held.add({**held.undoable[-1], "undo": True})
    assert (held.grades, held.undoable) == ({}, [])
