"""MemDaily: a haystack a question, and what the order in time alone scores."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from archives import unpacked

from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.schema import Document, Query, as_datetime


@pytest.fixture(scope="module")
def files(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(data / "memdaily" / "memdaily.tar.gz", tmp_path_factory.mktemp("memdaily"))


class OldestFirst:
    """Returns the documents in the order in which the harness gives them, by time."""

    def index(self, documents: Sequence[Document]) -> None:
        self.ids = [document.id for document in documents]

    def search(self, queries: Sequence[Query], k: int) -> list[list[str]]:
        return [self.ids[:k] for _ in queries]


@pytest.mark.slow
def test_incomplete_questions_are_dropped_and_the_rest_is_the_published_count(
    home: Path, files: Path
) -> None:
    dataset = open_dataset("memdaily", source=files)
    assert dataset.manifest.official
    assert dataset.manifest.counts["documents"] == 26_003
    assert dataset.manifest.counts["queries"] == dataset.manifest.counts["haystacks"] == 2_954
    assert [(one.count, one.kind) for one in dataset.manifest.repairs] == [
        (46, "questions that the generator did not complete: dropped")
    ]
    assert Counter(dataset.categories.tolist()) == {
        "simple": 500,
        "conditional": 500,
        "comparative": 492,
        "aggregative": 462,
        "post-processing": 500,
        "noisy": 500,
    }
    assert as_datetime(dataset.documents[0].timestamp or 0).isoformat() == "2024-04-01T08:30:00"


@pytest.mark.slow
def test_the_order_in_time_alone_finds_most_of_the_evidence(
    home: Path, files: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("memdaily", source=files)
    scores = score_run(run(dataset, OldestFirst(), out=tmp_path), dataset)
    assert scores["hit@1"] == pytest.approx(0.7610, abs=5e-5)  # in file order: 0.7620
    assert scores["recall@5"] == pytest.approx(0.8165, abs=5e-5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"target_step_id": [3]', '"target_step_id": [30]', "evidence in message 30, which does"),
        ("2024年04月01日 周一 08:30", "08:30", "message 0: time '08:30' is not a time like"),
        ('"mid": 1', '"mid": 0', "message 1: duplicate mid 0"),
    ],
)
def test_a_damaged_record_is_named(
    home: Path, files: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    name = "01_simple_events.json"
    text = (files / name).read_text(encoding="utf-8")
    first = orjson.loads(text)[0]
    record = orjson.dumps([first]).decode().replace('":', '": ')
    assert old in record
    (tmp_path / name).write_text(record.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UsageError, match=f"{name}: 0.*{message}"):
        open_dataset("memdaily", source=tmp_path)
    shutil.copy(files / name, tmp_path)
    with pytest.raises(UsageError, match="1 of the 26 published files"):
        open_dataset("memdaily", source=tmp_path)
