"""harness monitor: follows a log, and keeps rolling numbers, alarms and a page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from harness.cli.options import Verbs, add_view, check_port, view_arguments
from harness.cli.output import add_output, print_json
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "monitor",
        help="follow a log of requests: rolling scores, drift, alarms, Prometheus",
        description=(
            "Follow a log file or a folder of logs, through rotation, and score requests against "
            "labels as they come. Ctrl-C ends it; with --state the next one goes on from there."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("log", metavar="LOG", help="a log file, or a folder of logs")
    parser.add_argument("--dataset", metavar="NAME", help="the labelled queries (none: no scores)")
    add_view(parser)
    parser.add_argument("--log-config", metavar="FILE.toml", help="which field of a line says what")
    parser.add_argument("--config", metavar="FILE.toml", help="window, metrics, alarms")
    parser.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="requests that numbers are over (1000; 10,000,000 at most)",
    )
    parser.add_argument("--metrics", metavar="M,M,...", help="recall@10,precision@10,mrr@10")
    parser.add_argument("--bucket", metavar="B", help="over time, by minute, hour (default) or day")
    parser.add_argument(
        "--alert",
        action="append",
        metavar="RULE",
        help="'recall@10 < 0.7', 'p95 > 0.5'; repeatable",
    )
    parser.add_argument(
        "--state", metavar="FILE", help="where to keep the numbers and the position"
    )
    parser.add_argument("--journal", metavar="FILE.jsonl", help="one line an alarm")
    parser.add_argument(
        "--on-alert",
        metavar="COMMAND",
        help="a program and its arguments (no shell), given each alarm as JSON on its stdin",
    )
    parser.add_argument("--once", action="store_true", help="read to the end, print, stop")
    parser.add_argument(
        "--port", type=int, help="of the page and /metrics; 0 takes a free one (9464)"
    )
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Follow. With --once: status 1 when an alarm stands at the end."""
    from harness.dataset.prepare import open_dataset
    from harness.online.logs.field_mapping import FieldMapping
    from harness.online.monitor.monitor import Monitor
    from harness.online.monitor.rules import METRICS, MonitorSettings, Rules, threshold
    from harness.online.monitor.tail import LogTailer
    from harness.online.monitor.terminal import teller

    if not Path(options.log).exists():
        raise UsageError(f"{options.log}: no such log file or folder")
    check_port(options.port)
    if options.once and options.port is not None:
        raise UsageError("--once serves no page; leave --port out")
    _needs_dataset(options)
    file = MonitorSettings.read(Path(options.config)) if options.config else MonitorSettings()
    alerts = [threshold(text) for text in options.alert or ()]
    rules = Rules((*file.rules.thresholds, *alerts), file.rules.changes)
    if options.log_config and file.log:
        raise UsageError(
            f"--log-config {options.log_config}: --config {options.config} says too how lines are "
            "read ([log]); leave one of them out"
        )
    if file.metrics and not (options.dataset or options.metrics):
        raise UsageError(
            f"--config {options.config}: metrics are measured against labels; name them with "
            "--dataset, or take metrics out"
        )
    config = options.log_config or (options.config if file.log else None)
    mapping = FieldMapping.read(Path(config)) if config else FieldMapping()
    labels = open_dataset(options.dataset, **view_arguments(options)) if options.dataset else None
    told_here: list[dict[str, Any]] = []
    monitor = Monitor(
        _window(options.window, file.window),
        labels=labels,
        metrics=options.metrics or file.metrics or METRICS,
        rules=rules,
        state=options.state,
        journal=options.journal,
        on_alert=teller(options.on_alert, quiet=options.quiet or options.json, told=told_here),
        bucket=options.bucket or file.bucket or "hour",
    )
    if options.once and options.bucket and not (options.json or options.state):
        raise UsageError(
            "--bucket is how the numbers over time are cut, which --once prints with --json alone "
            "(and keeps with --state); leave --bucket out"
        )
    if (told := options.journal or options.on_alert) and not monitor.watch.names:
        raise UsageError(f"{told}: no alarm is asked for; name some with --alert or in --config")
    follower = LogTailer(options.log, monitor, mapping)
    return _once(options, follower, told_here) if options.once else _live(options, follower)


def _needs_dataset(options: argparse.Namespace) -> None:
    """Raises UsageError for an option of the labels where there are none."""
    names = ("metrics", "granularity", "text", "split", "source", "rebuild", "plugin")
    given = [name for name in names if getattr(options, name)]
    if given and not options.dataset:
        raise UsageError(
            f"--{given[0]} is about the labels, and without --dataset there are none; name it, or "
            f"leave --{given[0]} out"
        )


def _window(given: int | None, of_file: int | None) -> int:
    """The window that was asked for, on the command line first."""
    found = of_file if given is None else given
    return 1000 if found is None else found


def _once(options: argparse.Namespace, follower: Any, told: list[dict[str, Any]]) -> int:
    """Everything that there is by now. Each alarm is told once, on stderr: `told` were already."""
    from harness.online.monitor.terminal import alert_line, table

    monitor, tally = follower.monitor, follower.tally
    fresh = monitor.position is None
    follower.read()
    if fresh and (lost := follower.parser.lost()):
        raise UsageError(f"{options.log}: {lost}")
    if not tally.requests:
        more = f": {tally.first}" if tally.unreadable else f" ({tally.other} other lines or spans)"
        raise UsageError(f"{options.log}: no request in it{more}")
    monitor.close()
    for untold in monitor.untold():
        print(f"warning: {untold}", file=sys.stderr)
    found = {**monitor.snapshot(), "log": tally.as_json(), "notes": follower.notes}
    if options.json:
        print_json("monitor", found)
    elif not options.quiet:
        for alert in found["alerts"]:  # raised before, and standing since
            if alert not in told:
                print(alert_line(alert), file=sys.stderr)
        print(table(found, alarms=False))
        print("\n".join(_notes(follower)))
    return 1 if found["alerts"] else 0


def _live(options: argparse.Namespace, follower: Any) -> int:
    """Until Ctrl-C or SIGTERM."""
    from harness.online.monitor.http_server import server
    from harness.online.monitor.terminal import follow

    monitor, name = follower.monitor, Path(options.log).name
    port = 9464 if options.port is None else options.port
    try:
        serving = server(
            monitor, port, name=name, tally=follower.tally, notes=lambda: _notes(follower, False)
        )
    except OSError as error:
        raise UsageError(
            f"--port {port}: cannot be listened on ({error.strerror}); name another"
        ) from None
    address = f"http://127.0.0.1:{serving.server_port}/"
    follow(
        follower, serving, address, quiet=options.quiet, json=print_json if options.json else None
    )
    return 0


def _notes(follower: Any, quote: bool = True) -> list[str]:
    """What is odd about the log; `quote`: with words of its lines."""
    tally = follower.tally
    notes = [*follower.monitor.troubles, *follower.notes]
    if tally.unreadable:
        first = tally.first if quote else tally.first_place
        notes.append(f"{tally.unreadable} lines cannot be read, first {first}")
    if lost := follower.parser.lost():
        notes.append(lost)
    if tally.silent:
        notes.append(f"{tally.silent} requests do not say what was returned")
    return notes
