"""What is kept of the last run of each line over time, so that the next one has a partner.

The run's own folder is no place for it: the same settings write to the same folder every night. So
a list that is finished puts, for each of its runs, rankings and the values by query of the main
metrics aside: `last/NAME` is of the last list, `before/NAME` of the one that it was compared with.
`harness compare` takes both; there are two for each dataset and system, never more.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow.compute as pc

from harness.errors import UsageError
from harness.files import folder_aside
from harness.records.run import Measured, RunRecord
from harness.records.scores import ProtocolResult
from harness.runs.folder.run_folder import RunFolder, write_record, write_scores
from harness.runs.folder.store import is_run
from harness.verdicts.board.entries import SLICES
from harness.verdicts.compare.scored import Block, ScoredRun
from harness.verdicts.history import Series

_COLUMNS = ("query", "protocol", "level", "ability", "category", "haystack")


def core(run: ScoredRun, block: Block, metrics: Sequence[str]) -> ScoredRun:
    """A run with one protocol, its abilities and these metrics: all that a night compares."""
    protocol, level = block
    found = run.blocks[block]
    mine = pc.and_(pc.equal(run.table["protocol"], protocol), pc.equal(run.table["level"], level))
    columns = [name for name in (*_COLUMNS, *metrics) if name in run.table.column_names]
    selected = found.select(_slices(found), metrics)
    scores = msgspec.structs.replace(run.scores, protocols=[selected])
    return replace(run, scores=scores, table=run.table.filter(mine).select(columns))


def _slices(found: ProtocolResult) -> list[str]:
    """All queries and abilities; `answerable` only where it is not the same as all."""
    n = {name: part.n for name, part in found.columns.items()}
    same = n.get("answerable") == n.get("all")
    return [name for name in SLICES if name in n and not (same and name == "answerable")]


def last_of(folder: Path, series: Series) -> ScoredRun | None:
    """What was kept of the last time; None where nothing was, or it was removed.

    Raises UsageError where it is damaged.
    """
    place = folder / "last" / kept_name(series)
    return ScoredRun.read(place) if is_run(place) else None


def keep(folder: Path, series: Series, run: ScoredRun, name: str) -> None:
    """Put a run aside for the next time; `name` is that of its folder.

    What was kept before moves to `before/`, unless it is damaged. A run that is kept already is
    left as it is.
    """
    last, before = (folder / place / kept_name(series) for place in ("last", "before"))
    try:
        kept = last_of(folder, series)
    except UsageError:
        kept = None
    if kept is not None:
        if measurement(kept.run_record) == (name, run.run_record.finished):
            return
        _write(before, kept, kept.run_record)
    record = run.run_record
    measured = record.measured or Measured()
    _write(
        last,
        run,
        RunRecord(
            run_version=1,
            finished=record.finished,
            dataset=record.dataset,
            retriever=record.retriever,
            settings=record.settings,
            queries=record.queries,
            measured=Measured(
                seconds=measured.seconds, index=measured.index, search_ms=measured.search_ms
            ),
            imported_from=record.imported_from,
            versions=record.versions,
            machine=record.machine,
            git=record.git,
            run=name,
        ),
    )


def measurement(record: RunRecord) -> tuple[str, str]:
    """What tells one measurement from another: the run's folder, and when it was finished."""
    return record.run or "", record.finished


def _write(folder: Path, run: ScoredRun, record: RunRecord) -> None:
    import pyarrow.parquet as pq

    with folder_aside(folder) as aside:
        rankings = RunFolder(run.folder).rankings
        if rankings.is_file():
            shutil.copyfile(rankings, aside / rankings.name)
        pq.write_table(run.table, aside / "scores.parquet", compression="zstd")
        write_record(aside, record)
        write_scores(aside, run.scores)


def kept_name(series: Series) -> str:
    """A folder's name: readable, and another one for every dataset and system."""
    readable = re.sub(r"[^\w.\-]+", "-", "-".join(series))[:60].strip("-.")
    return f"{readable}-{hashlib.sha256(repr(series).encode()).hexdigest()[:8]}"
