"""`harness run --config` takes a list of datasets and systems; a failure costs its own run only."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from harness.__main__ import main

FAILS = """
class Fails:
    def index(self, corpus):
        raise MemoryError("too much")

    def search(self, queries, k):
        return []
"""


def config(folder: Path, more: str = "") -> str:
    (folder / "mine").mkdir()
    (folder / "mine" / "documents.jsonl").write_text(
        "".join(f'{{"id": "d{i}", "text": "note number{i}"}}\n' for i in range(30))
    )
    (folder / "mine" / "queries.jsonl").write_text('{"id": "q", "text": "number7"}\n')
    (folder / "mine" / "qrels.jsonl").write_text('{"query": "q", "document": "d7"}\n')
    (folder / "fails.py").write_text(FAILS)
    (folder / "list.toml").write_text(
        f"""
out = "{folder / "runs"}"
k = 20
[[datasets]]
dataset = "sample"
limit = 20
[[datasets]]
dataset = "labelled"
source = "$MY_FILES/mine"
[[retrievers]]
retriever = "fails.py:Fails"
only = ["sample"]
[[retrievers]]
retriever = "bm25"
params = {{k1 = 0.9}}
[[retrievers]]
retriever = "recency"
k = 10
{more}
"""
    )
    return str(folder / "list.toml")


@pytest.mark.slow
def test_every_pair_is_run_and_the_board_holds_those_that_went_well(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = config(tmp_path)
    monkeypatch.setenv("MY_FILES", str(tmp_path))
    assert main(["run", "--config", path, "--quiet"]) == 1
    told = capsys.readouterr()
    assert "fails.py:Fails on sample: all 20 queries failed" in told.err
    boards = orjson.loads((tmp_path / "runs" / "leaderboard.json").read_bytes())["boards"]
    found = {
        (board["dataset"]["name"], entry["system"], board["depth"], board["queries"]["n"])
        for board in boards
        for entry in board["entries"]
    }
    assert found == {
        ("sample", "bm25", 20, 16),  # of the 20 that are asked four have no answer
        ("sample", "recency", 10, 16),
        ("labelled", "bm25", 20, 1),
        ("labelled", "recency", 10, 1),
    }
    entries = [entry for board in boards for entry in board["entries"]]
    assert {e["distinct_params"]["k1"] for e in entries if e["system"] == "bm25"} == {0.9}
    # What is finished is not run again, and the command line goes over the file.
    assert main(["run", "--config", path, "--resume", "--limit", "5"]) == 1
    table = capsys.readouterr().out
    assert [line.split()[:2] for line in table.splitlines()[2:7]] == [
        ["sample", "fails.py:Fails"],
        ["sample", "bm25"],
        ["sample", "recency"],
        ["labelled", "bm25"],
        ["labelled", "recency"],
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("colour = 3", "unknown key 'colour'"),
        ('only = ["locomo"]', "must list datasets of this file: labelled, sample"),
        ("k = 0", "--k must be 1 or more"),
        ("params = {kk = 1}", "has no parameter 'kk'"),
        ('[[datasets]]\ndataset = "sampel"', "unknown dataset 'sampel'; did you mean sample"),
        ('[[retriever]]\nretriever = "bm25"', r"a list of them is \[\[retrievers\]\]"),
        ("", r"set the variable of the environment in '\$MY_FILES/mine'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_run(
    more: str, said: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, f'[[retrievers]]\nretriever = "tfidf"\n{more}')
    if more:
        text = Path(path).read_text().replace("$MY_FILES", str(tmp_path))
        Path(path).write_text(text)
    assert main(["run", "--config", path]) == 2
    assert re.search(said, capsys.readouterr().err)
    assert not (tmp_path / "runs").exists()
