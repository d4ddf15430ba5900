"""An interrupted run goes on where it was, and gives the same bytes as one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from corpora import labelled
from polling import HANGS, wait_until

from harness.datasets.reader import Dataset
from harness.errors import RunError, UsageError
from harness.records.run import QueryCounts, Retried
from harness.retrievers.contract import Corpus, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.checkpoint import CheckpointWriter
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.results import QueryResult, WorkResult
from harness.runs.run import run
from harness.runs.settings import Settings

RANKINGS = ("rankings.parquet", "rankings.trec")

SLOW = """
import os, time

class Slow:
    def index(self, corpus):
        self.order = sorted(range(len(corpus)), key=lambda i: corpus[i].text)

    def search(self, queries, k):
        for query in queries:
            with open(os.environ["SLOW_LOG"], "a") as log:
                log.write(query.text + chr(10))
        seconds = float(os.environ["SLOW_SECONDS"])
        if seconds and len(open(os.environ["SLOW_LOG"]).readlines()) > 24:
            seconds = 3600  # until it is killed
        time.sleep(seconds)
        return [[(i, 1 / (3 + n)) for n, i in enumerate(self.order)] for _ in queries]
"""


class Stops:
    """A person who presses Ctrl-C after some questions."""

    def __init__(self, after: int = 10**9) -> None:
        self._left = after
        self.asked: list[str] = []

    def index(self, corpus: Corpus) -> None:
        self._order = sorted(range(len(corpus)), key=lambda i: corpus[i].text)

    def search(self, queries: Sequence[Question], k: int) -> list[Any]:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        self.asked += [query.text for query in queries]
        bottom = float("-inf")
        return [[(i, 1 / (3 + n) if n < 3 else bottom) for n, i in enumerate(self._order)]]


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Dataset:
    """Twelve haystacks of four notes, three questions each."""
    documents = [
        {"id": f"n{h}-{i}", "text": f"note {i} of {h}", "haystack": f"h{h}"}
        for h in range(12)
        for i in range(4)
    ]
    queries = [
        {"id": f"q{h}-{i}", "text": f"want {h} {i}", "haystack": f"h{h}"}
        for h in range(12)
        for i in range(3)
    ]
    gold = {f"q{h}-{i}": [f"n{h}-{i}"] for h in range(12) for i in range(3)}
    return labelled(tmp_path / "files", documents, queries, gold)


def _bytes(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in RANKINGS]


def _partial(out: Path) -> Path:
    (found,) = out.glob(".*.tmp")
    return found


@pytest.mark.parametrize("after", [0, 1, 3, 17, 35])
def test_a_stopped_run_goes_on_and_gives_the_same_bytes(
    notes: Dataset, tmp_path: Path, after: int
) -> None:
    whole = run(notes, Stops(), out=tmp_path / "whole")
    first, second = Stops(after), Stops()
    with pytest.raises(KeyboardInterrupt):
        run(notes, first, out=tmp_path / "out")
    folder = run(notes, second, out=tmp_path / "out", mode=Mode.RESUME)
    assert _bytes(folder) == _bytes(whole)
    # Nothing that was answered is asked again, in the midst of a haystack neither.
    assert len(second.asked) == 36 - after
    assert set(first.asked).isdisjoint(second.asked)
    assert RunFolder(folder).record.resumed_queries == after
    assert RunFolder(folder).record.queries.answered == 36
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_torn_last_line_of_the_checkpoint_is_run_again(
    notes: Dataset, tmp_path: Path, kept: int
) -> None:
    whole = run(notes, Stops(), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(notes, Stops(17), out=tmp_path / "out")
    checkpoint = _partial(tmp_path / "out") / "checkpoint.jsonl"
    lines = checkpoint.read_bytes().splitlines(keepends=True)
    # Five haystacks, and two questions of the sixth: in one line, if the machine was not busy.
    answered = [len(orjson.loads(line)["queries"]) for line in lines]
    assert sum(answered) == 5 * 3 + 2
    checkpoint.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    again = Stops()
    folder = run(notes, again, out=tmp_path / "out", mode=Mode.RESUME)
    assert _bytes(folder) == _bytes(whole)
    assert len(again.asked) == 36 - sum(answered[:-1])


def _one_row_other(line: bytes) -> bytes:
    at = line.index(b'"rows":"') + len(b'"rows":"')
    return line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]


@pytest.mark.parametrize(
    "damage", [_one_row_other, lambda line: b"\0" * len(line)], ids=["bit", "0"]
)
def test_a_damaged_line_of_the_checkpoint_is_told_and_run_again_alone(
    notes: Dataset,
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = run(notes, Stops(), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(notes, Stops(17), out=tmp_path / "out")
    checkpoint = _partial(tmp_path / "out") / "checkpoint.jsonl"
    lines = checkpoint.read_bytes().splitlines()
    answered = [len(orjson.loads(line)["queries"]) for line in lines]
    lines[1] = damage(lines[1])
    checkpoint.write_bytes(b"\n".join([*lines, b""]))
    again = Stops()
    folder = run(notes, again, out=tmp_path / "out", mode=Mode.RESUME)
    assert _bytes(folder) == _bytes(whole)
    assert len(again.asked) == 36 - sum(answered) + answered[1]
    assert f"{checkpoint}: damaged in line 2; their queries run again" in capsys.readouterr().err


def test_an_interrupted_run_is_not_discarded_unless_it_is_overwritten(
    notes: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(notes, Stops(17), out=tmp_path)
    again = Stops()
    with pytest.raises(UsageError, match="stopped at 17 of 36 queries"):
        run(notes, again, out=tmp_path)
    run(notes, again, out=tmp_path, mode=Mode.OVERWRITE)
    assert len(again.asked) == 36


def test_other_settings_do_not_go_on_with_it(
    notes: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(notes, Stops(17), out=tmp_path)
    again = Stops()
    run(notes, again, Settings(k=2), out=tmp_path, mode=Mode.RESUME, quiet=False)
    assert len(again.asked) == 36
    assert "no interrupted run with these settings" in capsys.readouterr().err
    # What belongs to the first is still there for it, and is refused once it was tampered with.
    plan = _partial(tmp_path) / "plan.json"
    plan.write_bytes(orjson.dumps(orjson.loads(plan.read_bytes()) | {"k": 2}))
    with pytest.raises(UsageError, match="belongs to a run with other settings"):
        run(notes, Stops(), out=tmp_path, mode=Mode.RESUME)


def test_a_finished_run_is_kept_by_resume(
    notes: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(notes, Stops(), out=tmp_path)
    before, again = (folder / "run.json").read_bytes(), Stops()
    assert run(notes, again, out=tmp_path, mode=Mode.RESUME, quiet=False) == folder
    assert again.asked == []
    assert (folder / "run.json").read_bytes() == before
    assert "is finished; " in capsys.readouterr().err


def test_what_was_stopped_goes_on_though_an_earlier_run_is_finished(
    notes: Dataset, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    (tmp_path / "stops.py").write_text(
        f"from pathlib import Path\ndef retrieve(text, k, corpus):\n"
        f"    if Path({str(stop)!r}).exists():\n        raise ValueError('stopped')\n"
        "    return corpus.handles[:k]\n"
    )
    spec = RetrieverSpec(f"{tmp_path / 'stops.py'}:retrieve")
    folder = run(notes, spec, out=tmp_path / "out")
    stop.touch()
    with pytest.raises(RunError, match="stopped"):
        run(notes, spec, Settings(strict=True), out=tmp_path / "out", mode=Mode.REPLACE)
    assert not folder.with_name(f"{folder.name}.previous").exists()
    stop.unlink()
    assert run(notes, spec, out=tmp_path / "out", mode=Mode.RESUME) == folder
    assert len(list(folder.with_name(f"{folder.name}.previous").iterdir())) == 1


class Flaky(Stops):
    """Fails on every third question, or on those of two haystacks altogether, or on none."""

    def __init__(self, fails: str = "", after: int = 10**9) -> None:
        super().__init__(after)
        self._fails = fails

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        if self._fails == "index" and corpus[0].text.rpartition(" ")[2] in ("4", "7"):
            raise ConnectionError("rate limit")

    def search(self, queries: Sequence[Question], k: int) -> list[Any]:
        found = super().search(queries, k)
        if self._fails == "search" and queries[0].text.endswith("1"):
            raise ConnectionError("busy")
        return found


def test_failed_queries_of_a_stopped_run_are_tried_again(notes: Dataset, tmp_path: Path) -> None:
    first, again = Flaky("search", 17), Flaky()
    with pytest.raises(KeyboardInterrupt):
        run(notes, first, out=tmp_path)
    folder = run(notes, again, out=tmp_path, mode=Mode.RESUME)
    assert RunFolder(folder).record.queries.failed == 0
    failed = [text for text in first.asked if text.endswith("1")]
    assert len(failed) > 3
    assert set(first.asked) & set(again.asked) == set(failed)


@pytest.mark.parametrize(("fails", "n"), [("search", 12), ("index", 6)])
def test_resume_of_a_finished_run_tries_its_failures_again_and_nothing_else(
    notes: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str], fails: str, n: int
) -> None:
    whole = run(notes, Flaky(), out=tmp_path / "whole")
    out, first = tmp_path / "out", Flaky(fails)
    folder = run(notes, first, out=out)
    assert RunFolder(folder).record.queries.failed == n
    (folder / "notes.txt").write_text("mine")
    still, again = Flaky(fails), Flaky()
    assert run(notes, still, out=out, mode=Mode.RESUME, quiet=False) == folder
    assert f"but for {n} queries that failed: trying those again" in capsys.readouterr().err
    record = RunFolder(folder).record
    assert record.retried == Retried(queries=n, answered=0, failures=n)
    assert record.queries.failed == n
    run(notes, again, out=out, mode=Mode.RESUME)
    record = RunFolder(folder).record
    assert len(again.asked) == n
    assert record.queries == QueryCounts(asked=36, answered=36, failed=0, abstained=0)
    assert record.retried == Retried(queries=n, answered=n, failures=2 * n)
    assert record.resumed_queries == 36 - n
    assert _bytes(folder) == _bytes(whole)
    errors = [
        orjson.loads(x)["error"] for x in (folder / "retried.jsonl").read_bytes().splitlines()
    ]
    assert len(errors) == 2 * n
    assert all("ConnectionError" in error for error in errors)
    assert not (folder / "errors.jsonl").exists()
    # Now it is finished: nothing is asked, and nothing else was kept or lost beside it.
    assert run(notes, done := Flaky(), out=out, mode=Mode.RESUME) == folder
    assert done.asked == []
    assert [path.name for path in out.iterdir()] == [folder.name]
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "checkpoint.jsonl").exists()


def test_failures_that_are_stopped_while_they_are_tried_again_go_on(
    notes: Dataset, tmp_path: Path
) -> None:
    folder = run(notes, Flaky("search"), out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(notes, Flaky(after=5), out=tmp_path, mode=Mode.RESUME)
    assert RunFolder(folder).record.queries.failed == 12  # the finished one stands
    again = Flaky()
    run(notes, again, out=tmp_path, mode=Mode.RESUME)
    assert len(again.asked) == 12 - 5
    assert RunFolder(folder).record.retried == Retried(queries=12, answered=12, failures=12)


def test_a_finished_run_without_its_checkpoint_is_shown_and_says_what_can_be_done(
    notes: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(notes, Flaky("search"), out=tmp_path)
    (folder / "checkpoint.jsonl").unlink()
    run(notes, again := Flaky(), out=tmp_path, mode=Mode.RESUME, quiet=False)
    assert again.asked == []
    assert "--overwrite runs it again" in (said := capsys.readouterr().err)
    assert "12 queries failed, but it has no checkpoint.jsonl" in said


# -- real processes, really killed ----------------------------------------------------------------


class Command:
    """`python -m harness run` with the slow retriever, in a session of its own."""

    def __init__(self, files: Path, folder: Path, out: Path, *more: str, seconds: float) -> None:
        self.log = folder / "log"
        self.log.touch()
        (folder / "slow.py").write_text(SLOW)
        arguments = ["--dataset", "labelled", "--source", str(files), "--out", str(out), "--quiet"]
        arguments += ["--retriever", f"{folder}/slow.py:Slow", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness", "run", *arguments],
            env=os.environ | {"SLOW_LOG": str(self.log), "SLOW_SECONDS": str(seconds)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()

    def has_ended(self) -> bool:
        """Tells whether no process of its session is alive."""
        listed = subprocess.check_output(["ps", "-e", "-o", "sid=,stat="], text=True)
        alive = [line.split() for line in listed.splitlines()]
        return not [1 for sid, stat in alive if sid == str(self.process.pid) and stat[0] != "Z"]


def _answered(journal: Path) -> list[int]:
    """Returns the queries whose answers are in whole lines of a journal."""
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    whole = [orjson.loads(line) for line in lines if line.endswith(b"\n")]
    return [answer["query"] for line in whole for answer in line["queries"]]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_command_goes_on_and_gives_the_same_bytes(
    notes: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    how: signal.Signals,
) -> None:
    files, more = tmp_path / "files", ["--workers", str(workers)]
    command = Command(files, tmp_path, tmp_path / "out", *more, seconds=0.05)
    wait_until(lambda: len(command.asked) >= 16, command.process)
    journal = _partial(tmp_path / "out") / "checkpoint.jsonl"
    wait_until(lambda: bool(_answered(journal)), command.process)
    if how is signal.SIGINT:
        os.killpg(command.process.pid, how)  # as a terminal does, to all
    else:
        command.process.kill()
    _, said = command.process.communicate(timeout=HANGS)
    wait_until(command.has_ended)
    if how is signal.SIGINT:
        assert command.process.returncode == 130
        assert said == "harness: stopped; the same command with --resume continues from here\n"
    done = {notes.query_table["text"][query].as_py() for query in _answered(journal)}
    assert 0 < len(done) < 36
    before = len(command.asked)
    command = Command(files, tmp_path, tmp_path / "out", *more, "--resume", seconds=0)
    _, said = command.process.communicate(timeout=HANGS)
    assert (command.process.returncode, said) == (0, "")
    assert sorted(command.asked[before:]) == sorted(
        set(notes.query_table["text"].to_pylist()) - done
    )
    monkeypatch.setenv("SLOW_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("SLOW_SECONDS", "0")
    whole = run(notes, f"{tmp_path}/slow.py:Slow", out=tmp_path / "whole")
    (folder,) = (path for path in (tmp_path / "out").iterdir() if path.name[0] != ".")
    assert folder.name == whole.name
    assert _bytes(folder) == _bytes(whole)


def test_reports_that_list_every_call_make_no_checkpoint_of_the_square_of_calls(
    tmp_path: Path,
) -> None:
    done, path = [], tmp_path / "checkpoint.jsonl"
    with CheckpointWriter(path) as writer:
        for i in range(1000):
            answers, report = [QueryResult(i)], {"calls": [*range(i)]}
            done.append(WorkResult(0, 0, answers, process=1, reported=report))
            writer.add(done[-1])
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert sorted(one["query"] for line in lines for one in line["queries"]) == [*range(1000)]
    assert [line["reported"] for line in lines if "reported" in line][-1] == report
    assert [one.reported for one in done] == [None] * 999 + [report]
    assert path.stat().st_size < 300_000
