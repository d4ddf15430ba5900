"""Reads the public audit of LoCoMo's answer key (dial481/locomo-audit, errors.json) as it stands.

It lists faults of categories 1 to 4: wrong answers and wrong citations, each with the turns that
the auditors take for the evidence. Where they give none, the question cannot be mended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.verdicts.analyze.errata import Erratum

_QUESTION = re.compile(r"locomo_(\d+)_qa(\d+)")
_TURN = re.compile(r"D(\d+):\d+")


def is_audit(records: Sequence[Any]) -> bool:
    """Whether records are the audit's, by their fields."""
    fields = {"question_id", "question", "error_type", "correct_evidence"}
    return all(isinstance(record, dict) and fields <= record.keys() for record in records)


def from_audit(records: Sequence[Any], dataset: Dataset, path: Path) -> list[Erratum]:
    """The audit's entries, with the ids of this dataset.

    `locomo_{conversation}_qa{index}` counts conversations and their questions from 0 in the order
    of the file; that the question is the same is checked by its text. Sessions and their summaries
    are named by the session of a turn. Raises UsageError for another dataset, a question that is
    not the audit's, and observations, which turns do not name.
    """
    unit = dataset.manifest.granularity
    if dataset.name != "locomo" or unit == "observation":
        raise UsageError(
            f"{path}: is an audit of LoCoMo's turns, which says nothing of {dataset.name} by {unit}"
        )
    texts = dict(zip(dataset.query_ids, dataset.query_table["text"].to_pylist(), strict=True))
    found = []
    for number, record in enumerate(records, 1):
        named = _QUESTION.fullmatch(record["question_id"])
        at = int(named[1]) if named else len(dataset.haystack_ids)
        inside = at < len(dataset.haystack_ids)
        query = f"{dataset.haystack_ids[at]}_qa{named[2]}" if named and inside else ""
        if texts.get(query) != record["question"]:
            raise UsageError(
                f"{path}, entry {number}: {record['question_id']!r} is not a question of this "
                "file of LoCoMo; use the original one"
            )
        turns = record["correct_evidence"]
        if unit != "turn":
            turns = dict.fromkeys(_TURN.sub(r"S\1", turn) for turn in turns)
        kind = record["error_type"].lower().replace("_", " ")
        found.append(Erratum(query, kind, tuple(turns) or None, record.get("reasoning", "")))
    return found
