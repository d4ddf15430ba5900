"""Write one run, two runs or a history as an HTML page.

Write one self-contained HTML file: abilities with intervals, metrics by cut-off, risk and coverage,
time, prompt cost, and every question with its evidence. For a history: lines over time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import DatasetOptions, add_options, add_results, load_plugins, run_folder
from harness.cli.output import add_output, emit, refuse
from harness.errors import UsageError
from harness.io.records import Output

_HISTORY = "history.jsonl"


class ReportOutput(Output, tag="harness.report/1"):
    """harness report."""

    page: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run, or two to compare; or a history.jsonl or its folder",
    )
    add_results(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="file to write (default: report.html in the first run's folder, or history.html)",
    )
    parser.add_argument(
        "--share", action="store_true", help="include ids and numbers only, no texts of the dataset"
    )
    parser.add_argument(
        "--ranks",
        type=int,
        default=10,
        metavar="N",
        help="number of results to show per query (default: 10)",
    )
    add_options(parser, DatasetOptions, only=("plugin", "source"))
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Makes a page and writes it."""
    folders = [run_folder(options, run, "run folder or history") for run in options.runs]
    if (history := _history(folders)) is not None:
        return _write_history(options, history)
    if options.ranks < 1:
        raise UsageError(f"--ranks must be 1 or more, not {options.ranks}")

    from harness.cli.run_summary_lines import size
    from harness.io.files import disk_errors, write_bytes
    from harness.reports.report import check_pair, report_data, report_page
    from harness.runs.folder.run_dataset import dataset_of_run

    check_pair(folders)
    out = _out(options, folders)
    load_plugins(options)
    dataset = dataset_of_run(folders[0], source=options.source)
    data = report_data(folders, dataset, shown=options.ranks, share=options.share)
    page = report_page(data)
    with disk_errors(out.parent, "name another file with --out"):
        write_bytes(out, page)
    private = "" if options.share else "; contains texts of the dataset (omit them with --share)"
    return emit(options, ReportOutput(page=str(out)), f"{out} ({size(len(page))}){private}")


def _history(folders: list[Path]) -> Path | None:
    """Returns the given history, if any. Raises UsageError for a history among other paths."""
    from harness.runs.folder.run_state import is_run

    found = [_history_in(folder) for folder in folders if not is_run(folder)]
    if not any(found):
        for file in (folder for folder in folders if folder.is_file()):
            raise UsageError(f"{file}: is a file; a report takes run folders, or a history.jsonl")
        return None
    if len(folders) > 1:
        raise UsageError("a report has one history or runs, not both; name one history")
    return found[0]


def _history_in(path: Path) -> Path | None:
    """Returns the history that a path names: the file, or one in the folder; else None."""
    if path.is_dir():
        return path / _HISTORY if (path / _HISTORY).is_file() else None
    return path if path.suffix == ".jsonl" else None


def _write_history(options: argparse.Namespace, history: Path) -> int:
    """Writes the history as a page; it has no dataset text, so `--share` changes nothing."""
    from harness.cli.run_summary_lines import size
    from harness.io.files import disk_errors, write_bytes
    from harness.io.plugins import provider

    refuse(options, "for a history", "source", "plugin", ranks=10)
    page: bytes = provider("history_page")(history)
    out = _file(options) or history.with_name("history.html")
    with disk_errors(out.parent, "name another file with --out"):
        write_bytes(out, page)
    return emit(options, ReportOutput(page=str(out)), f"{out} ({size(len(page))})")


def _file(options: argparse.Namespace) -> Path | None:
    """Returns the path of `--out`. Raises UsageError if it is a folder."""
    if options.out and Path(options.out).is_dir():
        raise UsageError(f"--out {options.out}: is a folder; name a file")
    return Path(options.out) if options.out else None


def _out(options: argparse.Namespace, folders: list[Path]) -> Path:
    """Returns the path of the page: in the first run's folder, or as `--out` sets it."""
    if (out := _file(options)) is not None:
        return out
    against = f"-against-{folders[1].resolve().name}" if len(folders) > 1 else ""
    return folders[0] / f"report{against}{'-share' if options.share else ''}.html"
