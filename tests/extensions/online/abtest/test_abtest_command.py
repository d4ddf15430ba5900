"""harness abtest: the report of an event log, from another terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import EXAMPLES
from polling import HANGS

from harness import ABTest

pytestmark = pytest.mark.extensions

Harness = Callable[..., Any]
BOUNDS = {"click": (0, 1)}


def test_a_running_test_is_read_from_another_terminal(harness: Harness, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    running = ABTest("old", "new", name="ranks", log=tests / "ranks.jsonl", metrics=BOUNDS)
    for user in range(400):
        running.record(user, {"click": user % 2})
    said = harness("abtest", tests / "ranks.jsonl", "--min-effect", "click=0.05")
    assert (said.status, said.err) == (0, "")
    assert "A/B test ranks: a = old, b = new, split 50/50" in said.out
    assert "No significant difference yet" in said.out
    ABTest("old", "new", name="clicks", log=tests / "a.jsonl", interleave=True).close()
    said = harness("abtest", tests, "--json")
    rows = json.loads(said.out)["reports"]
    assert [row["plan"]["name"] for row in rows] == ["clicks", "ranks"]
    assert rows[1]["metrics"][0]["units_a"] + rows[1]["metrics"][0]["units_b"] == 400
    assert rows[1]["errors"] == []
    assert "No significant difference" in rows[1]["conclusion"]
    running.close()


def test_wrong_use_is_one_line(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "other.jsonl").write_text('{"query": "q"}\n')
    (tmp_path / "empty.jsonl").touch()
    ABTest("old", "new", name="bad", log=tmp_path / "bad.jsonl").close()
    with open(tmp_path / "bad.jsonl", "a") as log:
        log.write('{"unit_id": "u", "arm": "c", "metrics": {}, "time": 1}\n')
    ABTest("old", "new", name="good", log=tmp_path / "good.jsonl").close()
    for arguments, said in (
        (["missing.jsonl"], "no such file"),
        (["none"], "this folder has no event log"),
        (["other.jsonl"], "not the event log of an A/B test"),
        (["empty.jsonl"], "not the event log of an A/B test (the file is empty)"),
        (["bad.jsonl"], "bad.jsonl, line 2: arm: invalid enum value 'c'"),
        (["good.jsonl", "--min-effect", "click"], "--min-effect takes key=value"),
        (["good.jsonl", "--min-effect", "click=0"], "other than 0"),
        (["good.jsonl", "--level", "95"], "level must be between 0 and 1"),
    ):
        found = harness("abtest", *arguments)
        assert found.status == 2, arguments
        assert said in found.err
        assert found.err.count("\n") == 1


ODD_LINES = {
    '{"time": 1, "unit_id": "u", "arm": "a", "eror": "E", "metrics": {}}': "did you mean error?",
    '{"time": 1, "unit_id": "u", "arm": "a", "metrics": {"okay": 1}}': (
        "not in the plan; did you mean"
    ),
    '{"time": 1, "unit_id": "u", "arm": "a", "metrics": {"ok": true}}': "expected float, got bool",
    '{"time": true, "unit_id": "u", "arm": "a", "metrics": {"ok": 1}}': "time: expected float",
    '{"time": 1e300, "unit_id": "u", "arm": "a", "metrics": {"ok": 1}}': "time: expected float",
    '{"time": -1e18, "unit_id": "u", "arm": "a", "metrics": {"ok": 1}}': "time: expected float",
    "[1, 2]": "expected object, got list",
}
ODD_CLICKS = {
    '{"time": 1, "unit_id": "u", "clicks": {"a": 9223372036854775808, "b": 0}}': (
        "clicks.a: expected int"
    ),
    '{"time": 1, "unit_id": "u", "clicks": {"a": 18446744073709551616, "b": 0}}': (
        "clicks.a: expected int"
    ),
    '{"time": 1, "unit_id": "u", "clicks": {"a": true, "b": 0}}': "clicks.a: expected int",
    '{"time": 1, "unit_id": "u", "clicks": {"a": 1, "b": 0, "c": 7}}': "clicks.c: unknown field",
    '{"time": 1, "unit_id": "u", "click": {"a": 1, "b": 0}}': "did you mean clicks?",
    '{"time": 1, "unit_id": "u", "arm": "c", "error": "E"}': "arm: invalid enum value 'c'",
    '{"time": 1e300, "unit_id": "u", "clicks": {"a": 1, "b": 0}}': "time: expected float",
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
    ABTest("old", "new", name="odd", log=path, **plan).close()
    with open(path, "a") as log:
        log.write(line + "\n")
    found = harness("abtest", path)
    assert found.status == 2
    assert "odd.jsonl, line 2: " in found.err
    assert said in found.err
    assert found.err.count("\n") == 1


def test_a_difference_that_no_number_of_units_would_show_is_refused(
    harness: Harness, tmp_path: Path
) -> None:
    path = tmp_path / "test.jsonl"
    with ABTest("old", "new", name="fine", log=path) as test:
        for user in range(40):
            test.record(user, {"ok": user % 3 == 0}, time=1.7e9 + user)
    assert harness("abtest", path, "--min-effect", "ok=0.01").status == 0
    for wanted in ("1e-300", "-1e-12"):
        found = harness("abtest", path, f"--min-effect=ok={wanted}")
        assert (found.status, found.err.count("\n")) == (2, 1)
        assert "the minimum effect of 'ok'" in found.err


@pytest.mark.docs
def test_the_example_runs_on_the_sample(harness: Harness, tmp_path: Path) -> None:
    example = EXAMPLES / "ab_test.py"
    done = subprocess.run(
        [sys.executable, str(example), "--readers", "200"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    said = harness("abtest", "ab-test").out
    assert "600 impressions" in said
    assert "600 records of" in said
