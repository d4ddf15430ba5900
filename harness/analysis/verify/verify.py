"""Recomputes the published numbers of a folder and compares them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.analysis.verify.columns import PROTOCOLS, SESSIONS, MetricValues, columns, exclusions
from harness.analysis.verify.inputs import Flags, Floats, Inputs
from harness.analysis.verify.means import Place, abstention, cell, counts, knowledge_update, mean
from harness.analysis.verify.metrics import MetricName
from harness.analysis.verify.published import Folder, FolderCheck, Rescore, check_sums, checks
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset, open_prepared
from harness.errors import UsageError
from harness.records.scores import ProtocolResult

TOLERANCE = 1e-9
"""Tolerance: larger than rounding errors of sums, smaller than effects of another formula."""

_SHOWN = 3
"""Maximum number of queries that a difference names."""

NOT_SCORABLE = (
    "unanswerable",
    "without a judgement",
    "without relevant documents",
)
"""Reasons why a protocol cannot score a query in any run."""


@dataclass(frozen=True)
class Difference:
    """A published number that differs from the recomputed one; None is no number.

    For values by query, `queries` are those that differ most, with both values.
    """

    section: str
    what: str
    slice: str
    published: float | None
    recomputed: float | None
    queries: list[tuple[str, float | None, float | None]] = field(default_factory=list)


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    `numbers` counts those of scores.json, `not_recomputed` some of them by kind, and `from_table`
    those that were recomputed from the values in scores.parquet only. `values` and `compared` count
    the compared values of queries and numbers of scores.json, by section.
    """

    folder: Folder
    numbers: int
    from_table: int
    values: Counter[str]
    compared: Counter[str]
    checks: list[FolderCheck]
    differences: list[Difference]
    not_recomputed: dict[str, int]

    @property
    def recomputed(self) -> int:
        """Number of recomputed numbers of scores.json."""
        return self.numbers - sum(self.not_recomputed.values())

    @property
    def agrees(self) -> bool:
        """Whether all numbers agree and no check failed."""
        return not self.differences and all(check.ok is not False for check in self.checks)


def verify(
    path: Path, *, source: str | None = None, rescore: Rescore | None = None
) -> Verification:
    """Recomputes the numbers in scores.json of a run folder or a submission.

    `source`: the raw files of its dataset, if that is not prepared. `rescore`: the scorer, to
    compare flags, warnings and the other numbers. Raises UsageError for a folder without published
    numbers, for data that differ from the named dataset, and without pytrec_eval.
    """
    folder = Folder.read(path)
    sums = check_sums(folder)
    file, skip = folder.rankings()[0], folder.report.missing == "skip"
    inputs = Inputs(path, file, _dataset(folder, source), folder.record.k, skip_missing=skip)
    comparison = Recomputation(folder, inputs)
    for index, protocol in enumerate(folder.report.protocols):
        comparison.protocol(index, protocol)
    comparison.sections()
    others = checks(folder, inputs, rescore if sums.ok else None)
    return comparison.verdict([sums, *others])


def _dataset(folder: Folder, source: str | None) -> Dataset:
    """Opens the dataset that run.json names. Raises UsageError if its content differs."""
    about = folder.record.dataset
    dataset = None if source else open_prepared(about.name, about.fingerprint)
    if dataset is None:
        dataset = open_dataset(
            about.name,
            source=source,
            granularity=about.granularity,
            text=about.text,
            split=about.split,
        )
    if not dataset.fingerprint.startswith(about.fingerprint):
        raise UsageError(
            f"{folder.path}: was run on {about.name} {about.fingerprint[:8]}, but here it is "
            f"{dataset.fingerprint[:8]}; give the same raw files with --source"
        )
    return dataset


class Recomputation:
    """Compares the numbers of a folder with recomputed ones; for a single use."""

    def __init__(self, folder: Folder, inputs: Inputs) -> None:
        self._folder, self._inputs = folder, inputs
        self._published = folder.numbers()
        self._recomputed: set[Place] = set()
        self._from_table = 0
        self._values: Counter[str] = Counter()
        self._compared: Counter[str] = Counter()
        self._differences: list[Difference] = []
        self._scorable = np.zeros(len(inputs.rankings), bool)
        abilities, categories = inputs.dataset.abilities, inputs.dataset.categories
        none = abilities == "abstention"
        self._slices: dict[str, Flags] = {"all": np.ones(len(none), bool)}
        if none.any():
            self._slices["answerable"] = ~none
        self._slices |= {str(name): abilities == name for name in np.unique(abilities)}
        self._categories = [categories == name for name in np.unique(categories) if name]
        names = (f"category:{name}" for name in np.unique(categories) if name)
        self._slices |= dict(zip(names, self._categories, strict=True))

    def protocol(self, index: int, result: ProtocolResult) -> None:
        """Compares the values of queries, their means, and the other published numbers."""
        section = f"{result.name}, {result.level}"
        table = self._folder.by_query(result, self._inputs.dataset.query_ids)
        known = {name: ~np.isnan(values) for name, values in table.items()}
        found = {
            name: MetricValues(values, known[name], {}, recomputed=False)
            for name, values in table.items()
            if known[name].any()
        }
        if result.name in PROTOCOLS:
            why = exclusions(PROTOCOLS[result.name], self._inputs)
            self._scorable |= ~np.isin(why, NOT_SCORABLE)
            for reason in {*result.excluded, *why} - {""}:
                place = ("protocols", str(index), "excluded", reason)
                self._compare(place, why.count(reason), section, f"excluded, {reason}")
            recomputed = columns(self._inputs, result, np.array([not one for one in why]))
            for metric in recomputed.keys() & table.keys():
                self._compare_queries(section, metric, recomputed[metric], table[metric])
            found |= recomputed
        clustered = self._clustered(found)
        for slice_, members in self._slices.items():
            place = ("protocols", str(index), "slices", slice_)
            rows = {metric: np.flatnonzero(members & one.scored) for metric, one in found.items()}
            for metric, column in found.items():
                for where, number in self._cell(column, rows[metric], slice_, clustered):
                    whole = (*place, "metrics", metric, *where)
                    what = metric if where == ("value",) else f"{'.'.join(where)} of {metric}"
                    optional = where not in (("value",), ("n",))
                    if self._compare(whole, number, section, what, slice_, optional=optional):
                        self._from_table += not column.recomputed
            n = max((len(one) for one in rows.values()), default=0)
            self._compare((*place, "n"), n, section, "n", slice_)

    def _clustered(self, found: Mapping[str, MetricValues]) -> bool:
        """Tests whether queries with a published mean share one of several haystacks.

        A mean over a slice is published if the values of all its queries are known.
        """
        groups = self._inputs.dataset.query_shares
        used = np.zeros(len(groups), bool)
        for column in found.values():
            for members in self._slices.values():
                rows = members & column.scored
                if not np.isnan(column.values[rows]).any():
                    used |= rows
        return len(np.unique(groups)) > 1 and len(np.unique(groups[used])) < used.sum()

    def _cell(
        self, column: MetricValues, rows: npt.NDArray[np.int64], slice_: str, clustered: bool
    ) -> Iterator[tuple[Place, float | None]]:
        groups = self._inputs.dataset.query_shares
        yield from cell(
            column.values[rows],
            self._inputs.failed[rows],
            groups[rows],
            {name: values[rows] for name, values in column.levels.items()},
            clustered=clustered,
        )
        if slice_ == "all":
            parts = [column.values[of & column.scored] for of in self._categories]
            means = np.array([values.mean() for values in parts if len(values)])
            yield ("macro_category", "value"), mean(means)
            yield ("macro_category", "groups"), len(means)

    def _compare_queries(
        self, section: str, metric: str, ours: MetricValues, published: Floats
    ) -> None:
        """Compares the values of the queries with those in scores.parquet."""
        self._values[section] += int(ours.scored.sum())
        pairs = np.stack([published, np.where(ours.scored, ours.values, np.nan)])
        apart = np.where(np.isnan(pairs).all(axis=0), 0.0, np.abs(pairs[0] - pairs[1]))
        apart = np.where(np.isnan(apart), np.inf, apart)
        worst = np.argsort(-apart, kind="stable")[:_SHOWN]
        numbers = [[None if np.isnan(x) else x for x in pair] for pair in pairs.T[worst].tolist()]
        queries = [
            (self._inputs.dataset.query_ids[query], *two)
            for query, two in zip(worst.tolist(), numbers, strict=True)
            if apart[query] > TOLERANCE
        ]
        if queries:
            self._differences.append(Difference(section, metric, "by query", None, None, queries))

    def sections(self) -> None:
        """Compares counts, knowledge update and abstention."""
        report, inputs = self._folder.report, self._inputs
        names = [
            metric
            for protocol in report.protocols
            if protocol.name in PROTOCOLS and protocol.level != SESSIONS
            for part in protocol.slices.values()
            for metric in part.metrics
        ]
        cutoffs = {metric.k for name in names if (metric := MetricName.parse(name)) and metric.k}
        found = counts(inputs, cutoffs)
        found["queries", "scorable", "n"] = int((inputs.asked & self._scorable).sum())
        updates = report.knowledge_update
        recalls = [name.partition("@") for name in (updates.values if updates else ())]
        ks = [int(k) for name, _, k in recalls if name == "update_recall"]
        for section, numbers in (
            ("knowledge_update", knowledge_update(inputs, ks)),
            ("abstention", abstention(inputs)),
        ):
            found |= {(section, *place): value for place, value in numbers.items()}
        for place, value in found.items():
            section, *rest = place
            optional = section == "returned" and report.returned is None
            self._compare(place, value, section, ".".join(rest or place), optional=optional)

    def verdict(self, checked: list[FolderCheck]) -> Verification:
        """Returns the result of the comparison."""
        left = Counter(self._kind(p) for p in self._published if p not in self._recomputed)
        return Verification(
            self._folder,
            len(self._published),
            self._from_table,
            self._values,
            self._compared,
            checked,
            self._differences,
            dict(left),
        )

    def _compare(
        self,
        place: Place,
        found: float | None,
        section: str,
        what: str,
        slice_: str = "",
        *,
        optional: bool = False,
    ) -> bool:
        """Compares one number and returns whether it is published.

        If it is not, that is a difference, unless it is `optional`, None or 0.
        """
        published = self._published.get(place)
        if published is None and (optional or not found):
            return False
        self._recomputed.add(place)
        self._compared[section] += 1
        if (
            published is None
            or found is None
            or not math.isclose(published, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        ):
            self._differences.append(Difference(section, what, slice_, published, found))
        return True

    def _kind(self, place: Place) -> str:
        """Describes a number that was not recomputed."""
        if "random_baseline" in place:
            return "random baselines"
        if place[0] != "protocols" or len(place) < 7:
            return ".".join(place[:3]) if place[0] == "abstention" else place[0]
        if place[6] in ("upper_bound", "ties"):
            return {"upper_bound": "upper bounds", "ties": "expected values of ties"}[place[6]]
        return f"{place[5]} of {self._folder.report.protocols[int(place[1])].name}"
