"""Turn rankings scored at session level: a result for every session metric of a protocol."""

from __future__ import annotations

from collections.abc import Sequence

from harness.datasets.reader import Dataset
from harness.scoring.arrays import Flags, Ints
from harness.scoring.cells import Column, finisher
from harness.scoring.depth import depth_sensitive
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Protocol
from harness.scoring.random_baseline_sessions import SessionBaseline
from harness.scoring.session_level import SessionLevel
from harness.scoring.upper_bound import UpperBounds


def session_columns(
    dataset: Dataset,
    protocol: Protocol,
    cutoffs: Sequence[int],
    level: SessionLevel,
    scored: Flags,
    present: Flags,
    stable: Ints,
) -> list[Column]:
    """Every session metric of the protocol at `cutoffs`, on turns.

    `present` (m,) and `stable` (n,) are as for documents.
    """
    by_session = level.ranked()
    upper_bounds = UpperBounds(by_session, present)
    levels = SessionBaseline(dataset, dataset.qrels(protocol.key), level, scored, present, cutoffs)
    columns = []
    for template in protocol.session_metrics:
        for cutoff in cutoffs:
            metric = Metric.parse(template.format(k=cutoff))
            cut, measurable = level.effective_cutoff(cutoff)
            finish = finisher(protocol, metric, scored)
            baseline, how = levels(metric)
            top = upper_bounds.of_sessions(metric)
            columns.append(
                Column(
                    metric,
                    finish(metric(by_session, cut)),
                    measurable,
                    finish(baseline),
                    finish(top.values),
                    exact=top.exact,
                    random_method=how,
                    depth_sensitive=depth_sensitive(metric, by_session, stable, cut),
                )
            )
    return columns
