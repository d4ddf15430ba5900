"""Returned texts are held against the reference answers, where it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.compare.compare import compare
from harness.datasets.registry import open_dataset
from harness.records.scores import MetricResult
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.scoring.protocols import Choices
from harness.scoring.scores import Scores
from harness.scoring.signature_meaning import formula_of, parse_signature

pytestmark = pytest.mark.extensions


def block(scores: Scores) -> dict[str, dict[str, MetricResult]]:
    found = next(b for b in scores.report.protocols if b.protocol == "answers")
    return {name: part.metrics for name, part in found.slices.items()}


@pytest.mark.slow
def test_success_at_k_counts_questions_whose_answer_stands_in_the_texts(
    home: Path, with_evidence: int, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    folder = run(dataset, "bm25", out=tmp_path)
    plain = score_run(folder, dataset).report
    assert "answers" not in {b.protocol for b in plain.protocols}
    scores = score_run(folder, dataset, Choices(answers=True))
    cells = block(scores)["all"]
    by_hand = []
    for row, query in enumerate(dataset.query_ids):
        wanted = dataset.query(row)
        if wanted.ability == "abstention":
            continue
        table = scores.per_query
        mine = table.filter([a == query for a in table["query"].to_pylist()]).to_pylist()
        by_hand.append(next(r for r in mine if r["protocol"] == "answers")["success@10"])
    assert cells["success@10"].value == pytest.approx(sum(by_hand) / len(by_hand))
    assert cells["success@1"].value < cells["success@10"].value < 1
    assert cells["success@10"].n == len(by_hand) == with_evidence
    signature = parse_signature(str(cells["success@10"].signature))
    assert signature.protocol == "answers/1"
    assert "SQuAD" in formula_of(signature)


@pytest.mark.slow
def test_the_oracle_answers_more_than_chance_and_runs_compare_by_it(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    folders = [run(dataset, name, out=tmp_path) for name in ("oracle", "random")]
    values = [
        block(score_run(folder, dataset, Choices(answers=True)))["all"]["success@5"].value
        for folder in folders
    ]
    assert values[0] > values[1]
    compared = compare(folders)
    assert any(table.protocol == "answers/1" for group in compared.groups for table in group.tables)
