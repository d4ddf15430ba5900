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
    assert rows[1].metrics[0]["units_a"] + rows[1].metrics[0]["units_b"] == 400
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


ODD_LINES = {
    '{"time": 1, "unit": "u", "arm": "a", "faild": "E", "metrics": {}}': "did you mean failed?",
    '{"time": 1, "unit": "u", "arm": "a", "metrics": {"okay": 1}}': "not in the plan; did you mean",
    '{"time": 1, "unit": "u", "arm": "a", "metrics": {"ok": true}}': "must be a number, not True",
    '{"time": true, "unit": "u", "arm": "a", "metrics": {"ok": 1}}': "time must be a number",
    '{"time": 1e300, "unit": "u", "arm": "a", "metrics": {"ok": 1}}': "in seconds since 1970",
    '{"time": -1e18, "unit": "u", "arm": "a", "metrics": {"ok": 1}}': "in seconds since 1970",
    '{"time": 1, "unit": "u", "arm": "a", "metrics": {"ok": 1}, "metrics": {"ok": 0}}': (
        "'metrics' stands twice"
    ),
    '{"time": 1, "unit": "u", "arm": "a", "metrics": {"ok": 1, "ok": 0}}': "'ok' stands twice",
    "[1, 2]": "no JSON object",
}
ODD_CLICKS = {
    '{"time": 1, "unit": "u", "clicks": {"a": 9223372036854775808, "b": 0}}': "clicks 92233",
    '{"time": 1, "unit": "u", "clicks": {"a": 18446744073709551616, "b": 0}}': "clicks 1.8",
    '{"time": 1, "unit": "u", "clicks": {"a": true, "b": 0}}': "clicks True",
    '{"time": 1, "unit": "u", "clicks": {"a": 1, "b": 0, "c": 7}}': "unknown field 'c'",
    '{"time": 1, "unit": "u", "click": {"a": 1, "b": 0}}': "did you mean clicks?",
    '{"time": 1, "unit": "u", "arm": "c", "failed": "E"}': "arm 'c'",
    '{"time": 1e300, "unit": "u", "clicks": {"a": 1, "b": 0}}': "in seconds since 1970",
}


@pytest.mark.parametrize(
    ("plan", "line", "said"),
    [
        *(({"metrics": {"ok": (0, 1)}}, line, said) for line, said in ODD_LINES.items()),
        *(({"interleave": True}, line, said) for line, said in ODD_CLICKS.items()),
    ],
)
def test_a_line_that_the_harness_does_not_write_is_refused_and_told(
    harness: Harness, tmp_path: Path, plan: dict[str, Any], line: str, said: str
) -> None:
    path = tmp_path / "odd.jsonl"
    ABTest("old", "new", name="odd", journal=path, **plan).close()
    with open(path, "a") as journal:
        journal.write(line + "\n")
    found = harness("abtest", path)
    assert found.status == 2
    assert "odd.jsonl, line 2: " in found.err
    assert said in found.err
    assert found.err.count("\n") == 1


def test_a_plan_with_a_key_that_stands_twice_is_refused(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    ABTest("old", "new", name="odd", journal=path).close()
    path.write_text(path.read_text().replace('"split":0.5', '"split":0.9,"split":0.5'))
    found = harness("abtest", path)
    assert (found.status, found.err.count("\n")) == (2, 1)
    assert "line 1: 'split' stands twice" in found.err


def test_a_difference_that_no_number_of_units_would_show_is_refused(
    harness: Harness, tmp_path: Path
) -> None:
    path = tmp_path / "test.jsonl"
    with ABTest("old", "new", name="fine", journal=path) as test:
        for user in range(40):
            test.record(user, {"ok": user % 3 == 0}, time=1.7e9 + user)
    assert harness("abtest", path, "--wanted", "ok=0.01").status == 0
    for wanted in ("1e-300", "-1e-12"):
        found = harness("abtest", path, f"--wanted=ok={wanted}")
        assert (found.status, found.err.count("\n")) == (2, 1)
        assert "the difference wanted in 'ok'" in found.err


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
