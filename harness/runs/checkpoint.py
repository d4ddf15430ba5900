"""The checkpoint of a run: a hidden folder beside the run's own, with its plan and its results.

Each result of a work item is a line of JSON, only ever appended; `crc32` is the CRC-32 of the rest
of the line. A last line that was cut off (kill -9, power) is dropped; a damaged line is skipped,
with a note. Their queries are asked again.
"""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import msgspec

from harness.errors import ResponseMismatchError, UsageError
from harness.files import fsync_path
from harness.records.base import read_json_record, write_json_record
from harness.records.run import RunPlan
from harness.runs.folder.run_folder import CHECKPOINT, CHECKPOINT_SUFFIX, PLAN
from harness.runs.guards import exit_if_forked
from harness.runs.results import QueryResult, WorkResult, decode_result, encode_result

_RETRIES = "retries"
_SYNC_SECONDS = 1.0
_CRC = b'{"crc32":"'


class CheckpointWriter:
    """Appends results to the file of a checkpoint; they are on the disk within a second."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab")  # noqa: SIM115 - closed by __exit__
        self._process = os.getpid()
        self._synced = monotonic()

    def __enter__(self) -> CheckpointWriter:
        return self

    def add(self, result: WorkResult) -> None:
        """Append a result."""
        exit_if_forked(self._process)
        line = encode_result(result)
        self._file.write(b'%s%08x",%s\n' % (_CRC, zlib.crc32(line[1:]), line[1:]))
        self._file.flush()
        if monotonic() - self._synced > _SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = monotonic()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class Checkpoint:
    """The folder with the plan and the results of an unfinished run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / CHECKPOINT

    @property
    def exists(self) -> bool:
        """Whether a run was interrupted here."""
        return (self.folder / PLAN).is_file()

    @property
    def is_retry(self) -> bool:
        """Whether the run repeats the failed queries of a finished one, which it replaces."""
        return (self.folder / _RETRIES).is_file()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the folder against a second process with the same settings."""
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            # A process that checks whether a run is active holds the lock for a moment.
            with FileLock(self.folder / "lock", timeout=0.5):
                yield
        except Timeout:
            raise UsageError(
                f"{self.folder}: another process is at this very run; wait for it, or name another "
                "--out"
            ) from None

    @contextmanager
    def discard_mismatched(self) -> Iterator[None]:
        """Discards the results where responses may belong to other queries."""
        try:
            yield
        except ResponseMismatchError:
            self.results.unlink(missing_ok=True)
            raise

    def require_empty(self) -> None:
        """Raises UsageError where an interrupted run has answered queries."""
        answered = sum(one.error is None for result in self.read() for one in result.queries)
        if answered:
            queries = read_json_record(self.folder / PLAN, RunPlan).queries
            raise UsageError(
                f"this run was stopped at {answered} of {queries} queries: --resume goes on from "
                "there, --overwrite discards them"
            )

    def create(self, plan: RunPlan) -> list[WorkResult]:
        """Starts without results."""
        self.results.unlink(missing_ok=True)
        (self.folder / _RETRIES).unlink(missing_ok=True)
        write_json_record(self.folder / PLAN, plan)
        return []

    def load(self, plan: RunPlan, *, quiet: bool) -> list[WorkResult]:
        """Loads the results so far, failures included; without a checkpoint, starts."""
        if not self.exists:
            if not quiet:
                started = "there is no interrupted run with these settings; it starts"
                print(f"note: {self._changed_code(plan) or started}", file=sys.stderr)
            return self.create(plan)
        if read_json_record(self.folder / PLAN, RunPlan) != plan:
            raise UsageError(f"{self.folder}: belongs to a run with other settings; remove it")
        return self.read()

    def reopen_failed(self, finished: Path, plan: RunPlan) -> None:
        """Reopens a finished run to repeat its failed queries."""
        (self.folder / _RETRIES).touch()
        shutil.copyfile(finished / CHECKPOINT, self.results)
        fsync_path(self.results)
        write_json_record(self.folder / PLAN, plan)

    def read(self) -> list[WorkResult]:
        """Reads the results; removes a last line that was cut off."""
        if not self.results.is_file():
            return []
        data = self.results.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(self.results, whole)
        results, damaged = [], list[str]()
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
            try:
                results.append(decode_result(_checked(line)))
            except (ValueError, msgspec.MsgspecError, OverflowError):
                damaged.append(str(number))
        if damaged:
            print(
                f"note: {self.results}: damaged in line {', '.join(damaged[:5])}"
                f"{' and others' if len(damaged) > 5 else ''}; their queries are asked again",
                file=sys.stderr,
            )
        return results

    def _changed_code(self, plan: RunPlan) -> str:
        """Names an interrupted run of the same settings whose code was another; else ""."""

        def without_code(plan: RunPlan) -> RunPlan:
            retriever = msgspec.structs.replace(plan.retriever, files={})
            return msgspec.structs.replace(plan, retriever=retriever)

        for path in sorted(self.folder.parent.glob(f".*{CHECKPOINT_SUFFIX}/{PLAN}")):
            with suppress(UsageError):
                other = read_json_record(path, RunPlan)
                if without_code(other) == without_code(plan):
                    before, now = other.retriever.files, plan.retriever.files
                    changed = sorted(n for n in {*before, *now} if before.get(n) != now.get(n))
                    return (
                        f"{path.parent} was stopped, and is of other code: {', '.join(changed)}; "
                        "this run starts anew"
                    )
        return ""


def _checked(line: bytes) -> bytes:
    """Returns the JSON of a line. Raises ValueError where its CRC-32 is another."""
    start = len(_CRC) + len('12345678",')
    if line[:start] != b'%s%08x",' % (_CRC, zlib.crc32(line[start:])):
        raise ValueError("the CRC-32 is another")
    return b"{" + line[start:]


def last_results(results: Sequence[WorkResult]) -> tuple[list[QueryResult], list[QueryResult]]:
    """Returns the last result of each query, in their order, and the failures before it."""
    last: dict[int, QueryResult] = {}
    before: list[QueryResult] = []
    for one in (one for result in results for one in result.queries):
        if one.query in last:
            before.append(last[one.query])
        last[one.query] = one
    return [last[query] for query in sorted(last)], before
