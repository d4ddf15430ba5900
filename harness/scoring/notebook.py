"""Scores as an HTML table, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from harness.io.html_table import html_table, with_interval
from harness.records.scores import ProtocolResult, ScoredDataset
from harness.schema import Ability


def scores_table(
    dataset: ScoredDataset, main: ProtocolResult | None, wanted: Sequence[str]
) -> str | None:
    """Returns metrics by slice with 95% intervals, and their random baselines over all queries.

    Takes the first four metrics if no wanted one was scored; None if there is no result.
    """
    if main is None:
        return None
    names = [name for name in wanted if name in main.overall] or list(main.overall)[:4]
    rows = []
    for slice_, part in main.slices.items():
        found = [part.metrics.get(name) for name in names]
        if slice_ in ("all", *Ability) and any(found):
            values = [with_interval(one.value, one.interval) if one else "-" for one in found]
            rows.append([slice_, str(part.n), *values])
    baselines = [with_interval(main.overall[name].random_baseline) for name in names]
    caption = f"{dataset.name}, {dataset.granularity} level, {main.key}; 95% intervals"
    return html_table(caption, ["over", "n", *names], [*rows, ["random", "", *baselines]])
