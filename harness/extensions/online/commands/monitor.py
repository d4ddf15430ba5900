"""Monitor a request log: rolling scores, drift, alerts, Prometheus.

Follow a log file or a folder of logs through rotation, and score the requests of labelled queries.
Stop with Ctrl-C; with --state the next start continues there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from harness.cli.options import add_view, view_arguments
from harness.cli.output import add_output, print_json
from harness.cli.serving import check_port
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.extensions.online.monitor.records import Alert
    from harness.extensions.online.monitor.tail import LogTailer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.add_argument("log", metavar="LOG", help="a log file, or a folder of logs")
    parser.add_argument(
        "--dataset", metavar="NAME", help="labelled queries; without it there are no scores"
    )
    add_view(parser)
    parser.add_argument("--log-config", metavar="FILE.toml", help="field names of the log")
    parser.add_argument(
        "--config", metavar="FILE.toml", help="file with window, metrics and alerts"
    )
    parser.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="requests in the window (default 1000, at most 10,000,000)",
    )
    parser.add_argument(
        "--metrics", metavar="M,M,...", help="default recall@10,precision@10,mrr@10"
    )
    parser.add_argument("--bucket", metavar="B", help="minute, hour (default) or day of the chart")
    parser.add_argument(
        "--alert",
        action="append",
        metavar="RULE",
        help="alert rule, such as 'recall@10 < 0.7' or 'p95 > 0.5'; repeatable",
    )
    parser.add_argument(
        "--state", metavar="FILE", help="file that stores the state for the next start"
    )
    parser.add_argument("--alert-log", metavar="FILE.jsonl", help="file to append each alert to")
    parser.add_argument(
        "--on-alert",
        metavar="COMMAND",
        help="program and arguments (no shell) that gets each alert as JSON on standard input",
    )
    parser.add_argument(
        "--once", action="store_true", help="read to the end of the log, print, and stop"
    )
    parser.add_argument(
        "--port", type=int, help="port of the page and /metrics (default 9464; 0: a free one)"
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Follows a log. With --once: status 1 if an alert is active at the end."""
    from harness.datasets.registry import open_dataset
    from harness.extensions.online.logs.field_mapping import FieldMapping
    from harness.extensions.online.monitor.monitor import Monitor
    from harness.extensions.online.monitor.rules import (
        METRICS,
        AlertRules,
        MonitorConfig,
        parse_threshold,
    )
    from harness.extensions.online.monitor.tail import LogTailer
    from harness.extensions.online.monitor.terminal import notifier

    if not Path(options.log).exists():
        raise UsageError(f"{options.log}: no such log file or folder")
    check_port(options.port)
    if options.once and options.port is not None:
        raise UsageError("--once serves no page; remove --port")
    if options.json and not options.once:
        raise UsageError(
            "--json prints the numbers at the end of the log: add --once, or read /state.json"
        )
    _needs_dataset(options)
    config = MonitorConfig.read(Path(options.config)) if options.config else MonitorConfig()
    alerts = [parse_threshold(text) for text in options.alert or ()]
    rules = AlertRules((*config.rules.thresholds, *alerts), config.rules.changes)
    if config.metrics and not (options.dataset or options.metrics):
        raise UsageError(
            f"--config {options.config}: metrics need labels; add --dataset, or remove metrics"
        )
    mapping = config.log or FieldMapping()
    if options.log_config:
        mapping = FieldMapping.read(Path(options.log_config))
    labels = open_dataset(options.dataset, **view_arguments(options)) if options.dataset else None
    delivered: list[Alert] = []
    monitor = Monitor(
        config.window if options.window is None else options.window,
        labels=labels,
        metrics=options.metrics or config.metrics or METRICS,
        rules=rules,
        state=options.state,
        alert_log=options.alert_log,
        on_alert=notifier(
            options.on_alert, quiet=options.quiet or options.json, delivered=delivered
        ),
        bucket=options.bucket or config.bucket,
    )
    tailer = LogTailer(options.log, monitor, mapping)
    return _once(options, tailer, delivered) if options.once else _live(options, tailer)


def _needs_dataset(options: argparse.Namespace) -> None:
    """Raises UsageError for an option about labels if there are no labels."""
    names = ("metrics", "granularity", "text", "split", "source", "rebuild", "plugin")
    given = [name for name in names if getattr(options, name)]
    if given and not options.dataset:
        raise UsageError(f"--{given[0]} needs labels; add --dataset, or remove --{given[0]}")


def _once(options: argparse.Namespace, tailer: LogTailer, delivered: list[Alert]) -> int:
    """Reads the log to its end. Prints each alert once, on stderr, except those `delivered`."""
    from harness.extensions.online.monitor.records import MonitorOutput
    from harness.extensions.online.monitor.terminal import alert_line, table

    monitor, counts = tailer.monitor, tailer.counts
    fresh = monitor.position is None
    tailer.read()
    if fresh and (unused := tailer.parser.reader.unused_field()):
        raise UsageError(f"{options.log}: {unused}")
    if not counts.requests:
        more = f" ({counts.other} other lines or spans)"
        if counts.unreadable:
            more = f": {counts.first_error}"
        raise UsageError(f"{options.log}: contains no request{more}")
    monitor.close()
    for undecided in monitor.undecided():
        print(f"warning: {undecided}", file=sys.stderr)
    snapshot = monitor.snapshot()
    if options.json:
        values = structs.asdict(snapshot)
        name = Path(options.log).name
        print_json(MonitorOutput(**values, name=name, log=counts, notes=tailer.notes))
    elif not options.quiet:
        for alert in snapshot.alerts:  # active since an earlier run
            if alert not in delivered:
                print(alert_line(alert), file=sys.stderr)
        print(table(snapshot, alerts=False))
        print("\n".join(_notes(tailer)))
    return 1 if snapshot.alerts else 0


def _live(options: argparse.Namespace, tailer: LogTailer) -> int:
    """Follows the log until Ctrl-C or SIGTERM."""
    from harness.extensions.online.monitor.http_server import server
    from harness.extensions.online.monitor.terminal import follow

    monitor, name = tailer.monitor, Path(options.log).name
    port = 9464 if options.port is None else options.port
    try:
        serving = server(
            monitor, port, name=name, counts=tailer.counts, notes=lambda: _notes(tailer, False)
        )
    except OSError as error:
        raise UsageError(
            f"--port {port}: not available ({error.strerror}); choose another port"
        ) from None
    address = f"http://127.0.0.1:{serving.server_port}/"
    follow(tailer, serving, address, quiet=options.quiet)
    return 0


def _notes(tailer: LogTailer, quote: bool = True) -> list[str]:
    """Describes problems of the log; with `quote`, includes the content of lines."""
    counts = tailer.counts
    notes = [*tailer.monitor.errors, *tailer.notes]
    if counts.unreadable:
        first = counts.first_error if quote else counts.first_error_location
        notes.append(f"{counts.unreadable} unreadable lines, first {first}")
    if unused := tailer.parser.reader.unused_field():
        notes.append(unused)
    if counts.without_result:
        notes.append(f"{counts.without_result} requests without the returned documents")
    return notes
