"""What all commands have in common: one form of JSON, silence, width, no option without use."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from output import output_schema

from harness.cli.parser import build_parser
from harness.io.terminal import grid

Harness = Callable[..., Any]


@pytest.fixture
def two(harness: Harness, tmp_path: Path) -> None:
    """Two runs, base and other, some thresholds, and judgements with a run file."""
    for name, retriever in (("base", "bm25"), ("other", "tfidf")):
        run = ("run", "--dataset", "sample", "--retriever", retriever, "--name", name)
        assert harness(*run, "--quiet").status == 0
    Path("gate.toml").write_text("[[at_least]]\nmetric = 'recall@10'\nvalue = 0.1\n")
    Path("a.qrels").write_text("q 0 d 1\n")
    Path("a.trec").write_text("q Q0 d 1 1.0 s\n")
    signature = "recall@10|protocol:memory/1|data:sample#0|unit:turn|text:official|split:test|"
    Path("signature").write_text(f"{signature}slice:all|n:1|queries:all|depth:9|missing:zero|v:0")


PRINTED: dict[str, list[list[str]]] = {
    "run": [["run", "--dataset", "sample", "--retriever", "bm25"], ["score", "base"]],
    "run-list": [["run", "--dataset", "sample", "--retriever", "bm25", "--retriever", "tfidf"]],
    "runs": [["runs"], ["runs", "--archived"]],
    "runs-show": [["runs", "show", "base"]],
    "runs-done": [
        ["runs", "name", "base", "base"],
        ["runs", "clear"],
    ],
    "export": [["export", "base", "--format", "trec", "--out", "base.trec"]],
    "compare": [["compare", "base", "other"]],
    "verify": [["verify", "base"]],
    "analyze": [["analyze", "base"]],
    "report": [["report", "base"]],
    "leaderboard": [["leaderboard"]],
    "gate": [["gate", "base", "--config", "gate.toml"]],
    "score-qrels": [["score", "a.trec", "--qrels", "a.qrels"]],
    "sweep": [
        ["sweep", "--dataset", "sample", "--retriever", "bm25", "--grid", "k1=1,2", "--limit", "40"]
    ],
    "datasets": [["datasets"]],
    "datasets-info": [["datasets", "info", "locomo"], ["datasets", "prepare", "sample"]],
    "datasets-verify": [["datasets", "verify", "sample"]],
    "datasets-export": [["datasets", "export", "sample", "--format", "beir", "--out", "beir"]],
    "retrievers": [["retrievers"]],
    "examples": [["examples"]],
    "check": [["check", "bm25"]],
    "cache": [["cache"]],
    "completion": [["completion", "bash"]],
}


@pytest.mark.slow
def test_json_of_every_command_is_one_object_of_the_form_that_is_written_down(
    harness: Harness, two: None
) -> None:
    forms = Draft202012Validator(output_schema())
    for kind, commands in PRINTED.items():
        for command in commands:
            said = harness(*command, "--json")
            assert said.status == 0, (command, said.err)
            found = orjson.loads(said.out)
            assert found["schema"] == f"harness.{kind}/1"
            assert said.out.count("\n") == 1
            assert not [error.message for error in forms.iter_errors(found)][:1], command


@pytest.mark.slow
def test_quiet_is_silence_where_nothing_is_wrong(harness: Harness, two: None) -> None:
    for commands in PRINTED.values():
        for command in commands:
            said = harness(*command, "--quiet")
            assert (said.status, said.out) == (0, ""), command
            assert "note" not in said.err, command


def _leaves(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    inner = [a for a in top._actions if isinstance(a, argparse._SubParsersAction)]
    for action in inner:
        for one in {id(choice): choice for choice in action.choices.values()}.values():
            yield from _leaves(one)
    if not inner:
        yield top


def test_every_command_has_json_and_quiet() -> None:
    without = {
        one.prog
        for one in _leaves(build_parser(load_all=True))
        for option in ("--json", "--quiet")
        if not any(option in action.option_strings for action in one._actions)
    }
    assert without == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["compare", "base", "other", "--top", "3"], "--top has no effect without --queries"),
        (["compare", "base", "other", "--unpaired", "--tests", "t"], "--tests has no effect with"),
        (["compare", "base", "other", "--unpaired", "--format", "latex"], "not latex"),
        (["compare", "base", "other", "--json", "--format", "csv"], "exclude each other"),
        (["score", "base", "--k", "5", "--strict"], "--k, --strict have no effect for a run"),
        (["score", "a.trec", "--qrels", "a.qrels", "--split", "dev"], "--split has no effect with"),
        (["analyze", "base", "--rules"], "--rules prints only the rules"),
        (["analyze", "base", "--json", "--examples", "9"], "--examples has no effect with --json"),
        (["leaderboard", "--source", "x"], "--source has no effect without `add FOLDER`"),
        (["leaderboard", "--json", "--format", "markdown"], "--format has no effect with --json"),
        (["gate", "base", "--config", "g.toml", "--json", "--format", "csv"], "not allowed with"),
        (["gate", "base", "--config", "gate.toml", "--baseline", "base"], "own baseline"),
        (["score", "base", "--text", "dated"], "--text has no effect for a run"),
        (["compare", "base", "other", "--seed", "1", "--seed", "2"], "--seed: is given twice"),
        (["compare", "base", "other", "--metric", "map"], "did you mean --metrics"),
        (["comparee", "base"], "unknown command 'comparee'; did you mean compare"),
        (["datasets", "verify", "sample", "--rebuild"], "--rebuild has no effect here"),
        (["datasets", "info", "sample", "--rebuild"], "--rebuild has no effect without --source"),
        (
            ["run", "--dataset", "sample", "--retriever", "bm25", "--resume", "--overwrite"],
            "--overwrite repeats a run and --resume continues",
        ),
        (
            ["run", "--dataset=sample", "--retriever=bm25", "--retriever=tfidf", "--name=x"],
            "--name has no effect for a list, in a --config",
        ),
    ],
)
def test_an_option_that_would_change_nothing_is_refused_in_one_line(
    harness: Harness, two: None, command: list[str], said: str
) -> None:
    told = harness(*command)
    assert (told.status, told.out) == (2, "")
    assert said in told.err
    assert told.err.count("\n") == 1


@pytest.mark.slow
def test_no_table_is_wider_than_the_terminal(
    harness: Harness, two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of a table; sentences around them are broken by the terminal itself."""
    for width in (60, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        for command in (
            ["runs"],
            ["compare", "base", "other"],
            ["leaderboard"],
            ["datasets"],
            ["retrievers"],
            ["verify", "base"],
            ["analyze", "base", "--examples", "0"],
            ["score", "base", "--full"],
            ["score", "base"],
        ):
            lines = harness(*command).out.splitlines()
            rules = [at for at, line in enumerate(lines) if line and not line.strip("- ")]
            assert rules, command
            for at in rules:
                table = lines[at - 1 : at + 2]
                assert max(map(len, table)) <= width, (width, command, table)


def test_what_does_not_fit_side_by_side_stands_below_each_other_and_nothing_is_lost() -> None:
    rows = [[f"row {i}", *(f"{i}.{j}000" for j in range(12))] for i in range(3)]
    heads = ["name", *(f"metric@{j}" for j in range(12))]
    text = grid(rows, heads, width=50)
    assert max(map(len, text.splitlines())) <= 50
    for cell in {*heads, *(cell for row in rows for cell in row)}:
        assert cell in text
    tables = text.split("\n\n")
    assert len(tables) > 2
    assert all(table.startswith("name") and table.count("\nrow ") == 3 for table in tables)
    assert grid(rows, heads, width=500).count("name") == 1


@pytest.mark.slow
def test_a_shell_completes_commands_options_runs_and_retrievers(two: None, tmp_path: Path) -> None:
    """As bash asks: the line and the place of the cursor in variables, answers on descriptor 8."""

    def completed(line: str) -> set[str]:
        out = tmp_path / "answers"
        env = os.environ | {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
            "_ARGCOMPLETE_IFS": "\n",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "COMP_TYPE": "9",
        }
        command = [sys.executable, "-m", "harness"]
        subprocess.run(command, env=env, cwd=tmp_path, check=True, capture_output=True)
        return {word.strip() for word in out.read_text().split("\n")}

    assert {"compare", "completion"} <= completed("harness comp")
    assert {"base", "other"} <= completed("harness compare ")
    assert completed("harness run --retriever bm") >= {"bm25", "bm25-okapi"}
    assert "--overwrite" in completed("harness run --ov")
