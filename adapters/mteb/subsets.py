"""One subset of a task as part of a dataset."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from harness.dataset.adapters.mteb.corpora import (
    CorpusWriter,
    HaystackWriter,
    Rows,
    places,
    top_ranked,
)
from harness.dataset.adapters.mteb.questions import Paths, Questions
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.dataset.writer import DatasetWriter

_NOT_HELD = (
    "judgements of documents that the query is not answered from: kept; they count as relevant and "
    "cannot be found"
)


@dataclass(frozen=True)
class Subset:
    """A subset of a task: its name ("" where there are none), files, judged queries, ability."""

    name: str
    files: Paths
    questions: Questions
    ability: Ability


def write_subset(
    subset: Subset,
    shared: Collection[str],
    documents: CorpusWriter,
    haystacks: HaystackWriter,
    out: DatasetWriter,
) -> None:
    """Write documents, haystacks, queries and judgements of a subset.

    A query whose id is one of the `shared`, which other subsets have too, is called `subset/id`.
    Raises UsageError for a query that has no row in `top_ranked`.
    """
    ids, rows = documents.add(subset.files["corpus"])
    row_of = _rows_of_judged(subset.questions, ids, rows)
    lists = _lists(subset, ids, rows, out) if "top_ranked" in subset.files else None
    whole = ""
    if lists is None:
        whole = haystacks.of(np.sort(rows), subset.name) if subset.name else haystacks.everything()
    for query, text in subset.questions.texts.items():
        name = f"{subset.name}/{query}" if query in shared else query
        haystack, held = whole, None
        if lists is not None:
            held = lists[query]
            haystack = haystacks.of(held, f"{subset.name}/{query}" if subset.name else query)
        out.query(name, text, haystack, ability=subset.ability, category=subset.name)
        for qrel in subset.questions.key[query]:
            row = row_of[qrel.document]
            if row < 0 or (held is not None and not _holds(held, row)):
                out.repair(_NOT_HELD, f"{name} {qrel.document}")
                row = -1
            out.qrel(name, row, qrel.grade, document_id=qrel.document)


def _rows_of_judged(questions: Questions, ids: pa.Array, rows: Rows) -> dict[str, int]:
    """The row of each judged document; -1 where the corpus does not hold it."""
    judged = list(dict.fromkeys(qrel.document for of in questions.key.values() for qrel in of))
    at = places(judged, ids)
    return dict(zip(judged, np.where(at < 0, -1, rows[at]).tolist(), strict=True))


def _lists(subset: Subset, ids: pa.Array, rows: Rows, out: DatasetWriter) -> dict[str, Rows]:
    paths = subset.files["top_ranked"]
    found = dict(top_ranked(paths, ids, rows, out))
    for query in subset.questions.texts:
        if query not in found or not len(found[query]):
            raise UsageError(
                f"{paths[0]}: no documents for the query {query!r}; each judged query needs a row "
                "of them"
            )
    return found


def _holds(held: Rows, row: int) -> bool:
    """Whether ascending rows hold this one."""
    at = int(np.searchsorted(held, row))
    return at < len(held) and int(held[at]) == row
