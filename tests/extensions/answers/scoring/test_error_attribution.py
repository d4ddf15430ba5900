"""Where questions were lost: the classes one by one, and the rule's own rates found again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from answering_rule import DECLINED, Rule
from openai_endpoint import Chat

from harness.datasets.reader import Dataset
from harness.extensions.answers.answering.answer import context_columns
from harness.extensions.answers.answering.context import Context, ContextBuilder, ContextLimits
from harness.extensions.answers.answering.readers import make_reader
from harness.extensions.answers.scoring.error_attribution import (
    answer_classes,
    class_shares,
    evidence_coverage,
)
from harness.extensions.answers.scoring.score import JudgeVerdicts, score_answers
from harness.io.records import to_plain
from harness.records.answers import CLASSES
from harness.runs.folder.answers_folder import ANSWERS
from harness.schema import Ability


def _row(dataset: Dataset, query: int, ids: list[str] | None, answer: str | None) -> dict[str, Any]:
    return {
        "query": dataset.query_ids[query],
        "repeat": 0,
        "answer": answer,
        "documents": ids,
        "items": 0 if ids is None else len(ids),
        "unresolved_items": 0,
    }


def test_every_answer_has_the_class_that_it_is_of(sample: Dataset) -> None:
    judged = sample.qrels()
    gold: dict[int, list[str]] = {}
    for query, row in zip(judged.query.tolist(), judged.document.tolist(), strict=True):
        gold.setdefault(query, []).append(sample.documents[row].id)
    query = next(q for q, ids in gold.items() if len(ids) > 1)
    all_, part = gold[query], gold[query][:1]
    (nothing, *_) = np.flatnonzero(sample.abilities == str(Ability.ABSTENTION)).tolist()
    cases: list[tuple[dict[str, Any], float, str | None]] = [
        (_row(sample, query, [*all_, "x"], "so"), 1, "correct_given_evidence"),
        (_row(sample, query, part, "so"), 1, "correct_without_evidence"),
        (_row(sample, query, [], "so"), 1, "correct_without_evidence"),
        (_row(sample, query, all_, "so"), 0, "reader_error"),
        (_row(sample, query, all_, DECLINED), 0, "wrong_abstention"),
        (_row(sample, query, part, "so"), 0, "partial_retrieval_error"),
        (_row(sample, query, part, DECLINED), 0, "partial_retrieval_error"),
        (_row(sample, query, ["x"], DECLINED), 0, "retrieval_error"),
        (_row(sample, nothing, ["x"], DECLINED), 1, "correct_abstention"),
        (_row(sample, nothing, [], "so"), 0, "hallucinated"),
        # A failed answer is wrong, and does not abstain.
        (_row(sample, query, all_, None), 0, "reader_error"),
        (_row(sample, query, part, None), 0, "partial_retrieval_error"),
        (_row(sample, query, [], None), 0, "retrieval_error"),
        (_row(sample, nothing, [], None), 0, "hallucinated"),
        # Nobody knows: no verdict, a text that is no document and may say it.
        (_row(sample, query, all_, "so"), np.nan, None),
        ({**_row(sample, query, part, "so"), "unresolved_items": 1}, 0, None),
        ({**_row(sample, query, all_, "so"), "unresolved_items": 1}, 0, "reader_error"),
    ]
    table = pa.Table.from_pylist([row for row, _, _ in cases], ANSWERS)
    right = np.array([value for _, value, _ in cases])
    of = evidence_coverage(sample, table)
    assert of is not None
    assert answer_classes(of, right) == [name for _, _, name in cases]
    found = class_shares(of, np.full(len(cases), 0.25))
    total = np.nansum([found[name] for name in CLASSES], axis=0)
    assert {*np.round(total, 12)} <= {0.0, 1.0}
    given = table.set_column(3, "documents", pa.nulls(len(table), table["documents"].type))
    assert evidence_coverage(sample, given) is None


@pytest.fixture
def contexts(sample: Dataset, sample_run: Callable[..., Path]) -> list[Context]:
    return ContextBuilder(sample, ContextLimits(k=10)).retrieved(sample_run("bm25"))


TRUE = {
    "accuracy_given_evidence": 0.85,
    "accuracy_given_no_evidence": 0.1,
    "correct_abstention": 0.7,
}


@pytest.mark.slow
def test_the_table_finds_the_rules_own_rates_within_its_intervals(
    sample: Dataset, contexts: list[Context]
) -> None:
    by = make_reader("plain", sample, "m")
    prompts = [*by.prompts(contexts)]
    shown = [context_columns(sample, context) for context in contexts]
    held_in = dict.fromkeys(TRUE, 0)
    draws, means = 60, dict.fromkeys(TRUE, 0.0)
    for seed in range(draws):
        rule = Rule(
            sample,
            accuracy_given_evidence=TRUE["accuracy_given_evidence"],
            accuracy_given_part=0.4,
            accuracy_given_no_evidence=TRUE["accuracy_given_no_evidence"],
            declines_unanswerable=TRUE["correct_abstention"],
            declines_wrong=0.3,
            seed=seed,
        )
        rows, right = [], []
        for prompt, documents in zip(prompts, shown, strict=True):
            said = rule(Chat(to_plain([*prompt.messages]), ""))
            rows.append({"query": sample.query_ids[prompt.query], "repeat": 0, "answer": said})
            rows[-1].update(documents)
            right.append(float(rule.truth(prompt.query, said)))
        table = pa.Table.from_pylist(rows, ANSWERS)
        judge = JudgeVerdicts("judge:rule", 1, "rule", np.array(right))
        report, _ = score_answers(sample, table, "plain", [judge])
        cells = report.protocols[-1].overall
        for name, true in TRUE.items():
            interval = cells[name].interval
            held_in[name] += interval.low <= true <= interval.high
            means[name] += cells[name].value / draws
    for name, true in TRUE.items():
        assert means[name] == pytest.approx(true, abs=0.02)
        assert held_in[name] >= 0.85 * draws, (name, held_in[name])
