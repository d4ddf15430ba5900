"""A monitor in a terminal: its numbers as a table, its alarms, and a log followed until Ctrl-C.

The table has the window by ability, drift, feedback, tests of change, and the alarms that stand.
"""

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
from typing import Any

from harness.errors import UsageError
from harness.online.monitor.alerts import Alert
from harness.online.monitor.calendar import UNTIMED
from harness.online.monitor.http_server import metrics_answer
from harness.online.monitor.rules import RATES, TIMES
from harness.online.monitor.tail import LogTailer
from harness.printed import CLEARED, draw
from harness.scoring.grid import grid

_RATES = {"no_result": "no result", "false_evidence": "false evidence"}
_LONGEST = 30  # seconds that a command may take with an alarm
_POLL = 0.5  # seconds between two looks at the log
_DRAW = 2.0  # between two tables
_SAY = 60.0  # between two lines, where there is no terminal
_SAVE = 5.0  # between two states that are written


def table(snapshot: dict[str, Any], *, alarms: bool = True) -> str:
    """All of a snapshot in lines of text; without `alarms` their number alone, which were told."""
    window, totals, metrics = snapshot["window"], snapshot["totals"], snapshot["metrics"]
    parts = [f"WARNING {one}" for one in snapshot.get("troubles", ())]
    parts += [
        f"{totals['requests']:,} requests so far; below, the last {window['n']:,}"
        + _span(window["from"], window["to"])
    ]
    if not snapshot["labels"]:
        metrics = []
        parts.append("no labels were given: nothing is known of recall, precision and rank")
    rates = [name for name in RATES if snapshot["slices"]["all"][name]["n"]]
    rows = []
    for name, cell in _ordered(snapshot["slices"]):
        row = [name, f"{cell['n']:,}"]
        if metrics:
            row += [f"{cell['scored']:,}", *(_number(cell["metrics"][m]) for m in metrics)]
        row += [_number(cell[rate]["value"]) for rate in rates]
        row += [_seconds(cell["seconds"][time]) for time in TIMES]
        rows.append(row)
    head = ["window", "n", *(["scored", *metrics] if metrics else [])]
    head += [*(_RATES.get(rate, rate) for rate in rates), *(f"time {time}" for time in TIMES)]
    parts.append(grid(rows, head))
    if metrics:
        parts.append(
            "scored: requests of labelled queries with evidence; every mean is over those alone"
        )
    parts += [*_drift(snapshot["drift"]), *_feedback(snapshot["feedback"])]
    parts += _tests(snapshot["tests"])
    parts += _alerts(snapshot) if alarms else [_standing(snapshot)]
    return "\n".join(parts)


def line(snapshot: dict[str, Any]) -> str:
    """One line for a log."""
    cell, n = snapshot["slices"]["all"], snapshot["totals"]["requests"]
    means = ", ".join(
        f"{name} {_number(value)}" for name, value in cell["metrics"].items() if value is not None
    )
    return (
        f"{n:,} requests; last {cell['n']:,}: {means or 'nothing scored'} (n {cell['scored']:,}), "
        f"no result {_number(cell['no_result']['value'])}, p95 {_seconds(cell['seconds']['p95'])}, "
        f"{_standing(snapshot)}"
    )


def _ordered(slices: dict[str, Any]) -> list[tuple[str, Any]]:
    """Abilities by name, `all` at the end."""
    return sorted(slices.items(), key=lambda item: (item[0] == "all", item[0]))


def _drift(drift: dict[str, Any] | None) -> list[str]:
    if drift is None:
        return []
    if drift["divergence"] is None:
        return [f"drift: only {drift['n']} queries are not labelled ones; too few to tell"]
    unseen = f"{drift['unseen']:.1%} of them have a word that no labelled one has"
    level = f"{drift['unseen_level']:.1%}"
    side = "above" if drift["excess"] > 0 else "within"
    return [
        f"drift: the {drift['n']:,} queries that are not labelled diverge by "
        f"{drift['divergence']:.3f} bits in their words, {side} the level of {drift['level']:.3f} "
        f"that labelled queries have among themselves; {unseen} (among labelled ones {level})",
        f"  {drift['caveat']}",
    ]


def _feedback(feedback: dict[str, Any] | None) -> list[str]:
    if feedback is None:
        return []
    said = {
        "click_rate": "requests with a click",
        "first_click_mrr": "reciprocal rank of the first click",
        "rating": "mean rating",
    }
    parts = [
        f"{what} {_number(feedback[name]['value'])} (n {feedback[name]['n']:,})"
        for name, what in said.items()
        if feedback[name]["n"]
    ]
    return [f"feedback: {', '.join(parts)}", *(f"  {one}" for one in feedback["caveats"])]


def _tests(tests: list[dict[str, Any]]) -> list[str]:
    found = []
    for test in tests:
        left = test["left_out"]
        but = f" (left out: {', '.join(f'{n:,} {why}' for why, n in left.items())})" if left else ""
        if set(left) == {UNTIMED} and not test["tested"]:
            found.append(
                f"change of {test['metric']}: not tested, as no request has a time "
                "that is not in the future; `batch` in "
                "[[change]] tests them by their number"
            )
        elif test["learning"]:
            learned, first = test["learned"]
            found.append(
                f"change of {test['metric']}: the reference is being measured, {learned:,} of "
                f"{first:,} {test['unit']}{but}"
            )
        elif not test["testable"]:
            found.append(
                f"change of {test['metric']}: not testable, as the reference "
                f"({_number(test['reference'])}) cannot become worse"
            )
        elif not test["alarm"]:
            found.append(
                f"change of {test['metric']}: none shown against {test['held_to']} in "
                f"{test['tested']:,} {test['unit']}{but}; the chance of a false alarm, ever, is at "
                f"most {test['alpha']:g} {test['condition']}"
            )
    return found


def _standing(snapshot: dict[str, Any]) -> str:
    n = len(snapshot["alerts"])
    return "no alarm stands" if not n else "1 alarm stands" if n == 1 else f"{n} alarms stand"


def _alerts(snapshot: dict[str, Any]) -> list[str]:
    if not snapshot["alerts"]:
        return [_standing(snapshot)]
    return [f"ALARM {alert['said']}{_at(alert['time'])}" for alert in snapshot["alerts"]]


def alert_line(alert: dict[str, Any]) -> str:
    """One event as it is printed, alone in a line."""
    mark = "ALARM" if alert["state"] == "raised" else "over "
    at = "" if alert["time"] is None else f" ({_moment(alert['time'])} UTC)"
    return f"{mark} {alert['said']}{at}, at request {alert['request']:,}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1000:.3g} ms"


def _at(time: float | None) -> str:
    return "" if time is None else f" ({_moment(time)})"


def _span(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return ""
    return f" ({_moment(first)} to {_moment(last)} UTC)"


def _moment(time: float) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "no time that a calendar has"


# -- Alarms as they are told -----------------------------------------------------------------------


def teller(
    command: str | None, *, quiet: bool, told: list[Alert] | None = None
) -> Callable[[Alert], None]:
    """What is called with each alarm: prints it to stderr, and hands it to `command` as JSON.

    Each one is appended to `told`.
    Raises UsageError for a command that cannot be taken apart. Where one fails, that is said, and
    the monitor goes on.
    """
    try:
        words = shlex.split(command) if command is not None else []
    except ValueError as error:
        raise UsageError(f"--on-alert {command!r}: {error}") from None
    if command is not None and not words:
        raise UsageError("--on-alert: the command is empty")

    def tell(alert: Alert) -> None:
        if told is not None:
            told.append(alert)
        if not quiet:
            print(alert_line(alert), file=sys.stderr, flush=True)
        if words:
            _hand(words, alert)

    return tell


def _hand(words: list[str], alert: Alert) -> None:
    import orjson

    try:
        done = subprocess.run(
            words, input=orjson.dumps(alert), timeout=_LONGEST, capture_output=True
        )
        said = ""
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = f": {lines[-1]}" if lines else ""
            said = f"ended with status {done.returncode}{why}"
    except subprocess.TimeoutExpired:
        said = f"took longer than {_LONGEST} s and was stopped"
    except OSError as error:
        said = f"could not be started ({error.strerror})"
    if said:
        print(f"warning: --on-alert {words[0]} {said}", file=sys.stderr, flush=True)


# -- Following a log -------------------------------------------------------------------------------


def follow(
    follower: LogTailer,
    serving: ThreadingHTTPServer,
    address: str,
    *,
    quiet: bool = False,
    json: Callable[[str, dict[str, Any]], None] | None = None,
) -> None:
    """Read on, draw and save until Ctrl-C or SIGTERM; then save once more.

    `serving` answers requests meanwhile; without a terminal a line is printed now and then, or
    given to `json` with its kind.
    """
    stop = Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    thread = Thread(target=serving.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    metrics = f" and {address}metrics" if metrics_answer() else ""
    if json is not None:
        json("monitor-page", {"address": address})
    elif not quiet:
        print(f"{address}{metrics} (Ctrl-C ends it)", flush=True)
    screen = sys.stdout.isatty() and not quiet and json is None
    drawn = said = saved = 0.0
    try:
        while not stop.is_set():
            follower.read()
            now = time.monotonic()
            if screen and now - drawn >= _DRAW:
                drawn = now
                draw(CLEARED)
                print(f"{address}\n\n{table(follower.monitor.snapshot())}", flush=True)
            elif not screen and now - said >= _SAY and follower.tally.requests:
                said = now
                _print(follower.monitor.snapshot(), quiet=quiet, json=json)
            if now - saved >= _SAVE:
                saved = now
                follower.monitor.save_or_say()
            stop.wait(_POLL)
    finally:
        follower.monitor.close()
        serving.shutdown()
        serving.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(
    snapshot: dict[str, Any],
    *,
    quiet: bool,
    json: Callable[[str, dict[str, Any]], None] | None,
) -> None:
    if json is not None:
        json("monitor", snapshot)
    elif not quiet:
        print(line(snapshot), flush=True)
