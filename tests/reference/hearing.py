"""Published numbers held against recomputed ones, and the record of what agrees."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from reference.beside import ENDS, METHODS, beside, over_categories
from reference.blocks import Values, mean
from reference.published import Folder, Place, is_number, kind, leaves
from reference.sections import Numbers

PLAIN = "plain Python"
TOLERANCE = 1e-9
"""Sums of the same doubles in another order differ by less, another formula by more."""

_DIGITS = 15  # that a double holds in any case
_SHOWN = 3  # queries that a difference names

Pair = tuple[str, float | None, float | None]
"""A query, its value as published, and as recomputed; None is no value."""


@dataclass
class Line:
    """What one witness found of one protocol.

    `numbers`: how many were held against each other, means by slice and values by query; `largest`:
    their largest difference. `levels`: of a line that is about what stands beside the means, what
    that was.
    """

    protocol: str
    unit: str
    by: str
    metrics: int = 0
    slices: int = 0
    numbers: int = 0
    largest: float = 0.0
    levels: tuple[str, ...] = ()

    @property
    def digits(self) -> int:
        """How many decimals agree everywhere."""
        if self.largest == 0:
            return _DIGITS
        agree = math.floor(-math.log10(2 * self.largest) + 1e-6)  # half a unit of the last is fine
        return max(0, min(_DIGITS, agree))


@dataclass(frozen=True)
class Difference:
    """A number that is published otherwise than it was recomputed; None is no number at all.

    `of_mean`: it is a protocol's mean; then `queries` are those whose own published values differ
    most.
    """

    protocol: str
    unit: str
    what: str
    slice: str
    by: str
    published: float | None
    recomputed: float | None
    queries: list[Pair] = field(default_factory=list)
    of_mean: bool = False


class Hearing:
    """Gathers lines and differences, and which numbers of scores.json were recomputed."""

    def __init__(self, folder: Folder, members: Mapping[str, set[str]]) -> None:
        """`members`: the queries of each slice."""
        self._folder, self._members = folder, members
        self._published = dict(leaves(folder.report))
        self.lines: list[Line] = []
        self.differences: list[Difference] = []
        self.verified: set[Place] = set()

    def block(
        self,
        index: int,
        values: Values,
        by: str,
        *,
        short: Mapping[str, set[str]] | None = None,
    ) -> None:
        """Hold a protocol's means, by slice, and its values, by query, against `values`.

        `short`: the queries whose ranking was too short to know the value, by metric.
        """
        if not values:
            return
        line, rows, short = self._line(index, by), self._folder.rows(index), short or {}
        near = TOLERANCE
        slices = set()
        for slice_, mine in self._members.items():
            largest = 0
            for metric, by_query in values.items():
                there = [query for query in mine if query in by_query]
                place = cell(index, slice_, metric)
                if not there and (*place, "value") not in self._published:
                    continue
                slices.add(slice_)
                largest = max(largest, len(there))
                unknown = len(short.get(metric, set()) & mine)
                found = None if unknown else mean([by_query[q] for q in there])
                if not self._agrees(line, (*place, "value"), found, near):
                    apart = [] if rows is None else _apart(rows, by_query, there, metric, near)
                    self._tell(line, (*place, "value"), found, metric, slice_, apart, of_mean=True)
                if (*place, "n") in self.verified:
                    continue  # by a witness before
                self._hold(line, (*place, "n"), len(there), f"n of {metric}", slice_)
                if unknown or (*place, "unmeasurable") in self._published:
                    said = f"unmeasurable of {metric}"
                    self._hold(line, (*place, "unmeasurable"), unknown, said, slice_)
            if largest and by == PLAIN:
                self._hold(line, (*cell(index, slice_)[:4], "n"), largest, "n", slice_)
        line.metrics, line.slices = len(values), len(slices)
        if rows is not None:
            self._rows(line, rows, values, short, near)
        self.lines.append(line)

    def _rows(
        self,
        line: Line,
        rows: Mapping[str, Mapping[str, float | None]],
        values: Values,
        short: Mapping[str, set[str]],
        near: float,
    ) -> None:
        """Hold the values of scores.parquet against ours, query by query."""
        place = (line.protocol, line.unit)
        told = {one.what for one in self.differences if (one.protocol, one.unit) == place}
        for metric, by_query in values.items():
            known = {q: v for q, v in by_query.items() if q not in short.get(metric, ())}
            published = {q: row.get(metric) for q, row in rows.items()}
            odd = [q for q, v in published.items() if v is not None and q not in known]
            odd += [q for q, v in known.items() if not _close(line, published.get(q), v, near)]
            line.numbers += len(known)
            if odd and metric not in told:
                worst = _apart(rows, known, odd, metric, near)
                told_by = (line.protocol, line.unit, metric, "by query", line.by)
                self.differences.append(Difference(*told_by, None, None, worst))

    def beside(
        self,
        index: int,
        levels: Mapping[str, Values],
        haystack: Mapping[str, str],
        failed: Collection[str],
    ) -> None:
        """Hold what stands beside the means against ours; where none is published, none is held.

        `levels`: by name and metric, values by query, those of the metrics themselves as `value`;
        `haystack`: by query; `failed`: queries that failed.
        """
        line = self._line(index, PLAIN)
        kinds, metrics, slices = set(), set(), set()
        protocol = self._folder.report.protocols[index]
        categories = [of for name, of in self._members.items() if name.startswith("category:")]
        for slice_, part in protocol.slices.items():
            mine = self._members.get(slice_, set())
            for metric in part.metrics:
                ours = {
                    name: {q: by_metric[metric][q] for q in mine if q in by_metric[metric]}
                    for name, by_metric in levels.items()
                    if metric in by_metric
                }
                place = cell(index, slice_, metric)
                method = self._published.get((*place, "interval", "method"))
                over = over_categories(ours.get("value", {}), categories if slice_ == "all" else [])
                for what, where, found in (*beside(ours, haystack, failed), *over):
                    if what == ENDS and method not in METHODS:
                        continue  # of an older harness
                    if self._published.get((*place, *where)) is not None:
                        said = f"{'.'.join(where)} of {metric}"
                        self._hold(line, (*place, *where), found, said, slice_)
                        kinds.add(what)
                        metrics.add(metric)
                        slices.add(slice_)
        line.levels = tuple(sorted(kinds))
        line.metrics, line.slices = len(metrics), len(slices)
        if line.numbers:
            self.lines.append(line)

    def section(self, place: Place, name: str, unit: str, ours: Numbers) -> None:
        """Hold a section of scores.json against our numbers, which have its keys below `place`."""
        line = Line(name, unit, PLAIN, metrics=len(ours), slices=1)
        for keys, found in ours.items():
            self._hold(line, (*place, *keys), found, ".".join(keys))
        if ours:
            self.lines.append(line)

    def _line(self, index: int, by: str) -> Line:
        protocol = self._folder.report.protocols[index]
        return Line(protocol.name, protocol.level, by)

    def _agrees(self, line: Line, place: Place, found: float | None, near: float) -> bool:
        """Whether what is published there is ours; a number that is not published never is."""
        self.verified.add(place)
        line.numbers += 1
        close = _close(line, self._published.get(place), found, near)
        return close and place in self._published

    def _hold(
        self, line: Line, place: Place, found: float | None, what: str, slice_: str = ""
    ) -> None:
        """Hold one published number against ours, and tell where it differs."""
        if not self._agrees(line, place, found, TOLERANCE):
            self._tell(line, place, found, what, slice_)

    def _tell(
        self,
        line: Line,
        place: Place,
        found: float | None,
        what: str,
        slice_: str,
        queries: Sequence[Pair] = (),
        *,
        of_mean: bool = False,
    ) -> None:
        published = self._published.get(place)
        number = published if isinstance(published, int | float) else None
        told = (line.protocol, line.unit, what, slice_, line.by, number, found)
        self.differences.append(Difference(*told, list(queries), of_mean))

    def numbers(self) -> list[Place]:
        """Every number of scores.json, see `published.is_number`."""
        return [place for place, leaf in self._published.items() if is_number(place, leaf)]

    def means(self) -> tuple[int, int]:
        """How many means of protocols were recomputed, and how many there are."""
        there = [place for place in self.numbers() if len(place) == 7 and place[-1] == "value"]
        return sum(place in self.verified for place in there), len(there)

    def not_verified(self) -> dict[str, int]:
        """How many numbers of each kind were not recomputed."""
        left = (place for place in self.numbers() if place not in self.verified)
        return dict(Counter(kind(self._folder.report, place) for place in left))


def cell(index: int, slice_: str, metric: str = "") -> Place:
    """The keys that lead to a cell of scores.json."""
    return ("protocols", str(index), "slices", slice_, "metrics", metric)


def _close(line: Line, published: object, found: float | None, near: float) -> bool:
    if published is None or found is None:
        return published is None and found is None
    if isinstance(published, bool) or not isinstance(published, int | float):
        return False
    apart = abs(published - found) / max(1.0, abs(found))
    line.largest = max(line.largest, apart)
    return apart <= near


def _apart(
    rows: Mapping[str, Mapping[str, float | None]] | None,
    values: Mapping[str, float],
    queries: Collection[str],
    metric: str,
    near: float,
) -> list[Pair]:
    """The queries whose own published values are furthest from ours."""
    if rows is None:
        return []
    pairs = [(q, rows.get(q, {}).get(metric), values.get(q)) for q in queries]
    different = [pair for pair in pairs if distance(pair[1], pair[2]) > near]
    return sorted(different, key=lambda pair: -distance(pair[1], pair[2]))[:_SHOWN]


def distance(published: float | None, found: float | None) -> float:
    """How far apart two numbers are; infinitely, where one is none."""
    if published is None or found is None:
        return 0.0 if published is found else math.inf
    return abs(published - found)
