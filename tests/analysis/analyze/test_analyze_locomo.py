"""A real run over LoCoMo: everything missed is counted once, and the public audit is read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.analysis.analyze.analyze import analyze
from harness.analysis.analyze.causes import Analysis, Cause, Place
from harness.analysis.analyze.errata import read_errata
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.io.files import read_json
from harness.retrievers.bm25 import BM25
from harness.runs.folder.run_folder import read_scores
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run

pytestmark = pytest.mark.slow  # a whole run, which all of them look at


@dataclass(frozen=True)
class Done:
    """A dataset and a scored run over it."""

    dataset: Dataset
    folder: Path


@pytest.fixture(scope="module")
def locomo(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The true LoCoMo by turn, and BM25 on it."""
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    made = run(dataset, BM25(), out=tmp_path_factory.mktemp("locomo"))
    score_run(made, dataset)
    return Done(dataset, made)


@pytest.fixture(scope="module")
def audit(data: Path) -> Path:
    """The public audit of LoCoMo's answer key."""
    return data / "locomo" / "audit_errors.json"


@pytest.fixture(scope="module")
def found(locomo: Done, audit: Path) -> Analysis:
    """BM25 at 10, with the audit."""
    return analyze(locomo.folder, locomo.dataset, errata=audit)


def test_what_is_missed_is_what_recall_lacks(found: Analysis, locomo: Done) -> None:
    table = pq.read_table(locomo.folder / "scores.parquet").to_pylist()
    scored = [row for row in table if row["protocol"] == "memory" and row["level"] == "turn"]
    recall = {row["query"]: row["recall@10"] for row in scored if row["recall@10"] is not None}
    assert found.scored == len(recall) == 1982
    for query in found.queries:
        assert query.recall == recall.pop(query.query)
        assert len(query.missed) == round((1 - query.recall) * query.pieces) > 0
        assert sum(query.causes.values()) == len(query.missed)
    assert set(recall.values()) == {1.0}
    assert sum(found.pieces.values()) == 2820


def test_counts_by_ability_and_by_place_sum_to_the_total(found: Analysis) -> None:
    by_ability = sum(map(Counter, found.causes.values()), Counter())
    assert by_ability == Counter(piece.cause for piece in found.missed)
    assert {cause: sum(n.values()) for cause, n in found.places.items()} == dict(by_ability)
    below = [piece for piece in found.missed if piece.place is Place.BELOW]
    assert found.ranks(11, found.depth) == len(below)
    assert all(piece.rank is None for piece in found.missed if piece.place is not Place.BELOW)
    assert by_ability.total() == len(found.missed) > 1000


def test_the_worst_queries_come_first(found: Analysis) -> None:
    order = [(-len(query.missed), query.recall) for query in found.queries]
    assert order == sorted(order)


def test_bm25_returns_what_shares_a_word_while_there_is_room(found: Analysis) -> None:
    counts = Counter(piece.cause for piece in found.missed)
    assert counts[Cause.NO_WORD] > 0
    assert counts[Cause.NAMES] > 0
    assert counts[Cause.NOT_RETURNED] == counts[Cause.NOT_INGESTED] == 0
    assert all(piece.rank is None for piece in found.missed if piece.cause is Cause.NO_WORD)


def test_all_156_faults_of_the_audit_map_to_questions_and_both_numbers_are_there(
    found: Analysis, locomo: Done, audit: Path
) -> None:
    errata = read_errata(audit, locomo.dataset)
    assert len(errata.entries) == len(read_json(audit)) == 156
    both = found.errata
    assert both is not None
    assert (both.named, both.corrected, both.confirmed, both.unknown) == (156, 92, 63, 1)
    assert both.kinds["wrong citation"] == 57
    original, corrected = (key["all"]["recall@10"] for key in (both.by_original, both.by_corrected))
    summary = read_scores(locomo.folder).protocols[0].slices["all"].metrics
    assert original == summary["recall@10"]
    assert (original.n, corrected.n) == (1982, 1981)
    assert corrected.value != original.value
    doubtful = {piece.query for piece in found.missed if piece.cause is Cause.LABEL}
    assert doubtful <= {erratum.query for erratum in errata.entries.values()}
    assert 0 < len(doubtful) <= 93


def test_the_corrected_number_is_the_one_a_count_by_hand_gives(
    found: Analysis, locomo: Done, audit: Path
) -> None:
    table = pq.read_table(locomo.folder / "rankings.parquet").to_pylist()
    top: dict[str, set[str]] = {}
    for row in table:
        if row["rank"] <= 10:
            top.setdefault(row["query"], set()).add(row["document"])
    gold: dict[str, set[str]] = {}
    judged = locomo.dataset.qrels()
    for query, document in zip(judged.query.tolist(), judged.document_id.to_pylist(), strict=True):
        gold.setdefault(locomo.dataset.query_ids[query], set()).add(document)
    for fault in read_json(audit):
        conversation, question = map(int, re.findall(r"\d+", fault["question_id"]))
        query = f"{locomo.dataset.haystack_ids[conversation]}_qa{question}"
        gold[query] = set(fault["correct_evidence"])
    recalls = [len(top[q] & ids) / len(ids) for q, ids in gold.items() if ids]
    assert found.errata is not None
    cell = found.errata.by_corrected["all"]["recall@10"]
    assert (cell.n, cell.value) == (len(recalls), pytest.approx(np.mean(recalls)))


def test_the_audit_speaks_of_sessions_too_and_not_of_other_files(
    locomo: Done, data: Path, audit: Path
) -> None:
    source = data / "locomo" / "locomo10.json"
    sessions = open_dataset("locomo", source=source, granularity="session")
    errata = read_errata(audit, sessions)
    assert len(errata.entries) == 156
    turns = read_errata(audit, locomo.dataset).entries
    for query, erratum in errata.entries.items():
        named = {turn.partition(":")[0].replace("D", "S") for turn in turns[query].evidence or ()}
        assert set(erratum.evidence or ()) == named
    with pytest.raises(UsageError, match="does not fit sample by turn"):
        read_errata(audit, open_dataset("sample"))
    observations = open_dataset("locomo", source=source, granularity="observation")
    with pytest.raises(UsageError, match="observation"):
        read_errata(audit, observations)
