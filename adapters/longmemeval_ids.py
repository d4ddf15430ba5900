"""LongMemEval-S without its texts: ids, types and evidence of the questions, to score rankings on.

The table that ships beside this module holds facts alone: 500 question ids with their types, and
the evidence sessions of the 470 that have an answer. They are those of `answer_session_ids` in
longmemeval_s_cleaned.json, taken from results that two projects published and that agree
(memory-core-eval and cogito-ergo). What else is in a haystack is not known here.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from harness.datasets.adapter import Variant
from harness.datasets.manifest import IDS_ONLY
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

FILE = "longmemeval_s_ids.tsv"
VARIANT = Variant(
    "s-ids",
    "the 500 questions of s by their ids, types and evidence, without texts: for rankings that "
    "others published; ships with the harness",
    "MIT",
    pinned={FILE: "95ff189e4c4a9f1a17e3ce0df1507aab4b39c56e134b4f1cb9f6b49986070f4e"},
    granularities=("session",),
    texts=(IDS_ONLY,),
)
_COLUMNS = ["question_id", "question_type", "answer_session_ids"]


def find_files(source: Path) -> Path:
    """The table itself, or in a folder. Raises UsageError where it is not there."""
    path = source / FILE if source.is_dir() else source
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file; leave --source out, the table ships with the harness"
        )
    return path


def convert(path: Path, abilities: dict[str, Ability], out: DatasetWriter) -> None:
    """Write a haystack a question, which holds its evidence, and the judgements.

    Raises UsageError for a table of other columns, and an unknown type.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        if rows.fieldnames != _COLUMNS:
            raise UsageError(f"{path}: its columns must be {', '.join(_COLUMNS)}")
        for number, row in enumerate(rows, 2):
            id_, kind = row["question_id"], row["question_type"]
            if kind not in abilities:
                raise UsageError(
                    f"{path}, line {number}: question_type {kind!r} is none of "
                    f"{', '.join(abilities)}"
                )
            evidence = (row["answer_session_ids"] or "").split()
            documents = [out.document(session, "", session=session) for session in evidence]
            out.haystack(id_, documents)
            ability = Ability.ABSTENTION if "_abs" in id_ else abilities[kind]
            out.query(id_, "", id_, ability=ability, category=kind)
            for document in documents:
                out.qrel(id_, document)
