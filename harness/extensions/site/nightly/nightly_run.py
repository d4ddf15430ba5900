"""Runs one list: a history line after each run, a summary at the end.

Rankings and per-query values of the main metrics are stored for the last run of each series,
because the run's folder is overwritten every night. `last/NAME` is from the last finished list,
`before/NAME` from the one that it was compared with; `harness compare` accepts both.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc

from harness.analysis.board.entries import SLICES
from harness.analysis.scored_run import Block, ScoredRun
from harness.errors import HarnessError, UsageError
from harness.extensions.site.history import (
    REMEDY,
    VERSION,
    FailedLine,
    History,
    HistoryTimes,
    Line,
    LineChange,
    ScoredLine,
    Series,
    open_history,
)
from harness.extensions.site.nightly.change import (
    changed_settings,
    compare_with_last,
    run_times,
    scored_line,
)
from harness.extensions.site.nightly.render import render
from harness.extensions.site.nightly.summary import NightlySummary, Plan, folder_name, summary
from harness.io.files import disk_errors, folder_aside, write_bytes
from harness.io.records import Record, read_json_record, write_json_record
from harness.records.run import Measured, RunRecord
from harness.records.scores import ProtocolResult
from harness.runs.folder.run_folder import RunFolder, write_record, write_scores
from harness.scoring.scores import main_metrics

BEGUN = "begun.json"
"""File with the start of the running or last list; written before its first run."""


class BegunList(Record):
    """Start of the running or last list."""

    night: str


class NightlyRun:
    """State of a list. `began` is its start, `note` describes a repair.

    Create it with `open_nightly_run`; call `add_run` or `add_failure` after each run, and `end`
    once.
    """

    def __init__(
        self, plan: Plan, series: Sequence[Series], history: History, *, resume: bool, note: str
    ) -> None:
        self.plan = plan
        self.series = list(series)
        self.note = note
        self._history = history
        self.began: str = (resume and _begun(plan.folder, history)) or _now("milliseconds")
        with disk_errors(plan.folder, REMEDY):
            write_json_record(plan.folder / BEGUN, BegunList(night=self.began))
        self.lines: dict[Series, Line] = {
            line.series: line for line in history.lines if line.night == self.began
        }
        self._earlier = {
            (line.run, line.finished)
            for line in history.lines
            if isinstance(line, ScoredLine) and line.night != self.began
        }
        self.why: dict[Series, str] = {}
        self._cores: dict[Series, tuple[ScoredRun, str]] = {}
        self._times: dict[Series, HistoryTimes] = {}

    def is_of_another_night(self, folder: Path, record: RunRecord) -> bool:
        """Returns whether a finished run found by `--resume` belongs to an earlier list."""
        return (folder.name, record.finished) in self._earlier

    def add_run(
        self, series: Series, folder: Path, block: Block, asked: Sequence[str] = ()
    ) -> None:
        """Adds a scored run: compares it with the last time, and writes its line.

        `block` is the protocol with the tracked metrics, `asked` are further metrics. A run with a
        line in this night gets no second one.
        """
        whole = ScoredRun.read(folder)
        metrics = main_metrics(whole.blocks[block].overall, asked)
        run = main_part(whole, block, metrics)
        last, damage = None, ""
        try:
            last = read_last(self.plan.folder, series)
        except UsageError:
            damage = "the stored results of the previous run cannot be read"
        self._cores[series] = (run, folder.name)
        if last is not None:
            self._times[series] = run_times(last.run_record.measured)
        known = self.lines.get(series)
        measured = (folder.name, run.run_record.finished)
        if isinstance(known, ScoredLine) and (known.run, known.finished) == measured:
            return
        compared = compare_with_last(
            run, last, metrics, self.plan.alpha, self.plan.cluster_by, self.plan.max_drop
        )
        if damage:
            compared = LineChange(state="not comparable", reasons=[damage])
        other = changed_settings(run, last) if last is not None else []
        self._add(scored_line(self._head(series), run, block, compared, other))

    def add_failure(self, series: Series, error: BaseException) -> None:
        """Adds a failed run; the history gets only the kind of its error."""
        said = str(error).splitlines()
        self.why[series] = said[0] if isinstance(error, HarnessError) and said else repr(error)
        kind = type(error).__name__
        self._add(FailedLine(**self._head(series), finished=_now("seconds"), error=kind))

    def end(self, *, stopped: bool = False) -> NightlySummary:
        """Writes summary.json and summary.md, and returns the former.

        A `stopped` list stores no results, so the last time is still the list before.
        """
        with disk_errors(self.plan.folder, REMEDY):
            if not stopped:
                for series, (run, name) in self._cores.items():
                    store_run(self.plan.folder, series, run, name)
            found = summary(
                self.plan, self.began, self.series, self.lines, self.why, self._times, stopped
            )
            write_json_record(self.plan.folder / "summary.json", found)
            text = render(found, "markdown").encode("utf-8")
            write_bytes(self.plan.folder / "summary.md", text)
        return found

    def _head(self, series: Series) -> dict[str, Any]:
        return {
            "version": VERSION,
            "night": self.began,
            "list_size": len(self.series),
            "dataset": series[0],
            "system": series[1],
        }

    def _add(self, line: Line) -> None:
        self._history.append(line)
        self.lines[line.series] = line


@contextmanager
def open_nightly_run(
    plan: Plan, series: Sequence[Series], *, resume: bool = False
) -> Iterator[NightlyRun]:
    """Starts a list of runs; with `resume` continues the last one of this history.

    The history is locked against other lists until the block ends. Raises UsageError as
    `open_history` does.
    """
    with open_history(plan.folder) as (history, note):
        yield NightlyRun(plan, series, history, resume=resume, note=note)


def _begun(folder: Path, history: History) -> str | None:
    """Returns the start of the last list, which has no line if it was killed in its first run."""
    path = folder / BEGUN
    if not path.is_file():
        return history.lines[-1].night if history.lines else None
    try:
        began = read_json_record(path, BegunList).night
        datetime.fromisoformat(began)
    except (UsageError, ValueError):
        raise UsageError(
            f"{path}: has no start of the last list; remove it, and start the list without --resume"
        ) from None
    return began


def _now(precision: str) -> str:
    return datetime.now(UTC).isoformat(timespec=precision)


# -- Stored results of the last run of each series ------------------------------------------------

_COLUMNS = ("query", "protocol", "level", "ability", "category", "haystack")


def main_part(run: ScoredRun, block: Block, metrics: Sequence[str]) -> ScoredRun:
    """Reduces a run to one protocol, its abilities and these metrics, which a night compares."""
    protocol, level = block
    found = run.blocks[block]
    mine = pc.and_(pc.equal(run.table["protocol"], protocol), pc.equal(run.table["level"], level))
    columns = [name for name in (*_COLUMNS, *metrics) if name in run.table.column_names]
    selected = found.select(_slices(found), metrics)
    scores = msgspec.structs.replace(run.scores, protocols=[selected])
    return replace(run, scores=scores, table=run.table.filter(mine).select(columns))


def _slices(found: ProtocolResult) -> list[str]:
    """Returns all queries and abilities; `answerable` only if it differs from all."""
    n = {name: part.n for name, part in found.columns.items()}
    same = n.get("answerable") == n.get("all")
    return [name for name in SLICES if name in n and not (same and name == "answerable")]


def read_last(folder: Path, series: Series) -> ScoredRun | None:
    """Returns the stored results of the last time, or None.

    Raises UsageError if they are damaged.
    """
    place = folder / "last" / folder_name(series)
    return ScoredRun.read(place) if (place / "run.json").is_file() else None


def store_run(folder: Path, series: Series, run: ScoredRun, name: str) -> None:
    """Stores a run for the next time; `name` is that of its folder.

    Earlier results move to `before/`, unless they are damaged. A run that is already stored is not
    changed.
    """
    last, before = (folder / place / folder_name(series) for place in ("last", "before"))
    try:
        kept = read_last(folder, series)
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
    """Identifies a measurement: the run's folder, and when it was finished."""
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
