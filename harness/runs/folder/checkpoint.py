"""The checkpoint of a run: its plan and its results so far, in a hidden folder next to the run's.

Each result of a work item is a line of JSON, which is only ever appended; `crc32` is the CRC-32 of
the rest of the line. An incomplete last line (kill -9, power failure) is removed; a damaged line is
skipped, with a note. Their queries are retried.
"""

from __future__ import annotations

import logging
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

import msgspec

from harness.errors import ResponseMismatchError, UsageError
from harness.io.files import fsync_path, write_bytes
from harness.io.plugins import exit_if_forked
from harness.io.records import read_json_record, write_json_record
from harness.records.run import RunPlan
from harness.runs.folder.run_state import CHECKPOINT, Mode, RunStore
from harness.runs.results import ResultLog, WorkItem, WorkResult, decode_result, encode_result
from harness.runs.usage import RunUsage

_log = logging.getLogger(__name__)

_SYNC_SECONDS = 1.0
_CRC = b'{"crc32":"'


class CheckpointWriter:
    """Appends results to a checkpoint file; syncs it to disk at most once per second."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab")  # noqa: SIM115 - closed by __exit__
        self._process = os.getpid()
        self._synced = monotonic()
        self._bytes = 0  # since the last report
        self._reports: dict[int, tuple[WorkResult, bool]] = {}  # last of each process; written?

    def __enter__(self) -> CheckpointWriter:
        return self

    def add(self, result: WorkResult) -> None:
        """Appends a result. Its report is included only if it is no longer than the lines since the
        last one; otherwise the last report is written on exit."""
        exit_if_forked(self._process)
        line = _line(msgspec.structs.replace(result, reported=None))
        self._bytes += len(line)
        if result.reported is not None:
            if result.process in self._reports:
                self._reports[result.process][0].reported = None
            fits = len(whole := _line(result)) <= 2 * self._bytes
            self._reports[result.process] = result, fits
            line, self._bytes = (whole, 0) if fits else (line, self._bytes)
        self._file.write(line)
        self._file.flush()
        if monotonic() - self._synced > _SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = monotonic()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for one, written in self._reports.values():
            last = WorkResult(one.item, one.haystack, [], None, 0, one.process, one.reported)
            self._file.write(b"" if written else _line(last))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class Checkpoint:
    """The results of a run so far, in a file and in memory; `results` has the queries of `done`."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.path = store.checkpoint
        self.done: list[WorkResult] = []
        self.results = ResultLog()
        self._cut_off = store.temporary / "cut_off"
        self._replaces = store.temporary / "replaces"  # exists if the finished run is not kept

    @classmethod
    @contextmanager
    def opened(
        cls, store: RunStore, plan: RunPlan, mode: Mode, *, quiet: bool
    ) -> Iterator[Checkpoint]:
        """Locks a run and starts or continues it; removes its hidden folder if the block succeeds.

        Raises UsageError if another process works on it, for an interrupted run in Mode.NEW, and
        for one with another plan.
        """
        checkpoint = cls(store)
        with store.lock():
            if mode is Mode.RESUME:
                checkpoint._resume(plan, quiet=quiet)
            else:
                if mode is Mode.NEW:
                    checkpoint._require_empty()
                checkpoint._create(plan, replaces=mode is Mode.OVERWRITE)
            yield checkpoint
            store.discard_temporary()

    @property
    def cut_off(self) -> bytes:
        """Number of steps with unreported cost that each attempt had under way at its end."""
        return self._cut_off.read_bytes().rstrip(b"\0") if self._cut_off.is_file() else b""

    @contextmanager
    def attempt(self, usage: RunUsage) -> Iterator[None]:
        """Counts this attempt as cut off, unless it completes or fails with no step under way."""
        before = self.cut_off
        write_bytes(self._cut_off, before + bytes([usage.steps]))
        try:
            yield
        except Exception:
            write_bytes(self._cut_off, before + bytes([0 if usage.alone else usage.steps]))
            raise
        write_bytes(self._cut_off, before)

    @property
    def keeps_previous(self) -> bool:
        """Whether the finished run that this one replaces is kept."""
        return not self._replaces.is_file()

    @property
    def answered(self) -> set[int]:
        """The queries that were answered without a failure."""
        return self.results.answered

    def add(self, result: WorkResult) -> None:
        """Adds a result that was written."""
        self.done.append(result)
        for one in result.queries:
            self.results.add(one)

    def remaining(self, planned: Sequence[WorkItem]) -> list[WorkItem]:
        """Returns the items to run, without the answered queries."""
        answered = self.answered
        left = (
            replace(item, queries=[query for query in item.queries if query not in answered])
            for item in planned
        )
        return [item for item in left if item.queries]

    @contextmanager
    def discard_mismatched(self) -> Iterator[None]:
        """Discards the answers, but not their cost, if they may belong to other queries."""
        try:
            yield
        except ResponseMismatchError:
            for one in self.done:
                one.queries = []
            self.results = ResultLog()
            write_bytes(self.path, b"".join(map(_line, self.done)))
            raise

    def _require_empty(self) -> None:
        """Raises UsageError if an interrupted run has answered queries or reported usage."""
        self._read()
        answered = len(self.answered)
        if answered or any(one.ingestion_usage or one.usage for one in self.done):
            queries = read_json_record(self._store.plan, RunPlan).queries
            raise UsageError(
                f"this run was stopped at {answered} of {queries} queries: --resume continues from "
                "there, --overwrite discards them, and what they cost"
            )

    def _create(self, plan: RunPlan, *, replaces: bool) -> None:
        """Starts without results."""
        self.done, self.results = [], ResultLog()
        self.path.unlink(missing_ok=True)
        self._cut_off.unlink(missing_ok=True)
        if replaces:
            self._replaces.touch()
        else:
            self._replaces.unlink(missing_ok=True)
        write_json_record(self._store.plan, plan)

    def _resume(self, plan: RunPlan, *, quiet: bool) -> None:
        """Loads the results so far, failures included, or those of a finished run to retry its
        failed queries; without any, starts."""
        store = self._store
        if store.is_interrupted:
            if read_json_record(store.plan, RunPlan) != plan:
                raise UsageError(
                    f"{store.temporary}: belongs to a run with other settings; remove it"
                )
        elif store.is_finished:
            failed = store.failed_queries()
            if not quiet:
                _log.warning(
                    f"note: {store.folder} is finished but for {failed} queries that failed: "
                    "trying those again"
                )
            self._replaces.touch()
            record = store.record()
            steps = min(record.settings.workers or 1, 255)
            self._cut_off.write_bytes(bytes([steps]) * record.cut_off_attempts)
            shutil.copyfile(store.folder / CHECKPOINT, self.path)
            fsync_path(self.path)
            write_json_record(store.plan, plan)
        else:
            if not quiet:
                started = "there is no interrupted run with these settings; it starts"
                _log.warning(f"note: {self._changed_code(plan) or started}")
            self._create(plan, replaces=False)
        self._read()

    def _read(self) -> None:
        """Reads the results; removes an incomplete last line."""
        if not self.path.is_file():
            return
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(self.path, whole)
        damaged = list[str]()
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
            try:
                self.add(decode_result(_checked(line)))
            except (ValueError, msgspec.MsgspecError, OverflowError):
                damaged.append(str(number))
        if damaged:
            _log.warning(
                f"note: {self.path}: damaged in line {', '.join(damaged[:5])}"
                f"{' and others' if len(damaged) > 5 else ''}; their queries run again"
            )

    def _changed_code(self, plan: RunPlan) -> str:
        """Describes an interrupted run of the same settings with other code; empty if there is
        none."""
        from harness.runs.folder.listing import unfinished_runs

        for store in unfinished_runs(self._store.results):
            with suppress(UsageError):
                other = read_json_record(store.plan, RunPlan)
                before, now = other.retriever.files, plan.retriever.files
                retriever = msgspec.structs.replace(plan.retriever, files=before)
                if msgspec.structs.replace(plan, retriever=retriever) == other:
                    changed = sorted(n for n in {*before, *now} if before.get(n) != now.get(n))
                    return (
                        f"{store.temporary} was stopped, and is of other code: "
                        f"{', '.join(changed)}; this run starts anew"
                    )
        return ""


def _line(result: WorkResult) -> bytes:
    line = encode_result(result)[1:]
    return b'%s%08x",%s\n' % (_CRC, zlib.crc32(line), line)


def _checked(line: bytes) -> bytes:
    """Returns the JSON of a line. Raises ValueError if its CRC-32 differs."""
    start = len(_CRC) + len('12345678",')
    if line[:start] != b'%s%08x",' % (_CRC, zlib.crc32(line[start:])):
        raise ValueError("the CRC-32 is another")
    return b"{" + line[start:]
