"""MS MARCO: the official topics and qrels, the QA records in the hub's layout and from a hub."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ir_datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ir_datasets.datasets.msmarco_passage import FixEncoding
from loopback import Loopback

from harness.datasets.adapters.formats import trec
from harness.datasets.adapters.formats.text import TextFile
from harness.datasets.adapters.msmarco import mend
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError

REVISION = "a47ee7aae8d7d466ba15f9f0bfac3b3681087b3a"


def record(query_id: int, marks: list[int], texts: list[str], answers: list[str]) -> dict[str, Any]:
    """A record as microsoft/ms_marco has it."""
    return {
        "answers": answers,
        "passages": {
            "is_selected": marks,
            "passage_text": texts,
            "url": ["http://example.org"] * len(texts),
        },
        "query": f"question {query_id}",
        "query_id": query_id,
        "query_type": "DESCRIPTION",
        "wellFormedAnswers": [],
    }


RECORDS = [
    record(7, [0, 1, 0], ["shared text", "the answer", "other"], ["an answer"]),
    record(8, [0, 0], ["shared text", "nothing here"], ["No Answer Present."]),
    record(9, [1, 1], ["twice", "twice"], ["a", "b"]),
]


def parquet(records: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), sink)
    return sink.getvalue()


@pytest.fixture
def qa(tmp_path: Path) -> Path:
    """A folder laid out as the hub's repository."""
    folder = tmp_path / "ms_marco"
    for version in ("v1.1", "v2.1"):
        (folder / version).mkdir(parents=True)
        name = "validation-00000-of-00001.parquet"
        (folder / version / name).write_bytes(parquet(RECORDS))
    return folder


def haystack_texts(dataset: Dataset, query: str) -> list[str]:
    rows = dataset.haystack_rows(int(dataset.query_haystack[dataset.query_ids.index(query)]))
    return [dataset.documents[int(row)].text for row in rows]


def gold(dataset: Dataset) -> dict[str, list[str]]:
    key = dataset.qrels()
    found: dict[str, list[str]] = {}
    for query, row in zip(key.query.tolist(), key.document.tolist(), strict=True):
        found.setdefault(dataset.query_ids[query], []).append(dataset.documents[row].text)
    return found


def passage_folder(data: Path, tmp_path: Path, corpus: str, topics: str, qrels: str) -> Path:
    """The official topics and qrels beside the passages of the sample, as a collection.tsv."""
    folder = tmp_path / "passages"
    folder.mkdir()
    with open(data / "msmarco" / corpus / "corpus.jsonl") as lines:
        rows = [json.loads(line) for line in lines]
    text = "".join(f"{row['_id']}\t{row['text']}\n" for row in rows)
    (folder / "collection.tsv").write_text(text, encoding="utf-8")
    for name in (topics, qrels):
        (folder / name).symlink_to(data / "msmarco" / "official" / name)
    return folder


def test_dl19_from_official_files_has_the_track_s_judgements(
    data: Path, home: Path, tmp_path: Path
) -> None:
    folder = passage_folder(
        data, tmp_path, "dl19_sample", "topics.dl19-passage.txt", "qrels.dl19-passage.txt"
    )
    dataset = open_dataset("msmarco/dl19", source=folder)
    assert dataset.manifest.counts["documents"] == 5000
    assert (dataset.n_queries, len(dataset.qrels())) == (43, 9260)
    assert dataset.manifest.k == 1000
    status = {raw.name: raw.status for raw in dataset.manifest.raw}
    assert status == {"collection": "unknown", "queries": "pinned", "qrels": "pinned"}
    kinds = " ".join(repair.kind for repair in dataset.manifest.repairs)
    assert "collection size differs from MS MARCO's 8,841,823 passages" in kinds
    assert "does not hold" in kinds  # the sample lacks the passages of grade 0


def test_dl20_keeps_the_54_judged_topics_of_200_and_records_the_others(
    data: Path, home: Path, tmp_path: Path
) -> None:
    folder = passage_folder(
        data, tmp_path, "dl19_sample", "topics.dl20.txt", "qrels.dl20-passage.txt"
    )
    dataset = open_dataset("msmarco/dl20", source=folder)
    assert (dataset.n_queries, len(dataset.qrels())) == (54, 11386)
    left_out = dataset.manifest.repairs[0]
    assert (left_out.kind, left_out.count) == ("queries without a judgement: excluded", 146)
    assert not any(text.endswith("\r") for text in dataset.query_table["text"].to_pylist())


def test_the_official_dev_files_are_read_whole(data: Path) -> None:
    official = data / "msmarco" / "official"
    topics = list(trec.topics(TextFile(official / "topics.msmarco-passage.dev-subset.txt")))
    qrels = list(trec.qrels(TextFile(official / "qrels.msmarco-passage.dev-subset.txt")))
    assert (len(topics), len(qrels)) == (6980, 7437)
    assert {qrel.query for qrel in qrels} == {id_ for _, id_, _ in topics}


def test_passages_are_mended_exactly_as_ir_datasets_mends_them(
    data: Path, home: Path, tmp_path: Path
) -> None:
    folder = passage_folder(
        data, tmp_path, "dl19_sample", "topics.dl19-passage.txt", "qrels.dl19-passage.txt"
    )
    local = ir_datasets.util.LocalDownload(folder / "collection.tsv", mkdir=False)
    theirs = b"".join(FixEncoding(local)).decode().splitlines()
    dataset = open_dataset("msmarco/dl19", source=folder)
    assert [f"{d.id}\t{d.text}" for d in dataset.documents] == theirs
    mended = next(r for r in dataset.manifest.repairs if "Latin-1" in r.kind)
    assert mended.count > 1000


@pytest.mark.slow
def test_ir_datasets_and_the_official_files_give_the_same_dataset(
    data: Path, home: Path, tmp_path: Path
) -> None:
    folder = passage_folder(
        data, tmp_path, "dl19_sample", "topics.dl19-passage.txt", "qrels.dl19-passage.txt"
    )
    from_files = open_dataset("msmarco/dl19", source=folder)
    # The files where ir_datasets keeps what it has downloaded, so that it asks for none.
    cache = tmp_path / "ir" / "msmarco-passage"
    (cache / "trec-dl-2019").mkdir(parents=True)
    (cache / "irds_version.txt").write_text("v2")
    texts = [f"{d.id}\t{d.text}\n" for d in from_files.documents]
    (cache / "collection.tsv").write_text("".join(texts), encoding="utf-8")
    shutil.copy(folder / "topics.dl19-passage.txt", cache / "trec-dl-2019" / "queries.tsv")
    shutil.copy(folder / "qrels.dl19-passage.txt", cache / "trec-dl-2019" / "qrels")
    code = (
        "from harness.datasets.registry import open_dataset\n"
        "print(open_dataset('msmarco/dl19', rebuild=True).fingerprint)"
    )
    through = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "IR_DATASETS_HOME": str(tmp_path / "ir")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert through.stdout.strip() == from_files.fingerprint, through.stderr


def test_mending_leaves_what_is_no_utf8_alone() -> None:
    assert mend("caf\xc3\xa9 \xe2\x80\x99 \xf0\x9f\x98\x80") == "café \u2019 \U0001f600"
    assert mend("café Ã \xe2\x80 \xed\xa0\x80") == "café Ã \xe2\x80 \xed\xa0\x80"


def test_a_passage_folder_without_a_file_names_what_is_needed(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no collection.tsv \(or .gz\)"):
        open_dataset("msmarco/dev", source=tmp_path)
    (tmp_path / "collection.tsv").write_text("1\ta\n2 b\n")
    (tmp_path / "queries.dev.small.tsv").write_text("5\tq\n")
    (tmp_path / "qrels.dev.small.tsv").write_text("5\t0\t1\t1\n")
    with pytest.raises(UsageError, match=r"collection.tsv:2: 1 of 2 columns"):
        open_dataset("msmarco/dev", source=tmp_path)


@pytest.mark.parametrize("version", ["v1.1", "v2.1"])
def test_each_question_has_its_own_passages(qa: Path, home: Path, version: str) -> None:
    dataset = open_dataset(f"msmarco/qa-{version}", source=qa)
    assert haystack_texts(dataset, "7") == ["shared text", "the answer", "other"]
    assert haystack_texts(dataset, "8") == ["shared text", "nothing here"]
    assert [document.id for document in dataset.documents][:4] == ["7_0", "7_1", "7_2", "8_0"]
    assert gold(dataset) == {"7": ["the answer"], "9": ["twice", "twice"]}
    assert dataset.abilities.tolist() == ["lookup", "abstention", "lookup"]
    assert dataset.query(0).answers == ("an answer",)
    assert dataset.query(1).answers == ()
    assert dataset.query(0).category == "DESCRIPTION"


def test_pooled_passages_with_equal_texts_are_one_document(qa: Path, home: Path) -> None:
    dataset = open_dataset("msmarco/qa-v1.1-pooled", source=qa)
    texts = [document.text for document in dataset.documents]
    assert texts == ["shared text", "the answer", "other", "nothing here", "twice"]
    assert gold(dataset) == {"7": ["the answer"], "9": ["twice"]}
    assert haystack_texts(dataset, "8") == texts
    again = open_dataset("msmarco/qa-v2.1-pooled", source=qa)
    assert [d.id for d in again.documents] == [d.id for d in dataset.documents]


def test_jsonl_of_the_publisher_and_parquet_of_the_hub_give_the_same_dataset(
    qa: Path, home: Path, tmp_path: Path
) -> None:
    columns = ("is_selected", "passage_text", "url")
    lines = []
    for one in RECORDS:
        rows = zip(*(one["passages"][name] for name in columns), strict=True)
        passages = [dict(zip(columns, row, strict=True)) for row in rows]
        lines.append(json.dumps({**one, "passages": passages}))
    (tmp_path / "dev_v1.1.jsonl").write_text("\n".join(lines))
    from_jsonl = open_dataset("msmarco/qa-v1.1", source=tmp_path / "dev_v1.1.jsonl")
    assert from_jsonl.fingerprint == open_dataset("msmarco/qa-v1.1", source=qa).fingerprint


def test_without_a_source_the_pinned_revision_is_read_from_the_hub(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "v1.1/validation-00000-of-00001.parquet"
    with Loopback() as server:
        server.put_dataset("microsoft/ms_marco", REVISION, {name: parquet(RECORDS)})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        dataset = open_dataset("msmarco/qa-v1.1")
        assert gold(dataset)["7"] == ["the answer"]
        assert server.asked(f"/datasets/microsoft/ms_marco/resolve/{REVISION}/{name}")
        asked = len(server.requests)
        assert open_dataset("msmarco/qa-v1.1").fingerprint == dataset.fingerprint
        assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"query_id": 1, "query": "q"}\n', "dev.jsonl:1: not a record of MS MARCO QA"),
        (
            json.dumps(record(1, [-1], ["hidden"], [])).encode(),
            "no passage has is_selected; the test splits hide it",
        ),
        (json.dumps(record(1, [1], ["a", "b"], [])).encode(), "2 passages but 1 is_selected"),
    ],
)
def test_records_of_another_shape_are_refused(
    home: Path, tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "dev.jsonl").write_bytes(content)
    with pytest.raises(UsageError) as error:
        open_dataset("msmarco/qa-v1.1", source=tmp_path / "dev.jsonl")
    assert says in str(error.value)


def test_a_parquet_file_that_is_cut_off_is_named(qa: Path, home: Path) -> None:
    path = qa / "v1.1" / "validation-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match="not a readable Parquet file"):
        open_dataset("msmarco/qa-v1.1", source=qa)
    with pytest.raises(UsageError, match=r"no v1\.1/train-00000-of"):
        open_dataset("msmarco/qa-v1.1", source=qa, split="train")
