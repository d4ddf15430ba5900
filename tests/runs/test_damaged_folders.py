"""A damaged run folder gives the numbers of the whole one, or a line that says what is wrong."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from damaged import damage

from harness.datasets.reader import Dataset
from harness.runs.folder.score_folder import score_run

COMMANDS = (
    ("compare", "{run}", "{other}", "--json"),
    ("leaderboard", "--results", "{results}", "--json"),
    ("runs", "--results", "{results}", "--json"),
    ("report", "{run}", "--out", "{results}/page.html", "--share", "--json"),
    ("gate", "{run}", "--config", "{results}/gate.toml", "--json"),
    ("export", "{run}", "--format", "jsonl", "--out", "{results}/out.jsonl"),
    ("verify", "{run}", "--json"),
    ("score", "{run}", "--json"),
)
NUMBERS = ("compare", "gate")


def tried(
    numbers: range,
    harness: Callable[..., Any],
    made: tuple[Path, Path],
    place: Path,
) -> Counter[str]:
    """What came of so many damages: told, or the same; fails at another number or a traceback."""
    found: Counter[str] = Counter()
    wanted: dict[str, str] = {}
    for number in (-1, *numbers):
        results = place / "results"
        shutil.rmtree(results, ignore_errors=True)
        run, other = (Path(shutil.copytree(one, results / one.name)) for one in made)
        (results / "gate.toml").write_text('[[at_least]]\nmetric = "recall@10"\nvalue = 0.1\n')
        what = "whole" if number < 0 else damage(run, number)
        names = {"run": str(run), "other": str(other), "results": str(results)}
        for command in COMMANDS:
            words = [word.format(**names) for word in command]
            told = harness(*words)  # which raises what is no status
            about = f"seed {number}, {what}: {' '.join(command)}"
            assert told.status in (0, 1, 2), about
            assert "Traceback" not in told.err, f"{about}\n{told.err}"
            if told.status:
                found["told"] += 1
            elif command[0] in NUMBERS:
                said = _numbers(told.out)
                assert wanted.setdefault(command[0], said) == said, f"{about}: another number"
                found["the same"] += 1
    return found


def _numbers(out: str) -> str:
    """What a command says in numbers: names and settings aside."""
    told = orjson.loads(out)
    if "groups" in told:
        return repr([group["tables"] for group in told["groups"]])
    return repr(told["checks"])


@pytest.fixture
def made(sample_run: Callable[..., Path], sample: Dataset, tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of 40 questions, scored."""
    found = []
    for name in ("bm25", "tfidf"):
        run = sample_run(name, limit=40)
        found.append(Path(shutil.copytree(run, tmp_path / "made" / run.name)))
        score_run(found[-1], sample)
    return found[0], found[1]


@pytest.mark.slow
def test_some_damages_are_told_or_change_nothing(
    harness: Callable[..., Any], made: tuple[Path, Path], tmp_path: Path
) -> None:
    assert tried(range(12), harness, made, tmp_path)["told"] > 5
