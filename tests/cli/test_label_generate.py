"""harness label generate and harness label check, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.project import Project


def sample(harness: Any) -> None:
    """The sample's documents in the folder `docs`."""
    said = harness("datasets", "export", "sample", "--format", "jsonl", "--out", "docs")
    assert said.status == 0, said.err


@pytest.mark.slow
def test_from_documents_over_a_person_to_a_table(harness: Any, tmp_path: Path) -> None:
    sample(harness)
    documents = len((tmp_path / "docs" / "documents.jsonl").read_text().splitlines())
    made = ("label", "generate", "docs/documents.jsonl", "--out", "set")
    said = harness(*made)
    assert said.status == 0, said.err
    assert f"200 queries from {documents} documents in set" in said.out
    assert "documents with fewer than 8 words" in said.out
    proposals = [
        one
        for one in Project.read(tmp_path / "set").pool
        if one.proposal is not None and one.proposal != "construction"
    ]
    n = len(proposals)
    assert n
    assert f"proposed: {n} documents" in said.out
    assert "harness label open set" in said.out
    # The set's documents are the sample's, and the check says so.
    said = harness("label", "check", "set", "--against", "sample")
    assert f"{documents} + 0 documents, 0 + 0 queries" in said.out

    accepted, refused = proposals[0], proposals[1]
    Project.read(tmp_path / "set").annotation_log("ana").append(
        Annotation(query=accepted.query, document=accepted.document, grade=2),
        Annotation(query=refused.query, document=refused.document, grade=0),
    )
    said = harness("label", "export", "set", "--out", "dataset", "--unfinished")
    assert said.status == 0, said.err
    manifest = json.loads((tmp_path / "dataset" / "labelling.json").read_text())
    # A person judged two proposals, and no document that a query was made from.
    assert manifest["counts"]["unreviewed"] == manifest["counts"]["unfinished"] == 200
    assert "UNREVIEWED generated queries" in said.out
    assert "next: harness label open set" in said.out
    grades = [
        line.split("\t")
        for path in (tmp_path / "dataset" / "qrels").iterdir()
        for line in path.read_text().splitlines()[1:]
    ]
    assert [accepted.query, accepted.document, "2"] in grades
    assert [refused.query, refused.document, "0"] in grades
    assert len(grades) == 200 + 2  # what nobody judged is not there, not even as 0

    before = harness("label", "generate", "docs/documents.jsonl", "--out", "set", "--json")
    assert json.loads(before.out)["new_queries"] == 0
    ran = harness(
        "run",
        "--dataset",
        "labelled",
        "--source",
        "dataset",
        "--split",
        "dev",
        "--retriever",
        "bm25",
    )
    assert ran.status == 0, ran.err
    assert "ndcg@10" in ran.out
    assert "0 failed" in ran.out


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
        (["generate", "docs", "--out", "x", "--model", "m", "--template", "a"], "not from both"),
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
