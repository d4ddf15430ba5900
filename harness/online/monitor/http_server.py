"""Serves a monitor over HTTP, to this machine alone: its page, JSON, and /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from typing import Any

from msgspec import structs

from harness.errors import UsageError, install
from harness.online.monitor.monitor import Monitor
from harness.online.monitor.records import MonitorPage, Snapshot
from harness.online.monitor.rules import RATES
from harness.online.monitor.state import SECONDS
from harness.pages import local_server
from harness.pages.html import page
from harness.pages.local_server import HTML, JSON, Request, Response
from harness.records.base import encode, to_plain
from harness.records.run import LogCounts

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_MISSING = f"Prometheus metrics need a library; {install('monitor')}"


def server(
    monitor: Monitor,
    port: int,
    *,
    name: str = "monitor",
    counts: LogCounts | None = None,
    notes: Callable[[], list[str]] = list,
) -> ThreadingHTTPServer:
    """Returns a server on 127.0.0.1, listening already: /, /state.json and, if available, /metrics.

    Raises OSError for a port that is in use. No answer has the text of a query.
    """
    prometheus = metrics_answer()

    def state() -> MonitorPage:
        log = counts and replace(counts, first_error=counts.first_error_location)
        snapshot = structs.asdict(monitor.snapshot())
        return MonitorPage(**snapshot, name=name, log=log, notes=notes(), prometheus=prometheus)

    def answer(request: Request) -> Response | None:
        if request.method != "GET":
            return None
        if request.path == "/":
            return Response(monitor_page(state()), HTML)
        if request.path == "/state.json":
            return Response(encode(state()), JSON)
        if request.path == "/metrics":
            return Response(exposition(monitor, counts), _PROMETHEUS)
        return None

    return local_server.server(answer, port)


def metrics_answer() -> bool:
    """Tests whether Prometheus' client library is installed, which /metrics needs."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        return False
    return True


def monitor_page(data: MonitorPage, *, live: bool = True) -> bytes:
    """Returns one self-contained page; `live`: it polls its server."""
    title = f"{data.name}: requests"
    return page(title, "monitor", to_plain(data), live=live)


# -- Numbers for Prometheus ------------------------------------------------------------------------


class MonitorCollector:
    """A monitor's numbers for Prometheus, collected by its client library at each scrape.

        prometheus_client.REGISTRY.register(MonitorCollector(monitor))

    Names follow Prometheus' conventions: base units (seconds, ratios from 0 to 1), `_total` for
    counters. What is not measurable is absent, never 0. Gauges `harness_window_*` are over the last
    requests; each score has its number of requests beside it. `counts`: of a log that is followed.
    """

    def __init__(self, monitor: Monitor, counts: LogCounts | None = None) -> None:
        self._monitor, self._counts = monitor, counts

    def collect(self) -> Iterator[Any]:
        """Yields all metrics of this moment. Raises UsageError if the library is missing."""
        core = _core()
        snapshot, monitor = self._monitor.snapshot(), self._monitor
        totals = snapshot.totals

        def counter(name: str, about: str, value: float) -> Any:
            metric = core.CounterMetricFamily(f"harness_{name}", about)
            metric.add_metric([], value)
            return metric

        yield counter("requests", "Requests so far.", totals.requests)
        yield counter("requests_labelled", "Requests of labelled queries.", totals.labelled)
        yield counter("requests_failed", "Requests that ended in an error.", totals.failed)
        yield counter("requests_empty", "Requests without a result.", totals.no_result)
        yield counter("requests_abstained", "Requests with an abstention.", totals.abstained)
        if self._counts is not None:
            about = "Lines of the log that could not be read."
            yield counter("log_lines_unreadable", about, self._counts.unreadable)
        yield _histogram(core, monitor)
        yield from _window(core, snapshot)
        yield from _drift_and_feedback(core, snapshot)
        active = core.GaugeMetricFamily(
            "harness_alert_firing", "1 while it is active.", labels=["alert"]
        )
        fired = core.CounterMetricFamily("harness_alerts", "Alerts fired.", labels=["alert"])
        rules = monitor.rules
        for name in rules.names:
            active.add_metric([name], float(name in rules.alerts.active))
            fired.add_metric([name], rules.alerts.episodes[name])
        yield active
        yield fired


def exposition(monitor: Monitor, counts: LogCounts | None = None) -> bytes:
    """Returns the text of /metrics."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise UsageError(_MISSING) from None
    registry = CollectorRegistry()
    registry.register(MonitorCollector(monitor, counts))
    return bytes(generate_latest(registry))


def _core() -> Any:
    try:
        from prometheus_client import core
    except ImportError:
        raise UsageError(_MISSING) from None
    return core


def _histogram(core: Any, monitor: Monitor) -> Any:
    below = monitor.seconds.cumsum().tolist()
    bounds = [*(f"{bound:g}" for bound in SECONDS), "+Inf"]
    metric = core.HistogramMetricFamily("harness_request_duration_seconds", "Time of a request.")
    metric.add_metric([], [*zip(bounds, below, strict=True)], sum_value=monitor.seconds_sum)
    return metric


def _window(core: Any, snapshot: Snapshot) -> Iterator[Any]:
    def gauge(name: str, about: str, *labels: str) -> Any:
        return core.GaugeMetricFamily(f"harness_window_{name}", about, labels=labels)

    requests = gauge("requests", "Requests in the window.", "ability")
    scored = gauge("scored_requests", "Requests that scores are over.", "ability")
    score = gauge("score", "Mean over the scored requests of the window.", "metric", "ability")
    times = gauge("duration_seconds", "Time of a request in the window.", "quantile", "ability")
    rates = {
        rate: gauge(f"{rate}_ratio", f"Share of requests: {rate}.", "ability") for rate in RATES
    }
    for ability, stats in snapshot.slices.items():
        requests.add_metric([ability], stats.n)
        scored.add_metric([ability], stats.scored)
        for metric, value in stats.metrics.items():
            if value is not None:
                score.add_metric([metric, ability], value)
        for rate, family in rates.items():
            if (share := getattr(stats, rate)).value is not None:
                family.add_metric([ability], share.value)
        seconds = stats.seconds
        for value, quantile in ((seconds.p50, "0.5"), (seconds.p95, "0.95"), (seconds.p99, "0.99")):
            if value is not None:
                times.add_metric([quantile, ability], value)
    yield from (requests, scored, score, times, *rates.values())


def _drift_and_feedback(core: Any, snapshot: Snapshot) -> Iterator[Any]:
    gauges: list[tuple[str, str, float | None]] = []
    if (drift := snapshot.drift) is not None:
        gauges += [
            ("unlabelled_queries", "Unlabelled queries, which drift is over.", drift.n),
            ("drift_divergence_bits", "Divergence from labelled queries.", drift.divergence),
            ("drift_level_bits", "Divergence among labelled queries.", drift.level),
            ("unseen_words_ratio", "Share of queries with an unseen word.", drift.unseen_rate),
        ]
    if (feedback := snapshot.feedback) is not None:
        first = feedback.first_click_mrr.value
        gauges += [
            ("click_ratio", "Share of watched requests with a click.", feedback.click_rate.value),
            ("first_click_reciprocal_rank", "Mean over requests with a click.", first),
            ("rating", "Mean rating.", feedback.rating.value),
        ]
    for name, about, value in gauges:
        if value is not None:
            family = core.GaugeMetricFamily(f"harness_window_{name}", about)
            family.add_metric([], value)
            yield family
