"""Datasets of ir_datasets: real ones of that library, over local files."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

import ir_datasets
import pytest
from ir_datasets.datasets.base import Dataset as IrDataset
from ir_datasets.datasets.beir import BeirDocs, BeirQrels, BeirQueries, BeirTitleDoc
from ir_datasets.formats import GenericQuery

from harness.datasets.registry import open_dataset
from harness.errors import UsageError


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    files = {
        "docs": "d1\tThe ferry leaves at noon.\nd2\tBread rises overnight.\n",
        "queries": "q1\tWhen does the ferry leave?\nq2\tnobody judged this\n",
        "qrels": "q1 0 d1 2\nq1 0 d2 0\nq1 0 d9 1\n",
    }
    for name, content in files.items():
        (tmp_path / f"{name}.tsv").write_text(content)
    return {name: tmp_path / f"{name}.tsv" for name in files}


def register(dataset: IrDataset) -> str:
    """Make a dataset known to ir_datasets under an id of its own, and return the id."""
    name = f"local-{uuid.uuid4().hex}"
    ir_datasets.registry.register(name, dataset)
    return name


def test_any_registered_id_becomes_documents_queries_and_judgements(
    files: dict[str, Path], home: Path
) -> None:
    id_ = register(ir_datasets.create_dataset(*(str(files[n]) for n in files)))
    dataset = open_dataset(f"ir/{id_}")
    assert [(d.id, d.title, d.text) for d in dataset.documents] == [
        ("d1", "", "The ferry leaves at noon."),
        ("d2", "", "Bread rises overnight."),
    ]
    assert [dataset.query(0).id, dataset.query(0).text] == ["q1", "When does the ferry leave?"]
    key = dataset.qrels()
    assert dict(zip(key.document_id.to_pylist(), key.grade.tolist(), strict=True)) == {
        "d1": 2,
        "d2": 0,
        "d9": 1,
    }
    first = dataset.manifest.repairs[0]
    assert (first.kind, first.examples) == (
        "queries without a judgement: excluded",
        ["q2"],
    )
    assert open_dataset(f"ir/{id_}").fingerprint == dataset.fingerprint


def test_titles_stay_apart_where_the_library_joins_them(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "ir"))
    corpus = {"_id": "d1", "title": "Harbours", "text": "The ferry.", "metadata": {}}
    query = {"_id": "q1", "text": "When?", "metadata": {}}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(corpus) + "\n")
    (tmp_path / "queries.jsonl").write_text(json.dumps(query) + "\n")
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")

    def local(name: str) -> ir_datasets.util.LocalDownload:
        return ir_datasets.util.LocalDownload(tmp_path / name, mkdir=False)

    name = uuid.uuid4().hex
    id_ = register(
        IrDataset(
            BeirDocs(name, local("corpus.jsonl"), BeirTitleDoc),
            BeirQueries(name, local("queries.jsonl"), GenericQuery),
            BeirQrels(local("test.tsv"), {}),
        )
    )
    (document,) = open_dataset(f"ir/{id_}").documents
    assert (document.title, document.text) == ("Harbours", "The ferry.")
    assert document.content == "Harbours The ferry."


def test_what_ir_datasets_does_not_have_is_said(files: dict[str, Path], home: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean .*vaswani"):
        open_dataset("ir/vaswanni")
    id_ = register(ir_datasets.create_dataset(docs_tsv=str(files["docs"])))
    with pytest.raises(UsageError, match="has no queries"):
        open_dataset(f"ir/{id_}")
    with pytest.raises(UsageError, match="omit --source"):
        open_dataset("ir/vaswani", source=files["docs"])


@pytest.mark.parametrize("name", ["msmarco/dl19", "ir/vaswani"])
def test_without_the_extra_it_is_said_what_to_install(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(UsageError) as error:
        open_dataset(name)
    assert "pip install -e '.[ir]'" in str(error.value)
