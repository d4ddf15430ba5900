"""Errata correct evidence beside the answer key: both numbers, and what is in doubt."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from made import dataset_of, run_of

from harness.analysis.analyze.analyze import analyze
from harness.analysis.analyze.causes import Cause
from harness.analysis.analyze.errata import read_errata
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.scoring.signature_meaning import parse_signature

pytestmark = pytest.mark.usefixtures("home")

RANKING = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}


@pytest.fixture
def dataset(home: Path, tmp_path: Path) -> Dataset:
    """Three questions over four notes, of which each has `a` or `c` as its evidence."""
    documents = [{"id": name, "text": f"note {name}"} for name in RANKING]
    queries = [{"id": f"q{i}", "text": f"Which note is the {i}th?"} for i in range(3)]
    gold = [
        {"query": "q0", "document": "c"},
        {"query": "q0", "document": "d"},
        {"query": "q1", "document": "c"},
        {"query": "q2", "document": "a"},
    ]
    return dataset_of(tmp_path / "data", documents, queries, gold)


@pytest.fixture
def run(dataset: Dataset, tmp_path: Path) -> Path:
    return run_of(dataset, tmp_path / "out", {f"q{i}": RANKING for i in range(3)}, k=4)


def overlay(folder: Path, *entries: dict[str, object]) -> Path:
    path = folder / "errata.jsonl"
    path.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    return path


def test_both_keys_are_scored_and_a_question_nobody_can_mend_is_left_out_of_one(
    dataset: Dataset, run: Path, tmp_path: Path
) -> None:
    file = overlay(
        tmp_path,
        {"query": "q0", "kind": "wrong citation", "evidence": ["b", "d"], "note": "c is a joke"},
        {"query": "q1", "kind": "ambiguous", "evidence": None},
        {"query": "q2", "kind": "wrong answer", "evidence": ["a"]},
    )
    found = analyze(run, dataset, 2, errata=file)
    both = found.errata
    assert both is not None
    assert (both.named, both.corrected, both.confirmed, both.unknown) == (3, 1, 1, 1)
    assert both.kinds == {"wrong citation": 1, "ambiguous": 1, "wrong answer": 1}
    original, corrected = (key["all"]["recall@2"] for key in (both.by_original, both.by_corrected))
    assert (original.n, original.value) == (3, pytest.approx(1 / 3))  # 0, 0, 1
    assert (corrected.n, corrected.value) == (2, pytest.approx(3 / 4))  # 1/2, left out, 1
    assert both.by_corrected["all"]["hit@2"].value == 1
    assert found.results["all"]["recall@2"].value == original.value
    # Of q0, `c` is in doubt and `d` is not; all of q1 is.
    causes = {(piece.query, piece.documents[0]): piece.cause for piece in found.missed}
    assert causes == {
        ("q0", "c"): Cause.LABEL,
        ("q0", "d"): Cause.OTHERS,
        ("q1", "c"): Cause.LABEL,
    }


def test_the_corrected_number_has_a_signature_of_its_own(
    dataset: Dataset, run: Path, tmp_path: Path
) -> None:
    file = overlay(tmp_path, {"query": "q0", "evidence": ["b"]})
    both = analyze(run, dataset, 2, errata=file).errata
    assert both is not None
    signed = [
        parse_signature(key["all"]["recall@2"].signature)
        for key in (both.by_original, both.by_corrected)
    ]
    assert signed[0].protocol == "memory/1"
    assert signed[1].protocol == f"memory/1+errata#{both.sha256[:8]}"


def test_the_answer_key_itself_is_never_changed(
    dataset: Dataset, run: Path, tmp_path: Path
) -> None:
    before = analyze(run, dataset, 2)
    analyze(run, dataset, 2, errata=overlay(tmp_path, {"query": "q0", "evidence": ["b"]}))
    assert analyze(run, dataset, 2) == before


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"query": "q9", "evidence": None}, "entry 2: labelled has no query 'q9'"),
        ({"query": "q0", "evidence": ["z"]}, "entry 2: the haystack of 'q0' has no document 'z'"),
        ({"query": "q2", "evidence": None}, "entry 2: the query 'q2' occurs twice"),
        ({"query": "q0", "evidence": "a"}, "entry 2: expected"),
        ({"query": "q0", "evidence": []}, "entry 2: no evidence"),
        ({"query": "q0"}, "entry 2: expected"),
    ],
)
def test_an_overlay_that_does_not_fit_is_refused_by_entry(
    entry: dict[str, object], told: str, dataset: Dataset, tmp_path: Path
) -> None:
    file = overlay(tmp_path, {"query": "q2", "evidence": ["a"]}, entry)
    with pytest.raises(UsageError, match=told):
        read_errata(file, dataset)


def test_a_json_list_is_the_same_as_lines(dataset: Dataset, tmp_path: Path) -> None:
    entries = [{"query": "q0", "kind": "typo", "evidence": ["b"], "note": "see b"}]
    lines = read_errata(overlay(tmp_path, *entries), dataset)
    whole = tmp_path / "errata.json"
    whole.write_bytes(orjson.dumps(entries))
    assert read_errata(whole, dataset).entries == lines.entries
    whole.write_text("{}")
    with pytest.raises(UsageError, match="entry 1: expected"):
        read_errata(whole, dataset)
    whole.write_text("[")
    with pytest.raises(UsageError, match="neither a JSON list nor lines"):
        read_errata(whole, dataset)
