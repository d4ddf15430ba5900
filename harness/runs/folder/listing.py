"""Lists the runs below a results folder, finished or not, and finds runs by name."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import harness
from harness.errors import UsageError, suggest
from harness.io.checksums import check_file, read_with_checksums
from harness.io.files import write_bytes
from harness.io.records import Record, decode, read_json_record
from harness.records.run import RunPlan, RunRecord, RunStart
from harness.records.scores import ScoreReport
from harness.runs.folder.run_folder import (
    RunFolder,
    read_scores,
    read_scores_by_query,
    scores_by_query,
)
from harness.runs.folder.run_state import (
    RUN_AGAIN,
    RUN_RECORD,
    TEMPORARY,
    RunStore,
    archive_of,
    finished_runs,
)
from harness.scoring.scores import main_metrics, main_protocol

_CACHE = ".runs.json"


def unfinished_runs(results: Path) -> list[RunStore]:
    """Returns the unfinished runs below `results`, active or not, sorted by name."""
    found = (RunStore.of(path) for path in sorted(results.glob(f".*{TEMPORARY}")))
    return [store for store in found if store.is_interrupted]


def leftovers(results: Path) -> Iterator[Path]:
    """Yields what ended processes left below `results`: unfinished runs and incomplete folders.

    Incomplete folders (`.NAME.new`, `.old`) count if they are a day old: younger ones may be in
    use. Commands that write remove those that no process has locked.
    """
    for path in sorted(results.glob(f".*{TEMPORARY}")):
        if not RunStore.of(path).is_running():
            yield path
    for pattern in (".*.new", ".*.old"):
        for path in sorted(results.glob(pattern)):
            if time.time() - path.stat().st_mtime > 86_400:
                yield path


def clear(leftover: Path) -> None:
    """Removes one of `leftovers`. Raises UsageError if a process works on it again."""
    if leftover.suffix == TEMPORARY and RunStore.of(leftover).is_running():
        raise UsageError(f"{leftover}: a process works on this run; not removed")
    shutil.rmtree(leftover)


@dataclass(frozen=True)
class ListedRun:
    """A run in a list.

    `name` is its display name, `id` the digest at the end of its folder's name. `state` is done,
    running, stopped, failed (no query was answered) or broken (files of a finished or unfinished
    run cannot be read; `reason` is the error). `when` is the time it finished, or started if it is
    not finished. `metric` is its main metric over all queries, with value and interval; empty if it
    is not scored. If queries failed, `answered_only` is the mean over the `answered` ones. `commit`
    is that of the folder it was run in, with a + if that had changes.
    """

    folder: Path
    name: str
    system: str
    dataset: str
    granularity: str
    state: str
    when: str
    queries: int
    done: int
    failed: int
    metric: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    answered_only: float | None = None
    answered: int | None = None
    commit: str = ""
    reason: str = ""

    @property
    def id(self) -> str:
        """The digest of its settings, data and code: the end of its folder's name."""
        return self.folder_name.rpartition("-")[2]

    @property
    def folder_name(self) -> str:
        """The folder's name; for an unfinished run the name of its future folder."""
        return RunStore.of(self.folder).name

    @property
    def at_its_end(self) -> bool:
        """Whether it is finished, by its folder's name; it may still be broken."""
        return not self.folder.name.startswith(".")

    @property
    def names(self) -> tuple[str, ...]:
        """All names that identify it; a unique prefix of one does too."""
        return (self.name, f"{self.name}@{self.dataset}", self.folder_name, self.id)


def list_runs(results: Path, *, archived: bool = False) -> list[ListedRun]:
    """Returns the runs below `results`, newest first; with `archived` those in the archive.

    Raises UsageError if the folder does not exist.
    """
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    if archived:
        results = archive_of(results)
    found = [*_list_finished(results), *list_unfinished(results)]
    return sorted(found, key=lambda run: (run.when, run.folder_name), reverse=True)


class _CachedRun(Record):
    """The list entry of a finished run, valid while its files have the same `stamp`."""

    stamp: list[int]
    run: ListedRun


class _ListCache(Record):
    """The file `.runs.json`: entries by folder name, and the version that wrote them."""

    version: str
    runs: dict[str, _CachedRun]


def _list_finished(results: Path) -> list[ListedRun]:
    """Describes the finished runs; those that did not change since the last list are not read.

    Broken runs are read each time, and so are runs of the last two seconds: another change may
    leave their size and times as they are.
    """
    path = results / _CACHE
    known = _read_cache(path)
    cached: dict[str, _CachedRun] = {}
    found = []
    settled = time.time_ns() - 2_000_000_000
    for folder in finished_runs(results):
        stamp = _stamp(folder)
        entry = known.get(folder.name)
        if entry is None or entry.stamp != stamp:
            entry = _CachedRun(stamp=stamp, run=describe_run(folder))
        if entry.run.state == "done" and max(stamp[2::4]) < settled:
            cached[folder.name] = entry
        found.append(replace(entry.run, folder=folder))
    if cached != known and os.access(results, os.W_OK):
        cache = _ListCache(version=harness.__version__, runs=cached)
        with suppress(OSError):  # the list is complete without the cache
            write_bytes(path, msgspec.json.encode(cache, enc_hook=str))
    return found


def _stamp(folder: Path) -> list[int]:
    """Returns inode, size and times (modified, changed; ns) of the files of a list entry."""
    stamp = []
    for name in (RUN_RECORD, "scores.json"):
        with suppress(OSError):
            stat = os.stat(folder / name)
            stamp += [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    return stamp


def _read_cache(path: Path) -> dict[str, _CachedRun]:
    """Reads the cached entries; none if the file is missing, damaged or of another version."""
    try:
        data = path.read_bytes()
        cache = msgspec.json.decode(data, type=_ListCache, dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.MsgspecError):
        return {}
    return cache.runs if cache.version == harness.__version__ else {}


def list_unfinished(
    results: Path, readers: dict[Path, CheckpointReader] | None = None
) -> list[ListedRun]:
    """Lists unfinished runs below `results`, active or not.

    `readers` of an earlier call read new lines only.
    """
    readers = {} if readers is None else readers
    stores = unfinished_runs(results)
    for gone in readers.keys() - {store.temporary for store in stores}:
        del readers[gone]
    found = []
    for store in stores:
        try:
            reader = readers.setdefault(store.temporary, CheckpointReader())
            found.append(_unfinished(store, reader))
        except FileNotFoundError:  # it has just finished
            continue
        except UsageError as error:
            if store.is_interrupted:
                found.append(_broken(store.temporary, store.plan, error))
    return found


def find_run(given: str, results: Path, what: str = "run folder") -> Path:
    """Returns the run folder that `given` names: a path, a name or a unique prefix of a name.

    Names are looked up below `results`: a run's name (`mine`, `mine@locomo`), its folder's name, or
    its id. A path that does not exist is returned unchanged. Raises UsageError for a name of no
    finished run, or of several.
    """
    if Path(given).exists():
        return Path(given)
    runs = list_runs(results) if results.is_dir() else []
    runs = [run for run in runs if run.at_its_end]
    meant = [run for run in runs if given in run.names]
    meant = meant or [run for run in runs if given == f"{run.system}@{run.dataset}"]
    meant = meant or [run for run in runs if any(one.startswith(given) for one in run.names)]
    if len(meant) == 1:
        return meant[0].folder
    if meant:
        told = [f"{run.folder_name} ({run.when[:16].replace('T', ' ')})" for run in meant[:5]]
        more = f"; and {len(meant) - 5} more" if len(meant) > 5 else ""
        raise UsageError(
            f"{given}: {len(meant)} runs in {results} match; name one by more "
            f"of its folder: {'; '.join(told)}{more}"
        )
    _refuse_unfinished(given, results)
    if "/" in given:  # a path: its reader raises a better error
        return Path(given)
    close = suggest(given, sorted({name for run in runs for name in (run.name, run.folder_name)}))
    if not close.startswith("; did"):
        close = "; `harness runs` lists the existing runs" if runs else ""
    raise UsageError(
        f"{given}: no such {what}, and no run in {results} has that name{close}; --results "
        "selects another folder"
    )


def _refuse_unfinished(given: str, results: Path) -> None:
    """Raises UsageError if a run of that name is unfinished or archived."""
    if not results.is_dir():
        return
    for run in list_unfinished(results):
        if given in run.names:
            todo = {
                "running": "wait for it",
                "stopped": "the same command with --resume continues, `harness runs clear` removes "
                "what there is",
                "failed": f"its errors are in {run.folder / 'errors.jsonl'}, `harness runs clear` "
                "removes it",
            }
            if run.state == "broken":
                raise UsageError(
                    f"{given}: is not finished, and what there is of it is broken: {run.reason}; "
                    "`harness runs clear` removes it"
                )
            raise UsageError(
                f"{given}: is {run.state} at {run.done} of {run.queries} queries, so there is no "
                f"run to read yet; {todo[run.state]}"
            )
    away = list_runs(results, archived=True)
    if any(given in run.names for run in away):
        raise UsageError(f"{given}: is archived; `harness runs unarchive {given}` restores it")


def describe_run(folder: Path, *, verify: bool = False) -> ListedRun:
    """Returns the list entry of a finished run; `broken` if its files cannot be read or, with
    `verify`, were changed or contradict each other."""
    try:
        record = read_with_checksums(folder / RUN_RECORD, RunRecord)
        scores = folder / "scores.json"
        report = None
        if scores.is_file():
            report = (
                read_scores_by_query(folder)[0]
                if verify
                else read_scores(folder, check_inputs=False)
            )
    except _BROKEN as error:
        return _broken(folder, folder / RUN_RECORD, error)
    changed = "+" if record.git and record.git.changed else ""
    run = ListedRun(
        folder,
        record.title,
        record.retriever.name,
        record.dataset.name,
        record.dataset.granularity,
        "done",
        record.finished,
        record.queries.asked,
        record.queries.asked,
        record.queries.failed,
        commit=f"{record.git.commit[:7]}{changed}" if record.git else "",
    )
    return run if report is None else _with_numbers(run, report)


_BROKEN = (UsageError, LookupError, TypeError, ValueError, AttributeError)
"""Exceptions raised by reading a record of another shape."""


def _broken(folder: Path, record: Path, error: Exception) -> ListedRun:
    """Returns the entry of a run with an `error`; `record` is the file that has it."""
    when = datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="seconds")
    name = RunStore.of(folder).name
    why = str(error) if isinstance(error, UsageError) else _not_ours(record, error)
    return ListedRun(folder, name, "", "", "", "broken", when, 0, 0, 0, reason=why)


def _not_ours(path: Path, error: Exception) -> str:
    return f"{path}: is not as the harness writes it ({error!r})"


def _with_numbers(run: ListedRun, report: ScoreReport) -> ListedRun:
    """Adds the main metric and its interval to a run."""
    protocol = main_protocol(report.protocols)
    results = protocol.overall if protocol else {}
    metric = next(iter(main_metrics(results)), None)
    if metric is None:
        return run
    result = results[metric]
    return replace(
        run,
        metric=metric,
        value=result.value,
        low=result.interval.low if result.interval else None,
        high=result.interval.high if result.interval else None,
        answered_only=result.answered_only.value if result.answered_only else None,
        answered=result.answered_only.n if result.answered_only else None,
    )


def _unfinished(store: RunStore, reader: CheckpointReader) -> ListedRun:
    modified = datetime.fromtimestamp(store.plan.stat().st_mtime, UTC)
    plan = read_json_record(store.plan, RunPlan)
    start = read_json_record(store.start, RunStart) if store.start.is_file() else None
    failed = reader.read(store.checkpoint)
    state = "failed" if (store.temporary / "errors.jsonl").is_file() else "stopped"
    system = start.system if start else plan.retriever.name
    return ListedRun(
        store.temporary,
        (start and start.name) or system,
        system,
        start.dataset if start else "",
        start.granularity if start else "",
        "running" if store.is_running() else state,
        start.started if start else modified.isoformat(timespec="seconds"),
        plan.queries,
        len(failed),
        sum(failed),
    )


def find_damage(folder: Path) -> list[str]:
    """Returns the faults of a run's files (rankings, queries, hits, answers, scores), a line each;
    empty if all are unchanged and do not contradict each other."""
    told = []

    def held(check: Callable[[], Any]) -> Any:
        try:
            return check()
        except UsageError as error:
            told.append(str(error))

    if (record := held(lambda: RunFolder(folder).record)) is None:
        return told
    if record.checksums is None:
        told.append(f"{folder / 'run.json'}: has no checksums, so its files cannot be verified")
    for name in record.checksums.files if record.checksums else ():
        held(partial(check_file, folder / name, record, RUN_AGAIN))
    if (folder / "scores.json").is_file():
        scores = held(lambda: read_scores(folder, check_inputs=False))
        if scores is not None and scores.checksums is not None:
            for name in scores.checksums.files:
                held(partial(scores_by_query, folder, scores, name))
            held(lambda: read_scores_by_query(folder))
    return [*dict.fromkeys(told)]


class _QueryLine(Record, forbid_unknown_fields=False):
    """The fields of a query's result that lists need."""

    query: int
    error: str | None = None


class _ResultLine(Record, forbid_unknown_fields=False):
    """The fields of a line of a checkpoint that lists need."""

    queries: list[_QueryLine]


@dataclass
class CheckpointReader:
    """Reads a checkpoint incrementally: whether each query failed, by its last result."""

    offset: int = 0
    queries: dict[int, bool] = field(default_factory=dict)

    def read(self, path: Path) -> list[bool]:
        """Returns whether each query failed; an incomplete line is left for the next call.

        Raises UsageError for a JSON line that is not a result.
        """
        size = path.stat().st_size if path.is_file() else 0
        if size < self.offset:  # the run was restarted
            self.offset, self.queries = 0, {}
        if size > self.offset:
            with open(path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                try:
                    result = msgspec.json.decode(line, type=_ResultLine)
                except msgspec.ValidationError:
                    decode(line, _ResultLine, str(path))  # raises with a message for people
                except msgspec.DecodeError:
                    break
                else:
                    self.queries.update(
                        (one.query, one.error is not None) for one in result.queries
                    )
            self.offset += len(whole)
        return [*self.queries.values()]
