"""Where each question was won or lost: in retrieval, in reading, or by an answer to nothing.

Every answer falls into one class. Of a question that has an answer, `all`, some or none of the
documents that the default key calls evidence were among what was shown:

| class | what it says |
|---|---|
| right_with | right, and all of the evidence was there |
| right_without | right without all of it: guessed, known before, or the key is incomplete |
| lost_reader | wrong though all of it was there |
| declined_wrongly | said that it is not known though all of it was there |
| lost_part | wrong with a part of it |
| lost_none | wrong with none of it |

and of one that has none: `declined_rightly` or `made_up`. What the reader says without all of the
evidence, be it that it does not know, was lost in retrieval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from harness.dataset.reader import Dataset
from harness.schema import Ability
from harness.scoring.answered.texts import declines
from harness.scoring.arrays import Flags, Values

ANSWERABLE = (
    "right_with",
    "right_without",
    "lost_reader",
    "declined_wrongly",
    "lost_part",
    "lost_none",
)
UNANSWERABLE = ("declined_rightly", "made_up")
CLASSES = (*ANSWERABLE, *UNANSWERABLE)
ALL, PART, NONE, UNKNOWN = "all", "part", "none", "unknown"


@dataclass(frozen=True)
class Held:
    """Of each answer, by row of the table: how much of the evidence was shown (`all`, `part`,
    `none`; `unknown` where nobody can tell), whether its question has no answer, and whether the
    answer declines."""

    evidence: np.ndarray
    without: Flags
    declined: Flags
    came: Flags


def held(dataset: Dataset, answers: pa.Table) -> Held | None:
    """What was shown to each answer, of the evidence; None where nobody says what was shown."""
    if answers["documents"].null_count == len(answers):
        return None
    known = {name: row for row, name in enumerate(dataset.query_ids)}
    rows = [known[name] for name in answers["query"].to_pylist()]
    gold = _gold(dataset)
    texts = answers["answer"].to_pylist()
    found = []
    for row, shown, unresolved in zip(
        rows, answers["documents"].to_pylist(), answers["unresolved"].to_pylist(), strict=True
    ):
        wanted = gold.get(row)
        if not wanted or shown is None:
            found.append(UNKNOWN)
            continue
        there = len(wanted & {*shown})
        if there == len(wanted):
            found.append(ALL)
        elif unresolved:  # a text of the system's own that may say it, and is no document
            found.append(UNKNOWN)
        else:
            found.append(PART if there else NONE)
    return Held(
        np.array(found),
        dataset.abilities[rows] == str(Ability.ABSTENTION),
        np.array([text is not None and declines(text) for text in texts]),
        np.array([text is not None for text in texts]),
    )


def shares(of: Held, right: Values) -> dict[str, Values]:
    """Of each answer, by row: the share of its judgements that puts it into each class; NaN where
    it is in none, and in those of the other kind of question."""
    known = of.came & ~np.isnan(right)
    answerable = known & ~of.without & (of.evidence != UNKNOWN)
    everything = of.evidence == ALL
    wrong = 1 - right
    values = {
        "right_with": np.where(everything, right, 0.0),
        "right_without": np.where(everything, 0.0, right),
        "lost_reader": np.where(everything & ~of.declined, wrong, 0.0),
        "declined_wrongly": np.where(everything & of.declined, wrong, 0.0),
        "lost_part": np.where(of.evidence == PART, wrong, 0.0),
        "lost_none": np.where(of.evidence == NONE, wrong, 0.0),
    }
    found = {name: np.where(answerable, one, np.nan) for name, one in values.items()}
    nothing = known & of.without
    found["declined_rightly"] = np.where(nothing, right, np.nan)
    found["made_up"] = np.where(nothing, wrong, np.nan)
    # What is known of accuracy by what was there.
    found["right_if_all"] = np.where(answerable & everything, right, np.nan)
    found["right_if_none"] = np.where(answerable & (of.evidence == NONE), right, np.nan)
    found["retrieval_could_gain"] = found["lost_part"] + found["lost_none"]
    found["reader_could_gain"] = found["lost_reader"] + found["declined_wrongly"]
    return found


def names(of: Held, right: Values) -> list[str | None]:
    """The class of each answer; None where it has none, or its judgements disagree."""
    found: list[str | None] = [None] * len(right)
    by_class = shares(of, right)
    for name in CLASSES:
        for at in np.flatnonzero(by_class[name] == 1.0).tolist():
            found[at] = name
    return found


def _gold(dataset: Dataset) -> dict[int, set[str]]:
    """Ids of the evidence of each question, by the default key."""
    judged = dataset.qrels()
    mine = np.flatnonzero((judged.grade >= 1) & (judged.document >= 0))
    ids = dataset.documents.column("id", judged.document[mine]).to_pylist()
    found: dict[int, set[str]] = {}
    for query, id_ in zip(judged.query[mine].tolist(), ids, strict=True):
        found.setdefault(query, set()).add(id_)
    return found
