"""An isolated run ranks as any other, while its retriever reaches no file of the dataset's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from corpora import labelled
from polling import HANGS, wait_until

from harness.__main__ import main
from harness.datasets.reader import Dataset, choose_queries
from harness.datasets.registry import home as cache_folder
from harness.datasets.registry import open_dataset
from harness.errors import RunError, UsageError
from harness.extensions.sandbox import sandbox
from harness.io.plugins import PLUGIN_MODULE
from harness.records.run import RunRecord
from harness.retrievers.registry import RetrieverSpec
from harness.runs.executors import InProcess
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.results import WorkItem, WorkResult
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.runs.worker import Worker

RANKINGS = ("rankings.parquet", "rankings.trec")
KINDS = [
    kind
    for kind in sandbox._KINDS
    if (kind != "bubblewrap" or shutil.which("bwrap"))
    and (kind != "unshare as root" or os.geteuid() == 0)
]
"""The sandboxes that this machine has the programs for."""

PLUGIN = Path(__file__).with_name("isolated_plugin.py")


@pytest.fixture(scope="module")
def sandboxed() -> None:
    """Skipped, and said so, where the system lets nobody have a sandbox."""
    try:
        sandbox.find([], [])
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Dataset:
    """Two haystacks of three notes with two questions each."""
    documents = [
        {"id": f"n{h}-{i}", "text": f"note {i} of {h}", "haystack": f"h{h}", "speaker": f"s{i}"}
        for h in range(2)
        for i in range(3)
    ]
    queries = [
        {"id": f"q{h}-{i}", "text": f"want {h} {i}", "haystack": f"h{h}"}
        for h in range(2)
        for i in range(2)
    ]
    gold = {f"q{h}-{i}": [f"n{h}-{i}"] for h in range(2) for i in range(2)}
    return labelled(tmp_path / "files", documents, queries, gold)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    return Path(shutil.copy(PLUGIN, tmp_path / "plugin.py"))


def _isolated(dataset: Dataset, spec: RetrieverSpec, out: Path, **more: Any) -> RunRecord:
    """run.json of an isolated run."""
    return RunFolder(run(dataset, spec, Settings(isolate=True, **more), out=out)).record


def _bytes(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in RANKINGS]


def _sleeping(mark: str) -> list[int]:
    """Processes of this machine, in whatever namespace, that were started with a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().endswith(f"sleep\0{mark}\0".encode()):
                found.append(int(path.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.mark.usefixtures("sandboxed", "home")
@pytest.mark.parametrize("name", [pytest.param("bm25", marks=pytest.mark.slow), "words"])
def test_rankings_are_the_same_bytes_as_without(tmp_path: Path, plugin: Path, name: str) -> None:
    spec = RetrieverSpec(name if name == "bm25" else f"{plugin}:Words")
    dataset = open_dataset("sample")
    plain = run(dataset, spec, Settings(k=20, limit=4), out=tmp_path / "out")
    isolated = run(dataset, spec, Settings(k=20, limit=4, isolate=True), out=tmp_path / "out")
    assert plain != isolated  # neither takes the other's place
    assert _bytes(plain) == _bytes(isolated)
    one, two = RunFolder(plain).record, RunFolder(isolated).record
    assert one.retriever == two.retriever
    assert one.queries == two.queries
    assert one.settings.sandbox is None
    assert two.settings.sandbox.startswith(("unshare", "bubblewrap"))
    assert two.command.endswith(" --isolate")
    asked = dataset.query_haystack[choose_queries(dataset, 4, 0)]
    assert two.measured.index.builds == len(set(asked.tolist())) > 1
    assert two.measured.search_ms is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_the_dataset_and_no_other_process_is_in_reach(
    notes: Dataset, tmp_path: Path, plugin: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_KINDS", {kind: sandbox._KINDS[kind]})
    out = tmp_path / "out"
    run(notes, "bm25", out=out)
    files = [str(path) for path in notes.folder.iterdir()]
    files += [raw.path for raw in notes.manifest.raw]
    files += [str(path) for path in out.glob("*/*")]
    assert len(files) > 8
    folders = [str(path) for path in (cache_folder(), notes.folder, tmp_path / "files", out)]
    spec = RetrieverSpec(f"{plugin}:Spy", {"folders": folders, "files": files})
    try:
        said = _isolated(notes, spec, out).reported
    except UsageError as error:
        pytest.skip(str(error))
    assert [one["read"] for one in said] == [[], []]
    assert max(one["processes"] for one in said) < 5
    assert {one["parent"] for one in said} <= {0, 1}
    # Without, it reads them all.
    plain = RunFolder(run(notes, spec, out=out)).record.reported
    assert len(plain[0]["read"]) > len(files)


@pytest.mark.usefixtures("sandboxed")
def test_a_raw_file_by_itself_is_closed_and_its_neighbours_are_not(tmp_path: Path) -> None:
    (tmp_path / "raw.json").write_text("key")
    (tmp_path / "mine.txt").write_text("mine")
    box = sandbox.find([tmp_path / "raw.json", tmp_path / "none"], [tmp_path / "mine.txt"])
    done = subprocess.run(
        box.command(["sh", "-c", f"cd {tmp_path}; cat mine.txt raw.json; chmod 777 raw.json"]),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "mine"
    assert "Permission denied" in done.stderr
    assert (tmp_path / "raw.json").read_text() == "key"


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_nothing_is_kept_in_memory_from_one_haystack_to_the_next(
    notes: Dataset, tmp_path: Path, plugin: Path
) -> None:
    spec = RetrieverSpec(f"{plugin}:Words")
    plain = RunFolder(run(notes, spec, out=tmp_path / "out")).record
    assert [len(one["before"]) for one in plain.reported] == [1]
    said = _isolated(notes, spec, tmp_path / "out").reported
    assert [one["before"] for one in said] == [[], []]


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_code_under_test_is_not_imported_beside_the_answer_key(
    notes: Dataset, tmp_path: Path, plugin: Path
) -> None:
    named = plugin.with_name("never_imported.py")
    plugin.rename(named)
    _isolated(notes, RetrieverSpec(f"{named}:Words", plugins=(str(named),)), tmp_path / "out")
    assert not [name for name in sys.modules if name.startswith(f"{PLUGIN_MODULE}never_imported")]


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_mounts_are_seen_by_nobody_else(
    notes: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mounts() -> str:
        return Path("/proc/self/mountinfo").read_text()

    class Looks(InProcess):
        def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
            for result in super().map(worker, items):
                during.append(mounts())  # its process waits for more
                yield result

    during: list[str] = []
    before = mounts()
    monkeypatch.setattr("harness.runs.executors.InProcess", Looks)
    run(notes, "bm25", Settings(isolate=True), out=tmp_path / "out")
    assert [*during, mounts()] == [before] * 3


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_odd_answers_are_judged_as_without(home: Path, tmp_path: Path, plugin: Path) -> None:
    documents = [{"id": f"n{i}", "text": f"note {i}"} for i in range(3)]
    queries = [{"id": f"q{i:02}", "text": f"want {i}"} for i in range(16)]
    dataset = labelled(tmp_path / "files", documents, queries, {"q00": ["n0"]})
    spec = RetrieverSpec(f"{plugin}:Odd")
    plain = run(dataset, spec, out=tmp_path / "out")
    isolated = run(dataset, spec, Settings(isolate=True), out=tmp_path / "out")
    assert _bytes(plain) == _bytes(isolated)
    one, two = (RunFolder(folder).record for folder in (plain, isolated))
    assert (one.queries, one.notes, one.hits) == (two.queries, two.notes, two.hits)
    assert one.queries.failed == 11
    failed = [
        {line["query"]: line["error"] for line in map(orjson.loads, path.read_bytes().splitlines())}
        for path in (plain / "errors.jsonl", isolated / "errors.jsonl")
    ]
    assert failed[0].keys() == failed[1].keys()
    assert "is not a handle of this haystack" in failed[1]["q01"]
    assert "a score is NaN" in failed[1]["q03"]


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_a_process_that_dies_costs_its_haystack_and_leaves_nothing_behind(
    notes: Dataset, tmp_path: Path, plugin: Path
) -> None:
    mark = f"98{time.monotonic_ns()}"
    spec = RetrieverSpec(f"{plugin}:Dies", {"mark": mark})
    folder = run(notes, spec, Settings(isolate=True), out=tmp_path / "out")
    errors = [orjson.loads(line) for line in (folder / "errors.jsonl").read_bytes().splitlines()]
    assert {error["query"] for error in errors} == {"q0-0", "q0-1"}
    assert any("ended, status 9, at 'search'" in error["error"] for error in errors)
    wait_until(lambda: not _sleeping(mark))


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (signal.SIGINT, 2),
        (signal.SIGKILL, 1),
        pytest.param(signal.SIGINT, 1, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 2, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_stopped_leaves_no_process_behind(
    notes: Dataset, tmp_path: Path, plugin: Path, number: int, workers: int
) -> None:
    mark = f"97{time.monotonic_ns()}s"
    command = [sys.executable, "-m", "harness", "run", "--dataset", "labelled", "--isolate"]
    command += ["--source", str(tmp_path / "files"), "--retriever", f"{plugin}:Hangs"]
    command += ["--param", f"mark={mark}", "--workers", str(workers)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: bool(_sleeping(mark)), process)
        process.send_signal(number)
        _, said = process.communicate(timeout=HANGS)
    finally:
        process.kill()
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert number != signal.SIGINT or said.startswith("harness: stopped; ")
    wait_until(lambda: not _sleeping(mark))


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_workers_are_so_many_isolated_processes_at_once(
    notes: Dataset, tmp_path: Path, plugin: Path
) -> None:
    (tmp_path / "met").mkdir()
    spec = RetrieverSpec(f"{plugin}:Meets", {"folder": str(tmp_path / "met")})
    record = _isolated(notes, spec, tmp_path / "out", workers=2)
    assert record.queries.failed == 0
    assert record.settings.sandbox


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_it_goes_on_where_it_was(notes: Dataset, tmp_path: Path, plugin: Path) -> None:
    log = tmp_path / "log"
    stop = tmp_path / "log.stop"
    spec = RetrieverSpec(f"{plugin}:Stops", {"log": str(log)})
    settings = Settings(isolate=True, strict=True)
    whole = _bytes(run(notes, spec, settings, out=tmp_path / "whole"))
    log.unlink()
    stop.touch()
    log.touch()
    with pytest.raises(RunError, match="stopped"):
        run(notes, spec, settings, out=tmp_path / "out")
    assert len(log.read_text().splitlines()) == 2
    stop.unlink()
    folder = run(notes, spec, settings, out=tmp_path / "out", mode=Mode.RESUME)
    assert len(log.read_text().splitlines()) == 4
    assert RunFolder(folder).record.resumed_queries == 2
    assert _bytes(folder) == whole


@pytest.mark.usefixtures("sandboxed")
def test_what_cannot_be_isolated_is_refused(notes: Dataset, tmp_path: Path, plugin: Path) -> None:
    def refused(retriever: Any, said: str, out: Path = tmp_path / "out") -> None:
        with pytest.raises(UsageError, match=said):
            run(notes, retriever, Settings(isolate=True), out=out)
        assert not out.exists() or not list(out.glob("lab*"))

    refused("oracle", "the oracle needs the qrels")
    refused("bm26", "unknown retriever 'bm26'")
    refused(f"{plugin}:Greedy", "only the built-in oracle is given the gold labels")
    refused(lambda text, k: [], "name it as file.py:Class")
    refused(RetrieverSpec("bm25", {"k1": object()}), "sends parameters as JSON")
    refused("bm25", "--isolate hides .* but the retriever needs", out=Path.cwd())
    inside = tmp_path / "files" / "mine.py"
    shutil.copy(PLUGIN, inside)
    refused(f"{inside}:Words", "move one of them")


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_a_function_that_knows_the_ids_is_marked_as_without(
    notes: Dataset, tmp_path: Path, plugin: Path
) -> None:
    record = _isolated(notes, RetrieverSpec(f"{plugin}:by_id"), tmp_path / "out")
    assert record.retriever.ids == "dataset"
    assert record.queries.failed == 0


@pytest.mark.usefixtures("home")
def test_where_there_is_no_sandbox_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    out = tmp_path / "out"
    command = ["run", "--dataset", "sample", "--retriever", "bm25", "--isolate"]
    assert main([*command, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "bwrap is not installed" in said
    assert "install bubblewrap, or allow user namespaces" in said
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    assert main([*command, "--out", str(out)]) == 2
    assert "--isolate needs Linux" in capsys.readouterr().err
    assert not out.exists()
