"""harness report: a run, or two, as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import Verbs
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "report",
        help="a run, or two side by side, as one HTML page",
        description=(
            "Write one self-contained HTML file: abilities with intervals, metrics against k, risk "
            "against coverage, time, prompt cost, and every question with its evidence."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run folder, or two that compare")
    parser.add_argument("--out", metavar="FILE", help="(report.html in the first run's folder)")
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
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Make and write."""
    folders = [Path(run) for run in options.runs]
    if options.ranks < 1:
        raise UsageError(f"--ranks must be 1 or more, not {options.ranks}")
    if options.plots:
        from harness.retrievers.extras import need

        need("--plots", "matplotlib")

    from harness.cli.tables import size
    from harness.files import disk_errors, write_bytes
    from harness.report.data import check_pair, report_data
    from harness.report.page import report_page
    from harness.results.dataset_of_run import dataset_of_run
    from harness.retrievers.registry import load_file

    check_pair(folders)
    out = _out(options, folders)
    for plugin in options.plugin or ():
        load_file(Path(plugin))
    dataset = dataset_of_run(folders[0], source=options.source)
    data = report_data(folders, dataset, shown=options.ranks, share=options.share)
    page = report_page(data)
    with disk_errors(out.parent, "name another file with --out"):
        write_bytes(out, page)
    if not options.quiet:
        private = (
            "" if options.share else "; it holds texts of the dataset, --share leaves them out"
        )
        print(f"{out} ({size(len(page))}){private}")
    if options.plots:
        from harness.report.plots import write_plots

        pictures = Path(options.plots)
        with disk_errors(pictures, "name another folder with --plots"):
            written = write_plots(data, pictures)
        if not options.quiet:
            print(f"{len(written)} pictures in {pictures}: {', '.join(p.name for p in written)}")
    return 0


def _out(options: argparse.Namespace, folders: list[Path]) -> Path:
    """Where the page goes: beside the run's own files, unless it was said."""
    if options.out:
        out = Path(options.out)
        if out.is_dir():
            raise UsageError(f"--out {out}: is a folder; name a file")
        return out
    against = f"-against-{folders[1].resolve().name}" if len(folders) > 1 else ""
    return folders[0] / f"report{against}{'-share' if options.share else ''}.html"
