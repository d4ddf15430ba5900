"""The page on run folders has every file, column and key of real runs, and no other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from docs_blocks import ROOT
from docs_figures import load
from docs_tables import differences, documented, paths
from mteb_files import write
from polling import HANGS

from harness.io.records import read_json_record
from harness.records.run import RunRecord
from harness.records.scores import ScoreReport

PAGE = ROOT / "docs" / "reference" / "formats" / "run-folder.md"

_MEMORY = """
import harness


class Memory:
    revision = "r1"

    def __init__(self):
        self.asked = 0

    def index(self, corpus):
        self.corpus = corpus

    def search(self, queries, k):
        self.asked += 1
        if self.asked == 3:
            raise ValueError("no")
        found = list(self.corpus)[:k]
        hits = [harness.Hit(one.text[:40], [one.id], -i) for i, one in enumerate(found)]
        return [harness.Result(hits=hits, confidence=0.5, answer="so") for _ in queries]

    def report(self):
        return {"calls": self.asked, "models": {"m": {"prompt_tokens": self.asked}}}


class Kept(Memory):
    "Takes in once, and answers with nothing."

    def save(self, folder):
        (folder / "none.txt").touch()

    def load(self, folder):
        pass

    def search(self, queries, k):
        return [[] for _ in queries]
"""

_OWN = {
    "documents": '{"id": "d1", "text": "Ada moved to Lisbon"}\n{"id": "d2", "text": "a cat"}\n',
    "queries": '{"id": "q1", "text": "where did Ada move?", "answers": ["Lisbon"]}\n',
    "qrels": '{"query": "q1", "document": "d1"}\n',
}


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr


@pytest.mark.docs
@pytest.mark.usefixtures("home", "weights")
def test_the_page_has_every_file_column_and_key_of_run_folders_and_no_other(
    tmp_path: Path, harness: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def command(*arguments: str, status: int = 0) -> None:
        told = harness(*arguments, "--quiet")
        assert told.status == status, told.err

    (work / "memory.py").write_text(_MEMORY)
    _run("git", "init", "-q")
    _run("git", "add", "memory.py")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    _run("git", *who, "commit", "-qm", "a memory")
    sample = ("run", "--dataset", "sample", "--limit", "8", "--k", "5")
    command(
        *sample,
        "--retriever",
        "memory.py:Memory",
        "--submitted-by",
        "me",
        "--name",
        "mine",
        status=1,
    )
    again = (*sample, "--retriever", "memory.py:Memory", "--seed", "1")
    (work / "prices.toml").write_text('["*"]\nprompt_tokens = 1\n')
    limits = ("--query-timeout", "60", "--index-timeout", "60")
    again = (*again, *limits, "--prices", "prices.toml")
    command(*again, status=1)
    command(*again, "--resume")  # asks the question that failed once more
    command(*sample, "--retriever", "memory.py:Kept", status=1)  # nothing was found
    again_kept = (*sample, "--retriever", "memory.py:Kept", "--batch-size", "3", "--retries", "1")
    command(*again_kept, "--overwrite", status=1)
    command("run", "--dataset", "changes", "--retriever", "bm25")
    # Few documents, as each of them is embedded.
    (work / "own").mkdir()
    for name, lines in _OWN.items():
        (work / "own" / f"{name}.jsonl").write_text(lines)
    command("run", "--dataset", "labelled", "--source", "own", "--retriever", "bm25")
    own = next((work / "results").glob("labelled-*"))
    command("score", str(own), "--source", "own", "--answers", "--semantic")
    rankings = str(own / "rankings.trec")
    command("score", rankings, "--dataset", "labelled", "--source", "own", "--name", "theirs")
    (work / "logs").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        program = (sys.executable, str(ROOT / "examples" / "log_requests.py"))
        _run(*program, f"logs/{name}", "--asked", "30")
    command("score", "logs", "--log", "--dataset", "sample", "--name", "log")

    (work / "per_question.json").write_text(
        '[{"qid": "e47becba", "s1_top5_ids": [], "s2_top5_ids": ["answer_280352e9"]}]'
    )
    command("score", "per_question.json", "--dataset", "longmemeval/s-ids")
    tables = {
        f"{subset}-{name}": rows
        for subset in ("tea", "rye")
        for name, rows in (
            ("corpus", [{"id": subset, "title": "", "text": subset}]),
            ("queries", [{"id": subset, "text": subset}]),
            ("qrels", [{"query-id": subset, "corpus-id": subset, "score": 1}]),
        )
    }
    write(work / "subsets", tables)
    command("run", "--dataset", "mteb/mine", "--source", "subsets", "--retriever", "bm25")

    results = (work / "results").iterdir()
    folders = [folder for folder in results if folder.suffix != ".previous"]
    wrong = _files(folders)
    for name in ("rankings", "queries", "hits", "scores", "semantic"):
        wrong |= _columns(folders, f"{name}.parquet")
    # The pages generate the keys of these records, which are refused with any other key.
    for folder in folders:
        read_json_record(folder / "run.json", RunRecord)
        if (folder / "scores.json").is_file():
            read_json_record(folder / "scores.json", ScoreReport)
    feedback = [f / "feedback.json" for f in folders if (f / "feedback.json").is_file()]
    found = {path for file in feedback for path in paths(load(file))}
    wrong |= differences(documented(PAGE, "feedback.json"), found)
    (failed,) = (f / "errors.jsonl" for f in folders if (f / "errors.jsonl").is_file())
    keys = {key for line in failed.read_text("utf-8").splitlines() for key in json.loads(line)}
    wrong |= keys ^ set(documented(PAGE, "errors.jsonl"))
    text = PAGE.read_text("utf-8")
    reasons = {r for f in folders for one in load(f / "excluded.json").values() for r in one}
    wrong |= {f"excluded.json: {r}" for r in reasons if r not in " ".join(text.split())}
    assert wrong == set()


def _files(folders: list[Path]) -> set[str]:
    there = {file.name for folder in folders for file in folder.iterdir()}
    return there ^ set(documented(PAGE, "Files"))


def _columns(folders: list[Path], name: str) -> set[str]:
    """Columns that stand only in the table or only in files; metrics have one row in the table."""
    there: set[str] = set()
    for folder in folders:
        if (folder / name).is_file():
            there |= set(pq.read_schema(folder / name).names)
    known = set(documented(PAGE, name))
    metrics = {
        column for column in there if "@" in column or column in ("map", "mrr", "ndcg", "rprec")
    }
    if metrics and "METRIC" in known:
        there = there - metrics | {"METRIC"}
    return {f"{name}: {column}" for column in there ^ known}
