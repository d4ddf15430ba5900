"""Exports: what `labelled` reads back is what was written, and other tools' formats hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small import prepared

from harness.datasets.export import export
from harness.datasets.reader import ChangedRow, Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError
from harness.schema import Ability


def haystacks(dataset: Dataset) -> dict[str, set[tuple[Any, ...]]]:
    """Documents of every haystack, with their time there."""
    found = {}
    for haystack, name in enumerate(dataset.haystack_ids):
        rows = dataset.haystack_rows(haystack).tolist()
        documents = [dataset.documents[row] for row in rows]
        times = dataset.haystack_timestamps(haystack).to_pylist()
        found[name] = {
            (d.id, d.text, d.title, d.session, d.speaker, d.position, time)
            for d, time in zip(documents, times, strict=True)
        }
    return found


def keys(dataset: Dataset) -> dict[str, list[tuple[Any, ...]]]:
    """Every answer key, by ids and texts."""
    found = {}
    for name in dataset.qrels_sets:
        key = dataset.qrels(name)
        rows = key.document.tolist()
        texts = [dataset.documents[row].text if row >= 0 else None for row in rows]
        queries = [dataset.query_ids[query] for query in key.query]
        # Units are codes: what matters is which judgements share one.
        shared = [key.evidence_id.tolist().index(unit) for unit in key.evidence_id.tolist()]
        ids = key.document_id.to_pylist()
        found[name] = list(zip(queries, ids, texts, key.grade.tolist(), shared, strict=True))
    return found


def queries(dataset: Dataset) -> list[Any]:
    return [dataset.query(row) for row in range(dataset.n_queries)]


def assert_same(one: Dataset, other: Dataset) -> None:
    assert queries(one) == queries(other)
    assert haystacks(one) == haystacks(other)
    assert keys(one) == keys(other)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def memory(home: Path, tmp_path: Path) -> Dataset:
    """Two people's turns under the same ids, one shared document, dates that differ."""
    files: dict[str, list[dict[str, Any]]] = {
        "documents": [
            {"id": "t1", "text": "I moved\tto Oslo.\nYes.", "haystack": {"ann": 100},
             "speaker": "Ann", "session": "s1", "position": 0, "title": "Monday"},
            {"id": "t1", "text": "I live in Rome.", "haystack": {"ben": 300}, "timestamp": 5},
            {"id": "t2", "text": "Hello é", "haystack": {"ann": 200, "ben": 400}},
        ],
        "queries": [
            {"id": "q1", "text": "Where\nto?", "haystack": "ann", "ability": "temporal",
             "category": "c", "timestamp": 900, "answers": ["Oslo", "Norway"]},
            {"id": "q2", "text": "Where?", "haystack": "ben"},
            {"id": "q3", "text": "Her age?", "haystack": "ann", "ability": "abstention"},
        ],
        "qrels": [
            {"query": "q1", "document": "t1", "grade": 2, "evidence_id": "u"},
            {"query": "q1", "document": "t2", "grade": 1, "evidence_id": "u"},
            {"query": "q2", "document": "t1"},
            {"query": "q2", "document": "gone", "missing": True},
            {"query": "q2", "document": "t2", "qrels_set": "official"},
        ],
        "changes": [
            {"kind": "forget", "document": "t1", "haystack": "ben", "timestamp": 500},
            {"kind": "update", "document": "t1", "haystack": "ann", "timestamp": 200, "by": "t2"},
        ],
    }  # fmt: skip
    folder = tmp_path / "memory"
    folder.mkdir()
    for name, records in files.items():
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(text)
    return open_dataset("labelled", source=folder)


def test_jsonl_read_back_by_labelled_is_the_same_dataset(memory: Dataset, tmp_path: Path) -> None:
    files = export(memory, tmp_path / "out", "jsonl")
    # croissant.json is an extension's.
    assert [file.name for file in files if file.suffix == ".jsonl"] == [
        "changes.jsonl",
        "documents.jsonl",
        "qrels.jsonl",
        "queries.jsonl",
    ]
    assert all(file.is_file() for file in files)
    back = open_dataset("labelled", source=tmp_path / "out")
    assert_same(back, memory)
    assert [back.changes(haystack) for haystack in (0, 1)] == [
        [ChangedRow("update", 0, 200, 2)],
        [ChangedRow("forget", 1, 500, None)],
    ]
    assert back.fingerprint == memory.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "granularity"),
    [
        ("beir/scifact", "beir/scifact", "passage"),
        ("locomo", "locomo/locomo10.json", "turn"),
        ("locomo", "locomo/locomo10.json", "session-summary"),
        ("longmemeval/s", "longmemeval/longmemeval_s_sample.json", "session"),
    ],
)
def test_real_datasets_come_back_the_same(
    data: Path, home: Path, tmp_path: Path, name: str, source: str, granularity: str
) -> None:
    dataset = open_dataset(name, source=data / source, granularity=granularity)
    export(dataset, tmp_path / "out", "jsonl")
    assert_same(open_dataset("labelled", source=tmp_path / "out"), dataset)


def test_beir_format_read_as_beir_has_the_same_texts_and_judgements(
    data: Path, home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    files = export(dataset, tmp_path / "out", "beir")
    names = {str(file.relative_to(tmp_path / "out")) for file in files}
    assert names - {"croissant.json"} == {
        "corpus.jsonl",
        "queries.jsonl",
        "qrels/test.tsv",
    }
    again = open_dataset("beir/scifact", source=tmp_path / "out")
    assert again.fingerprint == dataset.fingerprint


@pytest.mark.slow
def test_trec_format_is_read_back_with_the_same_judgements(
    data: Path, home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    export(dataset, tmp_path / "out", "trec")
    assert (tmp_path / "out" / "qrels.txt").read_text().startswith("1 0 31715818 1\n")
    assert_same(open_dataset("labelled", source=tmp_path / "out"), dataset)


def test_ids_that_haystacks_share_are_made_unique_where_there_is_one_corpus(
    memory: Dataset, tmp_path: Path
) -> None:
    export(memory, tmp_path / "beir", "beir")
    corpus = lines(tmp_path / "beir" / "corpus.jsonl")
    assert [one["_id"] for one in corpus] == ["ann/t1", "ben/t1", "t2"]
    assert corpus[0]["metadata"] == {"session": "s1", "speaker": "Ann", "position": 0}
    assert (tmp_path / "beir" / "qrels" / "test.tsv").read_text().splitlines() == [
        "query-id\tcorpus-id\tscore",
        "q1\tann/t1\t2",
        "q1\tt2\t1",
        "q2\tben/t1\t1",
        "q2\tgone\t1",
    ]
    assert lines(tmp_path / "beir" / "haystacks.jsonl") == [
        {"haystack": "ann", "queries": ["q1", "q3"], "documents": ["ann/t1", "t2"]},
        {"haystack": "ben", "queries": ["q2"], "documents": ["ben/t1", "t2"]},
    ]
    asked = lines(tmp_path / "beir" / "queries.jsonl")
    assert [one["metadata"]["ability"] for one in asked] == [
        Ability.TEMPORAL,
        Ability.LOOKUP,
        Ability.ABSTENTION,
    ]


@pytest.mark.parametrize("form", ["beir", "trec", "mteb"])
def test_ids_that_would_not_be_unique_in_one_corpus_are_refused(tmp_path: Path, form: str) -> None:
    def fill(out: DatasetWriter) -> None:
        for name, ids in {"ann": ["t1", "ben/t1"], "ben": ["t1"]}.items():
            rows = [out.document(id_, f"{name} {id_}") for id_ in ids]
            out.haystack(name, rows)
            out.query(f"q {name}", "question", name)

    dataset = prepared(tmp_path / "data", fill)
    with pytest.raises(UsageError, match="ids would not be unique; export as jsonl"):
        export(dataset, tmp_path / "out", form)
    assert not (tmp_path / "out").exists()


def test_topics_stay_on_one_line_and_ids_with_white_space_are_refused(
    memory: Dataset, home: Path, tmp_path: Path
) -> None:
    export(memory, tmp_path / "trec", "trec")
    topics = (tmp_path / "trec" / "topics.tsv").read_text().splitlines()
    assert topics == ["q1\tWhere to?", "q2\tWhere?", "q3\tHer age?"]
    spaced = tmp_path / "spaced"
    spaced.mkdir()
    (spaced / "documents.jsonl").write_text('{"id": "d 1", "text": "x"}\n')
    (spaced / "queries.jsonl").write_text('{"id": "q1", "text": "x"}\n')
    (spaced / "qrels.jsonl").write_text('{"query": "q1", "document": "d 1"}\n')
    dataset = open_dataset("labelled", source=spaced)
    with pytest.raises(UsageError, match="'d 1' of labelled holds white space"):
        export(dataset, tmp_path / "no", "trec")
    assert not (tmp_path / "no").exists()
    assert export(dataset, tmp_path / "yes", "beir")


def test_a_folder_in_use_and_an_unknown_format_are_refused(memory: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists and is not empty"):
        export(memory, tmp_path, "jsonl")
    with pytest.raises(UsageError, match=r"unknown export format 'json'; did you mean jsonl\?"):
        export(memory, tmp_path / "out", "json")
    (tmp_path / "empty").mkdir()
    assert export(memory, tmp_path / "empty", "jsonl")
