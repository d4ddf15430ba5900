"""Queries and judgements of a subset, as mteb takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.dataset.adapters.formats.trec import QrelLine
from harness.dataset.adapters.mteb import tables
from harness.dataset.adapters.one_corpus import judged, unique
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.dataset.writer import DatasetWriter

Paths = Mapping[str, Sequence[Path]]
"""The files of a subset by table."""


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
