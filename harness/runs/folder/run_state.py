"""Paths and states of a run below a results folder; no other module defines them.

| path | what |
|---|---|
| NAME/run.json | the run is finished |
| .NAME.tmp/plan.json | the run has started; checkpoint.jsonl holds its results so far |
| NAME.previous/TIME/ | an earlier finished run that was run again |
| archive/NAME/ | an archived run, which no list shows |
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, count
from pathlib import Path

from harness.errors import UsageError
from harness.io.checksums import read_with_checksums
from harness.io.files import discard, folder_aside
from harness.records.run import RunRecord

RUN_RECORD = "run.json"
"""The record of a finished run; a folder that contains it is a run folder."""

CHECKPOINT = "checkpoint.jsonl"
"""Results of a run so far; kept in the run folder if queries failed, to retry those."""

RETRIED = "retried.jsonl"
"""The failures of queries that were retried."""

OWN_ANSWERS = "answers.jsonl"
"""The system's own answers, in the format of LongMemEval's hypotheses."""

OURS = frozenset(
    {
        *("rankings.parquet", "rankings.trec", RUN_RECORD, "queries.parquet", "hits.parquet"),
        *("errors.jsonl", "scores.json", "scores.parquet", "semantic.parquet", "excluded.json"),
        *("feedback.json", CHECKPOINT, RETRIED, OWN_ANSWERS),
    }
)
"""The files of a run folder; all others in it belong to the user and are kept."""

RUN_AGAIN = "get the folder again from where it is whole, or run it again"
"""The remedy for a damaged run folder."""

_ARCHIVE = "archive"
TEMPORARY = ".tmp"
_NAMED = 8  # runs that an error lists
_JUST_BEGUN = 60.0  # seconds in which a run without results may not hold its lock yet
_LOCK_SECONDS = 0.5  # a process that checks whether a run is active holds the lock for a moment


class Mode(StrEnum):
    """Selects what happens to an earlier run of the same settings.

    NEW: a finished one is returned unchanged, if its retriever was given by name, and an
    interrupted one is an error. RESUME: an interrupted one is continued, and failed queries of a
    finished one are retried. OVERWRITE: both are run again. REPLACE: the same, and the finished
    folder is kept in NAME.previous.
    """

    NEW = "new"
    RESUME = "resume"
    OVERWRITE = "overwrite"
    REPLACE = "replace"


class RunState(StrEnum):
    """The state of a run on disk; INTERRUPTED also if a finished run is being run again."""

    NEW = "new"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    FINISHED_WITH_FAILURES = "finished with failures"


@dataclass(frozen=True)
class RunStore:
    """Everything of one run on disk: `results` is the folder of all runs, `name` the run's own."""

    results: Path
    name: str

    @classmethod
    def of(cls, path: Path) -> RunStore:
        """Returns the store of a run folder, or of the hidden folder of an unfinished run."""
        name = path.name.removesuffix(TEMPORARY) if path.name[:1] == "." else path.name
        return cls(path.parent, name.removeprefix("."))

    @property
    def folder(self) -> Path:
        """The folder of the finished run."""
        return self.results / self.name

    @property
    def temporary(self) -> Path:
        """The hidden folder of the unfinished run."""
        return self.results / f".{self.name}{TEMPORARY}"

    @property
    def plan(self) -> Path:
        """The plan of the unfinished run."""
        return self.temporary / "plan.json"

    @property
    def start(self) -> Path:
        """The details of the unfinished run that lists show."""
        return self.temporary / "started.json"

    @property
    def checkpoint(self) -> Path:
        """The results of the unfinished run so far."""
        return self.temporary / CHECKPOINT

    @property
    def is_finished(self) -> bool:
        """Whether the folder holds a finished run."""
        return is_run(self.folder)

    @property
    def is_interrupted(self) -> bool:
        """Whether there is an unfinished run, active or not."""
        return self.plan.is_file()

    def state(self) -> RunState:
        """Returns the state of this run. Raises UsageError for a damaged run.json."""
        if self.is_interrupted:
            return RunState.INTERRUPTED
        if not self.is_finished:
            return RunState.NEW
        return RunState.FINISHED_WITH_FAILURES if self.failed_queries() else RunState.FINISHED

    def failed_queries(self) -> int:
        """Returns the number of queries of the finished run that failed."""
        return self.record().queries.failed

    def can_retry(self) -> bool:
        """Tests whether the finished run has failed queries and a checkpoint to retry."""
        return (self.folder / CHECKPOINT).is_file() and self.failed_queries() > 0

    def is_reusable(self, mode: Mode, *, is_named: bool) -> bool:
        """Tests whether to return the finished run; `is_named`: the retriever has a name, and so a
        stable identity."""
        if mode is Mode.NEW:
            return is_named and self.is_finished
        return (
            mode is Mode.RESUME
            and self.is_finished
            and not (self.is_interrupted or self.can_retry())
        )

    def is_running(self) -> bool:
        """Tests whether a process works on the unfinished run."""
        if not self._lock_file.is_file():  # locking would create it, and its folder
            return False
        from filelock import FileLock, Timeout

        try:
            with FileLock(self._lock_file, timeout=0):
                return False
        except Timeout:
            return True

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the run against a second process with the same settings. Raises UsageError."""
        from filelock import FileLock, Timeout

        self.temporary.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._lock_file, timeout=_LOCK_SECONDS)
        try:
            lock.acquire()
        except Timeout:
            raise UsageError(
                f"{self.temporary}: another process works on this run; wait for it, or name "
                "another --out"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def remove_if_empty(self) -> None:
        """Removes the hidden folder of a run that was killed before its first result or after its
        last file, if no process works on it."""
        from filelock import FileLock, Timeout

        begun = self.checkpoint.is_file() and self.checkpoint.stat().st_size
        old = time.time() - self.temporary.stat().st_mtime > _JUST_BEGUN
        if old and not (begun and self.is_interrupted):
            self._lock_file.touch()
            with suppress(Timeout), FileLock(self._lock_file, timeout=0):
                self.discard_temporary()

    @contextmanager
    def replaced(self, *, keep_previous: bool) -> Iterator[Path]:
        """Yields a folder that becomes the finished run, completely or not at all.

        A run that is already finished moves to NAME.previous, or is replaced except for the user's
        files.
        """
        previous = self._previous() if self.is_finished and keep_previous else None
        with folder_aside(self.folder, ours=None if previous else OURS, keep=previous) as aside:
            yield aside

    def discard_temporary(self) -> None:
        """Removes the hidden folder of the unfinished run."""
        discard(self.temporary)

    def archive(self, results: Path) -> Path:
        """Moves the run to the archive, which lists and boards skip. Raises UsageError."""
        return self._move(archive_of(results) / self.name)

    def restore(self, results: Path) -> Path:
        """Moves an archived run back below `results`. Raises UsageError if it exists there."""
        return self._move(results / self.name)

    def remove(self) -> None:
        """Removes the finished run and all its files. Raises UsageError if it is not a run."""
        require_run(self.folder)
        discard(self.folder)

    def user_files(self) -> list[str]:
        """Returns the names of files in the folder that are not part of the run."""
        return sorted(path.name for path in self.folder.iterdir() if path.name not in OURS)

    @property
    def _lock_file(self) -> Path:
        return self.temporary / "lock"

    def record(self) -> RunRecord:
        """Returns the record of the finished run. Raises UsageError for a damaged one."""
        return read_with_checksums(self.folder / RUN_RECORD, RunRecord, RUN_AGAIN)

    def _previous(self) -> Path:
        """Returns a path, not in use yet, that keeps the finished run in NAME.previous."""
        moment = self.record().finished.partition("+")[0].replace(":", "")
        kept = self.results / f"{self.name}.previous"
        places = (kept / one for one in chain([moment], (f"{moment}-{n}" for n in count(2))))
        return next(place for place in places if not place.exists())

    def _move(self, to: Path) -> Path:
        require_run(self.folder)
        if to.exists():
            raise UsageError(f"{to}: exists already; remove or rename one of the two")
        to.parent.mkdir(exist_ok=True)
        os.replace(self.folder, to)
        return to


def archive_of(results: Path) -> Path:
    """Returns the folder of archived runs below `results`; no list shows it."""
    return results / _ARCHIVE


def is_run(folder: Path) -> bool:
    """Tests whether a folder holds a finished run."""
    return (folder / RUN_RECORD).is_file()


def finished_runs(results: Path) -> list[Path]:
    """Returns the folders of finished runs below `results`, sorted by name.

    Includes runs without read permission. Raises UsageError if `results` has none.
    """
    try:
        names = sorted(os.listdir(results)) if results.is_dir() else []
    except PermissionError:
        raise UsageError(f"{results}: may not be read; change its permissions") from None
    return [results / name for name in names if name[0] != "." and _may_be_run(results / name)]


def _may_be_run(folder: Path) -> bool:
    try:
        return (folder / RUN_RECORD).exists()
    except PermissionError:
        return True


def remove_empty(results: Path) -> None:
    """Calls `RunStore.remove_if_empty` for every unfinished run below `results`."""
    for path in results.glob(f".*{TEMPORARY}"):
        with suppress(OSError):
            RunStore.of(path).remove_if_empty()


def require_run(folder: Path) -> None:
    """Raises UsageError if a folder is not a run's; the message names the runs in it, if any."""
    if is_run(folder):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such run folder")
    if (folder / "answers.json").is_file():
        raise UsageError(
            f"{folder}: contains answers, not a run; `harness judge`, `harness compare` and "
            "`harness score` take it"
        )
    inside = [str(path) for path in finished_runs(folder)]
    if not inside:
        raise UsageError(f"{folder}: not a run folder (no {RUN_RECORD}); `harness runs` lists runs")
    shown = ", ".join(inside[:_NAMED]) + (", ..." if len(inside) > _NAMED else "")
    raise UsageError(
        f"{folder}: is a folder of runs ({len(inside)}), not a run; name one of them: {shown}"
    )
