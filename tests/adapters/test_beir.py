"""BEIR: the real SciFact, and small sets in its format."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from loopback import Loopback

from harness.datasets.adapters import beir
from harness.datasets.adapters.beir import BeirAdapter
from harness.datasets.manifest import FILES
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runfiles import raw
from harness.schema import Ability

CORPUS = [
    {"_id": "d1", "title": "Harbours", "text": "The ferry leaves at noon.", "metadata": {}},
    {"_id": "d2", "title": "", "text": "Bread rises overnight."},
    {"_id": "q2", "text": "A document that has a query's id.", "metadata": {"url": "x"}},
]
QUERIES = [
    {"_id": "q1", "text": "When does the ferry leave?"},
    {"_id": "q2", "text": "What rises?", "metadata": {}},
    {"_id": "q3", "text": "Not judged in this split"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq2\td1\t0\n"


def lines(records: list[dict[str, object]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small dataset in BEIR's format."""
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(lines(CORPUS))
    (folder / "queries.jsonl").write_text(lines(QUERIES))
    (folder / "qrels" / "test.tsv").write_text(QRELS)
    return folder


def key(dataset: Dataset) -> set[tuple[str, str, int]]:
    found = dataset.qrels()
    return {
        (dataset.query_ids[query], document, grade)
        for query, document, grade in zip(
            found.query.tolist(), found.document_id.to_pylist(), found.grade.tolist(), strict=True
        )
    }


def contents(dataset: Dataset) -> dict[str, bytes]:
    """The bytes of the tables on disk."""
    return {name: (dataset.folder / name).read_bytes() for name in FILES}


def zipped(folder: Path, into: Path) -> Path:
    """The folder as BEIR's archives are."""
    archive = into / "fiqa.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for path in sorted(folder.rglob("*.*")):
            opened.write(path, f"fiqa/{path.relative_to(folder)}")
    return archive


def headers_with(archive: Path, place: int, value: int) -> None:
    """Set two bytes of each member's header, at the front and in the index at the end."""
    data = bytearray(archive.read_bytes())
    for mark, at in ((b"PK\x03\x04", place), (b"PK\x01\x02", place + 2)):
        start = data.find(mark)
        while start >= 0:
            data[start + at : start + at + 2] = value.to_bytes(2, "little")
            start = data.find(mark, start + 4)
    archive.write_bytes(data)


def refused(source: Path, name: str = "beir/fiqa") -> str:
    with pytest.raises(UsageError) as error:
        open_dataset(name, source=source)
    return str(error.value)


def test_scifact_has_its_published_counts_and_is_known_by_its_hashes(
    data: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    assert dataset.manifest.counts == {
        "documents": 5183,
        "haystacks": 1,
        "qrels": 339,
        "queries": 300,
    }
    assert dataset.manifest.official
    assert "warning" not in capsys.readouterr().err
    assert [(r.kind, r.count) for r in dataset.manifest.repairs] == [
        ("queries without a judgement: excluded", 809)
    ]
    train = open_dataset("beir/scifact", source=data / "beir" / "scifact", split="train")
    assert (train.n_queries, len(train.qrels())) == (809, 919)


def test_titles_and_texts_are_kept_apart_and_only_judged_queries_kept(
    folder: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset("beir/fiqa", source=folder)
    assert [(d.id, d.title, d.text) for d in dataset.documents] == [
        ("d1", "Harbours", "The ferry leaves at noon."),
        ("d2", "", "Bread rises overnight."),
        ("q2", "", "A document that has a query's id."),
    ]
    assert dataset.documents[0].content == "Harbours The ferry leaves at noon."
    assert dataset.query_ids == ["q1", "q2"]
    assert key(dataset) == {("q1", "d1", 2), ("q2", "d2", 1), ("q2", "d1", 0)}
    assert dataset.manifest.exclude_self
    assert dataset.manifest.repairs[0].examples == ["queries.jsonl:3 q3"]
    assert "3 of 3 files of beir/fiqa are unchecked" in capsys.readouterr().err


def test_hotpotqa_is_multi_hop_and_the_rest_lookup(folder: Path, home: Path) -> None:
    abilities = {
        name: set(open_dataset(f"beir/{name}", source=folder).abilities.tolist())
        for name in ("hotpotqa", "quora", "cqadupstack/android")
    }
    assert abilities == {
        "hotpotqa": {Ability.MULTI_HOP},
        "quora": {Ability.LOOKUP},
        "cqadupstack/android": {Ability.LOOKUP},
    }


def test_an_archive_a_folder_and_gzipped_files_give_the_same_dataset(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    plain = contents(open_dataset("beir/fiqa", source=folder))
    assert contents(open_dataset("beir/fiqa", source=zipped(folder, tmp_path))) == plain
    for path in list(folder.rglob("*.*")):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert contents(open_dataset("beir/fiqa", source=folder)) == plain


def test_a_download_is_read_where_it_lies_and_nothing_is_unpacked(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive = zipped(folder, tmp_path).read_bytes()
    md5 = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    (fiqa,) = (one for one in beir._SETS if one.name == "fiqa")
    monkeypatch.setattr(beir, "_SETS", (replace(fiqa, md5=md5, bytes=len(archive)),))
    monkeypatch.setattr(zipfile.ZipFile, "extract", None)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", None)
    with Loopback() as server:
        server.put("/fiqa.zip", archive)
        monkeypatch.setattr(beir, "_URL", server.url + "/")
        downloaded = open_dataset("beir/fiqa")
    assert downloaded.manifest.official
    kept = [path.name for path in home.rglob("*") if path.is_file() and path.name != ".lock"]
    assert sorted(kept) == sorted([*FILES, "checksums.arrow", "manifest.json", "fiqa.zip"])
    assert contents(downloaded) == contents(open_dataset("beir/fiqa", source=folder))


def test_an_archive_with_sizes_of_64_bits_is_read(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = open_dataset("beir/fiqa", source=folder)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 20)
    archive = zipped(folder, tmp_path)
    assert b"PK\x06\x06" in archive.read_bytes()  # the record that only such archives have
    assert contents(open_dataset("beir/fiqa", source=archive)) == contents(plain)


def test_crlf_a_byte_order_mark_and_a_missing_header_lose_nothing(folder: Path, home: Path) -> None:
    plain = open_dataset("beir/fiqa", source=folder)
    for name in ("corpus.jsonl", "qrels/test.tsv"):
        text = (folder / name).read_text()
        (folder / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert open_dataset("beir/fiqa", source=folder).fingerprint == plain.fingerprint
    (folder / "qrels" / "test.tsv").write_text(QRELS.partition("\n")[2])
    assert key(open_dataset("beir/fiqa", source=folder)) == key(plain)


def test_judgements_of_documents_that_are_not_there_are_kept_and_recorded(
    folder: Path, home: Path
) -> None:
    (folder / "qrels" / "test.tsv").write_text(QRELS + "q1\tlost\t1\n")
    dataset = open_dataset("beir/fiqa", source=folder)
    assert ("q1", "lost", 1) in key(dataset)
    assert any("does not hold" in repair.kind for repair in dataset.manifest.repairs)


def test_of_contradicting_judgements_the_last_holds_as_in_beir(folder: Path, home: Path) -> None:
    (folder / "qrels" / "test.tsv").write_text(QRELS + "q1\td1\t1\nq2\td2\t1\n")
    dataset = open_dataset("beir/fiqa", source=folder)
    assert key(dataset) == {("q1", "d1", 1), ("q2", "d2", 1), ("q2", "d1", 0)}
    assert [repair.count for repair in dataset.manifest.repairs[:2]] == [1, 1]


def test_records_that_cross_the_reader_s_blocks_come_whole(folder: Path, home: Path) -> None:
    long = [{"_id": f"d{i}", "text": f"{i} " + "é" * 5000} for i in range(300)]
    (folder / "corpus.jsonl").write_text(lines(long), encoding="utf-8")
    dataset = open_dataset("beir/fiqa", source=folder)
    assert [d.text for d in dataset.documents] == [record["text"] for record in long]


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("corpus.jsonl", lines(CORPUS) + '{"_id": "d9", "te', "corpus.jsonl:4: not valid JSON"),
        ("corpus.jsonl", lines(CORPUS) + '\n["d9"]\n', "corpus.jsonl:5: not a JSON object"),
        ("corpus.jsonl", lines([{"_id": "d1"}]), "corpus.jsonl:1: the record has no field 'text'"),
        ("corpus.jsonl", lines([{"_id": "d1", "text": None}]), "corpus.jsonl:1: the field 'text'"),
        (
            "corpus.jsonl",
            lines([*CORPUS, CORPUS[0] | {"text": "x"}]),
            "corpus.jsonl:4: the document id 'd1' is already used on line 1, with",
        ),
        ("corpus.jsonl", "", "corpus.jsonl: contains no documents"),
        ("corpus.jsonl", b'{"_id": "d1", "text": "\xff"}\n', "corpus.jsonl:1: byte 0xff is not"),
        ("queries.jsonl", lines([*QUERIES, QUERIES[0]]), "queries.jsonl:4: the query id 'q1' is"),
        ("qrels/test.tsv", QRELS + "q1\td2\tone\n", "test.tsv:5: the grade 'one' is not an int"),
        ("qrels/test.tsv", "q9\td2\t1\n", "test.tsv: judges none of the queries of"),
        ("qrels/test.tsv", QRELS + "q1\td2\n", "test.tsv:5: 2 columns; a judgement has 4"),
        ("qrels/test.tsv", "", "test.tsv: contains no judgements"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_nothing_is_left(
    folder: Path, home: Path, file: str, content: str | bytes, says: str
) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (folder / file).write_bytes(data)
    assert says in refused(folder)
    assert "\n" not in refused(folder)
    assert not list(home.rglob("*.arrow"))


def test_a_file_that_is_missing_is_named(folder: Path, home: Path, tmp_path: Path) -> None:
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    assert "test.tsv: no such file (there is: dev)" in refused(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    assert "expected corpus.jsonl, queries.jsonl" in refused(folder)
    text = tmp_path / "corpus.jsonl"
    text.write_text("")
    assert "not a .zip file or a folder" in refused(text)


def test_archives_that_are_damaged_or_climb_out_are_refused(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "fiqa.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.write(folder / "corpus.jsonl", "../../corpus.jsonl")
    assert "a path outside the archive" in refused(archive)
    with zipfile.ZipFile(archive, "w") as opened:
        opened.write(folder / "corpus.jsonl", "fiqa/corpus.jsonl")
    assert "fiqa/queries.jsonl not found" in refused(archive)
    with zipfile.ZipFile(archive, "w") as opened:
        for path in sorted(folder.rglob("*.*")):
            opened.write(path, f"fiqa/{path.relative_to(folder)}")
    whole = archive.read_bytes()
    archive.write_bytes(whole.replace(b"ferry leaves", b"ferry stays!"))
    assert "damaged or truncated archive" in refused(archive)
    archive.write_bytes(whole[:-30])
    assert "not a zip archive" in refused(archive)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (6, 0x1, "fiqa/corpus.jsonl is encrypted; unpack it and pass the folder"),
        (8, 9, "fiqa/corpus.jsonl uses compression method 9, which Python cannot read"),
        (8, 99, "fiqa/corpus.jsonl uses compression method 99"),
        (6, 0x20, "damaged or truncated archive (compressed patched data"),
    ],
)
def test_archives_that_cannot_be_read_as_a_stream_are_refused(
    folder: Path, home: Path, tmp_path: Path, place: int, value: int, says: str
) -> None:
    archive = zipped(folder, tmp_path)
    headers_with(archive, place, value)
    assert says in refused(archive)
    assert "\n" not in refused(archive)
    assert not list(home.rglob("*.arrow"))


def test_whatever_byte_of_an_archive_is_damaged_it_is_said_or_the_same_is_read(
    folder: Path, tmp_path: Path
) -> None:
    archive = zipped(folder, tmp_path)
    whole = archive.read_bytes()

    def read() -> list[list[tuple[int, list[bytes]]]]:
        files = beir._text_files({"fiqa.zip": archive}, "fiqa", "test")
        return [list(file.blocks()) for file in files.values()]

    right = read()
    for at in range(len(whole)):
        archive.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with suppress(UsageError):
            assert read() == right


def test_an_archive_that_would_fill_disk_or_memory_is_refused(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "corpus.jsonl").write_bytes(b"0" * 2_000_000)
    archive = zipped(folder, tmp_path)
    monkeypatch.setattr(raw, "LONGEST_LINE", 1_000_000)
    assert "corpus.jsonl:1: goes on for more than 1 MB" in refused(archive)
    monkeypatch.setattr(beir, "BOMB_BYTES", 1_000_000)
    assert "fiqa/corpus.jsonl would expand from " in refused(archive)
    assert not list(home.rglob("*.arrow"))


def test_every_public_set_is_listed_with_its_pinned_archive_and_splits() -> None:
    listed = {variant.name: variant for variant in BeirAdapter().variants()}
    assert len(listed) == 14 + 12 + 4
    for name, variant in listed.items():
        if variant.needs_source:
            assert name in {"bioasq", "signal1m", "trec-news", "robust04"}
        else:
            (archive,) = variant.files
            assert archive.url.endswith(f"/BEIR/datasets/{name.partition('/')[0]}.zip")
            assert len(archive.md5) == 32
            assert archive.bytes
    assert listed["msmarco"].splits[0] == "dev"
    assert listed["nfcorpus"].splits == ("test", "dev", "train")
