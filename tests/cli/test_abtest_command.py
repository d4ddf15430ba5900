"""harness abtest: the report of a journal, from another terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import EXAMPLES

from harness import ABTest

Harness = Callable[..., Any]


def test_a_running_test_is_read_from_another_terminal(harness: Harness, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    running = ABTest("old", "new", name="ranks", journal=tests / "ranks.jsonl", metrics=["click"])
    for user in range(400):
        running.record(user, {"click": user % 2})
    said = harness("abtest", tests / "ranks.jsonl", "--wanted", "click=0.05")
    assert (said.status, said.err) == (0, "")
    assert "A/B test ranks: a = old, b = new, split 50/50" in said.out
    assert "No difference is shown yet" in said.out
    ABTest("old", "new", name="clicks", journal=tests / "a.jsonl", interleave=True).close()
    said = harness("abtest", tests, "--json")
    rows = json.loads(said.out)["reports"]
    assert [row["plan"]["name"] for row in rows] == ["clicks", "ranks"]
    assert rows[1]["metrics"][0]["units_a"] + rows[1]["metrics"][0]["units_b"] == 400
    assert rows[1]["trouble"] == []
    assert "No difference" in rows[1]["conclusion"]
    running.close()


def test_wrong_use_is_one_line(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "other.jsonl").write_text('{"query": "q"}\n')
    ABTest("old", "new", name="bad", journal=tmp_path / "bad.jsonl").close()
    with open(tmp_path / "bad.jsonl", "a") as journal:
        journal.write('{"unit": "u", "arm": "c", "metrics": {}, "time": 1}\n')
    ABTest("old", "new", name="good", journal=tmp_path / "good.jsonl").close()
    for arguments, said in (
        (["missing.jsonl"], "no such file"),
        (["none"], "no journal there"),
        (["other.jsonl"], "not the journal of an A/B test"),
        (["bad.jsonl"], "bad.jsonl, line 2: not a record of this test (arm 'c')"),
        (["good.jsonl", "--wanted", "click"], "expected METRIC=DIFFERENCE"),
        (["good.jsonl", "--wanted", "click=0"], "other than 0"),
        (["good.jsonl", "--level", "95"], "level must be between 0 and 1"),
    ):
        found = harness("abtest", *arguments)
        assert found.status == 2, arguments
        assert said in found.err
        assert found.err.count("\n") == 1


@pytest.mark.docs
def test_the_example_runs_on_the_sample(harness: Harness, tmp_path: Path) -> None:
    example = EXAMPLES / "ab_test.py"
    done = subprocess.run(
        [sys.executable, str(example), "--readers", "200"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = harness("abtest", "ab-test").out
    assert "600 impressions" in said
    assert "600 records of" in said
