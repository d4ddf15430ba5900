"""history.jsonl, one line a run, and what the tests of one night show together: one rule for all.

The file is only ever appended to, and holds ids and numbers, no text of a dataset:

| key | what |
|---|---|
| version | 1, of this form |
| night, of | when its list was begun (UTC), and how many runs the list has |
| dataset, system | what the list calls them: together the line over time that this is a point of |
| at, state | when the run ended (UTC); `ok`, or `failed`, then `error` is the kind of its error |
| run, queries | name of its folder; queries asked, failed, not measurable |
| data, k, protocol, level | what the numbers are about |
| versions | of retriever, revision and harness; git commit, and whether there were changes |
| cells | slice -> metric -> value, n, low, high: means and 95% intervals, to six digits |
| intervals | how they were made |
| times | seconds of indexing and of the run, median milliseconds of a search |
| change | what a paired comparison with the last time says: see `harness.testing.nightly.change` |
| changed | settings that are others than the last time: what, before, now |

The lines hold p as it is, not corrected, since what a test shows depends on all tests of its night:
`verdicts` corrects. A line that a crash cut off is the last one; it is dropped, and removed when
the next one is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import disk_errors, fsync_path
from harness.scoring.uncertainty import counted
from harness.statistics.corrections import holm
from harness.verdicts.gate import Check, may_pass

VERSION = 1
NAME = "history.jsonl"
Line = dict[str, Any]
Series = tuple[str, str]
"""Dataset and system, as a list calls them."""

REMEDY = "name another folder with history = ... in the [nightly] table"
"""What to do where the folder of a history cannot be written."""
_TEXTS = ("night", "dataset", "system", "at", "state")


def series_of(line: Line) -> Series:
    """The line over time that a run is a point of."""
    return line["dataset"], line["system"]


def read_history(path: Path) -> tuple[list[Line], int]:
    """The lines of a history, and how many bytes of a line that a crash cut off follow them.

    Raises UsageError, naming file and line, for a file that is not there or holds anything else.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; a list of runs writes it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    whole = data[: data.rfind(b"\n") + 1]
    lines = [_line(path, number, text) for number, text in enumerate(whole.split(b"\n")[:-1], 1)]
    return lines, len(data) - len(whole)


def _line(path: Path, number: int, text: bytes) -> Line:
    import orjson

    try:
        line = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path}, line {number}: not JSON ({error}); remove the line") from None
    if not _is_line(line):
        raise UsageError(f"{path}, line {number}: is no line of a history; remove it")
    if line.get("version") != VERSION:
        raise UsageError(
            f"{path}, line {number}: is of version {line.get('version')!r} of the history, and "
            f"this harness knows {VERSION}; take another folder, or the harness that wrote it"
        )
    found: Line = line
    return found


def _is_line(line: Any) -> bool:
    """Whether a value has what every line has."""
    if not isinstance(line, dict) or not all(isinstance(line.get(n), str) for n in _TEXTS):
        return False
    try:
        times = [datetime.fromisoformat(line[name]) for name in ("night", "at")]
    except ValueError:
        return False
    known = line["state"] == "failed" or isinstance(line.get("cells"), dict)
    return known and all(time.tzinfo is not None for time in times)


class History:
    """A history that is being written; see `open_history`."""

    def __init__(self, path: Path, lines: list[Line]) -> None:
        self.path = path
        self.lines = lines

    def append(self, line: Line) -> None:
        """Add one line; it is on the disk when this returns."""
        import orjson

        line = orjson.loads(data := orjson.dumps(line))  # as whoever reads it will find it
        with disk_errors(self.path.parent, REMEDY), open(self.path, "ab") as file:
            file.write(data + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)


@contextmanager
def open_history(folder: Path) -> Iterator[tuple[History, str]]:
    """The history of a folder, held against other lists, and a word on what a crash cut off.

    Raises UsageError for a folder that cannot be written, a damaged file, and where another list
    is being run into the same history.
    """
    from filelock import FileLock, Timeout

    path = folder / NAME
    with disk_errors(folder, REMEDY):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f".{NAME}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise UsageError(
                f"{path}: another list is being run into this history; wait for it, or {REMEDY}"
            ) from None
    try:
        with disk_errors(folder, REMEDY):
            if not path.exists():
                path.touch()
                fsync_path(folder)
            lines, torn = read_history(path)
            said = ""
            if torn:
                os.truncate(path, path.stat().st_size - torn)
                fsync_path(path)
                said = f"{path}: its last line was cut off by a crash and is dropped"
        yield History(path, lines), said
    finally:
        lock.release()


# -- What the tests of one night show together -----------------------------------------------------

ROSE, FELL = "rose", "fell"
NOT_SHOWN, UNCHANGED, OPEN = "no change shown", "unchanged", "open"
OPEN_WORDS = f"{OPEN}: no drop could have been shown"
"""What `open` says, as at a gate."""

Place = tuple[Series, str, str]
"""Series, slice and metric."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one cell, and its p after Holm (None where it was not tested)."""

    said: str
    p: float | None = None


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a night. `tested` is the number of tests that were corrected together, over
    all queries and by ability."""

    cells: dict[Place, Verdict]
    tested: dict[str, int]
    alpha: float


def verdicts(lines: Iterable[Line]) -> Verdicts:
    """Judge every cell of a night that was compared with the last time.

    Two families, each with Holm's correction: all queries, and by ability. A test that could not
    have given p <= alpha whatever the signs of its differences is in neither: its differences are
    all 0 (`unchanged`), or there are too few independent units (`open`). To leave it out takes
    nothing from the correction, since it can never be a false finding (Tarone, 1990). A cell that
    no p could have shown beside that many tests is open too.
    """
    found: dict[Place, Verdict] = {}
    tested = {}
    alpha = 0.05
    families: dict[str, list[tuple[Place, dict[str, float]]]] = {"all": [], "by ability": []}
    for line in lines:
        change = line.get("change") or {}
        if change.get("state") != "compared":
            continue
        alpha = change["alpha"]
        for part, metrics in change["cells"].items():
            for metric, cell in metrics.items():
                place = (series_of(line), part, metric)
                families["all" if part == "all" else "by ability"].append((place, cell))
    for family, members in families.items():
        able = [
            (place, cell)
            for place, cell in members
            if cell["smallest"] is not None and cell["smallest"] <= alpha
        ]
        tested[family] = len(able)
        found |= {
            place: Verdict(OPEN if cell["won"] or cell["lost"] or not cell["n"] else UNCHANGED)
            for place, cell in members
        }
        adjusted = holm([cell["p"] for _, cell in able])
        for (place, cell), p in zip(able, adjusted, strict=True):
            found[place] = Verdict(_said(cell, float(p), len(able), alpha), float(p))
    return Verdicts(found, tested, alpha)


def _said(cell: dict[str, float], p: float, tests: int, alpha: float) -> str:
    if p <= alpha:
        return ROSE if cell["difference"] > 0 else FELL
    # The least of m p values is multiplied by m in Holm's correction.
    return OPEN if cell["smallest"] * tests > alpha else NOT_SHOWN


def drops(lines: Iterable[Line], found: Verdicts) -> list[Check]:
    """Hold each main metric over all queries against the last time; one check a metric.

    The rule is the gate's (`harness.verdicts.gate.may_pass`), `by` the `max_drop` that the list had
    when the line was written. Without one, and where a run does not compare with the last time,
    nothing is held against anything.
    """
    checks = []
    for line in lines:
        change = line.get("change") or {}
        by = change.get("max_drop")
        if by is None:
            continue
        dataset, system = series_of(line)
        for metric, cell in change.get("cells", {}).get("all", {}).items():
            verdict = found.cells[(dataset, system), "all", metric]
            open, said, passed = verdict.said == OPEN, "not measurable", True
            if cell["difference"] is not None:
                shown = verdict.said in (ROSE, FELL)
                passed = may_pass(-cell["difference"], by, shown=shown, open=open)
                now = cell["before"] + cell["difference"]
                tests = found.tested["all"]
                p = "" if verdict.p is None else f", p {verdict.p:.4f} (Holm, {tests})"
                said = f"{cell['before']:.4f} -> {now:.4f}, {cell['difference']:+.4f}{p}"
            if open:
                said += (
                    f"; {counted(change['units'], change['over'])} could not have shown a drop, "
                    'nor that this is noise: take more data, or over = "queries" if questions to '
                    "one haystack are independent"
                )
            fell = f"did not fall by more than {by:g}" if passed else f"fell by more than {by:g}"
            rule = f"{metric} of {system} on {dataset} {fell}"
            checks.append(Check(rule, passed, said, open=open))
    return checks


def told(lines: Sequence[Line], found: Verdicts) -> list[str]:
    """What a night shows over all queries, in a few words each: of a summary and of the page."""
    parts = []
    states = [(line.get("change") or {}).get("state") for line in lines]
    if apart := states.count("not comparable"):
        parts.append(f"{apart} not comparable with the last time")
    missed = [check for check in drops(lines, found) if not check.passed]
    most = next((f"{by:g}" for by in map(_max_drop, lines) if by is not None), "")
    if failed := sum(not check.open for check in missed):
        parts.append(f"{failed} dropped by more than {most}")
    said = [verdict.said for (_, part, _), verdict in found.cells.items() if part == "all"]
    if {ROSE, FELL, NOT_SHOWN} & {*said}:
        shown = ", ".join(f"{said.count(word)} {word}" for word in (ROSE, FELL) if word in said)
        how = f"{counted(found.tested['all'], 'tests')}, Holm, alpha {found.alpha:g}"
        parts.append(f"{shown or NOT_SHOWN} ({how})")
    if OPEN in said:
        fell = sum(check.open for check in missed)
        more = f", {fell} of which fell by more than {most}" if fell else ""
        parts.append(f"{said.count(OPEN)} {OPEN_WORDS}{more}")
    elif not parts and (UNCHANGED in said or "unchanged" in states):
        parts.append(UNCHANGED)
    elif not parts and "first" in states:
        parts.append("the first time, nothing to compare with")
    return parts


def _max_drop(line: Line) -> float | None:
    return (line.get("change") or {}).get("max_drop")
