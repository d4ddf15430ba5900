"""What a reader should know before trusting a number: where a metric cannot tell systems apart."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from harness.scoring.arrays import Ints
from harness.scoring.cells import Column, Flags

SATURATED = 0.005
"""A mean this close to its ceiling leaves no room for a better system."""


class Cautions:
    """Gathers the metrics that say little over all protocols of a run; a line a kind and unit."""

    def __init__(self, depth: int, sizes: Ints) -> None:
        """`depth`: documents a ranking could hold; `sizes` (queries,): those of the haystack."""
        self._depth = depth
        self._median = float(np.median(sizes)) if len(sizes) else 0.0
        # (what, unit) -> names in order of first mention
        self._found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    def look(self, columns: list[Column], unit: str, scored: Flags) -> None:
        """Look at the recall and hit columns of one protocol at one unit."""
        for column in columns:
            metric, cell = column.metric, column.cell(scored)
            if isinstance(metric, str) or cell is None or metric.k is None:
                continue
            if metric.name not in ("recall", "hit"):
                continue
            if "not_measurable" in cell:
                self._found["short", unit][str(metric.k)] = None
            elif unit != "turn>session" and self._median <= metric.k:
                self._found["whole", unit][str(metric)] = None
            elif cell["ceiling"] - cell["value"] < SATURATED:
                self._found["saturated", unit][str(metric)] = None

    def lines(self) -> list[str]:
        """One sentence for each."""
        sentences = {
            "whole": "k reaches the whole haystack, so {names} cannot tell systems apart",
            "saturated": "saturated, within {close} of the ceiling: {names}",
            "short": "rankings of {depth} turns hold too few sessions for k = {names}; "
            "run with a larger --k for that",
        }
        return [
            f"{unit}: "
            + sentences[kind].format(names=", ".join(names), close=SATURATED, depth=self._depth)
            for (kind, unit), names in self._found.items()
        ]
