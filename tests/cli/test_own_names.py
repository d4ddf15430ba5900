"""Retrievers of one's own by plain name: a file beside the user, and what a project registers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

pytestmark = pytest.mark.usefixtures("home")

ONE = """
class {name}:
    def index(self, corpus):
        self.n = len(corpus)

    def search(self, queries, k):
        return [range(min(k, self.n)) for _ in queries]
"""
RUN = ("run", "--dataset", "sample", "--limit", 4, "--retriever")


def _record(said: Any) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(said.out)["run"]
    return found


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (ONE.format(name="Memory"), "Memory"),
        ("def retrieve(text, k, corpus):\n    return corpus.handles[:k]\n", "retrieve"),
        (ONE.format(name="_Base") + "class Memory(_Base):\n    pass\n", "Memory"),
        ("from collections import Counter\n" + ONE.format(name="Memory"), "Memory"),
    ],
)
def test_a_name_that_is_nothing_else_is_the_only_retriever_of_its_file(
    harness: Callable[..., Any], tmp_path: Path, text: str, taken: str
) -> None:
    name = f"own_{taken.lower()}_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    said = harness(*RUN, name, "--json")
    assert said.status == 0
    assert said.err == f"note: --retriever {name} is {name}.py:{taken}\n"
    record = _record(said)
    assert record["retriever"]["name"] == f"{name}.py:{taken}"
    assert list(record["retriever"]["files"]) == [f"{name}.py"]
    assert f"--retriever {name}.py:{taken} " in record["command"]
    assert harness("check", name).status == 0


def test_what_the_file_registers_under_the_name_comes_first(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    registered = "\nimport harness\n@harness.register_retriever('own_registered')\n"
    text = ONE.format(name="First") + registered + ONE.format(name="Second").lstrip()
    (tmp_path / "own_registered.py").write_text(text)
    record = _record(harness(*RUN, "own_registered", "--json"))
    assert record["retriever"]["name"] == "own_registered"
    assert list(record["retriever"]["files"]) == ["own_registered.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            ONE.format(name="A") + ONE.format(name="B"),
            "own_odd.py holds several; name one of own_odd.py:A, own_odd.py:B",
        ),
        (
            ONE.format(name="A") + "\ndef retrieve(text, k):\n    return []\n",
            "name one of own_odd.py:A, own_odd.py:retrieve",
        ),
        ("def other(text, k):\n    return []\n", "has no class with index(corpus) and search("),
        ("import nowhere_at_all\n", "No module named 'nowhere_at_all'"),
    ],
)
def test_a_file_that_does_not_say_which_one_is_refused_in_a_line(
    harness: Callable[..., Any], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "own_odd.py").write_text(text)
    told = harness(*RUN, "own_odd")
    assert told.status == 2
    assert said in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_without_such_a_file_the_error_says_so(harness: Callable[..., Any]) -> None:
    said = harness(*RUN, "own_missing")
    assert said.status == 2
    assert "name it as own_missing.py:CLASS" in said.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\nname = "x"\n[tool.harness]\nplugins = ["code/regs.py"]\n'),
        ("harness.toml", 'plugins = ["code/regs.py"]\n'),
    ],
)
def test_a_project_registers_for_every_folder_below_it_and_every_process(
    harness: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    text: str,
) -> None:
    name = f"of-{file.partition('.')[0]}"
    below = tmp_path / "notes" / "today"
    (tmp_path / "code").mkdir()
    below.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    (tmp_path / "code" / "regs.py").write_text(
        f"import harness\n@harness.register_retriever({name!r})" + ONE.format(name="Mine")
    )
    monkeypatch.chdir(below)
    alone = _record(harness(*RUN, name, "--json"))
    assert list(alone["retriever"]["files"]) == ["regs.py"]
    assert alone["command"].endswith("--plugin ../../code/regs.py --limit 4")
    inside = ["--param", f"retrievers=bm25,{name}", "--workers", 2, "--json"]
    fused = _record(harness(*RUN, "hybrid", *inside))
    assert list(fused["retriever"]["files"]) == ["regs.py"]
    assert "files" not in _record(harness(*RUN, "bm25", "--json"))["retriever"]
    assert name in harness("retrievers").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('plugin = ["mine.py"]', "plugin: unknown field; did you mean plugins?"),
        ('plugins = "mine.py"', "plugins: expected list, got str"),
        ('plugins = ["none.py"]', "plugins names none.py, which is not there"),
        ("plugins = [", "not valid TOML"),
    ],
)
def test_a_project_that_says_it_wrongly_is_told_in_a_line(
    harness: Callable[..., Any], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = {  # somebody else's, broken\n")
    (tmp_path / "harness.toml").write_text(text)
    told = harness(*RUN, "bm25")
    assert told.status == 2
    assert said in told.err
    assert told.err.startswith(f"harness: {tmp_path / 'harness.toml'}: ")
    assert told.err.count("\n") == 1


def test_a_dataset_that_cannot_be_had_says_where_a_person_gets_it_and_what_to_type(
    harness: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = harness("run", "--dataset", "longmemeval", "--retriever", "bm25", "--k", 5)
    assert said.status == 1
    assert "in a browser it is at https://" in said.err
    assert said.err.endswith(
        "with it: harness run --dataset longmemeval --retriever bm25 --k 5 "
        "--source longmemeval_s_cleaned.json\n"
    )
    assert said.err.count("\n") == 1
