"""Metrics: parsing and printing of their names, and their definitions.

Each metric is a `MetricDefinition` in `counted`, in `ranked`, or in an installed package that
registers it under its name in the entry point group `harness.metrics`, which is searched for names
that are unknown here. `described` describes the metrics that need more than rankings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.errors import UsageError, suggest
from harness.io import plugins
from harness.scoring.arrays import Ints, Values
from harness.scoring.metrics.counted import COUNTED
from harness.scoring.metrics.definition import MetricDefinition
from harness.scoring.metrics.ranked import RANKED
from harness.scoring.ranks import Ranked

__all__ = ["METRICS", "Metric", "MetricDefinition", "find_metric", "parse_metrics"]

_TREC_EVAL = re.compile(r"(ndcg_cut|map_cut|p|recall|success)_(\d+)", re.IGNORECASE | re.ASCII)
"""trec_eval's names of measures at a cutoff: `ndcg_cut_10`, `P_5`."""
_TEXT = re.compile(r"([A-Za-z_0-9\-]+)(?:\(rel=(\d+)\))?(?:@(.*))?", re.ASCII)


@dataclass(frozen=True, order=True)
class Metric:
    """A metric: name, cutoff `k` (None: the whole ranking) and the minimum relevant grade.

    `Metric.parse("recall(rel=2)@100")` and `str()` are inverse.
    """

    name: str
    k: int | None = None
    rel: int = 1

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Parses a name. Raises UsageError for unknown names and bad or missing cutoffs."""
        if not isinstance(text, str):
            raise UsageError(f"a metric is a text, as in ndcg@10, not {text!r:.60}")
        found = _TEXT.fullmatch(_TREC_EVAL.sub(r"\1@\2", text.strip()))
        name = found[1].lower() if found else text
        definition = find_metric(name) if found else None
        if found is None or definition is None:
            raise unknown_metric(text, name)
        _, level, cutoff = found.groups()
        if cutoff is None and definition.needs_cutoff:
            name = definition.name
            raise UsageError(f"the metric {name!r} needs a cut-off, for instance {name}@10")
        if cutoff is not None and definition.own_cutoff is not None:
            raise UsageError("rprec cuts at the number of relevant documents and takes no @k")
        if cutoff is not None and not (_whole(cutoff) and int(cutoff) >= 1):
            raise UsageError(
                f"the cut-off of {text!r:.60} must be a whole number, 1 or more, in 18 digits"
            )
        if level is not None and not (_whole(level) and int(level) >= 1):
            raise UsageError(
                f"{text!r:.60}: relevant is grade 1 or more, so rel must be that too, in 18 digits"
            )
        return cls(definition.name, None if cutoff is None else int(cutoff), int(level or 1))

    def __str__(self) -> str:
        rel = f"(rel={self.rel})" if self.rel != 1 else ""
        return f"{self.name}{rel}" + (f"@{self.k}" if self.k is not None else "")

    def __call__(self, ranked: Ranked, cutoff: Ints | None = None) -> Values:
        """Computes one value per query; NaN if the query has no relevant document.

        `cutoff`, shape (n,), replaces the cutoff k by one per query.
        """
        ranked, definition = self.with_relevance(ranked), self.definition
        if cutoff is None:
            cutoff = definition.cutoffs(ranked, self.k)
        return definition.function(ranked, cutoff)

    def with_relevance(self, ranked: Ranked) -> Ranked:
        """Returns the ranks with grade 1 for relevant documents and 0 for those below `rel`.

        Has no effect for graded metrics and for `rel` 1.
        """
        if self.rel == 1 or self.definition.graded:
            return ranked
        grade = np.where(ranked.grade >= self.rel, 1, np.minimum(ranked.grade, 0))
        return replace(ranked, grade=grade.astype(np.int32))

    @property
    def definition(self) -> MetricDefinition:
        """Definition of the metric. Raises UsageError for an unknown name."""
        found = find_metric(self.name)
        if found is None:
            raise unknown_metric(self.name, self.name)
        return found


def _whole(text: str) -> bool:
    """Tests for the digits of a whole number that fits 64 bits."""
    return text.isdecimal() and text.isascii() and len(text) <= 18


def parse_metrics(texts: str | list[str]) -> list[Metric]:
    """Parses `"ndcg@10,recall@5"` or a list; returns distinct metrics in order."""
    parts: list[Any] = texts.split(",") if isinstance(texts, str) else texts
    return list(dict.fromkeys(Metric.parse(part) for part in parts))


# -- By name --

ENTRY_POINTS = "harness.metrics"

METRICS: dict[str, MetricDefinition] = {one.name: one for one in (*COUNTED, *RANKED)}
"""The built-in metrics and the loaded metrics of packages, by name."""

ALIASES = {alias: one.name for one in METRICS.values() for alias in one.aliases}
"""Maps names of other tools to metric names. `recall_any@k` of LongMemEval is `hit@k`."""


def find_metric(name: str) -> MetricDefinition | None:
    """Returns the metric of a name or alias; None for an unknown one.

    Raises UsageError for an entry point that cannot be loaded or is no metric of that name.
    """
    name = ALIASES.get(name, name)
    if name not in METRICS:
        entry = plugins.find(ENTRY_POINTS, name)
        if entry is not None:
            found = plugins.load(entry, "metric")
            if not isinstance(found, MetricDefinition) or found.name != name:
                raise UsageError(
                    f"{entry.value} must be a harness.MetricDefinition named {name!r}, not "
                    f"{found!r:.60}"
                )
            METRICS[name] = replace(found, function=_checked(name, found.function))
    return METRICS.get(name)


def unknown_metric(text: str, name: str) -> UsageError:
    """Returns the error for an unknown metric, with similar names."""
    others = plugins.names(ENTRY_POINTS)
    return UsageError(f"unknown metric {text!r}{suggest(name, [*METRICS, *ALIASES, *others])}")


def _checked(
    name: str, function: Callable[[Ranked, Ints], Values]
) -> Callable[[Ranked, Ints], Values]:
    """Wraps a metric; raises UsageError unless it gives a value from 0 to 1 or NaN per query."""

    def checked(ranked: Ranked, cutoff: Ints) -> Values:
        values = np.asarray(function(ranked, cutoff), np.float64)
        known = values[~np.isnan(values)]
        if values.shape != (ranked.n,) or (known < 0).any() or (known > 1).any():
            raise UsageError(
                f"the metric {name!r} must give a value from 0 to 1, or NaN, for each of "
                f"{ranked.n} queries"
            )
        return values

    return checked
