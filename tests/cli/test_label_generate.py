"""harness label generate and harness label check, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.project import Project

TOWNS = ["Skarholm", "Lundvik", "Tornby", "Ekenes", "Vaksund", "Holmen", "Brevik", "Sandnes"]


def notes(folder: Path) -> None:
    """A titled note on each town, which names the next one; queries and judgements of two."""
    folder.mkdir()
    notes = [
        {
            "id": f"n{at}",
            "title": f"Ferry to {town}",
            "text": f"It leaves pier {at} at {at + 7} sharp; the ferry to {TOWNS[at - 1]} waits.",
        }
        for at, town in enumerate(TOWNS)
    ]
    (folder / "documents.jsonl").write_text("\n".join(map(json.dumps, notes)))
    (folder / "queries.jsonl").write_text('{"id": "q", "text": "From which pier?"}')
    (folder / "qrels.jsonl").write_text('{"query": "q", "document": "n1", "grade": 2}')


def test_from_documents_over_a_person_to_a_table(harness: Any, tmp_path: Path) -> None:
    notes(tmp_path / "docs")
    made = ("label", "generate", "docs/documents.jsonl", "--out", "set", "--split", "test=1")
    said = harness(*made)
    assert said.status == 0, said.err
    assert "8 queries from 8 documents in set" in said.out
    assert "proposed: 8 documents to judge (8 by field)" in said.out
    assert "public benchmarks were not compared" in said.out
    assert "next: harness label open set" in said.out

    said = harness("label", "export", "set", "--out", "dataset")
    assert said.status == 2
    assert "no query is finished" in said.err
    assert "8 generated queries are unreviewed" in harness("label", "status", "set").out
    first, *rest = Project.read(tmp_path / "set").queries
    log = Project.read(tmp_path / "set").annotation_log("ana")
    for one in Project.read(tmp_path / "set").candidates[first.id]:
        grade = 3 if one.proposal == "construction" else 0
        log.append(Annotation(query=first.id, document=one.document, grade=grade))
    log.append(Annotation(query=rest[0].id, rejected=True))
    said = harness("label", "export", "set", "--out", "dataset", "--unfinished")
    assert said.status == 0, said.err
    counts = json.loads((tmp_path / "dataset" / "labelling.json").read_text())["counts"]
    assert (counts["queries"], counts["unreviewed"], counts["rejected"]) == (7, 6, 1)
    assert "UNREVIEWED generated queries, with grades by construction only: 6" in (said.out)
    assert "next: harness label open set" in said.out
    said = harness("label", "export", "set", "--out", "dataset")
    assert "dataset: 1 queries, 2 judgements" in said.out

    before = harness(*made, "--json")
    assert json.loads(before.out)["new_queries"] == 0
    run = ("run", "--dataset", "labelled", "--source", "dataset", "--retriever", "bm25")
    ran = harness(*run)
    assert ran.status == 0, ran.err
    assert "recall@" in ran.out


def test_documents_of_a_benchmark_end_with_status_1(harness: Any, tmp_path: Path) -> None:
    notes(tmp_path / "docs")
    made = ("label", "generate", "docs/documents.jsonl", "--out", "set", "--against", "docs")
    said = harness(*made)
    assert said.status == 1
    assert "8 + 0 documents, 0 + 0 queries" in said.out
    assert "8 leaks found" in said.out


@pytest.mark.slow
def test_check_finds_what_a_set_of_others_leaks(harness: Any, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    (folder / "qrels").mkdir(parents=True)
    documents = {
        "d1": "The night ferry to Skarholm leaves the north pier at nine.",
        "d2": "THE NIGHT FERRY to Skarholm leaves the north pier at nine!",
        "d3": "Bread rises overnight in the cold pantry.",
    }
    queries = {
        "q1": "When does the night ferry to Skarholm leave?",
        "q2": "Where does bread rise?",
        "q3": "Does bread rise where?",
    }
    for name, of in (("corpus", documents), ("queries", queries)):
        lines = [json.dumps({"_id": id_, "text": text}) for id_, text in of.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "qrels" / "test.tsv").write_text("q\td\tscore\nq1\td1\t1\nq2\td3\t1\n")
    (folder / "qrels" / "train.tsv").write_text("q\td\tscore\nq3\td3\t1\nq1\td2\t0\n")
    said = harness("label", "check", folder, "--json")
    assert said.status == 1, said.err
    found = json.loads(said.out)
    assert [one["query"] for one in found["quotes"]["examples"]] == ["q1"]
    assert [one["ids"] for one in found["splits"]["documents"]] == [["d3"]]
    assert [one["ids"] for one in found["splits"]["same_queries"]] == [["q2", "q3"]]
    assert found["splits"]["same_texts"] == []  # d2 is judged, and is not relevant
    said = harness("label", "check", folder, "--against", folder)
    assert "3 + 0 documents, 3 + 0 queries" in said.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generate", "nowhere", "--out", "x"], "nowhere: no such file or folder"),
        (["generate", "docs"], "--out"),
        (["generate", "docs", "--out", "x", "--queries", "0"], "--queries must be 1 or more"),
        (["generate", "docs", "--out", "x", "--split", "test=0.4"], "the shares sum to 0.4"),
        (["generate", "docs", "--out", "x", "--endpoint", "http://h/v1"], "without --model"),
        (["generate", "docs", "--out", "x", "--model", "m", "--endpoint", "h:1"], "no address"),
        (["generate", "docs", "--out", "x", "--model", "m", "--template", "a"], "not both"),
        (["generate", "docs", "--out", "x", "--template", "plain"], "has no field"),
        (["check", "nowhere"], "nowhere: no such folder"),
        (["check", "docs", "--against", "nobody"], "no file with the documents"),
        (["check", "docs"], "no file with the documents"),
    ],
)
def test_wrong_use_is_one_line(
    harness: Any, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Bees\n\nVarroa mites are counted on a sugar roll.")
    found = harness("label", *arguments)
    assert found.status == 2
    assert said in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert not (tmp_path / "x" / "label.json").exists()
