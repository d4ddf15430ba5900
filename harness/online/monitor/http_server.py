"""What a monitor answers over HTTP, to this machine alone: its page, JSON, and /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from typing import Any

from harness.errors import UsageError, install
from harness.online.logs.read import LogCounts
from harness.online.monitor.monitor import Monitor
from harness.online.monitor.rules import RATES
from harness.online.monitor.state import SECONDS
from harness.pages import local_server
from harness.pages.html import page
from harness.pages.local_server import HTML, Answer, Request, as_json

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_MISSING = f"Prometheus metrics need a library; {install('monitor')}"


def server(
    monitor: Monitor,
    port: int,
    *,
    name: str = "monitor",
    tally: LogCounts | None = None,
    notes: Callable[[], list[str]] = list,
) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, listening already: /, /state.json and /metrics, which needs a library.

    Raises OSError for a port that is taken. No text of a query is in any answer.
    """

    offered = metrics_answer()

    def state() -> dict[str, Any]:
        log = None if tally is None else {**tally.as_json(), "first": tally.first_place}
        about = {"log": log, "notes": notes(), "prometheus": offered}
        return {"name": name, **monitor.snapshot(), **about}

    def answer(request: Request) -> Answer | None:
        if request.method != "GET":
            return None
        if request.path == "/":
            return Answer(monitor_page(state()), HTML)
        if request.path == "/state.json":
            return as_json(state())
        if request.path == "/metrics":
            return Answer(exposition(monitor, tally), _PROMETHEUS)
        return None

    return local_server.server(answer, port)


def metrics_answer() -> bool:
    """Whether /metrics has an answer: Prometheus' client library is installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        return False
    return True


def monitor_page(data: dict[str, Any], *, live: bool = True) -> bytes:
    """One self-contained file; `live`: it asks the server that it came from for news."""
    return page(f"{data['name']}: requests", "monitor", data, charts=True, live=live)


# -- Numbers for Prometheus ------------------------------------------------------------------------


class MonitorCollector:
    """A monitor's numbers for Prometheus, asked by its client library at each scrape.

        prometheus_client.REGISTRY.register(MonitorCollector(monitor))

    Names follow Prometheus' conventions: base units (seconds, ratios from 0 to 1), `_total` for
    what only grows. What is not measurable is absent, never 0. Gauges `harness_window_*` are over
    the last requests; each score has the number of requests that it is over beside it. `tally`: of a
    log that is followed.
    """

    def __init__(self, monitor: Monitor, tally: LogCounts | None = None) -> None:
        self._monitor, self._tally = monitor, tally

    def collect(self) -> Iterator[Any]:
        """All metrics of this moment. Raises UsageError where the library is not installed."""
        core = _core()
        found, monitor = self._monitor.snapshot(), self._monitor
        totals = found["totals"]

        def counter(name: str, about: str, value: float) -> Any:
            made = core.CounterMetricFamily(f"harness_{name}", about)
            made.add_metric([], value)
            return made

        for key, name, about in (
            ("requests", "requests", "Requests so far."),
            ("labelled", "requests_labelled", "Requests of labelled queries."),
            ("failed", "requests_failed", "Requests that ended in an error."),
            ("no_result", "requests_empty", "Requests without a result."),
            ("abstained", "requests_abstained", "Requests abstained from."),
        ):
            yield counter(name, about, totals[key])
        if self._tally is not None:
            about = "Lines of the log that could not be read."
            yield counter("log_lines_unreadable", about, self._tally.unreadable)
        yield _histogram(core, monitor)
        yield from _window(core, found)
        yield from _beside(core, found)
        alerts = core.GaugeMetricFamily(
            "harness_alert_firing", "1 while it stands.", labels=["alert"]
        )
        raised = core.CounterMetricFamily("harness_alerts", "Alarms raised.", labels=["alert"])
        watch = monitor.watch
        for name in watch.names:
            alerts.add_metric([name], float(name in watch.alerts.standing))
            raised.add_metric([name], watch.alerts.raised[name])
        yield alerts
        yield raised


def exposition(monitor: Monitor, tally: LogCounts | None = None) -> bytes:
    """The text that /metrics answers with."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise UsageError(_MISSING) from None
    registry = CollectorRegistry()
    registry.register(MonitorCollector(monitor, tally))
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
    made = core.HistogramMetricFamily("harness_request_duration_seconds", "Time of a request.")
    made.add_metric([], [*zip(bounds, below, strict=True)], sum_value=monitor.seconds_sum)
    return made


def _window(core: Any, found: dict[str, Any]) -> Iterator[Any]:
    def gauge(name: str, about: str, *labels: str) -> Any:
        return core.GaugeMetricFamily(f"harness_window_{name}", about, labels=labels)

    events = gauge("requests", "Requests in the window.", "ability")
    scored = gauge("scored_requests", "Requests that scores are over.", "ability")
    score = gauge("score", "Mean over the scored requests of the window.", "metric", "ability")
    times = gauge("duration_seconds", "Time of a request in the window.", "quantile", "ability")
    rates = {
        rate: gauge(f"{rate}_ratio", f"Share of requests: {rate}.", "ability") for rate in RATES
    }
    for ability, cell in found["slices"].items():
        events.add_metric([ability], cell["n"])
        scored.add_metric([ability], cell["scored"])
        for metric, value in cell["metrics"].items():
            if value is not None:
                score.add_metric([metric, ability], value)
        for rate, made in rates.items():
            if cell[rate]["value"] is not None:
                made.add_metric([ability], cell[rate]["value"])
        for name, quantile in (("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99")):
            if cell["seconds"][name] is not None:
                times.add_metric([quantile, ability], cell["seconds"][name])
    yield from (events, scored, score, times, *rates.values())


def _beside(core: Any, found: dict[str, Any]) -> Iterator[Any]:
    values: dict[str, tuple[str, float | None]] = {}
    if found["drift"] is not None:
        drift = found["drift"]
        values["harness_window_unlabelled_queries"] = (
            "Queries that join no label, which drift is over.",
            drift["n"],
        )
        values["harness_window_drift_divergence_bits"] = (
            "Divergence of words from the labelled queries.",
            drift["divergence"],
        )
        values["harness_window_drift_level_bits"] = (
            "What labelled queries have among themselves.",
            drift["level"],
        )
        values["harness_window_unseen_words_ratio"] = (
            "Share of queries with a word that no labelled query has.",
            drift["unseen"],
        )
    if found["feedback"] is not None:
        for key, name, about in (
            ("click_rate", "click_ratio", "Share of watched requests with a click; no judgement."),
            ("first_click_mrr", "first_click_reciprocal_rank", "Mean; of what was shown only."),
            ("rating", "rating", "Mean of those who rated."),
        ):
            values[f"harness_window_{name}"] = (about, found["feedback"][key]["value"])
    for name, (about, value) in values.items():
        if value is not None:
            made = core.GaugeMetricFamily(name, about)
            made.add_metric([], value)
            yield made
