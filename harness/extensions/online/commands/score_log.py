"""`harness score --log`: requests that a system logged."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from harness.cli.options import fitting_dataset, matching_settings, scoring_choices
from harness.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of reading a request log."""
    parser.add_argument(
        "--log", action="store_true", help="score a request log: JSON Lines or OpenTelemetry"
    )
    parser.add_argument("--log-config", metavar="FILE.toml", help="field names of the log")
    parser.add_argument(
        "--lenient", action="store_true", help="count unreadable lines instead of failing"
    )


def asked_for(options: argparse.Namespace) -> bool:
    """Return whether `--log` is given."""
    return bool(options.log)


def accepts(options: argparse.Namespace, path: Path) -> bool:
    """Return whether to score a log. Raises UsageError for conflicting options."""
    if not options.log and (options.log_config or options.lenient):
        raise UsageError("--log-config and --lenient need --log")
    if options.log and (options.qrels or getattr(options, "expected", None)):
        raise UsageError("--log needs --dataset, and cannot be used with --qrels or --expected")
    return asked_for(options)


def suggest(options: argparse.Namespace, path: Path) -> str:
    """Return the command to score a file that is a request log; empty for another file."""
    from harness.extensions.online.logs.read import is_request_log

    if not is_request_log(path):
        return ""
    command = ["harness", "score", options.run, "--log", "--dataset", options.dataset or "NAME"]
    return f"to score a request log, run: {shlex.join(command)}"


def score(options: argparse.Namespace, path: Path) -> int:
    """Import and score the request log of a system."""
    from harness.cli.score import score_folder, semantic_threshold
    from harness.extensions.online.logs.events import FeedbackSummary
    from harness.extensions.online.logs.field_mapping import FieldMapping
    from harness.extensions.online.logs.import_log import LogImportOptions, import_log, log_lines
    from harness.io.records import read_json_record
    from harness.records.run import ImportedLog

    if not options.dataset:
        raise UsageError("--dataset is missing; name the labelled queries of the log")
    config = options.log_config
    how = LogImportOptions(
        FieldMapping.read(Path(config)) if config else FieldMapping(),
        options.repeats or "latest",
        options.lenient,
        options.missing == "zero",
        options.strict,
    )
    choices, semantic = scoring_choices(options), semantic_threshold(options)
    dataset = fitting_dataset(options)
    folder = import_log(
        path,
        dataset,
        how,
        out=Path(options.out or "results"),
        name=options.name,
        k=options.k,
        matching=matching_settings(options),
    )
    record = score_folder(folder, dataset, choices, semantic, options)
    if not (options.json or options.quiet):
        path = folder / "feedback.json"
        feedback = read_json_record(path, FeedbackSummary) if path.is_file() else None
        if isinstance(record.imported_from, ImportedLog):
            print("\n".join(log_lines(record.imported_from, record.queries.asked, feedback)))
    return 0
