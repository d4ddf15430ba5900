"""`harness datasets` and `harness retrievers`: what there is, and what is here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest


def test_datasets_lists_all_families_and_what_is_here(harness: Callable[..., Any]) -> None:
    harness("datasets", "prepare", "sample", "--quiet")
    said = harness("datasets")
    assert (said.status, said.err) == (0, "")
    rows = orjson.loads(harness("datasets", "--json").out)["datasets"]
    names = {row["name"]: row for row in rows}
    assert {"sample", "locomo", "longmemeval/s", "longmemeval/m", "beir/scifact"} <= set(names)
    assert {"msmarco/dev", "msmarco/dl19", "msmarco/qa-v2.1", "labelled"} <= set(names)
    assert names["sample"]["prepared"]
    assert names["longmemeval/s"]["bytes"] == 277_383_467
    assert [n for n in names if n not in said.out and "cqadupstack" not in n] == []


def test_info_verify_and_export_work_on_the_sample(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    said = harness("datasets", "info", "sample")
    assert (said.status, said.err) == (0, "")
    assert "fingerprint: " in said.out
    said = harness("datasets", "info", "longmemeval/m", "--json")  # not here, and not fetched
    assert orjson.loads(said.out)["dataset"]["prepared"] is False
    said = harness("datasets", "verify", "sample")
    assert said.status == 0
    assert "BAD" not in said.out
    for format_ in ("beir", "trec", "jsonl"):
        said = harness("datasets", "export", "sample", "--format", format_, "--out", format_)
        assert (said.status, said.err) == (0, "")
        for line in said.out.splitlines():
            assert (tmp_path / line).is_file()
    # An export is a dataset again.
    said = harness("run", "--dataset", "labelled", "--source", "jsonl", "--retriever", "bm25")
    assert said.status == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prepare", "locomoo"], "unknown dataset 'locomoo'; did you mean locomo"),
        (["prepare", "beir/scifcat"], "did you mean scifact"),
        (["prepare", "scifact"], "did you mean beir/scifact"),
        (["prepare", "/"], "for your own files: --dataset labelled --source /"),
        (["prepare", "longmemeval/l"], "unknown dataset 'longmemeval/l'"),
        (["prepare", "labelled"], "add --source PATH"),
        (["info", "nothing"], "unknown dataset 'nothing'"),
        (["verify", "nothing"], "unknown dataset 'nothing'"),
        (["export", "sample", "--out", "x"], "the following arguments are required: --format"),
        (["export", "sample", "--format", "csv", "--out", "x"], "invalid choice: 'csv'"),
        (["prepare", "locomo", "--source", "/no/where"], "--source /no/where: no such file"),
        (["prepare", "locomo", "--granularity", "word"], "locomo has no granularity 'word'"),
    ],
)
def test_wrong_use_of_datasets_is_one_line(
    harness: Callable[..., Any], tmp_path: Path, arguments: list[str], said: str
) -> None:
    told = harness("datasets", *arguments)
    assert told.status == 2
    assert said in told.err
    assert told.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.extensions
def test_retrievers_are_listed_with_their_parameters(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    rows = orjson.loads(harness("retrievers", "--json").out)["retrievers"]
    named = {row["name"]: row["params"] for row in rows}
    assert {"bm25", "bm25-okapi", "recency", "random", "oracle"} <= set(named)
    assert named["bm25-okapi"] == {"k1": 1.5, "b": 0.75, "epsilon": 0.25, "tokens": "split"}
    there = {row["name"]: (row["installed"], row["install"]) for row in rows}
    assert there["bm25"] == (True, [])
    for name in ("dense", "http", "minilm"):
        installed, command = there[name]
        assert installed or command[0].startswith("pip install")
    (tmp_path / "more.py").write_text(
        "from harness import register_retriever\n"
        '@register_retriever("of-a-plug-in")\ndef find(text, k, depth=3):\n    "Finds things."\n'
    )
    said = harness("retrievers", "--plugin", "more.py")
    assert re.search(r"of-a-plug-in +yes +Finds things\.", said.out)
    said = harness("retrievers", "of-a-plug-in", "--plugin", "more.py")
    assert said.out.startswith("of-a-plug-in: Finds things.")
    assert re.search(r"depth +3", said.out)


@pytest.mark.extensions
@pytest.mark.parametrize("listing", ["datasets", "retrievers"])
def test_a_list_has_one_line_per_entry_in_a_terminal_of_80_columns(
    harness: Callable[..., Any], listing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [row["name"] for row in orjson.loads(harness(listing, "--json").out)[listing]]
    table = harness(listing).out.split("\n\n")[0].splitlines()[2:]
    assert [line.split()[0] for line in table] == [n for n in names if "cqadupstack" not in n]
    assert max(map(len, table)) <= 80


@pytest.mark.slow
def test_a_local_copy_with_the_published_hash_is_the_dataset(
    harness: Callable[..., Any], locomo: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    said = harness("datasets", "prepare", *locomo[1:], "--quiet")
    assert (said.status, said.err) == (0, "")
    # From now on it needs no source, and no result says that it had one.
    said = harness("run", "--dataset", "locomo", "--retriever", "recency", "--limit", 5)
    assert (said.status, said.err) == (0, "")
    assert "NOT the published files" not in said.out


@pytest.mark.slow
def test_other_files_are_a_loud_warning_and_recorded_in_every_result(
    harness: Callable[..., Any], locomo: list[str], tmp_path: Path
) -> None:
    altered = tmp_path / "locomo10.json"
    altered.write_bytes(Path(locomo[3]).read_bytes() + b"\n")
    asked = ("run", "--dataset", "locomo", "--source", altered, "--retriever", "recency")
    said = harness(*asked, "--limit", 5)
    assert said.status == 0
    assert said.err.startswith(f"warning: {altered} (sha256 ")
    assert "is not a published file of locomo" in said.err
    assert said.err.count("\n") == 1
    assert "(NOT the published files)" in said.out
    values = orjson.loads(harness(*asked, "--limit", 6, "--json").out)
    assert values["run"]["dataset"]["published_files"] is False
    assert values["scores"]["dataset"]["published_files"] is False
    said = harness("leaderboard")
    assert "NOT the published files" in said.out
    rows = orjson.loads((tmp_path / "results" / "leaderboard.json").read_bytes())["boards"]
    assert {row["dataset"]["published_files"] for row in rows} == {False}


def test_own_files_have_a_name_that_shows_and_stands_for_them(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    for folder, text in (("one", "the cat sleeps"), ("two", "a dog barks")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "documents.jsonl").write_text(f'{{"id": "d", "text": "{text}"}}\n')
        (tmp_path / folder / "queries.jsonl").write_text('{"id": "q", "text": "cat"}\n')
        (tmp_path / folder / "qrels.trec").write_text("q 0 d 1\n")
    said = harness("datasets", "prepare", "labelled", "--source", "one", "--name", "pets")
    assert (said.status, said.err) == (0, "")
    assert "labelled/pets" in harness("datasets").out
    run = ("run", "--retriever", "bm25", "--dataset", "labelled/pets")
    assert "bm25 on labelled/pets  granularity=document" in harness(*run).out
    assert "note: labelled/pets stands for" in harness(*run, "--source", "two").err
    assert "dog" in _text(harness, tmp_path, "labelled/pets"), "the files that were given last"
    assert harness(*run, "--source", "one").status == 0
    assert "cat" in _text(harness, tmp_path, "labelled/pets"), "and so when they are given again"
    (tmp_path / "one").rename(tmp_path / "gone")
    assert harness(*run).status == 0, "what was prepared from them is still here"
    said = harness("run", "--retriever", "bm25", "--dataset", "labelled/pest")
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert "add --source PATH once" in said.err
    assert "did you mean pets?" in said.err
    said = harness("datasets", "prepare", "sample", "--name", "mine")
    assert (said.status, "sample has its name" in said.err) == (2, True)


def _text(harness: Callable[..., Any], place: Path, name: str) -> str:
    out = place / f"out{len(list(place.glob('out*')))}"
    assert harness("datasets", "export", name, "--format", "beir", "--out", out).status == 0
    return (out / "corpus.jsonl").read_text()
