"""Configs that come with the harness are found by name; examples say where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

TOP = Path(__file__).parents[2]
CONFIGS = sorted(path.stem for path in (TOP / "configs").glob("*.toml"))
EXAMPLES = sorted(
    path.relative_to(TOP / "examples").as_posix()
    for path in (TOP / "examples").rglob("*")
    if path.is_file() and path.suffix not in {".pyc", ".md"}
)


@pytest.mark.parametrize("name", ["sample", "sample.toml"])
def test_a_shipped_config_is_found_by_name_and_a_line_says_so(
    harness: Callable[..., Any], name: str
) -> None:
    said = harness("run", "--config", name, "--json")
    assert said.status == 0
    assert said.err == f"config: {TOP / 'configs' / 'sample.toml'}\n"
    assert orjson.loads(said.out)["scores"]["dataset"]["name"] == "sample"
    assert harness("run", "--config", name, "--quiet").err == ""


def test_one_s_own_file_goes_before_the_shipped_one(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "sample.toml").write_text('dataset = "sample"\nretriever = "bm25"\nk = 7\n')
    named = harness("run", "--config", "sample", "--json")
    assert named.err == "config: sample.toml\n"
    assert orjson.loads(named.out)["run"]["settings"]["k"] == 7
    exact = harness("run", "--config", "sample.toml", "--json")
    assert exact.err == ""
    assert orjson.loads(exact.out)["run"]["settings"]["k"] == 7


def test_a_folder_of_that_name_is_no_config(harness: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "sample").mkdir()
    assert harness("run", "--config", "sample", "--quiet").status == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("leaderbord", "did you mean leaderboard?"),
        ("configs/leaderboard.toml", "did you mean leaderboard?"),
        ("mien.toml", "did you mean mine.toml?"),
        ("there/mien", "did you mean there/mine.toml?"),
        ("xyz", f"bundled configs: {', '.join(CONFIGS)}"),
        ("not/there/xyz", f"bundled configs: {', '.join(CONFIGS)}"),
    ],
)
def test_a_misspelt_name_gets_the_near_ones_of_files_and_of_shipped_configs(
    harness: Callable[..., Any], tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "there").mkdir()
    for folder in (tmp_path, tmp_path / "there"):
        (folder / "mine.toml").write_text('dataset = "sample"\n')
    told = harness("run", "--config", name)
    assert told.status == 2
    assert told.err == f"harness: --config {name}: no such file; {said}\n"


@pytest.mark.parametrize("more", [(), ("",), ("--dataset", "sample", "--retriever", "bm25")])
def test_without_a_name_the_shipped_configs_are_listed_and_nothing_is_run(
    harness: Callable[..., Any], tmp_path: Path, more: tuple[str, ...]
) -> None:
    said = harness("run", "--config", *more)
    assert said.status == 2
    assert said.err == "harness: --config needs a name or a file; nothing was run\n"
    named = [line.split()[0] for line in said.out.splitlines()[2:] if not line.startswith(" ")]
    assert named == CONFIGS
    assert not list(tmp_path.iterdir())


def test_what_a_variable_holds_is_taken_from_where_the_command_is_given(
    harness: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_DATA", "my")
    (tmp_path / "my" / "data").mkdir(parents=True)
    (tmp_path / "my" / "data" / "documents.jsonl").write_text('{"id": "d", "text": "the key"}\n')
    (tmp_path / "my" / "data" / "queries.jsonl").write_text('{"id": "q", "text": "key?"}\n')
    (tmp_path / "my" / "data" / "qrels.jsonl").write_text('{"query": "q", "document": "d"}\n')
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "one.toml").write_text(
        'dataset = "labelled"\nsource = "$HARNESS_DATA/data"\nretriever = "bm25"\n'
    )
    said = harness("run", "--config", "elsewhere/one.toml", "--json")
    assert (said.status, said.err) == (0, "")
    assert orjson.loads(said.out)["scores"]["queries"]["asked"] == 1


def test_examples_are_listed_with_what_they_are(harness: Callable[..., Any]) -> None:
    said = harness("examples")
    assert (said.status, said.err) == (0, "")
    assert [name for name in EXAMPLES if name not in said.out] == []
    assert str(TOP / "examples") in said.out
    rows = orjson.loads(harness("examples", "--json").out)["examples"]
    assert [row["name"] for row in rows] == EXAMPLES
    assert all(row["about"].endswith(".") and Path(row["path"]).is_file() for row in rows)


def test_the_path_of_an_example_is_printed_alone(harness: Callable[..., Any]) -> None:
    said = harness("examples", "ci/gate.toml")
    assert (said.status, said.err) == (0, "")
    assert said.out == f"{TOP / 'examples' / 'ci' / 'gate.toml'}\n"
    said = harness("examples", "comand.py")
    assert said.status == 2
    assert said.err == "harness: unknown example 'comand.py'; did you mean command.py?\n"
