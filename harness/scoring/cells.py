"""One protocol applied to one run: values by query, a cell for every slice and metric, cautions.

A caution names metrics that cannot tell systems apart, or not be known, on this dataset and run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from harness.dataset.reader import Dataset
from harness.scoring.answers import ANSWERS, SHOWN, answers_in_top
from harness.scoring.arrays import Flags, Ints, Values, mean
from harness.scoring.ceiling import Ceilings
from harness.scoring.chance import chance
from harness.scoring.depth import touched
from harness.scoring.drawn_chance import answers_by_chance
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Protocol
from harness.scoring.ranks import Ranked
from harness.scoring.rollup import UNKNOWN_SIZE, SessionLevel
from harness.scoring.session_chance import SessionChance
from harness.scoring.ties import TieOrders

SATURATED = 0.005
"""A mean this close to its ceiling leaves no room for a better system."""

BOUND = "an upper bound"
"""What a cell's `ceiling_is` says where the best could not be worked out for all of its queries."""


@dataclass(frozen=True)
class Column:
    """One metric of one protocol over all queries; every array has shape (n,).

    `values` is NaN where the query is not scored. `measurable` is False where the ranking was too
    short to know the value. `chance` and `ceiling` are None where there is no such level; `best`,
    `worst` and `expected` are what other orders of equal scores would give, None where ties change
    nothing. `exact`: where the ceiling is no mere upper bound. `chance_is` says how chance was come
    by, where it is not exact. `touched`: where deeper rankings could give another value.
    """

    metric: Metric | str
    values: Values
    measurable: Flags
    chance: Values | None
    ceiling: Values | None
    best: Values | None = None
    worst: Values | None = None
    expected: Values | None = None
    exact: Flags | None = None
    chance_is: str = ""
    touched: Flags | None = None

    @cached_property
    def _scored(self) -> Flags:
        return ~np.isnan(self.values)

    def cell(self, mask: Flags, failed: Flags | None = None) -> dict[str, Any] | None:
        """The mean over the scored queries of a slice; None where there are none.

        The value is None when a ranking in the slice was too short to know it. Queries that
        `failed` count with their value, which is 0 for what found nothing; where there are any,
        `answered_only` is the mean over the others.
        """
        mine = mask & self._scored
        n = int(np.count_nonzero(mine))
        if not n:
            return None
        unknown = int(np.count_nonzero(mine & ~self.measurable))
        cell: dict[str, Any] = {
            "value": None if unknown else mean(self.values[mine]),
            "n": n,
        }
        if failed is not None and (mine & failed).any():
            answered = mine & ~failed
            cell["answered_only"] = {
                "value": None if unknown else mean(self.values[answered]),
                "n": int(np.count_nonzero(answered)),
            }
        if self.ceiling is not None:
            cell["ceiling"] = mean(self.ceiling[mine])
            if self.exact is not None and not self.exact[mine].all():
                cell["ceiling_is"] = BOUND
        if unknown:
            cell["not_measurable"] = unknown
        if self.chance is not None:
            cell["chance"] = mean(self.chance[mine])
            if self.chance_is:
                cell["chance_is"] = self.chance_is
        if self.best is not None and self.worst is not None and self.expected is not None:
            bounds = {
                "best": mean(self.best[mine]),
                "worst": mean(self.worst[mine]),
                "expected": mean(self.expected[mine]),
            }
            if bounds["best"] != bounds["worst"]:
                cell["ties"] = bounds
        return cell


def document_columns(
    protocol: Protocol,
    metrics: list[Metric],
    ranked: Ranked,
    scored: Flags,
    present: Flags,
    sizes: Ints,
    settled: Ints | None = None,
) -> list[Column]:
    """Every metric on documents; `present` (m,) and `sizes` (n,) as in chance.py, `settled` (n,) as
    in depth.py; without it nothing is said of what depth changes."""
    orders, ceilings = TieOrders(ranked), Ceilings(ranked, present)
    sized = sizes.max(initial=0) < UNKNOWN_SIZE
    columns = []
    for metric in metrics:
        finish = _finisher(protocol, metric, scored)
        best = worst = expected = None
        if orders.any:
            low, high = (finish(values) for values in reversed(orders.bounds(metric)))
            if np.nanmax(high - low, initial=0) > 1e-12:
                best, worst, expected = high, low, finish(orders.expected(metric))
        by_chance = chance(metric, ranked, present, sizes) if sized else None
        top = ceilings(metric)
        columns.append(
            Column(
                metric,
                finish(metric(ranked)),
                np.ones(ranked.n, bool),
                None if by_chance is None else finish(by_chance),
                finish(top.values),
                best,
                worst,
                expected,
                top.exact,
                touched=None if settled is None else touched(metric, ranked, settled),
            )
        )
    return columns


def session_columns(
    dataset: Dataset,
    protocol: Protocol,
    ks: Sequence[int],
    level: SessionLevel,
    scored: Flags,
    present: Flags,
    settled: Ints,
) -> list[Column]:
    """Every session metric of the protocol at `ks`, on turns; `present` (m,) and `settled` (n,) as
    for documents."""
    by_session = level.ranked()
    ceilings = Ceilings(by_session, present)
    levels = SessionChance(dataset, dataset.qrels(protocol.key), level, scored, present, ks)
    columns = []
    for template in protocol.session_metrics:
        for k in ks:
            metric = Metric.parse(template.format(k=k))
            cut, measurable = level.cut(k)
            finish = _finisher(protocol, metric, scored)
            by_chance, how = levels(metric)
            top = ceilings.of_sessions(metric)
            columns.append(
                Column(
                    metric,
                    finish(metric(by_session, cut)),
                    measurable,
                    finish(by_chance),
                    finish(top.values),
                    exact=top.exact,
                    chance_is=how,
                    touched=touched(metric, by_session, settled, cut),
                )
            )
    return columns


def answer_columns(
    dataset: Dataset, texts: Sequence[Sequence[str]], counted: Flags, depth: float
) -> list[Column]:
    """Every metric of answers at every cut-off that they reach; `texts` are by query."""
    references = dataset.query_table["answers"].to_pylist()
    given = [answers if use else [] for answers, use in zip(references, counted, strict=True)]
    ks = [k for k in ANSWERS.ks if k <= depth] or [1]
    found = answers_in_top(texts, given, ks, SHOWN)
    by_chance, how = answers_by_chance(dataset, given, SHOWN, ks)
    known = np.ones(dataset.n_queries, bool)
    return [
        Column(name, values, known, by_chance[name], None, chance_is=how)
        for name, values in found.items()
    ]


def query_table(
    dataset: Dataset, asked: Flags, protocol: str, unit: str, columns: Sequence[Column]
) -> pa.Table:
    """One row a query that was asked: what it is, and its values; null where it was not scored."""
    rows = np.flatnonzero(asked)
    names = dataset.haystack_bases
    table = {
        "query": [dataset.query_ids[i] for i in rows],
        "ability": dataset.abilities[rows],
        "category": dataset.categories[rows],
        "haystack": [names[h] for h in dataset.query_haystack[rows]],
        "protocol": pa.repeat(protocol, len(rows)),
        "unit": pa.repeat(unit, len(rows)),
    }
    for column in columns:
        known = np.where(column.measurable, column.values, np.nan)[rows]
        table[str(column.metric)] = pa.array(known, from_pandas=True)
    return pa.table(table)


class Cautions:
    """Gathers the metrics that say little over all protocols of a run; a line a kind and unit."""

    def __init__(self, depth: int, sizes: Ints) -> None:
        """`depth`: documents a ranking could hold; `sizes` (queries,): those of the haystack."""
        self._depth = depth
        self._median = float(np.median(sizes)) if len(sizes) else 0.0
        # (what, unit) -> names in order of first mention
        self._found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    def look(self, columns: list[Column], unit: str, scored: Flags) -> None:
        """Look at the columns of one protocol at one unit: all for bounds, recall and hit for the
        rest."""
        for column in columns:
            metric, cell = column.metric, column.cell(scored)
            if cell is not None and "ceiling_is" in cell:
                self._found["bound", unit][str(metric)] = None
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
            "bound": "the ceiling is an upper bound, which nothing may reach: {names}",
            "short": "rankings of {depth} turns hold too few sessions for k = {names}; "
            "run with a larger --k for that",
        }
        return [
            f"{unit}: "
            + sentences[kind].format(names=", ".join(names), close=SATURATED, depth=self._depth)
            for (kind, unit), names in self._found.items()
        ]


def _finisher(protocol: Protocol, metric: Metric, scored: Flags) -> Callable[[Values], Values]:
    """Gives queries with nothing relevant the protocol's value, and unscored ones NaN."""
    empty = protocol.empty.get(metric.name, 0.0)
    return lambda values: np.where(scored, np.where(np.isnan(values), empty, values), np.nan)
