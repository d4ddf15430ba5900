"""What a comparison says: plain records, for tables, pages and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.analysis.compare.behind import Behind
from harness.analysis.compare.options import Options as Options
from harness.analysis.scored_run import Differing
from harness.errors import UsageError, near
from harness.io.records import to_tree
from harness.records.scores import ReturnedStats
from harness.stats.intervals import MeanInterval
from harness.stats.paired import Equivalence, PairedComparison


@dataclass(frozen=True)
class Pair:
    """Run `b` less run `a` (places in the group's runs) in one cell.

    Runs are given as they came to be, OLD NEW, so a difference above 0 is an improvement.

    `p` is corrected for all tests of the table; `found.test.p` is not. `shown` says that p is at
    most 1 - level: only then is there a difference to speak of, and where it is False nothing is
    shown, which is not the same as no difference. `detectable` is the smallest true difference that
    this test, with its correction, shows with the power that was asked for: NaN where there is no
    spread, it is not known, or no difference could be shown (`open`). `others` are p values of the
    tests that were asked for beside it, by name, not corrected.
    """

    a: int
    b: int
    found: PairedComparison
    p: float
    shown: bool
    detectable: float
    open: bool
    others: dict[str, float] = field(default_factory=dict)
    equivalence: Equivalence | None = None


@dataclass(frozen=True)
class Cell:
    """One metric over one slice: the mean of each run with its interval, and every pair of runs."""

    slice: str
    metric: str
    means: tuple[MeanInterval, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Table:
    """One protocol: cells in order of slice and metric.

    `tests` is how many tests were corrected together: every pair, metric and slice. `test` is
    `sign flips` or `t`. `cluster_by` is what was taken for independent (`haystacks` or `queries`),
    `clusters` how many of those there are, and `average` what the means are over. `left_out` names
    metrics that not every run has, with the reason. `dropped` is, for each run, how many of its
    queries are in no mean here because another run has no value for them: it could not be measured
    there. `behind` are differences in a judge's accuracy with what people judged carried into them.
    """

    protocol: str
    level: str
    cluster_by: str
    clusters: int
    cells: tuple[Cell, ...]
    tests: int
    test: str
    left_out: dict[str, str]
    dropped: tuple[int, ...] = ()
    average: str = "queries"
    behind: tuple[Behind, ...] = ()


@dataclass(frozen=True)
class Group:
    """Runs that compare. `settings` lists what differs between them, which is read first.

    `returned` has the statistics of each run's returned documents; None: nothing was returned.
    """

    runs: tuple[str, ...]
    systems: tuple[str, ...]
    failed: tuple[int, ...]
    returned: tuple[ReturnedStats | None, ...]
    essentials: dict[str, str]
    settings: tuple[Differing, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Groups of runs that compare: one, or several when asked for `force`.

    `comparison["recall@10"]` and `comparison["recall@10", "temporal"]` are the cells of the first
    protocol that has them: the mean of each run, and each pair's difference, interval and p.

    `differences` says what keeps the groups apart, with a value for each run of `runs`.
    """

    runs: tuple[str, ...]
    differences: tuple[Differing, ...]
    groups: tuple[Group, ...]
    options: Options

    def __getitem__(self, key: str | tuple[str, str]) -> Cell:
        """A cell by metric, over all queries or a slice. Raises UsageError where there is none."""
        metric, slice_ = (key, "all") if isinstance(key, str) else key
        cells = [cell for group in self.groups for table in group.tables for cell in table.cells]
        for cell in cells:
            if (cell.metric, cell.slice) == (metric, slice_):
                return cell
        known = sorted({cell.metric for cell in cells if cell.slice == slice_})
        raise UsageError(f"no metric {metric!r} over {slice_!r} was compared{near(metric, known)}")

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        plain: dict[str, object] = to_tree(self)
        return plain

    def __repr__(self) -> str:
        """The runs, and whether they compare; `harness compare` prints the tables."""
        apart = f", in {len(self.groups)} groups that do not compare" if self.differences else ""
        return f"<Comparison of {', '.join(self.runs)}{apart}>"
