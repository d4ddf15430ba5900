"""Records of a comparison, for tables, pages and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.analysis.compare.behind import Behind
from harness.analysis.compare.options import Options as Options
from harness.analysis.scored_run import Differing
from harness.errors import UsageError, suggest
from harness.io.html_table import html_table, with_interval
from harness.io.records import to_tree
from harness.records.scores import ReturnedStats
from harness.stats.intervals import MeanInterval
from harness.stats.paired import Equivalence, PairedComparison


@dataclass(frozen=True)
class Pair:
    """Run `b` minus run `a` (indices of the group's runs) in one cell.

    Runs are in the order OLD NEW, so a difference above 0 is an improvement.

    `p` is corrected for all tests of the table; `found.test.p` is not. `shown`: p is at most
    1 - level, so there is a difference; False does not mean that there is none. `detectable` is the
    smallest true difference that this test, with its correction, shows with the requested power:
    NaN without spread, if it is not known, or if no difference could be shown (`open`). `others`
    are uncorrected p values of additional tests, by name.
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

    `tests` is the number of tests in the family: every pair, metric and slice. `test` is
    `sign flips` or `t`. `cluster_by` are the independent units (`haystacks` or `queries`),
    `clusters` their number, and `average` what means are over. `left_out` has the metrics that are
    not in every run, with the reason. `dropped` is, for each run, the number of its queries that
    are excluded because another run has no value for them. `behind` are differences of judged
    accuracy adjusted by human labels.
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
    """Runs that compare. `settings` lists their differences.

    `returned` has the statistics of each run's returned documents; None if there are none.
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
    """Groups of runs that compare; several only with `force`.

    `comparison["recall@10"]` and `comparison["recall@10", "temporal"]` are the cells of the first
    protocol that has them: the mean of each run, and each pair's difference, interval and p.

    `differences` are the settings that separate the groups, with a value for each run of `runs`.
    """

    runs: tuple[str, ...]
    differences: tuple[Differing, ...]
    groups: tuple[Group, ...]
    options: Options

    def __getitem__(self, key: str | tuple[str, str]) -> Cell:
        """A cell by metric, over all queries or a slice. Raises UsageError if there is none."""
        metric, slice_ = (key, "all") if isinstance(key, str) else key
        cells = [cell for group in self.groups for table in group.tables for cell in table.cells]
        for cell in cells:
            if (cell.metric, cell.slice) == (metric, slice_):
                return cell
        known = sorted({cell.metric for cell in cells if cell.slice == slice_})
        raise UsageError(
            f"no metric {metric!r} over {slice_!r} was compared{suggest(metric, known)}"
        )

    def as_dict(self) -> dict[str, object]:
        """Values for JSON."""
        plain: dict[str, object] = to_tree(self)
        return plain

    def _repr_html_(self) -> str:
        """Returns the main differences as a table, for notebooks."""
        from harness.scoring.scores import MAIN

        rows = []
        for group in self.groups:
            cells = {cell.metric: cell for cell in group.tables[0].cells if cell.slice == "all"}
            for name in [metric for metric in MAIN if metric in cells] or list(cells)[:4]:
                for pair in cells[name].pairs:
                    pair_of = [f"{group.runs[pair.b]} - {group.runs[pair.a]}", name]
                    difference = with_interval(pair.found.difference.value, pair.found.difference)
                    rows.append([*pair_of, difference, f"{pair.p:.4f}{' *' * pair.shown}"])
        head = ["B - A", "metric", "difference", "p"]
        return html_table("Differences over all queries; * significant", head, rows)

    def __repr__(self) -> str:
        """A summary of the runs, and whether they compare."""
        apart = f", in {len(self.groups)} groups that do not compare" if self.differences else ""
        return f"<Comparison of {', '.join(self.runs)}{apart}>"
