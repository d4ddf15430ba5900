"""Indexes on disk: found again, never half there, never searched where they are damaged."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from notes import ask, corpus
from polling import HANGS

from harness.errors import UsageError
from harness.retrievers.bm25 import BM25, disk_index
from harness.retrievers.bm25 import index as inverted
from harness.retrievers.contract import Corpus
from harness.retrievers.index_cache import cached_indexes, clear, folder, index_of, verify

ABOUT = "index.json"
spawn = multiprocessing.get_context("spawn")
pytestmark = pytest.mark.usefixtures("home")


def notes(name: str = "notes") -> Corpus:
    """A corpus that can be recognised, as one of a dataset can."""
    found = corpus([f"note {i} of {'paint' if i % 7 else 'clay'} w{i % 90}" for i in range(400)])
    found._dataset = name
    return found


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverted, "BLOCK", 64)


def indexed(name: str = "notes", **params: Any) -> tuple[list[int], list[float]]:
    """An answer, from the index that is kept if there is one."""
    retriever = BM25(**params)
    retriever.index(notes(name))
    found = ask(retriever, "clay w14", 20)
    assert found.scores is not None
    return [int(i) for i in found.ids], np.asarray(found.scores).tolist()


def _slow(log: Path, pieces: int) -> None:
    """Build an index piece by piece, saying so."""

    def build(to: Path) -> None:
        for piece in range(pieces):
            (to / f"piece-{piece}").write_bytes(b"x" * 1000)
            with log.open("a") as file:
                file.write("piece\n")
            time.sleep(0.1)

    index_of(notes(), "slow", {}, build, str)


def test_what_a_killed_process_built_is_not_an_index(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = spawn.Process(target=_slow, args=(log, 300))
    process.start()
    while not log.is_file() or len(log.read_text().split()) < 3:
        time.sleep(0.02)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert cached_indexes() == []
    log.unlink()
    _slow(log, 2)
    assert log.read_text().split() == ["piece"] * 2
    assert [one.retriever for one in cached_indexes()] == ["slow"]
    assert not [path for path in folder().iterdir() if path.suffix in (".new", ".old")]


@pytest.mark.slow
def test_processes_that_want_one_index_at_once_build_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [spawn.Process(target=_slow, args=(log, 12)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(HANGS)
        assert process.exitcode == 0
    assert log.read_text().split() == ["piece"] * 12


@pytest.mark.parametrize(
    "name",
    ["starts.npy", "documents.npy", "counts.npy", "lengths.npy", "terms.arrow", "index.json"],
)
@pytest.mark.parametrize("fault", ["flipped", "cut", "gone"])
def test_a_damaged_index_is_said_and_built_anew(
    name: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = indexed()
    (index,) = folder().glob("bm25-*")
    file = index / name
    data = bytearray(file.read_bytes())
    data[len(data) * 2 // 3] ^= 4
    if fault == "gone":
        file.unlink()
    else:
        file.write_bytes(data if fault == "flipped" else data[:-5])
    (seen,) = verify()
    assert name in seen.damaged
    assert indexed() == answer
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(index) in said
    assert name in said
    assert "built again" in said
    assert [one.damaged for one in verify()] == [""]
    assert indexed() == answer
    assert capsys.readouterr().err == ""


def test_another_corpus_order_or_analysis_is_another_index() -> None:
    indexed()
    indexed("others")
    indexed(stemmer="none")
    indexed(k1=2.0)
    assert len(cached_indexes()) == 3


def test_what_was_used_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        indexed(name)
    by_use = [one.name for one in cached_indexes()]
    indexed("a")
    assert cached_indexes()[0].name == by_use[2]
    size = cached_indexes()[0].bytes
    monkeypatch.setenv("HARNESS_INDEX_GB", str(2.5 * size / 1e9))
    indexed("d")
    assert len(cached_indexes()) == 2
    assert cached_indexes()[1].name == by_use[2]
    monkeypatch.setenv("HARNESS_INDEX_GB", "0")
    indexed("e")  # the one that was just built is needed
    assert len(cached_indexes()) == 1
    assert len(clear("bm25")) == 1
    assert cached_indexes() == []
    with pytest.raises(UsageError, match="no index 'bm25' is cached"):
        clear("bm25")


def _on_a_full_disk(answers: Any) -> None:
    inverted.BLOCK = 64
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    try:
        BM25().index(notes())
    except UsageError as error:
        answers.put(str(error))


def test_a_full_disk_is_one_line_and_leaves_nothing() -> None:
    answers = spawn.Queue()
    process = spawn.Process(target=_on_a_full_disk, args=(answers,))
    process.start()
    said = answers.get(timeout=HANGS)
    process.join()
    assert said.startswith(f"{folder()}: cannot be written (File too large): free space there")
    assert not [path for path in folder().iterdir() if path.suffix != ".lock"]


def test_a_corpus_that_cannot_be_recognised_gets_an_index_for_the_moment(tmp_path: Path) -> None:
    retriever = BM25()
    retriever.index(corpus([*notes().contents]))
    found = ask(retriever, "clay w14", 20)
    place = retriever._cached.folder if retriever._cached else None
    assert place is not None
    assert place.is_dir()
    assert [int(i) for i in found.ids] == indexed()[0]
    del retriever
    assert not place.exists()


def test_the_command_lists_verifies_and_clears(capsys: pytest.CaptureFixture[str]) -> None:
    from harness.__main__ import main

    indexed()
    indexed(stemmer="none")
    assert main(["cache"]) == 0
    said = capsys.readouterr().out
    assert said.count("bm25-") == 2
    assert str(folder()) in said
    assert main(["cache", "verify"]) == 0
    one, two = sorted(path.name for path in folder().glob("bm25-*"))
    (folder() / one / "counts.npy").write_bytes(b"")
    capsys.readouterr()
    assert main(["cache", "verify"]) == 1
    assert "counts.npy is missing or cut" in capsys.readouterr().out
    assert main(["cache", "clear", "--index", one]) == 0
    assert [path.name for path in folder().glob("bm25-*")] == [two]
    assert main(["cache", "clear", "--index", "other"]) == 2
    assert main(["cache", "clear", "--index", two, "--model", "m"]) == 2
    assert main(["cache", "clear"]) == 0
    assert cached_indexes() == []


def test_an_index_that_another_machine_made_is_taken_from_what_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("HARNESS_SHARED", str(shared))
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "one"))
    first = indexed()
    made = {path.name: path.read_bytes() for path in shared.glob("indexes/*/*")}
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "another"))
    with monkeypatch.context() as patched:
        patched.setattr(disk_index, "build_index", None)  # nothing is built
        assert indexed() == first
    # Damaged there: built anew here, and put there anew.
    (documents,) = shared.glob("indexes/*/documents.npy")
    documents.write_bytes(documents.read_bytes()[:-1] + b"?")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "third"))
    assert indexed() == first
    assert "documents.npy is damaged" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in shared.glob("indexes/*/*")} == made
    assert indexed() == first
    assert capsys.readouterr().err == ""
