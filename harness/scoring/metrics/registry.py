"""The metrics that are known, by name: those of this folder, and those of installed packages.

A package adds one by the entry point group `harness.metrics`, under the metric's name; the entry
point is a `MetricDefinition`. It is loaded when a metric is asked for that is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from harness.errors import UsageError, near
from harness.io import plugins
from harness.scoring.arrays import Ints, Values
from harness.scoring.metrics.counted import COUNTED
from harness.scoring.metrics.definition import MetricDefinition
from harness.scoring.metrics.ranked import RANKED
from harness.scoring.ranks import Ranked

ENTRY_POINTS = "harness.metrics"

METRICS: dict[str, MetricDefinition] = {one.name: one for one in (*COUNTED, *RANKED)}
"""The metrics of this folder, by name; and of packages those that were asked for."""

ALIASES = {alias: one.name for one in METRICS.values() for alias in one.aliases}
"""Names that other tools use, and ours. `recall_any@k` of LongMemEval is `hit@k`."""


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
    """Returns the error for a metric that is not known, with the near names."""
    others = plugins.names(ENTRY_POINTS)
    return UsageError(f"unknown metric {text!r}{near(name, [*METRICS, *ALIASES, *others])}")


def _checked(
    name: str, function: Callable[[Ranked, Ints], Values]
) -> Callable[[Ranked, Ints], Values]:
    """Returns a function that raises UsageError for what is not one value from 0 to 1 a query."""

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
