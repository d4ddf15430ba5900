"""One list of runs while it goes on: a history line after each run, a summary at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import HarnessError, UsageError
from harness.files import disk_errors
from harness.records.base import read_json_record, write_json_record
from harness.records.run import RunRecord
from harness.scoring.scores import main_metrics
from harness.testing.nightly.change import (
    change,
    changed_settings,
    failed_line,
    scored_line,
    times,
)
from harness.testing.nightly.kept import core, keep, last_of
from harness.testing.nightly.plan import Plan
from harness.testing.nightly.records import BegunList, NightSummary
from harness.testing.nightly.summary import summary, write_summary
from harness.verdicts.compare.scored import Block, ScoredRun
from harness.verdicts.history import (
    REMEDY,
    History,
    HistoryTimes,
    Line,
    LineChange,
    ScoredLine,
    Series,
    open_history,
)

BEGUN = "begun.json"
"""When the list was begun that is going on, or went on last; written before its first run."""


class Night:
    """What a list has done so far. `began` is when it was begun, `said` a word on what was mended.

    `open_night` makes one; `ran` or `failed` is called after each run, `end` once.
    """

    def __init__(
        self, plan: Plan, series: Sequence[Series], history: History, *, resume: bool, said: str
    ) -> None:
        self.plan = plan
        self.series = list(series)
        self.said = said
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
        """Whether a run that `--resume` found finished was measured by an earlier list already."""
        return (folder.name, record.finished) in self._earlier

    def ran(self, series: Series, folder: Path, block: Block, asked: Sequence[str] = ()) -> None:
        """Take in a run that was scored: compare it with the last time, and add its line.

        `block` is the protocol whose metrics are followed, `asked` metrics beside the main ones.
        A run that has its line in this night already gets no second one.
        """
        whole = ScoredRun.read(folder)
        metrics = main_metrics(whole.blocks[block].overall, asked)
        run = core(whole, block, metrics)
        last, damage = None, ""
        try:
            last = last_of(self.plan.folder, series)
        except UsageError:
            damage = "what was kept of the last time cannot be read"
        self._cores[series] = (run, folder.name)
        if last is not None:
            self._times[series] = times(last.run_record.measured)
        known = self.lines.get(series)
        measured = (folder.name, run.run_record.finished)
        if isinstance(known, ScoredLine) and (known.run, known.finished) == measured:
            return
        compared = change(
            run, last, metrics, self.plan.alpha, self.plan.cluster_by, self.plan.max_drop
        )
        if damage:
            compared = LineChange(state="not comparable", reasons=[damage])
        other = changed_settings(run, last) if last is not None else []
        self._add(scored_line(self.began, len(self.series), series, run, block, compared, other))

    def failed(self, series: Series, error: BaseException) -> None:
        """Take in a run that raised. Its message may hold anything, so the history has its kind."""
        said = str(error).splitlines()
        self.why[series] = said[0] if isinstance(error, HarnessError) and said else repr(error)
        at = _now("seconds")
        self._add(failed_line(self.began, len(self.series), series, at, type(error).__name__))

    def end(self, *, stopped: bool = False) -> NightSummary:
        """Write summary.json and summary.md, and give the former.

        A list that was `stopped` keeps nothing aside: the last time is then still the list before.
        """
        with disk_errors(self.plan.folder, REMEDY):
            if not stopped:
                for series, (run, name) in self._cores.items():
                    keep(self.plan.folder, series, run, name)
            found = summary(
                self.plan, self.began, self.series, self.lines, self.why, self._times, stopped
            )
            write_summary(self.plan.folder, found)
        return found

    def _add(self, line: Line) -> None:
        self._history.append(line)
        self.lines[line.series] = line


@contextmanager
def open_night(plan: Plan, series: Sequence[Series], *, resume: bool = False) -> Iterator[Night]:
    """Begin a list of runs; with `resume` go on with the last one of this history.

    The history is held against other lists until the block ends. Raises UsageError as
    `open_history` does.
    """
    with open_history(plan.folder) as (history, said):
        yield Night(plan, series, history, resume=resume, said=said)


def _begun(folder: Path, history: History) -> str | None:
    """When the last list was begun, which may have no line yet: killed in its first run."""
    path = folder / BEGUN
    if not path.is_file():
        return history.lines[-1].night if history.lines else None
    try:
        began = read_json_record(path, BegunList).night
        datetime.fromisoformat(began)
    except (UsageError, ValueError):
        raise UsageError(
            f"{path}: does not say when the last list was begun; remove it, and start the list "
            "without --resume"
        ) from None
    return began


def _now(precision: str) -> str:
    return datetime.now(UTC).isoformat(timespec=precision)
