"""One subset of a task as part of a dataset: its queries and judgements, as mteb takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from harness.datasets.adapters.formats.trec import QrelLine
from harness.datasets.adapters.mteb import tables
from harness.datasets.adapters.mteb.corpora import (
    CorpusWriter,
    HaystackWriter,
    Rows,
    places,
    top_ranked,
)
from harness.datasets.adapters.one_corpus import judged, unique
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

Paths = Mapping[str, Sequence[Path]]
"""The files of a subset by table."""

_NOT_HELD = (
    "judgements of documents that the query is not answered from: kept; they count as relevant and "
    "cannot be found"
)


@dataclass(frozen=True)
class Questions:
    """The judged queries of a subset, their texts and judgements by id."""

    texts: Mapping[str, str]
    key: Mapping[str, list[QrelLine]]


def read_questions(files: Paths, out: DatasetWriter) -> Questions:
    """Queries that have a judgement; what is left out is recorded.

    The instruction of a query, if any, stands behind its text, as mteb gives it to a model. Raises
    UsageError for ids that stand twice, and where no query is judged.
    """
    file = tables.opened(files["qrels"][0])
    key = judged(_qrels(files["qrels"]), file, out)
    instructions = _instructions(files.get("instruction", ()))
    texts: dict[str, str] = {}
    seen: dict[str, int] = {}
    for path in files["queries"]:
        queries = tables.opened(path)
        for _, id_, text in unique(_queries(path, instructions), queries, seen):
            if id_ in key:
                texts[id_] = text
            else:
                out.repair("queries without a judgement: left out", id_)
    for query in key.keys() - texts.keys():
        out.repair("judgements of queries that are not there: left out", query)
    if not texts:
        raise UsageError(f"{file}: judges none of the queries of {files['queries'][0]}")
    return Questions(texts, key)


def _qrels(paths: Sequence[Path]) -> Iterator[QrelLine]:
    for _, number, row in tables.rows(paths, tables.QRELS):
        yield QrelLine(number, row["query"], row["document"], row["score"])


def _queries(path: Path, instructions: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    for file, number, row in tables.rows([path], tables.QUERIES):
        said = instructions.get(row["id"]) if instructions else row.get("instruction")
        if instructions and said is None:
            raise file.error(number, f"the query {row['id']!r} has no row in instruction")
        yield number, row["id"], f"{row['text']} {said}" if said is not None else row["text"]


def _instructions(paths: Sequence[Path]) -> dict[str, str]:
    found = tables.rows(paths, tables.INSTRUCTIONS)
    return {row["query"]: row["instruction"] for _, _, row in found}


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
    documents = list(dict.fromkeys(qrel.document for of in questions.key.values() for qrel in of))
    at = places(documents, ids)
    return dict(zip(documents, np.where(at < 0, -1, rows[at]).tolist(), strict=True))


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
