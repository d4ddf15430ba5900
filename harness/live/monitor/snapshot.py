"""All numbers of a monitor at one moment, as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from harness.live.monitor.measure import feedback

if TYPE_CHECKING:
    from harness.live.monitor.monitor import Monitor


def as_json(monitor: Monitor) -> dict[str, Any]:
    """What `Monitor.snapshot` returns; its lock is held, and nothing waits to be scored."""
    window, later, alerts = monitor.window, monitor.over_time, monitor.watch.alerts
    time = window.columns["time"][: window.n]
    known = time[~np.isnan(time)]
    return {
        "window": {
            "size": window.size,
            "n": window.n,
            "from": float(known.min()) if len(known) else None,
            "to": float(known.max()) if len(known) else None,
        },
        "labels": None if monitor.labels is None else len(monitor.labels),
        "totals": dict(monitor.totals),
        "metrics": list(monitor.metrics),
        "slices": monitor.cells(),
        "feedback": feedback(window),
        "drift": monitor.drift(),
        "over_time": {
            "bucket": monitor.bucket,
            "width": later.width,
            "rows": later.rows(monitor.metrics),
            "dropped": later.dropped,
            "late": later.late,
            "without_time": later.without_time,
            "in_the_future": later.in_the_future,
        },
        "alerts": list(alerts.standing.values()),
        "history": list(alerts.history)[::-1],
        "tests": monitor.watch.summary(),
    }
