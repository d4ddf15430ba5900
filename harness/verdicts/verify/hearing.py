"""Published numbers held against recomputed ones, and the record of what agrees."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.verdicts.verify.blocks import Values, mean
from harness.verdicts.verify.published import Folder, Place, leaves
from harness.verdicts.verify.sections import Numbers

PLAIN = "plain Python"
TOLERANCE = 1e-9
"""Sums of the same doubles in another order differ by less, another formula by more."""

_DIGITS = 15  # that a double holds in any case
_SHOWN = 3  # queries that a difference names


@dataclass
class Line:
    """What one witness found of one protocol: how much it looked at, and the largest difference.

    `means` and `values`: how many means by slice, and values by query. `levels`: of a line that is
    about what stands beside the means, what that was.
    """

    protocol: str
    unit: str
    by: str
    metrics: int = 0
    slices: int = 0
    means: int = 0
    values: int = 0
    largest: float = 0.0
    levels: tuple[str, ...] = ()

    @property
    def digits(self) -> int:
        """How many decimals agree everywhere."""
        if self.largest == 0:
            return _DIGITS
        return max(0, min(_DIGITS, math.floor(-math.log10(2 * self.largest) + 1e-6)))


@dataclass(frozen=True)
class Difference:
    """A number that is published otherwise than it was recomputed; None is no number at all.

    `queries`: those whose own published values differ most, as (id, published, recomputed).
    """

    protocol: str
    unit: str
    what: str
    slice: str
    by: str
    published: float | None
    recomputed: float | None
    queries: list[tuple[str, float | None, float | None]] = field(default_factory=list)


class Hearing:
    """Gathers lines and differences, and which numbers of scores.json were recomputed."""

    def __init__(self, folder: Folder, members: Mapping[str, set[str]]) -> None:
        """`members`: the queries of each slice."""
        self._folder, self._members = folder, members
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
        decimals: int | None = None,
    ) -> None:
        """Hold a protocol's means, by slice, and its values, by query, against `values`.

        `short`: the queries whose ranking was too short to know the value, by metric. `decimals`:
        how many a witness prints, which can agree to no more.
        """
        if not values:
            return
        block = self._folder.scores["protocols"][index]
        rows = (self._folder.per_query or {}).get((block["protocol"], block["unit"]))
        line = Line(_name(block), block["unit"], by, metrics=len(values))
        near = TOLERANCE if decimals is None else 0.5000001 * 10**-decimals
        held = set()
        for slice_, mine in self._members.items():
            cells = block["slices"].get(slice_, {}).get("metrics", {})
            for metric, by_query in values.items():
                there = [query for query in mine if query in by_query]
                cell = cells.get(metric)
                if not there and cell is None:
                    continue
                held.add(slice_)
                unknown = len((short or {}).get(metric, set()) & mine)
                found = None if unknown else mean([by_query[q] for q in there])
                place = _cell(index, slice_, metric)
                said = None if cell is None else cell["value"]
                line.means += 1
                self.verified.add((*place, "value"))
                if cell is None or not self._close(line, said, found, near):
                    queries = _apart(rows, by_query, there, metric, near)
                    self._differs(line, metric, slice_, said, found, queries)
                if cell is not None:
                    counts = {"n": len(there), "not_measurable": unknown}
                    for name, one in counts.items():
                        self.verified.add((*place, name))
                        if cell.get(name, 0) != one:
                            of = f"{name} of {metric}"
                            self._differs(line, of, slice_, cell.get(name), one, [])
        for slice_ in held & set(block["slices"]):
            self._slice(
                line, index, slice_, [len(self._members[slice_] & set(v)) for v in values.values()]
            )
        line.slices = len(held)
        self._rows(line, rows, values, short or {}, near)
        self.lines.append(line)

    def _slice(self, line: Line, index: int, slice_: str, sizes: Sequence[int]) -> None:
        """Hold the n of a slice: that of the metric which has most queries."""
        said = self._folder.scores["protocols"][index]["slices"][slice_]["n"]
        self.verified.add(("protocols", str(index), "slices", slice_, "n"))
        if said != max(sizes) and line.by == PLAIN:
            self._differs(line, "n", slice_, said, max(sizes), [])

    def _rows(
        self,
        line: Line,
        rows: Mapping[str, Mapping[str, float | None]] | None,
        values: Values,
        short: Mapping[str, set[str]],
        near: float,
    ) -> None:
        """Hold the values of scores.parquet against ours, query by query."""
        if rows is None:
            return
        told = {
            d.what for d in self.differences if (d.protocol, d.unit) == (line.protocol, line.unit)
        }
        for metric, by_query in values.items():
            line.values += len(by_query)
            known = {q: v for q, v in by_query.items() if q not in short.get(metric, ())}
            published = {q: row.get(metric) for q, row in rows.items()}
            odd = [q for q in published if published[q] is not None and q not in known]
            odd += [q for q, v in known.items() if not self._close(line, published.get(q), v, near)]
            if odd and metric not in told:
                worst = _apart(rows, by_query, odd, metric, near)
                self._differs(line, metric, "by query", None, None, worst)

    def beside(self, index: int, levels: Mapping[str, Values], haystack: Mapping[str, str]) -> None:
        """Hold what stands beside the means against ours; where none is published, none is held.

        `levels`: by name and metric, values by query, those of the metrics themselves as `value`;
        `haystack`: by query.
        """
        block = self._folder.scores["protocols"][index]
        line = Line(_name(block), block["unit"], PLAIN)
        kinds, metrics, held = set(), set(), set()
        for slice_, part in block["slices"].items():
            mine = self._members.get(slice_, set())
            for metric, cell in part["metrics"].items():
                ours = {
                    name: {q: by_metric[metric][q] for q in mine if q in by_metric[metric]}
                    for name, by_metric in levels.items()
                    if metric in by_metric
                }
                for kind, where, found in _beside(ours, haystack, cell):
                    published = _at(cell, where)
                    if published is None:
                        continue
                    kinds.add(kind)
                    metrics.add(metric)
                    held.add(slice_)
                    line.means += 1
                    self.verified.add((*_cell(index, slice_, metric), *where))
                    if not self._close(line, published, found, TOLERANCE):
                        said = f"{'.'.join(where)} of {metric}"
                        self._differs(line, said, slice_, published, found, [])
        line.levels = tuple(sorted(kinds))
        line.metrics, line.slices = len(metrics), len(held)
        if line.means:
            self.lines.append(line)

    def section(self, place: Place, name: str, unit: str, ours: Numbers) -> None:
        """Hold a section of scores.json against our numbers, which have its keys below `place`."""
        published = {where: leaf for where, leaf in leaves(self._folder.scores)}
        line = Line(name, unit, PLAIN, metrics=len(ours), slices=1)
        for keys, found in ours.items():
            where = (*place, *keys)
            line.means += 1
            self.verified.add(where)
            said = published.get(where)
            if where not in published or not self._close(line, said, found, TOLERANCE):
                self._differs(line, ".".join(keys), "", said, found, [])
        if ours:
            self.lines.append(line)

    def _close(self, line: Line, published: float | None, found: float | None, near: float) -> bool:
        if published is None or found is None:
            return published is None and found is None
        apart = abs(published - found) / max(1.0, abs(found))
        line.largest = max(line.largest, apart)
        return apart <= near

    def _differs(
        self,
        line: Line,
        what: str,
        slice_: str,
        published: float | None,
        found: float | None,
        queries: list[tuple[str, float | None, float | None]],
    ) -> None:
        self.differences.append(
            Difference(line.protocol, line.unit, what, slice_, line.by, published, found, queries)
        )

    def numbers(self) -> dict[Place, float]:
        """Every number of scores.json, but for the versions of its form and of protocols."""
        return {
            place: leaf
            for place, leaf in leaves(self._folder.scores)
            if type(leaf) in (int, float) and place[-1] not in ("version", "score_version")
        }

    def means(self) -> tuple[int, int]:
        """How many means of protocols were recomputed, and how many there are."""
        there = [place for place in self.numbers() if len(place) == 7 and place[-1] == "value"]
        return sum(place in self.verified for place in there), len(there)

    def not_verified(self) -> dict[str, int]:
        """How many numbers of each kind were not recomputed, the kind by its keys."""
        kinds: dict[str, int] = {}
        for place in self.numbers():
            if place not in self.verified:
                kind = _kind(self._folder.scores, place)
                kinds[kind] = kinds.get(kind, 0) + 1
        return kinds


def _name(block: Mapping[str, Any]) -> str:
    return f"{block['protocol']}/{block['version']}"


def _cell(index: int, slice_: str, metric: str) -> Place:
    return ("protocols", str(index), "slices", slice_, "metrics", metric)


def _beside(
    ours: Mapping[str, Mapping[str, float]], haystack: Mapping[str, str], cell: Mapping[str, Any]
) -> Iterator[tuple[str, Place, float | None]]:
    """What could stand beside a mean: its kind, the keys that lead to it in the cell, and ours.

    `ours` holds values by query, of each level and as `value` of the metric.
    """
    for name in ("chance", "ceiling", "best", "worst"):
        if name in ours:
            where = ("ties", name) if name in ("best", "worst") else (name,)
            kind = "best and worst of ties" if name in ("best", "worst") else name
            yield kind, where, mean(list(ours[name].values()))
    by_haystack: dict[str, list[float]] = {}
    for query, one in ours.get("value", {}).items():
        by_haystack.setdefault(haystack[query], []).append(one)
    if by_haystack:
        # The mean in which each haystack counts once; and how many units an interval had, and how
        # many of equal size would have told as much.
        means = [mean(one) or 0.0 for one in by_haystack.values()]
        yield "means over haystacks", ("over_haystacks", "value"), mean(means)
        sizes = [len(one) for one in by_haystack.values()]
        if _at(cell, ("interval", "over")) != "haystacks":
            sizes = [1] * sum(sizes)
        effective = sum(sizes) ** 2 / sum(n * n for n in sizes)
        yield "units of intervals", ("interval", "units"), len(sizes)
        yield "units of intervals", ("interval", "effective"), round(effective, 2)


def _at(cell: Mapping[str, Any], where: Place) -> Any:
    """What the keys lead to; None where they lead nowhere."""
    found: Any = cell
    for name in where:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _apart(
    rows: Mapping[str, Mapping[str, float | None]] | None,
    values: Mapping[str, float],
    queries: Collection[str],
    metric: str,
    near: float,
) -> list[tuple[str, float | None, float | None]]:
    """The queries whose own published values are furthest from ours."""
    if rows is None:
        return []
    pairs = [(q, rows.get(q, {}).get(metric), values.get(q)) for q in queries]

    def distance(pair: tuple[str, float | None, float | None]) -> float:
        _, published, found = pair
        if published is None or found is None:
            return 0.0 if published is found else math.inf
        return abs(published - found)

    different = [pair for pair in pairs if distance(pair) > near]
    return sorted(different, key=lambda pair: -distance(pair))[:_SHOWN]


def _kind(scores: Mapping[str, Any], place: Sequence[str]) -> str:
    """What kind of number stands there: of a cell the keys below it, else the section's keys."""
    if place[0] != "protocols":
        return ".".join(part for part in place if not part.isdigit())
    block = scores["protocols"][int(place[1])]
    if len(place) < 6:
        return place[-1]
    if place[-1] in ("value", "n") and len(place) == 7:  # of a metric that nobody knows here
        return f"{_name(block)} {place[5]}"
    if len(place) == 7:
        return place[6]
    return place[6] if place[6] == "interval" else ".".join(place[6:])
