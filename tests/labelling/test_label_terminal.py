"""The same work in a terminal: a real one, through a pty, and a pipe."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from polling import HANGS

from harness.labelling.adjudication import Adjudication
from harness.labelling.annotations import Annotation
from harness.labelling.project import Project
from harness.labelling.session import AnnotationSession
from harness.labelling.terminal import Keys, work


class Terminal:
    """`harness label ... --terminal` at a terminal of its own."""

    def __init__(self, *arguments: object) -> None:
        self.ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "harness", "label", *map(str, arguments), "--terminal"]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.said = ""

    def until(self, words: str) -> str:
        """What it says up to these words."""
        while words not in self.said:
            assert select.select([self.ours], [], [], 30)[0], self.said
            try:
                self.said += os.read(self.ours, 4096).decode(errors="ignore")
            except OSError:  # it has ended
                break
        before, found, self.said = self.said.partition(words)
        assert found, before
        return before

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def end(self) -> int:
        status = self.process.wait(timeout=HANGS)
        os.close(self.ours)
        return status


def test_keys_count_at_once_at_a_terminal(project: Project) -> None:
    terminal = Terminal("open", project.folder, "--annotator", "ann")
    assert "0 of 6, 6 left" in terminal.until("> ")
    terminal.press("3")
    terminal.until("saved: 3 answers")
    terminal.until("> ")
    terminal.press("\x1b[D")  # back
    assert "[grade 3]" in terminal.until("> ")
    terminal.press("\x1b[C")
    assert "[grade" not in terminal.until("> ")
    terminal.press("ú")
    terminal.until("'ú' does nothing here")
    terminal.press("e")
    terminal.until("note: ")
    terminal.press("not ünsure\n")
    terminal.until("saved: the note")
    terminal.until("> ")
    terminal.press("u")
    terminal.until("taken back")
    terminal.until("> ")
    terminal.press("q")
    terminal.until("stopped; 1 of 6 are on the disk")
    assert terminal.end() == 0
    held = project.annotation_log("ann").current
    assert (list(held.grades.values()), held.notes) == ([3], {})


def test_a_killed_terminal_loses_nothing_and_goes_on(project: Project) -> None:
    terminal = Terminal("open", project.folder, "--annotator", "ann")
    terminal.until("> ")
    terminal.press("1")
    terminal.until("saved")
    os.kill(terminal.process.pid, signal.SIGKILL)
    assert terminal.end() == -signal.SIGKILL
    again = Terminal("open", project.folder, "--annotator", "ann")
    assert "1 of 6, 5 left" in again.until("> ")
    os.kill(again.process.pid, signal.SIGINT)
    again.until("everything judged is on the disk")
    assert again.end() == 0


def test_lines_of_a_pipe_are_keys_too(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    session = AnnotationSession(project.folder, "ann")
    with Keys(io.StringIO("2\n\nx\nl\n?\n0\n1\n1\n0\n0\n")) as keys:
        assert work(session, keys)
    out = capsys.readouterr().out
    assert "everything is judged (6)" in out
    assert "'x' does nothing here" in out
    held = project.annotation_log("ann").current
    assert sorted(held.grades.values()) == [0, 0, 0, 1, 1, 2]
    assert list(held.abilities.values()) == ["lookup"]


def test_a_contradiction_is_said_at_once(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    session = AnnotationSession(project.folder, "ann")
    query = session.items[0].query
    with Keys(io.StringIO("2\nn\nn\nn\n")) as keys:
        assert not work(session, keys)
    out = capsys.readouterr().out
    assert out.count("! You marked this query as not to be answered") == 2
    assert project.annotation_log("ann").current.unanswerable == {query: True}


def test_conflicts_are_resolved_in_a_terminal(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, grade in (("ann", 0), ("bob", 2)):
        session = AnnotationSession(project.folder, name)
        session.annotate(Annotation(query="q1", document="d1", grade=grade))
    with Keys(io.StringIO("n\n1\n")) as keys:
        assert work(Adjudication(project.folder, "cid"), keys)
    out = capsys.readouterr().out
    assert "ann: 0 not relevant" in out
    assert "bob: 2 answers in part" in out
    assert "'n' does nothing here" in out
    assert "every conflict is resolved" in out
    assert project.adjudication_log().current.grades == {("q1", "d1"): 1}


def test_texts_cannot_move_the_cursor(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    text = "before\x1b[2Jafter\x07\r\n" + "word " * 5000
    project.documents = [replace(document, text=text) for document in project.documents]
    project.write()
    with Keys(io.StringIO(" \nq\n")) as keys:
        work(AnnotationSession(project.folder, "ann"), keys)
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\r"} & set(out)
    assert "more lines: space shows all" in out
    assert out.count("word") > 5000


def test_the_end_of_input_is_no_judgement(project: Project, tmp_path: Path) -> None:
    with Keys(io.StringIO("")) as keys:
        assert not work(AnnotationSession(project.folder, "ann"), keys)
    assert not (project.folder / "annotations" / "ann.jsonl").exists()
