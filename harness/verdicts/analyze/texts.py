"""Texts for the records of an analysis: what is left out where they are to be shared."""

from __future__ import annotations

from typing import Any

from harness.dataset.reader import Dataset
from harness.runs.folder.run_folder import RunFolder
from harness.scoring.matching.hits import by_query, expand, read_hits
from harness.verdicts.analyze.analysis import Above, Analysis, MissedPiece, QueryMisses

LONGEST = 500
"""Characters of a text that are given; the dataset has the rest."""


class Texts:
    """Texts of queries, of missed evidence, and of what a run returned."""

    def __init__(self, run: RunFolder, dataset: Dataset, depth: int) -> None:
        self._dataset = dataset
        self._own: dict[tuple[int, int], str] = {}
        if run.hits.is_file():
            for query, hits in by_query(read_hits(dataset, run.hits)):
                for rank, row in enumerate(expand(hits, depth)[0], 1):
                    self._own[query, rank] = row.hit.text

    def query(self, query: QueryMisses) -> str:
        """The question."""
        return _cut(self._dataset.query_table["text"][query.row].as_py())

    def piece(self, piece: MissedPiece) -> str:
        """The evidence; empty where the dataset lacks it."""
        return self._document(piece.row)

    def above(self, query: QueryMisses, above: Above) -> str:
        """What the system returned: its own text, where it gives texts, else the document's."""
        return _cut(self._own.get((query.row, above.rank), "")) or self._document(above.row)

    def _document(self, row: int) -> str:
        return "" if row < 0 else _cut(self._dataset.documents[row].content)


def as_dict(analysis: Analysis, texts: Texts | None) -> dict[str, Any]:
    """Everything for JSON, with texts; without (None) there is no word of the dataset in it."""
    found = analysis.as_dict()
    for query, record in zip(analysis.queries, found["queries"], strict=True):
        if texts is not None:
            record["text"] = texts.query(query)
        for piece, inner in zip(query.missed, record["missed"], strict=True):
            inner["shared_words"] = len(piece.shared)
            if texts is None:
                del inner["shared"]
                continue
            inner["text"] = texts.piece(piece)
            for above, innermost in zip(piece.above, inner["above"], strict=True):
                innermost["text"] = texts.above(query, above)
    return found


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
