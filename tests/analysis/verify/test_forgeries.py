"""Altered run folders are rejected, although their checksums were computed again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from edited_scores import edit_scores
from graded import graded
from resealed import reseal

from harness.io.files import read_json
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

Runs = Callable[..., Path]
Harness = Callable[..., Any]


@pytest.fixture
def folder(sample_run: Runs, tmp_path: Path) -> Path:
    """A scored run that may be altered, alone in a folder of results."""
    made = sample_run("bm25", k=20, limit=40)
    return Path(shutil.copytree(made, tmp_path / "results" / made.name))


def edit_record(folder: Path, edit: Callable[[Any], object]) -> None:
    """Changes run.json; its checksums stay what they were."""
    record = read_json(folder / "run.json")
    edit(record)
    (folder / "run.json").write_bytes(orjson.dumps(record))


def edit_table(path: Path, edit: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(edit(pq.read_table(path)), path)


def raise_mean(folder: Path) -> None:
    """The mean alone: it is outside its interval."""
    edit_scores(folder, lambda scores: cell(scores).update(value=0.999))


def raise_mean_and_interval(folder: Path) -> None:
    def edit(scores: Any) -> None:
        cell(scores)["value"] += 0.01
        cell(scores)["interval"]["high"] += 0.01

    edit_scores(folder, edit)


def mark_as_published(folder: Path) -> None:
    edit_record(folder, lambda record: record["dataset"].update(published_files=False))


def drop_failures(folder: Path) -> None:
    edit_record(folder, lambda record: record["queries"].update(failed=1, answered=39))


def cell(scores: Any) -> Any:
    return scores["protocols"][0]["slices"]["all"]["metrics"]["recall@10"]


def refused_by_readers(harness: Harness, folder: Path) -> str:
    """Asserts that no command shows a number of the folder; returns the message of the first."""
    gate = folder.parent / "gate.toml"
    gate.write_text('[[at_least]]\nmetric = "recall@10"\nvalue = 0.1\n', "utf-8")
    told = [
        harness("gate", folder, "--config", gate),
        harness("leaderboard", "--results", folder.parent),
        harness("compare", folder, folder),
        harness("report", folder, "--out", folder.parent / "page.html"),
    ]
    assert [one.status for one in told] == [2, 2, 2, 2], told
    assert not list(folder.parent.glob("leaderboard*"))
    shown = orjson.loads(harness("runs", "show", folder, "--json").out)["run"]
    assert (shown["state"], shown["value"]) == ("broken", None)
    message: str = told[0].err
    return message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (raise_mean, "outside its own interval"),
        (raise_mean_and_interval, "but the mean of 3"),
        (mark_as_published, "published_files is True, but False in run.json"),
        (drop_failures, "queries failed is 0, but 1 in run.json"),
    ],
)
def test_files_that_contradict_each_other_are_rejected_by_all_readers(
    harness: Harness, folder: Path, forge: Callable[[Path], None], message: str
) -> None:
    forge(folder)
    assert message in refused_by_readers(harness, reseal(folder))
    assert harness("verify", folder).status == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rankings.parquet", "queries.parquet"])
def test_files_that_were_altered_are_rejected_by_all_readers(
    harness: Harness, folder: Path, name: str
) -> None:
    edit_table(folder / name, lambda table: table.slice(1))
    assert f"{name}: is not the file" in refused_by_readers(harness, folder)
    assert harness("verify", folder).status == 1


@pytest.mark.extensions
def test_publishing_leaves_a_contradiction_out_and_says_why(
    harness: Harness, folder: Path, tmp_path: Path
) -> None:
    raise_mean(folder)
    told = harness("board", "publish", tmp_path / "site", "--results", reseal(folder).parent)
    assert (told.status, "outside its own interval" in told.err) == (2, True), told


def drop_queries(folder: Path) -> None:
    """Removes seven queries from the files and computes the checksums again."""
    dropped = pq.read_table(folder / "queries.parquet")["query"].slice(0, 7)
    for name in ("queries.parquet", "rankings.parquet"):
        edit_table(folder / name, lambda t: t.filter(pc.invert(pc.is_in(t["query"], dropped))))
    (folder / "rankings.trec").unlink()
    (folder / "scores.json").unlink()
    reseal(folder)


@pytest.mark.slow
def test_a_run_without_seven_of_its_queries_is_not_scored(harness: Harness, folder: Path) -> None:
    drop_queries(folder)
    told = harness("score", folder)
    assert (told.status, "has 33 queries asked, but run.json says 40" in told.err) == (2, True), (
        told
    )
    edit_record(folder, lambda record: record["queries"].update(asked=33, answered=33))
    told = harness("score", reseal(folder))
    assert (told.status, "has 33 queries of 40 that it was to ask" in told.err) == (2, True), told
    edit_record(folder, lambda record: record["settings"].update(limit=33))
    assert harness("score", reseal(folder)).status == 0
    told = harness("verify", folder, "--quiet")
    assert (told.status, "are not the 33 of 321 that the run was to ask" in told.out) == (
        1,
        True,
    ), told


def remove_warnings(folder: Path) -> None:
    edit_scores(folder, lambda scores: scores.pop("warnings"))


def remove_notes_of_intervals(folder: Path) -> None:
    def edit(scores: Any) -> None:
        for protocol in scores["protocols"]:
            for part in protocol["slices"].values():
                for one in part["metrics"].values():
                    one.get("interval", {}).pop("approximate", None)

    edit_scores(folder, edit)


def lower_a_baseline_of_tokens(folder: Path) -> None:
    def edit(scores: Any) -> None:
        next(iter(scores["tokens"]["recall_within_budget"].values()))["random_baseline"] = 0.0

    edit_scores(folder, edit)


def halve_times(folder: Path) -> None:
    def edit(record: Any) -> None:
        record["measured"]["search_ms"] = dict.fromkeys(("mean", "p50", "p95", "p99"), 0.001)

    edit_record(folder, edit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forge", "check"),
    [
        (remove_warnings, "rescored"),
        (remove_notes_of_intervals, "rescored"),
        (lower_a_baseline_of_tokens, "rescored"),
        (halve_times, "consistency"),
    ],
)
def test_flags_warnings_and_times_are_verified(
    harness: Harness, folder: Path, forge: Callable[[Path], None], check: str
) -> None:
    forge(folder)
    told = harness("verify", reseal(folder), "--json")
    checks = {one["what"]: one["ok"] for one in orjson.loads(told.out)["checks"]}
    assert (told.status, [name for name, ok in checks.items() if not ok]) == (1, [check])


def test_files_of_a_dataset_that_are_not_published_stay_marked(
    harness: Harness, home: Path, tmp_path: Path
) -> None:
    dataset = graded(tmp_path / "raw", lambda i: (1, 0))
    made = run(dataset, "bm25", Settings(k=10), out=tmp_path / "runs")
    score_run(made, dataset)
    edit_record(made, lambda record: record["dataset"].update(published_files=True))
    edit_scores(made, lambda scores: scores["dataset"].update(published_files=True))
    told = harness("verify", reseal(made), "--quiet")
    assert (told.status, "these are not the published files" in told.out) == (1, True), told


@pytest.mark.slow
def test_a_record_of_the_harness_without_checksums_is_not_verified(
    harness: Harness, folder: Path
) -> None:
    edit_record(folder, lambda record: record.pop("checksums"))
    told = harness("verify", folder, "--quiet")
    assert (told.status, "run.json: has no checksums" in told.out) == (1, True), told


def of_version(version: str) -> Callable[[Any], None]:
    """Removes the warnings, and says of the scores and their signatures that a version made
    them."""

    def edit(scores: Any) -> None:
        scores.update(harness=version, warnings=[])
        for section in [*scores["protocols"], *scores.values()]:
            if isinstance(section, dict) and "signature" in section:
                parts = section["signature"].split("|")
                kept = [f"v:{version}" if part.startswith("v:") else part for part in parts]
                section["signature"] = "|".join(kept)

    return edit


@pytest.mark.slow
def test_scores_older_than_their_run_fail_and_newer_ones_are_said_not_to_be_checked(
    harness: Harness, folder: Path
) -> None:
    edit_scores(folder, of_version("0.0.9"))
    told = harness("verify", reseal(folder), "--quiet")
    assert (told.status, "consistency: scores.json is of version 0.0.9, but" in told.out) == (
        1,
        True,
    ), told
    edit_scores(folder, of_version("99.0"))
    told = harness("verify", reseal(folder))
    assert (told.status, "not; checks not made: 1; those" in told.out) == (0, True), told
    assert "-   rescored       not checked: scores.json is of version 99.0, and" in told.out
    found = orjson.loads(harness("verify", folder, "--json").out)["checks"]
    assert [one["what"] for one in found if one["ok"] is None] == ["rescored"]


def test_a_run_without_its_version_and_checksums_does_not_pass_as_written_by_hand(
    harness: Harness, folder: Path
) -> None:
    edit_record(folder, lambda record: [record.pop(name) for name in ("run_version", "checksums")])
    told = harness("verify", folder)
    assert (told.status, "run_version: is missing" in told.err) == (2, True), told


def test_what_no_file_can_show_is_named(harness: Harness, folder: Path) -> None:
    """Nobody can tell from a folder who computed its rankings, and at what cost."""
    edit_record(folder, lambda record: record["retriever"].update(name="theirs"))
    told = harness("verify", reseal(folder))
    assert told.status == 0
    assert "all agree" not in told.out
    assert "not verifiable from files: that the rankings are the system's, its name" in told.out
    assert "ok  checksums" in told.out.splitlines()[0]
    assert "none of rankings.trec" in told.out.splitlines()[0]
