"""Write a run's rankings to a file for other tools.

Write the rankings of a run as TREC, ir-metadata (TREC with comments that describe the run), Parquet
or JSON lines, or as the log of LongMemEval's scripts; or write answers as the hypotheses that its
judge reads. An existing file is not overwritten. `harness datasets export` writes documents,
queries and qrels; both name documents that share an id HAYSTACK/ID in TREC's formats.
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
        "run", metavar="RUN", help="folder or name of a run; for hypotheses a folder of answers"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        required=True,
        help="format of the file",
    )
    parser.add_argument("--out", metavar="FILE", required=True, help="file to write")
    parser.add_argument(
        "--source",
        metavar="PATH",
        help="the dataset's raw files, if they have moved; for longmemeval and TREC",
    )
    add_results(parser)
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Writes the file and prints its path."""
    from harness.runs.folder.answers_folder import export_hypotheses
    from harness.runs.folder.export import export_run

    if options.format not in ("longmemeval", "trec", "ir-metadata"):
        refuse(options, f"for --format {options.format}", "source")
    folder, out = run_folder(options, options.run), Path(options.out)
    if options.format == "longmemeval-hypotheses":
        left_out, what = export_hypotheses(folder, out), "questions without an answer"
    else:
        left_out = export_run(folder, out, options.format, options.source)
        what = "texts that match no document"
    if left_out and not options.quiet:
        print(f"note: excluded {left_out} {what}", file=sys.stderr)
    return emit(options, ExportOutput(file=options.out), f"file {options.out}")
