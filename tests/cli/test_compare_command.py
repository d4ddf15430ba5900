"""harness compare: what a person reads, and what is refused."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.__main__ import main
from harness.datasets.reader import Dataset


@pytest.fixture
def runs(sample_run: Callable[..., Path]) -> list[str]:
    """Two runs that compare, and one that does not."""
    made = [("bm25", "turn"), ("bm25-okapi", "turn"), ("bm25", "session")]
    return [str(sample_run(retriever, granularity)) for retriever, granularity in made]


@pytest.mark.slow
def test_two_runs_are_compared_query_by_query_in_every_format(
    runs: list[str], sample: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *runs[:2]]) == 0
    table = capsys.readouterr().out
    assert f"A = {Path(runs[0]).name}\nB = {Path(runs[1]).name}\n\nsetting " in table
    assert "B - A" in table
    assert f"clusters={len(sample.haystack_ids)} haystacks" in table
    assert "No star: not significant; this does not show that the systems are equal." in table
    assert main(["compare", *runs[:2], "--full"]) == 0
    assert "wins/losses/ties" in capsys.readouterr().out
    assert main(["compare", *runs[:2], "--format", "markdown", "--metrics", "recall@10"]) == 0
    assert "| all" in capsys.readouterr().out
    assert main(["compare", *runs[:2], "--format", "latex", "--metrics", "recall@10"]) == 0
    assert "\\toprule" in capsys.readouterr().out
    assert main(["compare", *runs[:2], "--format", "csv", "--metrics", "recall@10"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    row = next(r for r in rows if r["slice"] == "all" and r["level"] == "turn")
    difference = float(row["mean_b"]) - float(row["mean_a"])
    assert float(row["difference"]) == pytest.approx(difference, abs=1e-12)
    assert int(row["wins"]) + int(row["losses"]) + int(row["ties"]) == int(row["n"])


def test_runs_that_do_not_compare_are_refused_with_each_difference_and_shown_apart_on_request(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", runs[0], runs[2]]) == 2
    told = capsys.readouterr().err
    assert "granularity turn / session" in told
    assert told.count("\n") == 1
    assert main(["compare", runs[0], runs[2], "--force"]) == 0
    shown = capsys.readouterr().out
    assert "cannot be compared" in shown
    assert "B - A" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["60", "100", "300", None])
@pytest.mark.parametrize("number", [2, 5])
def test_no_line_is_longer_than_100_characters(
    sample_run: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    columns: str | None,
) -> None:
    """Of two runs, or five, with names and parameters that are longer than a line."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    folders = []
    for at in range(number):
        made = sample_run("bm25" if at % 2 else "tfidf", "turn")
        folders.append(tmp_path / f"{at}-{'a-long-name-' * 12}")
        shutil.copytree(made, folders[-1])
    options = [[], ["--equivalence", "0.02", "--tests", "t,wilcoxon"], ["--categories"]]
    options += [["--queries", "2"]] if number == 2 else []
    for more in options:
        assert main(["compare", *map(str, folders), *more]) == 0
        shown = capsys.readouterr().out
        assert "recall@10" in shown
        # Texts of queries have their own limit, and ids are never cut.
        assert max(map(len, shown.splitlines())) <= 100, more


def test_an_unknown_metric_or_folder_is_one_line(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *runs[:2], "--metrics", "recall@7"]) == 2
    assert "recall@7" in capsys.readouterr().err
    assert main(["compare", runs[0], runs[0] + "-gone"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_of_runs_in_place_of_a_run_is_told_with_those_in_it(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        shutil.copytree(runs[0], tmp_path / "results" / name)
    inside = ", ".join(str(tmp_path / "results" / name) for name in ("one", "two"))
    for command in (["compare", runs[0], tmp_path / "results"], ["score", tmp_path / "results"]):
        assert main([str(word) for word in command]) == 2
        told = capsys.readouterr().err
        assert f"is a folder of runs (2), not a run; name one of them: {inside}\n" in told
