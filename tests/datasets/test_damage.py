"""A prepared dataset with a flipped bit gives the same numbers, or none."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.verify import verify
from harness.errors import HarnessError
from harness.io.checksums import BLOCK, DamagedError, sums_of


def read(dataset: Dataset) -> list[Any]:
    """All that a run and its scores take from a dataset."""
    documents = dataset.documents
    judged = dataset.qrels()
    return [
        documents.contents(),
        [documents.column(name).to_pylist() for name in documents.names],
        [dataset.haystack_rows(at).tolist() for at in range(len(dataset.haystack_ids))],
        dataset.query_table.to_pylist(),
        [judged.query.tolist(), judged.document.tolist(), judged.grade.tolist()],
        dataset.manifest,
    ]


def test_a_checksum_changes_with_every_bit_and_ends_with_the_file() -> None:
    data = np.random.default_rng(3).integers(0, 256, 2 * BLOCK + 777, np.uint8)
    sums = sums_of(data)
    assert len(sums) == 3
    for at in (0, 9, BLOCK - 1, BLOCK, 2 * BLOCK + 776):
        for bit in range(8):
            data[at] ^= np.uint8(1 << bit)
            assert (sums_of(data) != sums).sum() == 1
            data[at] ^= np.uint8(1 << bit)
    assert len(sums_of(data[: 2 * BLOCK])) == 2


def test_every_flipped_bit_of_a_prepared_dataset_is_told_or_changes_nothing(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample", quiet=True)
    folder, before = dataset.folder, read(dataset)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    told = 0
    for number in range(120):
        path = files[number % len(files)]
        data = path.read_bytes()
        flipped = bytearray(data)
        at = (number * 104729 + 17) % len(data)
        flipped[at] ^= 1 << number % 8
        path.write_bytes(flipped)
        try:
            found = read(Dataset(folder))
        except HarnessError:
            told += 1
        else:
            assert found == before, f"bit {number % 8} of byte {at} of {path.name}"
        path.write_bytes(data)
    assert told > 100
    assert read(Dataset(folder)) == before


@pytest.fixture
def many(home: Path, tmp_path: Path) -> Dataset:
    """20,000 documents in one batch of 8 MB, and one question."""
    with open(tmp_path / "documents.jsonl", "wb") as file:
        for i in range(20_000):
            file.write(b'{"id": "d%05d", "text": "%s"}\n' % (i, b" word%05d" % i * 40))
    (tmp_path / "queries.jsonl").write_text('{"id": "q", "text": "x", "relevant": ["d00007"]}')
    return open_dataset("labelled", source=tmp_path, quiet=True)


def test_few_documents_are_read_without_the_others_and_damage_elsewhere_is_nobodys(
    many: Dataset,
) -> None:
    path = many.folder / "documents.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(b"word10000")] ^= 1
    path.write_bytes(data)
    damaged = Dataset(many.folder).documents
    assert damaged[9_000] == many.documents[9_000]
    assert len(damaged.contents(np.array([0, 19_999], np.int32))) == 2
    for ask in (
        lambda: damaged[10_000],
        lambda: damaged.contents(np.array([10_000], np.int32)),
        lambda: damaged.contents(),
        lambda: list(damaged),
        lambda: damaged.table,
    ):
        with pytest.raises(DamagedError, match=r"documents\.arrow: is damaged at byte"):
            ask()
    (found,) = verify(Dataset(many.folder))
    assert (found.ok, "is damaged at byte" in found.message) == (False, True)


def test_documents_of_many_batches_are_read_by_any_column_and_rows(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.datasets.columns._GATHERED_BYTES", 1 << 16)
    monkeypatch.setattr("harness.datasets.writer._BATCH_DOCUMENTS", 500)
    with open(tmp_path / "documents.jsonl", "wb") as file:
        for i in range(6_000):
            file.write(b'{"id": "d%05d", "text": "%s"}\n' % (i, b" word%05d" % i * 10))
    (tmp_path / "queries.jsonl").write_text('{"id": "q", "text": "x", "relevant": ["d00007"]}')
    dataset = open_dataset("labelled", source=tmp_path, quiet=True)
    assert len(dataset.documents.starts) > 5
    shuffled = np.random.default_rng(5).permutation(6_000).astype(np.int32)
    for documents in (dataset.documents, dataset.shown_documents):
        table = documents.table
        for name in documents.names:
            for rows in (shuffled[:0], shuffled[:9], shuffled, np.array([5_999] * 3, np.int32)):
                fresh = Dataset(dataset.folder)
                part = fresh.documents if documents is dataset.documents else fresh.shown_documents
                assert part.column(name, rows).to_pylist() == table[name].take(rows).to_pylist()

    path = dataset.folder / "documents.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(b"word03000")] ^= 1
    path.write_bytes(data)
    damaged = Dataset(dataset.folder).shown_documents
    assert damaged.column("text", np.array([0, 5_999], np.int32)).to_pylist()
    for rows in (np.array([5, 3_000], np.int32), shuffled):
        with pytest.raises(DamagedError):
            damaged.column("text", rows)


def test_what_is_sent_to_another_process_holds_no_file(home: Path) -> None:
    documents = open_dataset("sample", quiet=True).documents
    sent = pickle.loads(pickle.dumps(documents.none()))
    assert (len(sent), sent.names) == (0, documents.names)


@pytest.mark.slow
def test_a_run_on_a_damaged_dataset_ends_and_charges_nobody(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample", quiet=True)
    path = dataset.folder / "documents.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(dataset.documents[7].text.encode())] ^= 1
    path.write_bytes(data)
    command = [sys.executable, "-m", "harness", "run", "--dataset", "sample"]
    for more in ([], ["--workers", "2"]):
        told = subprocess.run(
            [*command, "--retriever", "bm25", "--quiet", *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (told.returncode, len(told.stderr.splitlines())) == (1, 1), told.stderr
        assert "documents.arrow: is damaged at byte" in told.stderr
        assert not list((tmp_path / "results").glob("[!.]*"))


def test_a_damaged_table_of_questions_is_prepared_again(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = open_dataset("sample", quiet=True)
    path = dataset.folder / "queries.arrow"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 64
    path.write_bytes(data)
    again = open_dataset("sample", quiet=True)
    assert again.fingerprint == dataset.fingerprint
    assert "queries.arrow: is damaged" in capsys.readouterr().err
