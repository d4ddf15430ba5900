"""Run a retriever on a dataset and score the results.

Index the documents of a dataset with a retriever, run every query, score the rankings, and save
everything in a run folder. With several datasets or retrievers, run every pair.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import add_options, add_param, headline_names
from harness.cli.output import add_output, refuse
from harness.cli.run_single import SETTINGS, RunJob, file_keys, run_one
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.records.run import RunRecord


_GROUPS = {
    "dataset": "dataset source granularity text split as_of inject rebuild limit seed plugin",
    "system": "retriever k batch_size workers concurrency backend backend_options isolate "
    "require_cached_index match_f1 match_semantic",
    "limits": "timeout query_timeout index_timeout retries prices max_usd strict allow_empty",
    "scoring": "protocol ks metrics ties missing answers",
    "output": "out name submitted_by resume overwrite claims full",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options, in groups."""
    groups = {title: parser.add_argument_group(title) for title in _GROUPS}
    for title, names in _GROUPS.items():
        add_options(groups[title], *SETTINGS, only=names.split())
    add_param(groups["system"])
    groups["output"].add_argument(
        "--config",
        nargs="?",
        const="",
        metavar="FILE.toml",
        help="file with these options or a list of runs, or the name of a bundled config (without "
        "a value: list them)",
    )
    add_output(groups["output"])
    parser.set_defaults(params={}, nightly=False, published=False)


def main(options: argparse.Namespace) -> int:
    """Runs, scores and prints. Returns 1 if a query failed or a haystack had no results."""
    if options.config == "":
        return _shipped_configs()
    if options.resume and options.overwrite:
        raise UsageError(
            "--overwrite repeats a run and --resume continues an interrupted one; give one of them"
        )
    several = max(len(options.dataset or ()), len(options.retriever or ())) > 1
    if several and options.config:
        raise UsageError(
            "several --dataset or --retriever are a list of runs, and so may a config be: write "
            "them into it, as [[datasets]] and [[retrievers]]"
        )
    if several:
        from harness.cli.suite import run_pairs

        return run_pairs(options)
    options.dataset, options.retriever = (
        given[0] if given else None for given in (options.dataset, options.retriever)
    )
    if options.config:
        from harness.cli.config_file import apply_table
        from harness.cli.examples import config_file
        from harness.io.files import read_toml

        file = config_file(options.config, options.quiet)
        options.config = str(file)
        values = read_toml(file, "--config")
        if {"datasets", "retrievers", "nightly", "published"} & set(values):
            from harness.cli.suite import run_file

            return run_file(options, file, values)
        apply_table(options, file, values, file_keys())
    job = RunJob.create(options)
    refuse(options, "for one run, which has no board", "claims")

    from harness.cli.run_summary import show

    started = datetime.now(UTC)
    folder, report, record = run_one(job)
    reused = datetime.fromisoformat(record.finished) < started
    show(report, record, folder, headline_names(job.choices), options, reused=reused)
    return _status(options, folder, record)


def _shipped_configs() -> int:
    """Lists bundled configs, with status 2: `--config $NAME` with NAME unset must not succeed."""
    from harness.cli.examples import files, table

    configs = {path.stem: path for path in files("configs").values()}
    print(table(configs, "config"), flush=True)
    print("harness: --config needs a name or a file; nothing was run", file=sys.stderr)
    return 2


def _status(options: argparse.Namespace, folder: Path, record: RunRecord) -> int:
    """Prints the failures of a run on stderr, and returns the exit status."""
    from harness.runs.folder.run_folder import empty_haystacks

    failed, asked = record.queries.failed, record.queries.asked
    empty = "" if options.allow_empty else empty_haystacks(record.empty_haystacks)
    unmeasurable = record.hits.unmeasurable_queries if record.hits else 0
    messages = []
    if failed:
        from harness.runs.first_error import first_error

        errors = folder / "errors.jsonl"
        messages.append(
            f"{failed} of {asked} queries failed and count as 0; first error: "
            f"{first_error(errors)}; all errors: {errors}; --resume retries them"
        )
    if empty:
        messages.append(empty)
    if unmeasurable and unmeasurable == asked:
        messages.append("no returned text matches a document, so nothing can be scored")
    for message in messages:
        print(f"harness: {message}", file=sys.stderr)
    return 1 if messages else 0
