"""harness label, as a user types it: from documents and queries to a run on the dataset."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from polling import HANGS

from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.session import AnnotationSession

Harness = Callable[..., Any]

DOCUMENTS = {
    "ferry.md": "# Timetable\n\nThe ferry to Bastø leaves at seven.",
    "dentist.txt": "The dentist moved me to Friday.",
    "late.txt": "The ferry was late, and so was I.",
}
QUERIES = "When does the ferry leave?\nWhen is the dentist?\n\nWho is the captain?\n"


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of texts, and queries one a line."""
    (tmp_path / "docs").mkdir()
    for name, text in DOCUMENTS.items():
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    (tmp_path / "queries.txt").write_text(QUERIES, "utf-8")
    return tmp_path / "docs", tmp_path / "queries.txt"


def judge(folder: Path, annotator: str, grade: int) -> None:
    """Grades every candidate, and marks queries without one as unanswerable."""
    session = AnnotationSession(folder, annotator)
    for one in list(session.items):
        if one.document is None:
            session.annotate(Annotation(query=one.query, unanswerable=True))
        else:
            session.annotate(Annotation(query=one.query, document=one.document, grade=grade))


def test_from_documents_to_a_table(harness: Harness, sources: Any, tmp_path: Path) -> None:
    pool = ("label", "start", *sources, "--retriever", "bm25", "--retriever", "tfidf", "--k", 2)
    said = harness(*pool, "--pool-only")
    assert said.status == 0
    size = re.search(r"labels: 3 queries, (\d+) candidates from the top 2 of bm25, tfidf", said.out)
    assert size
    assert "1 of the 3 queries have no candidate" in said.err
    assert "labels continues" in (out := harness(*pool, "--pool-only").out)
    assert "added nothing" in out
    judge(tmp_path / "labels", "ann", 3)
    bob = AnnotationSession(tmp_path / "labels", "bob")
    for query in dict.fromkeys(one.query for one in bob.items):
        bob.annotate(Annotation(query=query, unanswerable=True))

    said = harness("label", "status", "--metric", "ndcg@2")
    assert said.status == 0
    assert re.search(r"^ann +\d+ +\d+ +", said.out, re.M)
    assert "next: harness label adjudicate labels" in said.out
    status = orjson.loads(harness("label", "status", "--json").out)
    assert status["conflicts"]["open"]["cannot be answered"] >= 1

    said = harness("label", "export")
    assert said.status == 2
    assert "harness label adjudicate labels" in said.err
    said = harness("label", "export", "--conflicts", "higher", "--out", "mine")
    assert said.status == 0
    said = harness("run", "--dataset", "labelled", "--source", "mine", "--retriever", "bm25")
    assert (said.status, said.err) == (0, "")
    assert "recall@" in said.out


def test_parameters_of_a_retriever_stand_behind_its_name(
    harness: Harness, sources: Any, tmp_path: Path
) -> None:
    named = ("bm25:k1=0.9,b=0.4", "hybrid:retrievers=bm25,tfidf,k0=30")
    both = [part for name in named for part in ("--retriever", name)]
    assert harness("label", "start", *sources, *both, "--pool-only", "--out", "l").status == 0
    systems = orjson.loads((tmp_path / "l" / "label.json").read_bytes())["systems"]
    assert [one["params"] for one in systems] == [
        {"k1": 0.9, "b": 0.4},
        {"retrievers": "bm25,tfidf", "k0": 30},
    ]
    again = harness(
        "label", "start", *sources, "--retriever", "bm25:b=0.4,k1=0.9", "--pool-only", "--out", "l"
    )
    assert "added nothing" in again.out


def test_the_page_is_served_and_ends_with_ctrl_c(sources: Any, tmp_path: Path) -> None:
    import signal
    from http.client import HTTPConnection

    command = [sys.executable, "-m", "harness", "label", "start", *map(str, sources)]
    command += ["--retriever", "bm25", "--retriever", "tfidf", "--no-open", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as serving:
        assert serving.stdout is not None
        lines = iter(serving.stdout.readline, "")
        address = next(line.split()[0] for line in lines if line.startswith("http"))
        port = int(address.rstrip("/").rpartition(":")[2])
        connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
        connection.request("GET", "/")
        assert b"<title>Label labels</title>" in connection.getresponse().read()
        serving.send_signal(signal.SIGINT)
        _, errors = serving.communicate(timeout=HANGS)
    assert serving.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("start", "nowhere", "queries.txt", "--retriever", "bm25"), "no such file or folder"),
        (("start", "docs", "nowhere.txt", "--retriever", "bm25"), "nowhere.txt: no such file"),
        (("start", "docs", "docs", "--retriever", "bm25"), "a file of queries"),
        (("start", "docs", "queries.txt"), "--retriever is missing"),
        (("start", "docs", "queries.txt", "--retriever", "bm52"), "did you mean"),
        (("start", "docs", "queries.txt", "--retriever", "bm25:k2=1"), "no parameter 'k2'"),
        (("start", "docs", "queries.txt", "--retriever", ":k1=1"), "has no name"),
        (("start", "docs", "queries.txt", "--retriever", "bm25", "--k", "0"), "--k must be 1"),
        (("start", "docs", "queries.txt", "--retriever", "bm25", "--overlap", "2"), "--overlap"),
        (("start", "docs", "queries.txt", "--retriever", "bm25", "--overlap", "nan"), "--overlap"),
        (
            ("start", "docs", "queries.txt", "--retriever", "bm25", "--annotator", "a b"),
            "use letters",
        ),
        (("start", "docs", "queries.txt", "--retriever", "bm25", "--out", "queries.txt"), "a file"),
        (
            ("start", "docs", "queries.txt", "--retriever", "bm25", "--pool-only", "--no-open"),
            "no effect with --pool-only",
        ),
        (
            (
                "start",
                "docs",
                "queries.txt",
                "--retriever",
                "bm25",
                "--pool-only",
                "--annotator",
                "a",
            ),
            "--pool-only",
        ),
        (
            ("start", "docs", "queries.txt", "--retriever", "bm25", "--retriever", "bm25"),
            "bm25 is given twice",
        ),
        (
            ("start", "docs", "queries.txt", "--retriever", "bm25", "--relevance-level", "4"),
            "is a grade, 1, 2 or 3",
        ),
        (
            ("generate", "docs", "--out", "o", "--concurrency", "2"),
            "--concurrency has no effect without --model",
        ),
        (("open", "nowhere"), "not a labelling project"),
        (("open", "docs"), "not a labelling project"),
        (("open", "--port", "70000"), "--port must be"),
        (("adjudicate", "nowhere"), "not a labelling project"),
        (("status", "nowhere"), "not a labelling project"),
        (("export", "nowhere"), "not a labelling project"),
        (("export", "--conflicts", "magic"), "invalid choice"),
        ((), "required"),
    ],
)
def test_wrong_use_is_one_line(
    harness: Harness, sources: Any, arguments: tuple[str, ...], words: str
) -> None:
    said = harness("label", *arguments)
    assert (said.status, said.out) == (2, "")
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_a_damaged_project_is_one_line(harness: Harness, sources: Any, tmp_path: Path) -> None:
    harness("label", "start", *sources, "--retriever", "bm25", "--pool-only")
    (tmp_path / "labels" / "annotations").mkdir()
    (tmp_path / "labels" / "annotations" / "ann.jsonl").write_text('{"query": 1}\n{}\n')
    said = harness("label", "status")
    assert said.status == 2
    assert "ann.jsonl, line 1: query: expected str, got int" in said.err
    (tmp_path / "labels" / "pool.jsonl").write_text('{"query": "q1"}\n')
    assert "pool.jsonl" in harness("label", "status").err
    (tmp_path / "labels" / "label.json").write_text("{")
    assert "label.json: not valid JSON" in harness("label", "status").err


def test_a_folder_of_somebodys_own_is_never_made_a_project(
    harness: Harness, sources: Any, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "documents.jsonl").write_text('{"id": "a", "text": "precious"}\n')
    for command in (
        ("start", *sources, "--retriever", "bm25", "--pool-only"),
        ("generate", sources[0]),
    ):
        said = harness("label", *command, "--out", "mine")
        assert (said.status, said.err.count("\n")) == (2, 1), command
        assert "contains other files" in said.err
        assert "new folder" in said.err
    assert "precious" in (tmp_path / "mine" / "documents.jsonl").read_text()
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["documents.jsonl"]
