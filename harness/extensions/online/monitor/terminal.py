"""A monitor in a terminal: table of statistics, alerts, and a log followed until Ctrl-C."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from threading import Event, Thread

from harness.errors import UsageError
from harness.extensions.online.logs.import_log import feedback_lines
from harness.extensions.online.monitor.period_test import UNTIMED
from harness.extensions.online.monitor.records import (
    Alert,
    ChangeTest,
    DriftStats,
    Snapshot,
)
from harness.extensions.online.monitor.rules import RATES, TIMES
from harness.extensions.online.monitor.tail import LogTailer
from harness.io.records import encode
from harness.io.terminal import CLEARED, digits, draw, grid

_RATES = {"no_result": "no result", "false_positive": "false positive"}
_LONGEST = 30  # seconds that an alert command may take
_POLL = 0.5  # seconds between two reads of the log
_DRAW = 2.0  # seconds between two tables
_SAVE = 5.0  # seconds between two writes of the state


def table(snapshot: Snapshot, *, alerts: bool = True) -> str:
    """Formats a snapshot; without `alerts` only their number, as they were printed before."""
    window, metrics = snapshot.window, snapshot.metrics if snapshot.labels else []
    parts = [f"WARNING {one}" for one in snapshot.errors]
    span = ""
    if window.start is not None and window.end is not None:
        span = f"  from={_moment(window.start)}  to={_moment(window.end)} UTC"
    parts.append(f"requests={snapshot.totals.requests:,}  window={window.n:,}{span}")
    if not snapshot.labels:
        parts.append("no labels: recall, precision and rank are unknown")
    rates = [name for name in RATES if getattr(snapshot.slices["all"], name).n]
    rows = []
    for name, one in sorted(snapshot.slices.items(), key=lambda item: (item[0] == "all", item[0])):
        row = [name, f"{one.n:,}"]
        if metrics:
            row += [f"{one.scored:,}", *(digits(one.metrics[metric]) for metric in metrics)]
        row += [digits(getattr(one, rate).value) for rate in rates]
        row += [_duration(getattr(one.seconds, time)) for time in TIMES]
        rows.append(row)
    head = ["ability", "requests", *(["scored", *metrics] if metrics else [])]
    head += [*(_RATES.get(rate, rate) for rate in rates), *(f"{time} latency" for time in TIMES)]
    parts.append(grid(rows, head))
    if metrics:
        parts.append(
            "scored: requests of labelled queries with evidence; metrics are means over them"
        )
    parts += _drift(snapshot.drift)
    parts += [] if snapshot.feedback is None else feedback_lines(snapshot.feedback)
    parts += [text for test in snapshot.tests if (text := _test(test))]
    if alerts and snapshot.alerts:
        parts += [alert_line(one) for one in snapshot.alerts]
    else:
        n = len(snapshot.alerts)
        parts.append(f"{n or 'no'} active alert{'s' if n > 1 else ''}")
    return "\n".join(parts)


def _drift(drift: DriftStats | None) -> list[str]:
    if drift is None:
        return []
    if drift.divergence is None or drift.level is None or drift.excess is None:
        return [f"drift: not measurable, too few unlabelled queries ({drift.n})"]
    more = "more than" if drift.excess > 0 else "not more than"
    return [
        f"drift: words of {drift.n:,} unlabelled queries diverge from the labelled ones by "
        f"{drift.divergence:.3f} bits, {more} by chance (95th percentile {drift.level:.3f}); "
        f"{_share(drift.unseen_rate)} of the queries have a word that no labelled query has "
        f"(among labelled queries: {_share(drift.labelled_unseen_rate)})",
        f"  {drift.caveat}",
    ]


def _test(test: ChangeTest) -> str:
    """Describes a change test; empty if its alert is active."""
    excluded = ", ".join(f"{n:,} {reason}" for reason, n in test.excluded.items())
    but = f" (excluded: {excluded})" if excluded else ""
    start = f"change of {test.metric}:"
    if set(test.excluded) == {UNTIMED} and not test.tested:
        return (
            f"{start} not tested: no request has a valid time (set batch_size in [[change]] to "
            "test requests by number)"
        )
    if test.reference is None:
        return (
            f"{start} measuring the reference, {test.learned or 0:,} of "
            f"{test.to_learn or 0:,} {test.observation_unit}{but}"
        )
    if not test.testable:
        return f"{start} not testable: nothing is worse than the reference {test.reference:.4f}"
    if test.active:
        return ""
    return (
        f"{start} no significant change from {test.reference_text} in {test.tested:,} "
        f"{test.observation_unit}{but}"
    )


def alert_line(alert: Alert) -> str:
    """Formats one alert as a line."""
    mark = "ALERT" if alert.state == "firing" else "RESOLVED"
    at = "" if alert.time is None else f" ({_moment(alert.time)} UTC)"
    return f"{mark} {alert.message}{at}, at request {alert.request_number:,}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _duration(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"


def _moment(time: float) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "invalid time"


# -- Delivery of alerts ----------------------------------------------------------------------------


def notifier(
    command: str | None, *, quiet: bool, delivered: list[Alert] | None = None
) -> Callable[[Alert], None]:
    """Returns a function that prints an alert to stderr, and passes it to `command` as JSON.

    Each alert is appended to `delivered`. Raises UsageError for a command that cannot be parsed. If
    the command fails, a warning is printed, and the monitor continues.
    """
    try:
        words = shlex.split(command) if command is not None else []
    except ValueError as error:
        raise UsageError(f"--on-alert {command!r}: {error}") from None
    if command is not None and not words:
        raise UsageError("--on-alert: the command is empty")

    def notify(alert: Alert) -> None:
        if delivered is not None:
            delivered.append(alert)
        if not quiet:
            print(alert_line(alert), file=sys.stderr, flush=True)
        if words:
            _run_command(words, alert)

    return notify


def _run_command(words: list[str], alert: Alert) -> None:
    problem = ""
    try:
        done = subprocess.run(words, input=encode(alert), timeout=_LONGEST, capture_output=True)
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = f": {lines[-1]}" if lines else ""
            problem = f"failed with status {done.returncode}{reason}"
    except subprocess.TimeoutExpired:
        problem = f"was stopped after {_LONGEST} s"
    except OSError as error:
        problem = f"could not be started ({error.strerror})"
    if problem:
        print(f"warning: --on-alert {words[0]} {problem}", file=sys.stderr, flush=True)


# -- Following a log -------------------------------------------------------------------------------


def follow(
    tailer: LogTailer,
    server: ThreadingHTTPServer,
    address: str,
    *,
    quiet: bool = False,
) -> None:
    """Follows the log, draws and saves until Ctrl-C or SIGTERM; then saves once more.

    `server` answers requests meanwhile. The table is drawn if the output is a terminal.
    """
    stop = Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    thread = Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    if not quiet:
        print(f"{address} and {address}metrics (Ctrl-C ends it)", flush=True)
    screen = sys.stdout.isatty() and not quiet
    drawn = saved = 0.0
    try:
        while not stop.is_set():
            tailer.read()
            now = time.monotonic()
            if screen and now - drawn >= _DRAW:
                drawn = now
                draw(CLEARED)
                print(f"{address}\n\n{table(tailer.monitor.snapshot())}", flush=True)
            if now - saved >= _SAVE:
                saved = now
                tailer.monitor.try_save()
            stop.wait(_POLL)
    finally:
        tailer.monitor.close()
        server.shutdown()
        server.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)
