"""Knowledge update: which statements of the fact stand in the top k, older or newer ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset, Judgements
from harness.schema import Ability
from harness.verdicts.analyze.pieces import Pieces

Flags = npt.NDArray[np.bool_]


class Versions:
    """The evidence of each query, with the time at which its haystack says that it was said."""

    def __init__(self, dataset: Dataset, judged: Judgements) -> None:
        self._dataset = dataset
        self._update = dataset.abilities == str(Ability.KNOWLEDGE_UPDATE)
        self._judged = judged
        self._starts = np.searchsorted(judged.query, np.arange(dataset.n_queries + 1))
        self._times: dict[int, dict[int, int | None]] = {}

    def gold(self, query: int) -> set[int]:
        """Document rows that are evidence for a query."""
        rows = slice(self._starts[query], self._starts[query + 1])
        found = self._judged.document[rows][self._judged.grade[rows] >= 1]
        return set(found[found >= 0].tolist())

    def compare(self, query: int, document: int, other: int) -> int:
        """1 where `other` is of a later date than `document`, -1 of an earlier one; else 0.

        Always 0 for queries of other abilities, and where nobody knows when one was said.
        """
        if not self._update[query]:
            return 0
        times = self._of_haystack(int(self._dataset.query_haystack[query]))
        mine, its = times.get(document), times.get(other)
        return 0 if mine is None or its is None else (its > mine) - (its < mine)

    def above(self, missed: Pieces, rows: npt.NDArray[np.int32]) -> tuple[Flags, Flags]:
        """Whether newer, and whether older evidence stands among `rows`, shape (pieces, k)."""
        newer, older = np.zeros(len(missed), bool), np.zeros(len(missed), bool)
        for at in np.flatnonzero(self._update[missed.query]):
            query, document = int(missed.query[at]), int(missed.document[at])
            there = self.gold(query).intersection(rows[at].tolist())
            order = {self.compare(query, document, other) for other in there}
            newer[at], older[at] = 1 in order, -1 in order
        return newer, older

    def _of_haystack(self, haystack: int) -> dict[int, int | None]:
        if haystack not in self._times:
            rows = self._dataset.haystack_rows(haystack).tolist()
            stamps = self._dataset.haystack_timestamps(haystack).to_pylist()
            self._times[haystack] = dict(zip(rows, stamps, strict=True))
        return self._times[haystack]
