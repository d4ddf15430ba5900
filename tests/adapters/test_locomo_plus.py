"""LoCoMo-Plus: item i is inserted into conversation i mod 10, at the time of its cue."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import orjson
import pytest

from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run


@pytest.fixture
def files(data: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(data / "locomo-plus" / "locomo_plus.json", folder)
    shutil.copy(data / "locomo" / "locomo10.json", folder)
    return folder


def test_cues_are_inserted_by_time_and_what_the_official_rule_does_is_counted(
    home: Path, files: Path
) -> None:
    dataset = open_dataset("locomo-plus", source=files)
    assert dataset.manifest.official
    assert len(dataset.query_ids) == len(dataset.haystack_ids) == 401
    assert Counter(dataset.categories.tolist()) == {
        "causal": 101,
        "state": 100,
        "goal": 100,
        "value": 100,
    }
    judged = Counter(dataset.qrels().query.tolist())
    assert Counter(judged.values()) == {2: 357, 1: 44}
    assert [one.count for one in dataset.manifest.repairs] == [28, 15]
    for number in (0, 200):
        rows = dataset.haystack_rows(number).tolist()
        documents = [dataset.documents[row] for row in rows]
        times = [document.timestamp or 0 for document in documents]
        assert times == sorted(times)
        assert [one.id for one in documents if one.id[0] == "C"] == [f"C{number}:1", f"C{number}:2"]


@pytest.mark.slow
def test_bm25_reaches_the_values_of_rank_bm25(home: Path, files: Path, tmp_path: Path) -> None:
    dataset = open_dataset("locomo-plus", source=files)
    retriever = RetrieverSpec("bm25-okapi", {"tokens": "words"})
    scores = score_run(run(dataset, retriever, out=tmp_path), dataset)
    assert scores["recall@10"] == pytest.approx(0.033666, abs=1e-6)
    assert scores["ndcg@10"] == pytest.approx(0.017785, abs=1e-6)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("relation_type", "mood", "item 0: relation_type 'mood' is not one of causal"),
        ("cue_dialogue", "Hello.", "item 0: cue_dialogue has no line that begins with A: or B:"),
        ("time_gap", None, "item 0: the field 'time_gap' must be a text"),
    ],
)
def test_a_damaged_item_is_named(
    home: Path, files: Path, field: str, value: str | None, message: str
) -> None:
    path = files / "locomo_plus.json"
    items = orjson.loads(path.read_bytes())
    items[0][field] = value
    path.write_bytes(orjson.dumps(items))
    with pytest.raises(UsageError, match=message):
        open_dataset("locomo-plus", source=files)
    path.unlink()
    with pytest.raises(UsageError, match=r"no locomo_plus\.json and locomo10\.json in this folder"):
        open_dataset("locomo-plus", source=files)
