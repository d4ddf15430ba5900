"""The checkpoint of a run: a folder beside its own, with its plan and what is done of it.

What came of a unit is a JSON line, or several where it took long, only ever appended; `sum` is the
CRC-32 of what stands behind it. A line that was cut off (kill -9, power) is the last one, and is
dropped; one that is damaged is passed over, and said. Their queries are asked again.
"""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import orjson

from harness.dataset.reader import Dataset
from harness.errors import ResponseMismatchError, UsageError
from harness.files import fsync_path, read_json, write_json
from harness.runs.folder.run_folder import JOURNAL
from harness.runs.outcome import Answer, Outcome
from harness.runs.reports import stay

_SYNC_SECONDS = 1.0
_RETRIES = "retries"
_SUM = b'{"sum":"'


class Journal:
    """Appends outcomes to a file; on the disk within a second."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab")  # noqa: SIM115 - closed by __exit__
        self._process = os.getpid()
        self._synced = monotonic()

    def __enter__(self) -> Journal:
        return self

    def add(self, outcome: Outcome) -> None:
        """Append one finished unit."""
        stay(self._process)
        self._file.write(_summed(orjson.dumps(outcome, option=orjson.OPT_SERIALIZE_NUMPY)))
        self._file.flush()
        if monotonic() - self._synced > _SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = monotonic()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def finished(path: Path) -> list[Outcome]:
    """The outcomes in a journal; what was cut off is removed from the file."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    lines = data[:whole].split(b"\n")[:-1]
    # An older version wrote no sums, in none of the lines.
    summed = any(line.startswith(_SUM) for line in lines[:2])
    outcomes, damaged = [], list[str]()
    for number, line in enumerate(lines, 1):
        try:
            outcomes.append(Outcome.from_json(_checked(line) if summed else orjson.loads(line)))
        except (ValueError, TypeError, KeyError, OverflowError):
            damaged.append(str(number))
    if damaged:
        print(
            f"note: {path}: damaged in line {', '.join(damaged[:5])}"
            f"{' and others' if len(damaged) > 5 else ''}; what came there is asked again",
            file=sys.stderr,
        )
    return outcomes


def _summed(line: bytes) -> bytes:
    return b'%s%08x",%s\n' % (_SUM, zlib.crc32(line[1:]), line[1:])


def _checked(line: bytes) -> Any:
    """What a line says. Raises ValueError for one that is not as it was written."""
    start = len(_SUM) + len('12345678",')
    if line[:start] != b'%s%08x",' % (_SUM, zlib.crc32(line[start:])):
        raise ValueError("the sum is another")
    return orjson.loads(b"{" + line[start:])


@contextmanager
def alone(partial: Path) -> Iterator[None]:
    """Hold the folder of what is done against a second process with the same settings."""
    from filelock import FileLock, Timeout

    partial.mkdir(parents=True, exist_ok=True)
    try:
        # Who only looks whether a run goes on holds the lock for a moment.
        with FileLock(partial / "lock", timeout=0.5):
            yield
    except Timeout:
        raise UsageError(
            f"{partial}: another process is at this very run; wait for it, or name another --out"
        ) from None


@contextmanager
def journal_less(partial: Path) -> Iterator[None]:
    """Where it is found in here that answers may be those to other questions, none is kept for
    --resume."""
    try:
        yield
    except ResponseMismatchError:
        (partial / JOURNAL).unlink(missing_ok=True)
        raise


def refuse_to_lose(partial: Path) -> None:
    """Raises UsageError where a run was stopped that had answers."""
    answers = [a for outcome in finished(partial / JOURNAL) for a in outcome.answers]
    if answered := sum(answer.error is None for answer in answers):
        queries = read_json(partial / "plan.json")["queries"]
        raise UsageError(
            f"this run was stopped at {answered} of {queries} queries: --resume goes on from "
            "there, --overwrite discards them"
        )


def fresh(partial: Path, identity: dict[str, Any]) -> list[Outcome]:
    """Begin anew: nothing is done yet."""
    (partial / JOURNAL).unlink(missing_ok=True)
    (partial / _RETRIES).unlink(missing_ok=True)
    write_json(partial / "plan.json", identity)
    return []


def resumed(partial: Path, identity: dict[str, Any], quiet: bool) -> list[Outcome]:
    """What is done; what failed is in it too, and is to be run again."""
    plan = partial / "plan.json"
    if not plan.is_file():
        if not quiet:
            other = _of_other_code(partial, identity)
            said = "there is no interrupted run with these settings; it starts"
            print(f"note: {other or said}", file=sys.stderr)
        return fresh(partial, identity)
    if read_json(plan) != identity:
        raise UsageError(f"{partial}: belongs to a run with other settings; remove it")
    return finished(partial / JOURNAL)


def _of_other_code(partial: Path, identity: dict[str, Any]) -> str:
    """What is said where a run of the same settings was stopped whose code was another; else ""."""

    def without_code(plan: Any) -> Any:
        about = {name: one for name, one in plan["retriever"].items() if name != "files"}
        return {**plan, "retriever": about}

    for path in sorted(partial.parent.glob(".*.tmp/plan.json")):
        with suppress(UsageError, KeyError, TypeError, AttributeError):
            plan = read_json(path)
            if without_code(plan) == without_code(identity):
                before, now = (one["retriever"].get("files", {}) for one in (plan, identity))
                other = sorted(n for n in {*before, *now} if before.get(n) != now.get(n))
                return (
                    f"{path.parent} was stopped, and is of other code: {', '.join(other)}; this "
                    "run starts anew"
                )
    return ""


def begin_at_failures(folder: Path, partial: Path, identity: dict[str, Any]) -> None:
    """Make of a finished run one that was stopped, of which what failed is to be done."""
    (partial / _RETRIES).touch()
    shutil.copyfile(folder / JOURNAL, partial / JOURNAL)
    fsync_path(partial / JOURNAL)
    write_json(partial / "plan.json", identity)


def is_of_failures(partial: Path) -> bool:
    """Whether what is begun there is to take the place of a finished run with failures."""
    return (partial / _RETRIES).is_file()


def last_answers(outcomes: Sequence[Outcome]) -> tuple[list[Answer], list[Answer]]:
    """The last answer of each query, in their order, and the failures before it."""
    last: dict[int, Answer] = {}
    before: list[Answer] = []
    for answer in (answer for outcome in outcomes for answer in outcome.answers):
        if answer.query in last:
            before.append(last[answer.query])
        last[answer.query] = answer
    return [last[query] for query in sorted(last)], before


def begun(dataset: Dataset, system: str, name: str) -> dict[str, Any]:
    """What lists of runs say of one that is not finished."""
    return {
        "dataset": dataset.name,
        "granularity": dataset.manifest.granularity,
        "system": system,
        "name": name or None,
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
    }
