"""Tests whether any numbers of a run fell below those of a baseline.

All numbers are one family, of any protocol, metric and slice. They are means over the same queries,
so the same signs are flipped for all of them, and the correction depends on how different they are
(`harness.stats.joint`; t tests for fewer than ten haystacks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.compare.table import clusters_of, slice_masks
from harness.analysis.scored_run import (
    Block,
    ScoredRun,
    Values,
    differing,
    essentials,
    require_depth,
)
from harness.errors import UsageError
from harness.stats.joint import joint_tests
from harness.stats.paired import EQUAL

Place = tuple[Block, str, str]
"""Protocol and unit, metric, slice."""


@dataclass(frozen=True)
class Drop:
    """One number before and now, over the queries with a value in both runs.

    `p` is one-sided (did it fall?), and corrected for all `tests` drops; `least` is the smallest
    possible p, for a fall from 1 to 0 in all `clusters` of `cluster_by` (queries, haystacks), with
    the other drops as they are. `detectable` is the smallest drop that this test shows with 80%
    power, NaN if unknown (`JointTest`).
    """

    before: float
    now: float
    p: float
    least: float
    clusters: int
    cluster_by: str
    tests: int
    detectable: float
    alpha: float

    @property
    def fell(self) -> float:
        """Size of the drop; below 0 for a rise."""
        return self.before - self.now

    @property
    def open(self) -> bool:
        """Whether it changed, but not even a fall from 1 to 0 would be significant."""
        return abs(self.fell) > EQUAL and not self.shown and self.least > self.alpha

    @property
    def shown(self) -> bool:
        """Whether the drop is significant."""
        return self.p <= self.alpha

    def __str__(self) -> str:
        """The result, and the smallest drop that could have been shown."""
        family = f"{self.tests} drops together, " if self.tests > 1 else ""
        said = f"{self.before:.4f} -> {self.now:.4f}, {0.0 - self.fell:+.4f}, p {self.p:.4f}"
        return f"{said} ({family}{self.clusters} {self.cluster_by}); {self.could_show}"

    @property
    def could_show(self) -> str:
        """The smallest drop that could have been shown, or the reason why none could."""
        if self.open:
            return f"nothing could have been shown (least p {self.least:.3g})"
        if self.detectable <= 1:
            return f"could have shown {self.detectable:.4f}"
        same = abs(self.fell) <= EQUAL
        return "the same in both" if same else "the detectable drop is not known"

    @property
    def remedy(self) -> str:
        """What to do if nothing could have been shown."""
        remedy = f"take more {self.cluster_by}"
        if self.cluster_by == "haystacks":
            remedy += ', or cluster_by = "queries" if questions to one haystack are independent'
        return remedy


def drops(
    before: ScoredRun, now: ScoredRun, places: Sequence[Place], cluster_by: str, alpha: float
) -> list[Drop]:
    """Compare these numbers of two runs, query by query, as one family.

    `cluster_by` are the independent units, as in a comparison. Raises UsageError for other units,
    for runs that do not compare, and for numbers that one of them lacks.
    """
    blocks = list(dict.fromkeys(block for block, _, _ in places))
    if apart := differing(essentials((before, now), blocks)):
        names = f"{before.folder} / {now.folder}"
        raise UsageError(f"these runs do not compare ({names}): {'; '.join(map(str, apart))}")
    for block, metric, _ in places:
        require_depth((before, now), block, metric)
    about = before.rows(blocks[0])
    clusters = clusters_of(about.haystacks(), cluster_by)
    a, b = (
        np.stack([_values(run, place, about.queries) for place in places], axis=1)
        for run in (before, now)
    )
    return drops_of(a, b, clusters, "queries" if clusters is None else "haystacks", alpha)


def drops_of(
    before: Values, now: Values, clusters: Sequence[str] | None, cluster_by: str, alpha: float
) -> list[Drop]:
    """`drops` of matrices (queries, numbers), NaN for missing values."""
    differences = before - now
    differences[np.abs(differences) <= EQUAL] = 0.0
    lacking = np.isnan(differences)
    found = []
    for at, test in enumerate(joint_tests(differences, clusters, one_sided=True, level=1 - alpha)):
        both = ~lacking[:, at]
        was, now_is = (float(x[both, at].mean()) if both.any() else math.nan for x in (before, now))
        family = (cluster_by, differences.shape[1], test.detectable, alpha)
        found.append(Drop(was, now_is, test.p, test.least, test.clusters, *family))
    return found


def _values(run: ScoredRun, place: Place, order: Sequence[str]) -> Values:
    """One number of a run by query, NaN outside its slice."""
    block, metric, name = place
    found = run.blocks[block].find(metric, name)
    if found is None or found.value is None:
        raise UsageError(f"{run.folder}: has no {metric} over {name!r}, or cannot measure it")
    rows = run.rows(block)
    values = rows.values(metric, order)
    place_of = {query: at for at, query in enumerate(rows.queries)}
    mask = slice_masks(rows, by_category=True)[name]
    inside = [query in place_of and mask[place_of[query]] for query in order]
    return np.where(inside, values, np.nan)
