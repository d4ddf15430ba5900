"""Write a run's rankings for other tools.

Write a run's rankings as one file: TREC, ir-metadata (TREC after comments that describe the run),
Parquet, JSON lines, or the log of LongMemEval's scripts; or answers as the hypotheses that these
judge. The file is written completely or not at all and never overwritten. (`harness datasets
export` writes documents, queries and judgements.)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.cli.options import add_results, run_folder
from harness.cli.output import add_output, emit, refuse
from harness.io.records import Output

FORMATS = ("trec", "ir-metadata", "parquet", "jsonl", "longmemeval", "longmemeval-hypotheses")


class ExportOutput(Output, tag="harness.export/1"):
    """harness export."""

    file: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument(
        "run", metavar="RUN", help="its folder or its name; for hypotheses a folder of answers"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        required=True,
    )
    parser.add_argument("--out", metavar="FILE", required=True)
    parser.add_argument("--source", metavar="PATH", help="the raw file, for a log of LongMemEval")
    add_results(parser)
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Writes the file and prints its path."""
    from harness.runs.folder.answers_folder import export_hypotheses
    from harness.runs.folder.export import export_run

    if options.format != "longmemeval":
        refuse(options, f"for --format {options.format}", "source")
    folder, out = run_folder(options, options.run), Path(options.out)
    if options.format == "longmemeval-hypotheses":
        left_out, what = export_hypotheses(folder, out), "questions whose answer did not come"
    else:
        left_out = export_run(folder, out, options.format, options.source)
        what = "places of texts that are no document"
    if left_out and not options.quiet:
        print(f"note: {left_out} {what} left out", file=sys.stderr)
    return emit(options, ExportOutput(file=options.out), f"file {options.out}")
