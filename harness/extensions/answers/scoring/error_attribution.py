"""Attributes each wrong answer to retrieval or to the reader.

Every answer has one class. The class of an answerable question depends on how much of its
evidence (by the default qrels) was in the context:

| class | answer | evidence in the context |
|---|---|---|
| correct_given_evidence | correct | all |
| correct_without_evidence | correct: guessed, known before, or qrels incomplete | not all |
| reader_error | wrong | all |
| wrong_abstention | abstains, and is wrong | all |
| partial_retrieval_error | wrong or abstains | a part |
| retrieval_error | wrong or abstains | none |

An answer to an unanswerable question is `correct_abstention` or `hallucinated`. A failed answer is
wrong and does not abstain, so with all of the evidence in the context it is a `reader_error`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.records.answers import CLASSES
from harness.schema import Ability
from harness.scoring.arrays import Flags, Ints, Values

_PHRASES = (
    r"no information (?:is )?(?:available|provided|given|about|on|regarding)",
    r"not (?:mentioned|specified|stated|provided|given|available|discussed|known|clear)\b",
    r"(?:isn't|is not|wasn't|was not|aren't|are not) (?:any )?(?:mention|information|enough|"
    r"sufficient|record)",
    r"(?:do|does|did|could|can|would)(?:n't| not) (?:\w+ ){0,2}?(?:know|find|answer|determine|say|"
    r"tell|have (?:any |enough |that )?information|mention|contain|include|specify|provide)\b",
    r"cannot (?:\w+ )?(?:answer|determine|find|say|tell|be (?:answered|determined))",
    r"can't (?:\w+ )?(?:answer|determine|find|say|tell|be (?:answered|determined))",
    r"unable to (?:answer|determine|find|say|tell)",
    r"(?:insufficient|not enough|lack of|no) (?:information|evidence|context|details?|mention|"
    r"record|data)\b",
    r"(?:un|not )answerable",
    r"\A\W*(?:unknown|n/?a|none|i don't know|no answer|not sure)\W*\Z",
    r"there (?:is|was|are|were) no (?:\w+ )?(?:mention|information|record|indication|details?)",
)
_REFUSAL = re.compile("|".join(f"(?:{one})" for one in _PHRASES), re.IGNORECASE)


def abstains(answer: str) -> bool:
    """Tests whether an answer states that the answer is unknown; an empty answer does."""
    text = answer.replace("\u2019", "'").strip()
    return not text or _REFUSAL.search(text) is not None


CONDITIONAL = (
    "accuracy_given_evidence",
    "accuracy_given_no_evidence",
    "retrieval_headroom",
    "reader_headroom",
)
"""Accuracy by evidence in the context; maximum gain from better retrieval or a better reader."""
ALL, PART, NONE, UNKNOWN = "all", "part", "none", "unknown"


@dataclass(frozen=True)
class EvidenceCoverage:
    """Per answer: how much of the evidence was in the context (`all`, `part`, `none`, `unknown`),
    whether the question is unanswerable, and whether the answer abstains."""

    evidence: np.ndarray
    unanswerable: Flags
    abstains: Flags


def question_rows(dataset: Dataset, answers: pa.Table) -> Ints:
    """Returns the row of each answer's question in the dataset."""
    row_of = dataset.query_rows
    return np.array([row_of[name] for name in answers["query"].to_pylist()], np.int64)


def evidence_coverage(dataset: Dataset, answers: pa.Table) -> EvidenceCoverage | None:
    """Measures how much of the evidence was in the context of each answer; None if no context is
    known."""
    if answers["documents"].null_count == len(answers):
        return None
    rows = question_rows(dataset, answers)
    gold = _gold(dataset)
    texts = answers["answer"].to_pylist()
    coverage = []
    for row, documents, unresolved in zip(
        rows.tolist(),
        answers["documents"].to_pylist(),
        answers["unresolved_items"].to_pylist(),
        strict=True,
    ):
        evidence = gold.get(row)
        if not evidence or documents is None:
            coverage.append(UNKNOWN)
            continue
        n_shown = len(evidence & {*documents})
        if n_shown == len(evidence):
            coverage.append(ALL)
        elif unresolved:  # a text that matches no document may contain the evidence
            coverage.append(UNKNOWN)
        else:
            coverage.append(PART if n_shown else NONE)
    return EvidenceCoverage(
        np.array(coverage),
        dataset.abilities[rows] == str(Ability.ABSTENTION),
        np.array([text is not None and abstains(text) for text in texts]),
    )


def class_shares(coverage: EvidenceCoverage, correct: Values) -> dict[str, Values]:
    """Computes the share of each answer's judgements in each class; NaN for an answer without a
    class, and in the classes of the other kind of question."""
    known = ~np.isnan(correct)
    answerable = known & ~coverage.unanswerable & (coverage.evidence != UNKNOWN)
    unanswerable = known & coverage.unanswerable
    everything, nothing = coverage.evidence == ALL, coverage.evidence == NONE
    wrong = 1 - correct
    values = {
        "correct_given_evidence": np.where(everything, correct, 0.0),
        "correct_without_evidence": np.where(everything, 0.0, correct),
        "reader_error": np.where(everything & ~coverage.abstains, wrong, 0.0),
        "wrong_abstention": np.where(everything & coverage.abstains, wrong, 0.0),
        "partial_retrieval_error": np.where(coverage.evidence == PART, wrong, 0.0),
        "retrieval_error": np.where(nothing, wrong, 0.0),
    }
    shares = {name: np.where(answerable, one, np.nan) for name, one in values.items()}
    shares["correct_abstention"] = np.where(unanswerable, correct, np.nan)
    shares["hallucinated"] = np.where(unanswerable, wrong, np.nan)
    shares["accuracy_given_evidence"] = np.where(answerable & everything, correct, np.nan)
    shares["accuracy_given_no_evidence"] = np.where(answerable & nothing, correct, np.nan)
    shares["retrieval_headroom"] = shares["partial_retrieval_error"] + shares["retrieval_error"]
    shares["reader_headroom"] = shares["reader_error"] + shares["wrong_abstention"]
    return shares


def answer_classes(coverage: EvidenceCoverage, correct: Values) -> list[str | None]:
    """Returns the class of each answer; None if it has none or its judgements disagree."""
    classes: list[str | None] = [None] * len(correct)
    shares = class_shares(coverage, correct)
    for name in CLASSES:
        for row in np.flatnonzero(shares[name] == 1.0).tolist():
            classes[row] = name
    return classes


def _gold(dataset: Dataset) -> dict[int, set[str]]:
    """Returns the ids of the evidence of each question, by the default qrels."""
    judged = dataset.qrels()
    relevant = np.flatnonzero((judged.grade >= 1) & (judged.document >= 0))
    ids = dataset.documents.column("id", judged.document[relevant]).to_pylist()
    found: dict[int, set[str]] = {}
    for query, id_ in zip(judged.query[relevant].tolist(), ids, strict=True):
        found.setdefault(query, set()).add(id_)
    return found
