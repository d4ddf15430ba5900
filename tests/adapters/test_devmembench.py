"""DevMemBench: all sessions are the haystack, and `haystackSessionIds` is the evidence."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run


def test_bm25_over_all_sessions_reaches_the_values_of_rank_bm25(
    home: Path, data: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("devmembench", source=data / "devmembench")
    assert dataset.manifest.official
    assert len(dataset.haystack_rows(0)) == len(dataset.documents) == 25
    assert Counter(dataset.abilities.tolist()) == {
        "lookup": 125,
        "knowledge-update": 25,
        "multi-hop": 25,
        "abstention": 25,
    }
    retriever = RetrieverSpec("bm25-okapi", {"tokens": "words"})
    scores = score_run(run(dataset, retriever, out=tmp_path), dataset)
    assert scores["recall@1"] == pytest.approx(0.671483, abs=1e-6)
    assert scores["recall@5"] == pytest.approx(0.887156, abs=1e-6)
    assert scores["ndcg@10"] == pytest.approx(0.840435, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("questions.json", '["S01"]', '["S99"]', "record 0: evidence in session 'S99'"),
        ("questions.json", '"tech-stack"', '"stack"', "questionType 'stack' is not one of tech"),
        ("sessions.json", "2025-01-15", "15 January", "'15 January' is not a date like 2025-01-15"),
        ("sessions.json", '"content"', '"text"', "record 0: the field 'content' is missing"),
    ],
)
def test_a_damaged_record_is_named(
    home: Path, data: Path, tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    for file in ("sessions.json", "questions.json"):
        shutil.copy(data / "devmembench" / file, tmp_path)
    text = (tmp_path / name).read_text(encoding="utf-8")
    (tmp_path / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        open_dataset("devmembench", source=tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(UsageError, match=r"no sessions\.json and questions\.json in this folder"):
        open_dataset("devmembench", source=tmp_path)
