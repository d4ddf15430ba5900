"""Serves a monitor over HTTP, on localhost only: its page, JSON, and /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from http.server import ThreadingHTTPServer
from operator import attrgetter

from msgspec import structs

from harness.extensions.online.monitor.monitor import SECONDS, Monitor
from harness.extensions.online.monitor.records import MonitorOutput, Snapshot, Totals
from harness.extensions.online.monitor.rules import RATES, TIMES
from harness.io.records import encode, to_plain
from harness.records.run import LogCounts
from harness.reports import local_server
from harness.reports.html import page
from harness.reports.local_server import HTML, JSON, Request, Response

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def server(
    monitor: Monitor,
    port: int,
    *,
    name: str = "monitor",
    counts: LogCounts | None = None,
    notes: Callable[[], list[str]] = list,
) -> ThreadingHTTPServer:
    """Returns a server on 127.0.0.1, already listening: /, /state.json and /metrics.

    Raises OSError for a port that is in use. No response contains the text of a query.
    """

    def state() -> MonitorOutput:
        log = counts and replace(counts, first_error=counts.first_error_location)
        snapshot = structs.asdict(monitor.snapshot())
        return MonitorOutput(**snapshot, name=name, log=log, notes=notes())

    def answer(request: Request) -> Response | None:
        if request.method != "GET":
            return None
        if request.path == "/":
            return Response(
                page(f"{name}: requests", "monitor", to_plain(state()), live=True), HTML
            )
        if request.path == "/state.json":
            return Response(encode(state()), JSON)
        if request.path == "/metrics":
            return Response(exposition(monitor, counts).encode(), _PROMETHEUS)
        return None

    return local_server.server(answer, port)


# -- Prometheus metrics ----------------------------------------------------------------------------


def exposition(monitor: Monitor, counts: LogCounts | None = None) -> str:
    """Returns the statistics of a monitor in Prometheus' text format; `counts`: of a followed log.

    Names follow its conventions: base units (seconds, ratios from 0 to 1), `_total` for counters.
    Values that are not measurable are absent, never 0. Gauges `harness_window_*` are over the last
    requests; the number of requests of each score is exported too.
    """
    snapshot = monitor.snapshot()
    parts = [*_totals(monitor, snapshot.totals, counts), *_slices(snapshot), *_others(snapshot)]
    rules, alerts = monitor.rules.names, monitor.rules.alerts
    active = [({"alert": name}, float(name in alerts.active)) for name in rules]
    fired = [({"alert": name}, alerts.episodes.get(name, 0)) for name in rules]
    parts += _family("alert_firing", "gauge", "1 while it is active.", active)
    parts += _family("alerts_total", "counter", "Alerts fired.", fired)
    return "\n".join(parts) + "\n"


_Samples = Iterable[tuple[Mapping[str, str], float | None]]
"""The labels and the value of each sample; samples with None are skipped."""


def _family(name: str, kind: str, about: str, samples: _Samples) -> Iterator[str]:
    """Yields the lines of a metric; none if it has no value."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if known:
        yield f"# HELP harness_{name} {about}"
        yield f"# TYPE harness_{name} {kind}"
    for labels, value in known:
        yield _sample(name, labels, value)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    inner = ",".join(f'{key}="{text.translate(escapes)}"' for key, text in labels.items())
    return f"harness_{name}{f'{{{inner}}}' if inner else ''} {float(value)!r}"


def _totals(monitor: Monitor, totals: Totals, counts: LogCounts | None) -> Iterator[str]:
    unreadable = None if counts is None else counts.unreadable
    counters = [
        ("requests", "Requests so far.", totals.requests),
        ("requests_labelled", "Requests of labelled queries.", totals.labelled),
        ("requests_failed", "Requests that ended in an error.", totals.failed),
        ("requests_empty", "Requests without a result.", totals.no_result),
        ("requests_abstained", "Requests with an abstention.", totals.abstained),
        ("log_lines_unreadable", "Lines that could not be read.", unreadable),
    ]
    for name, about, value in counters:
        yield from _family(f"{name}_total", "counter", about, [({}, value)])
    name = "request_duration_seconds"
    yield f"# HELP harness_{name} Time of a request."
    yield f"# TYPE harness_{name} histogram"
    below = monitor.seconds.cumsum().tolist()
    for bound, n in zip([*(f"{bound:g}" for bound in SECONDS), "+Inf"], below, strict=True):
        yield _sample(f"{name}_bucket", {"le": bound}, n)
    yield _sample(f"{name}_count", {}, below[-1])
    yield _sample(f"{name}_sum", {}, monitor.seconds_sum)


def _slices(snapshot: Snapshot) -> Iterator[str]:
    """Yields the metrics of the window, by ability."""

    def gauge(name: str, about: str, value: str) -> Iterator[str]:
        of = attrgetter(value)
        samples = [({"ability": one}, of(stats)) for one, stats in snapshot.slices.items()]
        yield from _family(f"window_{name}", "gauge", about, samples)

    yield from gauge("requests", "Requests in the window.", "n")
    yield from gauge("scored_requests", "Requests that scores are over.", "scored")
    scores: _Samples = [
        ({"metric": metric, "ability": ability}, value)
        for ability, stats in snapshot.slices.items()
        for metric, value in stats.metrics.items()
    ]
    about = "Mean over the scored requests of the window."
    yield from _family("window_score", "gauge", about, scores)
    times: _Samples = [
        (
            {"quantile": f"0.{time[1:]}".rstrip("0"), "ability": ability},
            getattr(stats.seconds, time),
        )
        for ability, stats in snapshot.slices.items()
        for time in TIMES
    ]
    about = "Time of a request in the window."
    yield from _family("window_duration_seconds", "gauge", about, times)
    for rate in RATES:
        yield from gauge(f"{rate}_ratio", f"Share of requests: {rate}.", f"{rate}.value")


def _others(snapshot: Snapshot) -> Iterator[str]:
    """Yields drift and feedback."""
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
        yield from _family(f"window_{name}", "gauge", about, [({}, value)])
