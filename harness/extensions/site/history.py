"""history.jsonl, one line a run, and what the tests of one night show together.

The file is only ever appended to, and holds ids and numbers, no text of a dataset. Its lines are
`ScoredLine` or `FailedLine`, by their `state`.

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
from typing import Final, Literal

from msgspec import field

from harness.analysis.gate import GateResult, may_pass
from harness.errors import UsageError
from harness.io.files import disk_errors, fsync_path
from harness.io.records import Record, decode, encode
from harness.io.terminal import counted
from harness.stats.proportions import holm

VERSION: Final = 1
NAME = "history.jsonl"
Series = tuple[str, str]
"""Dataset and system, as a list calls them."""

REMEDY = "name another folder with history = ... in the [nightly] table"
"""What to do where the folder of a history cannot be written."""


class HistoryQueries(Record):
    """Counts of queries; of the unmeasurable no returned text was resolved."""

    asked: int
    failed: int
    unmeasurable: int


class LineDataset(Record):
    """The data of a run; the first digits of the fingerprint."""

    name: str
    granularity: str
    text: str
    split: str
    fingerprint: str


class HistoryVersions(Record):
    """Versions of retriever, revision and harness; git commit, and whether there were changes."""

    retriever: str | None = None
    revision: str | None = None
    harness: str
    commit: str


class ShortMean(Record):
    """A mean over n queries and its 95% interval, to six digits."""

    value: float | None
    n: int
    low: float | None = None
    high: float | None = None


class IntervalNote(Record):
    """What the intervals take for independent, how many, and why coverage may be off."""

    cluster_by: str
    clusters: int
    approximate: str = ""


class HistoryTimes(Record):
    """Seconds of indexing and of the run, and the median search in milliseconds."""

    index_seconds: float | None = None
    run_seconds: float | None = None
    search_ms: float | None = None


class MetricChange(Record):
    """A metric now less the last time, over the `n` queries that both have a value for.

    `before` is the last mean. p is of the test of its line, not corrected; `smallest_p` the least
    that it could have been (`DifferenceTest`). `wins` queries have a higher value than before,
    `losses` a lower one.
    """

    before: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    smallest_p: float | None
    n: int
    wins: int
    losses: int


class LineChange(Record):
    """A comparison with the last run of the series, which was finished `since`.

    `unchanged`: every value of every query is the same. `reasons` say why runs are not comparable.
    The rest is of compared runs: `alpha` of all tests of the night, `max_drop` by how much a main
    metric may fall (None: no limit), the `test` (`sign flips`, or `t` below ten haystacks), the
    independent `clusters`, how intervals were computed and why they are approximate, queries of
    each run that the other lacks, and results by slice and metric (where the runs are not equally
    deep, of metrics that depth could not change).
    """

    state: Literal["first", "not comparable", "unchanged", "compared"]
    since: str | None = None
    reasons: list[str] = field(default_factory=list)
    alpha: float = 0.05
    max_drop: float | None = None
    test: str = "sign flips"
    clusters: int = 0
    cluster_by: str = ""
    interval_method: str = ""
    approximate: str = ""
    unpaired: list[int] = field(default_factory=list)
    results: dict[str, dict[str, MetricChange]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.state == "compared" and not (self.since and self.cluster_by):
            raise ValueError("a compared run needs since and cluster_by")


class ChangedSetting(Record):
    """A setting that is another than the last time."""

    setting: str
    before: str
    now: str


class LineHead(Record, tag_field="state"):
    """What every line has.

    `night` is when its list was begun (UTC), `list_size` how many runs the list has. Dataset and
    system are the names of the list: together the series over time that this is a point of.
    """

    version: Literal[1]
    night: str
    list_size: int
    dataset: str
    system: str
    finished: str

    @property
    def series(self) -> Series:
        """The series over time that this is a point of."""
        return self.dataset, self.system


class FailedLine(LineHead, tag="failed", tag_field="state"):
    """A run that failed; `error` is the kind of its error."""

    error: str


class ScoredLine(LineHead, tag="ok", tag_field="state"):
    """A run that was scored; `run` is its folder, `results` are by slice and metric."""

    run: str
    queries: HistoryQueries
    data: LineDataset
    k: int
    protocol: str
    level: str
    versions: HistoryVersions
    results: dict[str, dict[str, ShortMean]]
    intervals: IntervalNote | None = None
    times: HistoryTimes
    change: LineChange
    changed_settings: list[ChangedSetting] = field(default_factory=list)


Line = ScoredLine | FailedLine


def read_history(path: Path) -> tuple[list[Line], int]:
    """Reads the lines of a history; also returns the bytes of a last line that a crash cut off.

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
    where = f"{path}, line {number}"
    remedy = "read it with the harness that wrote it, or remove the line"
    line: Line = decode(text, Line, where, remedy)  # type: ignore[arg-type]
    for name, value in (("night", line.night), ("finished", line.finished)):
        try:
            aware = datetime.fromisoformat(value).tzinfo is not None
        except ValueError:
            aware = False
        if not aware:
            raise UsageError(f"{where}: {name}: not a time with its zone; remove the line")
    return line


class History:
    """A history open for writing; see `open_history`."""

    def __init__(self, path: Path, lines: list[Line]) -> None:
        self.path = path
        self.lines = lines

    def append(self, line: Line) -> None:
        """Adds one line; it is on the disk when this returns."""
        with disk_errors(self.path.parent, REMEDY), open(self.path, "ab") as file:
            file.write(encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)


@contextmanager
def open_history(folder: Path) -> Iterator[tuple[History, str]]:
    """Opens the history of a folder, locked against other lists; also says what a crash cut off.

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
            note = ""
            if torn:
                os.truncate(path, path.stat().st_size - torn)
                fsync_path(path)
                note = f"{path}: its last line was cut off by a crash and is dropped"
        yield History(path, lines), note
    finally:
        lock.release()


# -- What the tests of one night show together -----------------------------------------------------

ROSE, FELL = "rose", "fell"
NOT_SHOWN, UNCHANGED, OPEN = "no change shown", "unchanged", "open"
NOT_TESTED = "not tested"
OPEN_WORDS = f"{OPEN}: no drop could have been shown"
"""What `open` says, as at a gate."""

Key = tuple[Series, str, str]
"""Series, slice and metric."""


@dataclass(frozen=True)
class ChangeOutcome:
    """What the test of one metric shows, and its p after Holm (None where it was not tested)."""

    outcome: str
    p: float | None = None


@dataclass(frozen=True)
class ChangeOutcomes:
    """The verdicts of a night; `tested` is the number of tests that were corrected together."""

    results: dict[Key, ChangeOutcome]
    tested: int
    alpha: float


def verdicts(lines: Iterable[Line]) -> ChangeOutcomes:
    """Judges every metric of a night that was compared with the last time.

    One family, with Holm's correction: the metrics over all queries. Abilities are not tested: with
    five of them in the family, ten haystacks could show no drop in any of five metrics. A test that
    could not have given p <= alpha whatever the signs of its differences is not in the
    family: its differences are all 0 (`unchanged`), or there are too few independent clusters
    (`open`). To leave it out takes nothing from the correction, since it can never be a false
    positive (Tarone, 1990). A t test can be one at any spread, and stays in. A metric that no p
    could have shown beside that many tests is open too.
    """
    found: dict[Key, ChangeOutcome] = {}
    alpha = 0.05
    testable: list[tuple[Key, MetricChange, float]] = []
    for line in lines:
        if not isinstance(line, ScoredLine) or line.change.state != "compared":
            continue
        alpha = line.change.alpha
        for part, metrics in line.change.results.items():
            for metric, one in metrics.items():
                key = line.series, part, metric
                moved = one.wins or one.losses or not one.n
                state = OPEN if part == "all" else NOT_TESTED
                found[key] = ChangeOutcome(state if moved else UNCHANGED)
                if part != "all" or not moved or one.p is None or one.smallest_p is None:
                    continue
                if line.change.test == "t" or one.smallest_p <= alpha:
                    testable.append((key, one, one.p))
    adjusted = holm([p for *_, p in testable])
    for (key, one, _), p in zip(testable, adjusted, strict=True):
        found[key] = ChangeOutcome(_outcome(one, float(p), len(testable), alpha), float(p))
    return ChangeOutcomes(found, len(testable), alpha)


def _outcome(change: MetricChange, p: float, tests: int, alpha: float) -> str:
    if p <= alpha:
        return ROSE if (change.difference or 0) > 0 else FELL
    # The least of m p values is multiplied by m in Holm's correction.
    return OPEN if (change.smallest_p or 0) * tests > alpha else NOT_SHOWN


def drops(lines: Iterable[Line], found: ChangeOutcomes) -> list[GateResult]:
    """Compares each main metric over all queries with the last time; one check a metric.

    The rule is the gate's (`harness.analysis.gate.may_pass`), of two-sided tests, with the
    `max_drop` that the list had when the line was written. Without one, and where a run does not
    compare with the last time, there is no check.
    """
    checks = []
    for line in lines:
        if not isinstance(line, ScoredLine) or line.change.max_drop is None:
            continue
        change, by = line.change, line.change.max_drop
        for metric, one in change.results.get("all", {}).items():
            verdict = found.results[line.series, "all", metric]
            open, said, passed = verdict.outcome == OPEN, "not measurable", True
            if one.difference is not None and one.before is not None:
                shown = verdict.outcome in (ROSE, FELL)
                passed = may_pass(-one.difference, by, shown=shown, open=open)
                now = one.before + one.difference
                p = "" if verdict.p is None else f", p {verdict.p:.4f} (Holm, {found.tested})"
                said = f"{one.before:.4f} -> {now:.4f}, {one.difference:+.4f}{p}"
            if open:
                said += (
                    f"; {counted(change.clusters, change.cluster_by)} could not have shown a drop, "
                    'nor that this is noise: take more data, or cluster_by = "queries" if '
                    "questions to one haystack are independent"
                )
            fell = f"did not fall by more than {by:g}" if passed else f"fell by more than {by:g}"
            rule = f"{metric} of {line.system} on {line.dataset} {fell}"
            checks.append(GateResult(rule, passed, said, open=open))
    return checks


def messages(lines: Sequence[Line], found: ChangeOutcomes) -> list[str]:
    """Says what a night shows over all queries, in a few words each."""
    parts = []
    changes = [line.change for line in lines if isinstance(line, ScoredLine)]
    states = [change.state for change in changes]
    if apart := states.count("not comparable"):
        parts.append(f"{apart} not comparable with the last time")
    missed = [check for check in drops(lines, found) if not check.passed]
    most = next((f"{one.max_drop:g}" for one in changes if one.max_drop is not None), "")
    if failed := sum(not check.open for check in missed):
        parts.append(f"{failed} dropped by more than {most}")
    outcomes = [one.outcome for (_, part, _), one in found.results.items() if part == "all"]
    if {ROSE, FELL, NOT_SHOWN} & {*outcomes}:
        words = [word for word in (ROSE, FELL) if word in outcomes]
        shown = ", ".join(f"{outcomes.count(word)} {word}" for word in words)
        how = f"{counted(found.tested, 'tests')}, Holm, alpha {found.alpha:g}"
        parts.append(f"{shown or NOT_SHOWN} ({how})")
    if OPEN in outcomes:
        fell = sum(check.open for check in missed)
        more = f", {fell} of which fell by more than {most}" if fell else ""
        parts.append(f"{outcomes.count(OPEN)} {OPEN_WORDS}{more}")
    elif not parts and (UNCHANGED in outcomes or "unchanged" in states):
        parts.append(UNCHANGED)
    elif not parts and "first" in states:
        parts.append("the first time, nothing to compare with")
    return parts
