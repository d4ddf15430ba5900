"""A run scored by the answer key as it is, and by the key as errata correct it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from harness.dataset.reader import Dataset, Judgements
from harness.scoring.choices import Scores
from harness.scoring.signature import Signature
from harness.verdicts.analyze.errata import Errata

Cells = dict[str, dict[str, Any]]
"""Cells of a score (value, n, interval, signature, ...) by slice and metric."""


@dataclass(frozen=True)
class BothKeys:
    """Numbers by both answer keys, and how many of the scored queries the errata name.

    `named` is split into those whose evidence is `corrected`, `confirmed` (it stays as it was: the
    fault lies elsewhere, as in the answer), or `unknown`: left out of the corrected numbers.
    """

    file: str
    sha256: str
    named: int
    corrected: int
    confirmed: int
    unknown: int
    kinds: dict[str, int]
    by_original: dict[str, Cells]
    by_corrected: dict[str, Cells]


class CorrectedDataset(Dataset):
    """A dataset whose default answer key is another one; everything else is the same."""

    def __init__(self, dataset: Dataset, judged: Judgements) -> None:
        self.__dict__.update(dataset.__dict__)
        self._corrected = judged

    def judgements(self, key: str = "default") -> Judgements:
        """One answer key; the corrected one in place of the default."""
        return self._corrected if key == "default" else super().judgements(key)


def corrected(judged: Judgements, errata: Errata, dataset: Dataset) -> Judgements:
    """The answer key with the errata's evidence in place of that of the queries they name.

    Queries whose evidence is unknown have none. What was judged not relevant stays, unless the
    errata say that it is evidence.
    """
    evidence = {query: rows or () for query, rows in errata.documents.items()}
    named = np.isin(judged.query, list(evidence))
    pairs = judged.query.astype(np.int64) << 32 | judged.document
    new = [(query, row) for query, rows in evidence.items() for row in rows]
    query, row = (np.array([pair[i] for pair in new], np.int32) for i in (0, 1))
    again = np.isin(pairs, query.astype(np.int64) << 32 | row)
    kept = np.flatnonzero(~named | ((judged.grade < 1) & ~again))
    ids = dataset.documents.column("id", row).combine_chunks()
    order = np.argsort(np.concatenate([judged.query[kept], query]), kind="stable")
    free = int(judged.unit.max(initial=-1)) + 1
    return Judgements(
        np.concatenate([judged.query[kept], query])[order],
        np.concatenate([judged.document[kept], row])[order],
        pa.concat_arrays([judged.document_id.take(pa.array(kept)), ids]).take(pa.array(order)),
        np.concatenate([judged.grade[kept], np.ones(len(new), np.int32)])[order],
        np.concatenate([judged.unit[kept], np.arange(free, free + len(new), dtype=np.int32)])[
            order
        ],
    )


def both_keys(
    dataset: Dataset, errata: Errata, original: Scores, by_errata: Scores, asked: np.ndarray
) -> BothKeys:
    """Both scores side by side; `asked`, shape (queries,), are those that the run can tell of."""
    judged = dataset.judgements()
    named = [query for query in errata.entries if asked[query]]
    same, unknown = 0, 0
    for query in named:
        rows = errata.documents[query]
        mine = judged.document[(judged.query == query) & (judged.grade >= 1)]
        unknown += rows is None
        same += rows is not None and set(rows) == set(mine.tolist())
    return BothKeys(
        errata.file,
        errata.sha256,
        len(named),
        len(named) - same - unknown,
        same,
        unknown,
        dict(Counter(errata.entries[query].kind for query in named).most_common()),
        cells(original),
        {
            name: {m: _signed(cell, errata) for m, cell in part.items()}
            for name, part in cells(by_errata).items()
        },
    )


def cells(scores: Scores) -> dict[str, Cells]:
    """The cells on documents of the one protocol that was scored, by slice and metric."""
    block = next(b for b in scores.summary["protocols"] if b["unit"] != "turn>session")
    return {name: part["metrics"] for name, part in block["slices"].items()}


def _signed(cell: dict[str, Any], errata: Errata) -> dict[str, Any]:
    """The cell, with a signature that says by which errata its key was corrected."""
    signature = Signature.parse(cell["signature"])
    protocol = f"{signature.protocol}+errata#{errata.sha256[:8]}"
    return {**cell, "signature": str(replace(signature, protocol=protocol))}
