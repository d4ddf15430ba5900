"""harness report: a run, or two, or a history of nights, as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import Verbs, add_results, load_plugins, run_folder
from harness.cli.output import add_output, print_json, refuse
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "report",
        help="a run, two side by side, or a history, as one HTML page",
        description=(
            "Write one self-contained HTML file: abilities with intervals, metrics against k, risk "
            "against coverage, time, prompt cost, and every question with its evidence; of a "
            "history lines over time."
        ),
        allow_abbrev=False,
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run, or two that compare; a history.jsonl, or the folder with it",
    )
    add_results(parser)
    parser.add_argument(
        "--out", metavar="FILE", help="(report.html in the first run's folder, or history.html)"
    )
    parser.add_argument(
        "--share", action="store_true", help="ids and numbers only: no text of the dataset"
    )
    parser.add_argument(
        "--plots", metavar="FOLDER", help="the pictures too, as SVG and PNG (needs matplotlib)"
    )
    parser.add_argument(
        "--ranks", type=int, default=10, metavar="N", help="places of each ranking to show (10)"
    )
    parser.add_argument("--source", metavar="PATH", help="the raw files of the dataset")
    parser.add_argument(
        "--plugin", action="append", metavar="FILE.py", help="registers retrievers and datasets"
    )
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Make and write."""
    folders = [run_folder(options, run, "run folder or history") for run in options.runs]
    if (history := _history(folders)) is not None:
        return _write_history(options, history)
    if options.ranks < 1:
        raise UsageError(f"--ranks must be 1 or more, not {options.ranks}")
    if options.plots:
        from harness.retrievers.extras import need

        need("--plots", "matplotlib")

    from harness.cli.summary_notes import size
    from harness.files import disk_errors, write_bytes
    from harness.pages.report import check_pair, report_data, report_page
    from harness.runs.folder.run_folder import dataset_of_run

    check_pair(folders)
    out = _out(options, folders)
    load_plugins(options)
    dataset = dataset_of_run(folders[0], source=options.source)
    data = report_data(folders, dataset, shown=options.ranks, share=options.share)
    page = report_page(data)
    with disk_errors(out.parent, "name another file with --out"):
        write_bytes(out, page)
    if not (options.quiet or options.json):
        private = (
            "" if options.share else "; it holds texts of the dataset, --share leaves them out"
        )
        print(f"{out} ({size(len(page))}){private}")
    written: list[Path] = []
    if options.plots:
        from harness.pages.plots import write_plots

        pictures = Path(options.plots)
        with disk_errors(pictures, "name another folder with --plots"):
            written = write_plots(data, pictures)
        if not (options.quiet or options.json):
            print(f"{len(written)} pictures in {pictures}: {', '.join(p.name for p in written)}")
    if options.json:
        from harness.cli.output_records import ReportOutput

        print_json(ReportOutput(page=str(out), pictures=[str(path) for path in written]))
    return 0


def _history(folders: list[Path]) -> Path | None:
    """The history that is asked for. Raises UsageError for one beside something else."""
    from harness.pages.history import history_of
    from harness.runs.folder.store import is_run

    found = [history_of(folder) for folder in folders if not is_run(folder)]
    if not any(found):
        for file in (folder for folder in folders if folder.is_file()):
            raise UsageError(f"{file}: is a file; a report takes run folders, or a history.jsonl")
        return None
    if len(folders) > 1:
        raise UsageError("a history stands alone: name it without runs, and one at a time")
    return found[0]


def _write_history(options: argparse.Namespace, history: Path) -> int:
    """Lines over time; no text of a dataset is in them, so `--share` changes nothing."""
    from harness.cli.summary_notes import size
    from harness.files import disk_errors, write_bytes
    from harness.pages.history import history_page

    if options.plots:
        raise UsageError("--plots draws runs; a history has its page alone")
    refuse(options, "for a history", "source", "plugin", ranks=10)
    page = history_page(history)
    out = _file(options) or history.with_name("history.html")
    with disk_errors(out.parent, "name another file with --out"):
        write_bytes(out, page)
    if options.json:
        from harness.cli.output_records import ReportOutput

        print_json(ReportOutput(page=str(out), pictures=[]))
    elif not options.quiet:
        print(f"{out} ({size(len(page))})")
    return 0


def _file(options: argparse.Namespace) -> Path | None:
    """`--out`. Raises UsageError where it is a folder."""
    if options.out and Path(options.out).is_dir():
        raise UsageError(f"--out {options.out}: is a folder; name a file")
    return Path(options.out) if options.out else None


def _out(options: argparse.Namespace, folders: list[Path]) -> Path:
    """Where the page goes: beside the run's own files, unless it was said."""
    if (out := _file(options)) is not None:
        return out
    against = f"-against-{folders[1].resolve().name}" if len(folders) > 1 else ""
    return folders[0] / f"report{against}{'-share' if options.share else ''}.html"
