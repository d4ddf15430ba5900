"""A finished run is never replaced by less, and what is not ours in its folder is not touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from output import protocols

from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import OURS

pytestmark = pytest.mark.usefixtures("home")

RUN = ("run", "--dataset", "sample", "--limit", 12)
BM25 = (*RUN, "--retriever", "bm25")


@pytest.fixture
def finished(harness: Callable[..., Any], tmp_path: Path) -> Path:
    """A finished run with a report and notes of its user's in the folder."""
    assert harness(*BM25).status == 0
    (folder,) = (tmp_path / "results").iterdir()
    assert {path.name for path in folder.iterdir()} <= OURS
    (folder / "report.html").write_text("a report")
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.md").write_text("why it is so")
    return folder


def _metrics(folder: Path) -> set[str]:
    scores = orjson.loads((folder / "scores.json").read_bytes())
    return set(protocols(scores)[0].slices["all"].metrics)


def _bytes(folder: Path, *but: str) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in but)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_same_command_again_shows_the_finished_run_and_leaves_every_file(
    harness: Callable[..., Any], finished: Path
) -> None:
    before = _bytes(finished)
    said = harness(*BM25)
    assert said.status == 0
    assert said.err == (
        f"note: results/{finished.name} is finished; --overwrite runs it again and keeps the old "
        "folder\n"
    )
    date = RunFolder(finished).record.finished[:16].replace("T", " ")
    assert said.out.startswith(f"reused run of {date} UTC\nbm25 on ")
    assert orjson.loads(harness(*BM25, "--json").out)["reused"] is True
    assert orjson.loads(harness("score", "bm25", "--json").out)["reused"] is None
    assert _bytes(finished) == before
    new = harness(*BM25, "--overwrite", "--json")
    assert orjson.loads(new.out)["reused"] is False


def test_cut_offs_and_metrics_are_added_to_what_is_there(
    harness: Callable[..., Any], finished: Path
) -> None:
    default = _metrics(finished)
    said = harness(*BM25, "--ks", 7)
    assert "recall@7" in said.out.split("also scored as")[0]
    assert _metrics(finished) - default >= {"recall@7", "ndcg@7"}
    assert default < _metrics(finished)
    assert "map@20" in harness(*BM25, "--metrics", "map@20").out
    added = _metrics(finished)
    assert {"recall@7", "map@20"} < added
    harness(*BM25)
    assert _metrics(finished) == added
    assert "recall@10" in harness("leaderboard", "--results", "results").out


def test_again_runs_it_anew_and_keeps_the_old_one_beside_it(
    harness: Callable[..., Any], finished: Path, tmp_path: Path
) -> None:
    before = _bytes(finished)
    said = harness(*BM25, "--overwrite")
    assert (said.status, said.err) == (0, "")
    (kept,) = (tmp_path / "results" / f"{finished.name}.previous").iterdir()
    assert _bytes(kept) == before
    assert {path.name for path in finished.iterdir()} <= OURS
    assert harness("compare", kept, finished).status == 0
    harness(*BM25, "--overwrite")
    assert len(list(kept.parent.iterdir())) == 2
    board = harness("leaderboard", "--results", "results").out
    assert sum(line.split()[:2] == ["1", "bm25"] for line in board.splitlines()) == 1, board


def test_failed_queries_of_a_finished_run_are_said(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "halves.py").write_text(
        "def retrieve(text, k, corpus):\n"
        "    if len(text) % 2:\n        raise OSError('away')\n    return corpus.handles[:k]\n"
    )
    assert harness(*RUN, "--retriever", "halves").status == 1
    said = harness(*RUN, "--retriever", "halves")
    assert said.status == 1
    assert "of 12 queries failed" in said.err
    assert "is finished; " in said.err


def test_a_file_that_is_scored_again_leaves_what_is_not_ours(
    harness: Callable[..., Any], finished: Path, tmp_path: Path
) -> None:
    score = ("score", finished / "rankings.trec", "--dataset", "sample", "--name", "theirs")
    assert harness(*score).status == 0
    (folder,) = (path for path in (tmp_path / "results").iterdir() if "theirs" in path.name)
    (folder / "mine.md").write_text("why it is so")
    assert harness(*score).status == 0
    assert (folder / "mine.md").read_text() == "why it is so"


@pytest.mark.extensions
def test_a_list_of_every_night_measures_anew_and_keeps_no_second_copy(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "night.toml").write_text(
        'dataset = "sample"\nlimit = 12\n[nightly]\n[[retrievers]]\nretriever = "bm25"\n'
    )
    harness("run", "--config", "night.toml")
    (folder,) = (tmp_path / "results").glob("sample-*")
    (folder / "mine.md").write_text("why it is so")
    first = (folder / "run.json").read_bytes()
    harness("run", "--config", "night.toml")
    assert (folder / "run.json").read_bytes() != first
    assert (folder / "mine.md").read_text() == "why it is so"
    assert [path.name for path in (tmp_path / "results").glob("sample-*")] == [folder.name]
