"""A run's rankings as one file for other tools, written in memory that does not grow with them."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.errors import UsageError, near
from harness.io.files import disk_errors, file_aside
from harness.runfiles.write import read_blocks, write_jsonl, write_trec
from harness.runs.folder.longmemeval_log import write_log
from harness.runs.folder.rankings import trec_tag
from harness.runs.folder.run_folder import RunFolder

FLAT = ("trec", "parquet", "jsonl")
"""Forms of rankings alone, of a run on any dataset."""

FORMATS = (*FLAT, "longmemeval")


def export_run(folder: Path, out: Path, format: str, source: str | None = None) -> int:
    """Write the rankings of a run to `out`: `trec`, `parquet` (query, document, rank, score),
    `jsonl`, a line a query, or `longmemeval`, the retrieval log of the official scripts.

    Returns how many places of rankings are left out, which only a log does: of texts that are no
    document. `source` are the raw files of the dataset, where a log needs them and they are not
    where they were. The file appears whole or not at all.

    Raises UsageError for what is no run folder, an unknown format, a file that is there already,
    one that cannot be written, ids that TREC's format cannot carry, and a log of another dataset.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown export format {format!r}{near(format, list(FORMATS))}")
    if out.exists():
        raise UsageError(f"{out}: exists; name a new file")
    run = RunFolder(folder)
    system = trec_tag(run.record.retriever.name)
    remedy, left_out = "name another place with --out", 0
    with disk_errors(out.parent, remedy), file_aside(out) as aside:
        if format == "parquet":
            shutil.copyfile(run.rankings, aside)
        elif format == "jsonl":
            write_jsonl(read_blocks(run.rankings), aside)
        elif format == "longmemeval":
            left_out = write_log(folder, aside, source)
        else:
            try:
                write_trec(read_blocks(run.rankings), aside, system)
            except UsageError as error:
                raise UsageError(f"{folder}: {error}; export as parquet or jsonl") from None
    return left_out
