"""Runs by name: `--name`, `harness runs`, and names where commands take a folder."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from filelock import FileLock

SAMPLE = ("run", "--dataset", "sample", "--quiet")
Harness = Callable[..., Any]


def _listed(harness: Harness, *more: Any) -> dict[str, dict[str, Any]]:
    said = harness("runs", "--json", *more)
    assert (said.status, said.err) == (0, "")
    return {run["name"]: run for run in orjson.loads(said.out)["runs"]}


@pytest.fixture
def two(harness: Harness, tmp_path: Path) -> dict[str, Path]:
    """Two runs in results/, the first with a name of its own."""
    assert harness(*SAMPLE, "--retriever", "bm25", "--name", "base", "--limit", 40).status == 0
    assert harness(*SAMPLE, "--retriever", "tfidf", "--limit", 40).status == 0
    return {name: Path(run["folder"]) for name, run in _listed(harness).items()}


def test_runs_lists_the_newest_first_with_number_interval_and_state(
    harness: Harness, two: dict[str, Path]
) -> None:
    assert [*two] == ["tfidf", "base"]
    base = _listed(harness)["base"]
    assert (base["system"], base["dataset"], base["state"]) == ("bm25", "sample", "done")
    assert base["metric"] == "recall@10"
    assert base["low"] < base["value"] < base["high"]
    lines = harness("runs").out.splitlines()
    assert lines[0].split()[:3] == ["run", "dataset", "level"]
    assert f"recall@10 {base['value']:.4f}" in lines[3]
    assert lines[3].endswith(two["base"].name.rpartition("-")[2])


def test_runs_reads_runs_that_changed_and_ignores_a_damaged_list_cache(
    harness: Harness, two: dict[str, Path]
) -> None:
    for file in (*two["base"].iterdir(), *two["tfidf"].iterdir()):
        os.utime(file, (1e9, 1e9))  # files of the last two seconds are not cached
    expected = harness("runs").out
    cache = two["base"].with_name(".runs.json")
    assert '"base"' in cache.read_text()
    assert harness("runs").out == expected
    cache.write_text(cache.read_text().replace('"base"', '"cached"'))
    assert "cached" in _listed(harness), "an unchanged run is not read again"
    assert harness("runs", "name", "cached", "renamed", "--quiet").status == 0
    assert {*_listed(harness)} == {"tfidf", "renamed"}
    cache.write_text(cache.read_text()[:-9])
    assert {*_listed(harness)} == {"tfidf", "renamed"}


@pytest.mark.slow
def test_commands_take_a_name_or_a_unique_beginning_where_they_take_a_folder(
    harness: Harness, two: dict[str, Path]
) -> None:
    for given in ("base", "bas", "base@sample", "bm25@sample", two["base"].name, two["base"]):
        said = harness("runs", "show", given, "--json")
        assert orjson.loads(said.out)["run"]["folder"] == str(two["base"]), given
    assert orjson.loads(harness("compare", "base", "tfi", "--json").out)["runs"] == [
        "base",
        two["tfidf"].name,
    ]
    for command in (("report",), ("score",), ("analyze",), ("verify",)):
        assert harness(*command, "base", "--quiet").status == 0, command
    said = harness("compare", "sample", "base")
    assert said.status == 2
    assert "sample: 2 runs in results match" in said.err
    assert two["base"].name in said.err
    assert said.err.count("\n") == 1
    said = harness("compare", "basse", "tfidf")
    assert (said.status, "did you mean base" in said.err) == (2, True)


def test_a_name_shows_on_boards_and_in_comparisons_and_can_be_changed(
    harness: Harness, two: dict[str, Path]
) -> None:
    assert "base" in harness("leaderboard").out
    assert "A = base" in harness("compare", "base", "tfidf").out
    said = harness(*SAMPLE, "--retriever", "bm25", "--limit", 40, "--name", "other", "--quiet")
    assert (said.status, "renamed run 'base' to 'other'" in said.err) == (0, True)
    assert {*_listed(harness)} == {"tfidf", "other"}, "a finished run is named, not made anew"
    assert harness("runs", "name", "other", "third", "--quiet").status == 0
    assert {*_listed(harness)} == {"tfidf", "third"}
    for wrong in ("a/b", "", " x", "-y"):
        said = (
            harness("runs", "name", "third", "--", wrong)
            if wrong == "-y"
            else harness("runs", "name", "third", wrong)
        )
        assert said.status == 2
        assert said.err.count("\n") == 1


@pytest.mark.slow
def test_two_versions_of_ones_own_code_look_different_on_a_board(
    harness: Harness, tmp_path: Path
) -> None:
    code = "def retrieve(text, k, corpus):\n    return list(range(min(k, {})))\n"
    for depth in (20, 30):
        (tmp_path / "mine.py").write_text(code.format(depth))
        # Each in a process of its own, as a file is loaded once a process.
        command = [sys.executable, "-m", "harness", *SAMPLE, "--retriever", "mine", "--limit", "20"]
        subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ})
    rows = [
        line for line in harness("leaderboard").out.splitlines() if "mine.py:retrieve (" in line
    ]
    assert len(rows) == 2
    assert len({row.partition("mine.py:retrieve ")[2].partition(")")[0] for row in rows}) == 2


def test_runs_are_archived_restored_and_removed_after_a_question(
    harness: Harness, two: dict[str, Path]
) -> None:
    notes = two["base"] / "notes.txt"
    notes.write_text("mine")
    assert harness("runs", "archive", "base").status == 0
    assert {*_listed(harness)} == {"tfidf"}
    assert "base   " not in harness("leaderboard").out
    assert {*_listed(harness, "--archived")} == {"base"}
    assert harness("runs", "unarchive", "base").status == 0
    assert notes.read_text() == "mine"
    said = harness("runs", "remove", "base")
    assert said.status == 2
    assert "not a terminal; add --yes" in said.err
    assert notes.is_file()
    said = harness("runs", "remove", "base", "--yes")
    assert (said.status, two["base"].exists()) == (0, False)
    assert "and in it notes.txt" in said.err


def test_only_a_yes_removes(two: dict[str, Path], tmp_path: Path) -> None:
    """At a real terminal: Enter alone keeps everything."""
    for answer, there in ((b"\n", True), (b"y\n", False)):
        ours, theirs = pty.openpty()
        os.write(ours, answer)
        done = subprocess.run(
            [sys.executable, "-m", "harness", "runs", "remove", "base"],
            stdin=theirs,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert "remove for good? [y/N]" in done.stderr
        assert (done.returncode, two["base"].exists()) == (int(there), there)
        os.close(ours)
        os.close(theirs)


def test_unfinished_runs_are_listed_by_state_and_dead_ones_cleared(
    harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n\n"
        "def retrieve(text, k, corpus):\n"
        "    if len(Path('seen').open('a+b').seek(0) or Path('seen').read_bytes()) > 30:\n"
        "        raise KeyboardInterrupt\n"
        "    Path('seen').open('ab').write(b'x')\n"
        "    return [0]\n"
        "\ndef broken(text, k, corpus):\n    raise ValueError('no')\n"
    )
    assert harness(*SAMPLE, "--retriever", "mine.py:retrieve", "--name", "cut").status == 130
    assert harness(*SAMPLE, "--retriever", "mine.py:broken").status == 1
    found = _listed(harness)
    assert {name: run["state"] for name, run in found.items()} == {
        "cut": "stopped",
        "mine.py:broken": "failed",
    }
    assert 0 < found["cut"]["done"] < found["cut"]["queries"]
    partial = Path(found["cut"]["folder"])
    assert "clear" in harness("runs").out
    with FileLock(partial / "lock"):
        assert _listed(harness)["cut"]["state"] == "running"
        assert harness("runs", "clear", "--yes").status == 0
        assert partial.is_dir(), "what is running is never cleared"
    assert harness("runs", "clear", "--yes").status == 0
    assert _listed(harness) == {}


def test_what_is_no_run_is_neither_removed_nor_renamed(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    for command in (("remove", "thesis", "--yes"), ("archive", "thesis"), ("name", "thesis", "x")):
        said = harness("runs", *command)
        assert (said.status, said.err.count("\n")) == (2, 1)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def test_what_was_stopped_is_not_begun_anew_unasked_and_its_name_says_so(
    harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n\n"
        "def retrieve(text, k, corpus):\n"
        "    with Path('asked').open('ab') as file:\n"
        "        file.write(b'x')\n"
        "    if Path('asked').stat().st_size == 60:\n"
        "        raise KeyboardInterrupt\n"
        "    return [0]\n"
    )
    run = (*SAMPLE, "--retriever", "mine.py:retrieve", "--name", "cut")
    assert harness(*run).status == 130
    said = harness(*run)
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "--resume continues from there, --overwrite discards them" in said.err
    said = harness("report", "cut")
    assert (said.status, "cut: is stopped at" in said.err) == (2, True)
    assert harness(*run, "--resume").status == 0
    assert harness("runs", "archive", "cut", "--quiet").status == 0
    assert "`harness runs unarchive cut` restores it" in harness("report", "cut").err


def test_a_name_that_several_runs_have_is_not_what_is_said_to_be_typed(
    harness: Harness, two: dict[str, Path]
) -> None:
    said = harness("runs", "name", "tfidf", "base")
    assert said.status == 0
    told = harness("score", two["tfidf"])
    assert "note: base is also the name of other runs" in told.out
    assert f"harness report {two['tfidf']}" in told.out


def test_what_is_of_another_shape_is_listed_as_broken_and_the_others_are_still_found(
    harness: Harness, two: dict[str, Path]
) -> None:
    odd = Path("results/.odd.tmp")
    odd.mkdir()
    (odd / "checkpoint.jsonl").write_text('{"item": 0, "haystack": 0, "queries": [{"query": 1}]}\n')
    for text in ("[]", "{", '{"retriever":5,"queries":"x"}'):
        (odd / "plan.json").write_text(text)
        found = _listed(harness)
        assert {name: run["state"] for name, run in found.items()} == {
            "odd": "broken",
            "base": "done",
            "tfidf": "done",
        }
        assert "plan.json" in found["odd"]["reason"]
        assert "odd is broken: results/.odd.tmp/plan.json" in harness("runs").out
    assert harness("compare", "base", "tfidf", "--json").status == 0
    (two["tfidf"] / "run.json").unlink()
    (two["tfidf"] / "run.json").mkdir()
    assert _listed(harness)[two["tfidf"].name]["state"] == "broken"
    assert harness("runs", "show", "base").status == 0
    said = harness("compare", "base", "odd")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "`harness runs clear` removes it" in said.err
    said = harness("runs", "verify")
    assert (said.status, ".odd" in said.out) == (1, False)
    assert harness("runs", "clear", "--yes").status == 0
    assert not odd.exists()


def test_a_run_whose_record_has_values_of_another_kind_is_broken(
    harness: Harness, two: dict[str, Path]
) -> None:
    path = two["tfidf"] / "run.json"
    record = orjson.loads(path.read_bytes())
    del record["checksums"]  # as of another program
    for odd in ({"finished": 5}, {"git": [1]}, {"queries": {"asked": "x"}}):
        path.write_bytes(orjson.dumps(record | odd))
        found = _listed(harness)
        assert found.keys() == {"base", two["tfidf"].name}
        assert found[two["tfidf"].name]["state"] == "broken"
