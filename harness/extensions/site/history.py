"""History of nightly runs in history.jsonl, one line per run, and the tests of one night.

The file is append-only and contains ids and numbers, but no text of a dataset. Its lines are
`ScoredLine` or `FailedLine`, by their `state`.

The lines have uncorrected p-values, because the correction depends on all tests of a night:
`verdicts` applies it. A line truncated by a crash is the last one; it is ignored, and removed at
the next write.
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
from msgspec.structs import asdict

from harness.analysis.drops import Drop, GateOutcome, corrected_drops
from harness.analysis.gate import GateResult, drop_check
from harness.errors import UsageError
from harness.io.files import disk_errors, fsync_path
from harness.io.records import Record, decode, encode
from harness.io.terminal import count_of
from harness.stats.margin import MarginTest
from harness.stats.proportions import holm

VERSION: Final = 1
NAME = "history.jsonl"
Series = tuple[str, str]
"""Dataset and system, by their names in the list."""

REMEDY = "name another folder with history = ... in the [nightly] table"
"""Advice if the folder of a history is not writable."""


class HistoryQueries(Record):
    """Counts of queries; for an unmeasurable query no returned text was resolved."""

    asked: int
    failed: int
    unmeasurable: int


class LineDataset(Record):
    """Data of a run; the first digits of the fingerprint."""

    name: str
    granularity: str
    text: str
    split: str
    fingerprint: str


class HistoryVersions(Record):
    """Versions of retriever, revision and harness; git commit, `, with changes` if it had some."""

    retriever: str | None = None
    revision: str | None = None
    harness: str
    commit: str


class ShortMean(Record):
    """A mean over n queries and its 95% interval, with six decimals."""

    value: float | None
    n: int
    low: float | None = None
    high: float | None = None


class IntervalNote(Record):
    """Independent unit of the intervals, its number, and why coverage is approximate."""

    cluster_by: str
    clusters: int
    approximate: str = ""


class HistoryTimes(Record):
    """Seconds of indexing and of the run, and the median search in milliseconds."""

    index_seconds: float | None = None
    run_seconds: float | None = None
    search_ms: float | None = None


class DropTest(Record):
    """Test of a main metric's drop against `max_drop`: its mean and 90% interval.

    `p_above` is small if the drop is larger than `max_drop`, `p_below` if it is smaller; neither is
    corrected. `undecided`: too few clusters to test.
    """

    mean: float
    low: float
    high: float
    p_above: float
    p_below: float
    clusters: int
    undecided: bool


class MetricChange(Record):
    """Change of a metric since the last time, over the `n` queries with a value in both.

    `difference` is the new mean minus `before`, `low` and `high` its 95% interval. `p` is
    uncorrected; `smallest_p` is the lowest that was possible. `wins` queries improved, `losses` got
    worse. `drop`: the test against `max_drop`, if there is one.
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
    drop: DropTest | None = None


class LineChange(Record):
    """Comparison with the last run of the series, which finished at `since`.

    `unchanged` is true if every value of every query is equal. `reasons` explain why runs are not
    comparable. The other fields describe compared runs: `alpha` of all tests of the night,
    `max_drop` allowed for a main metric (None: no limit), the `test` (`sign flips`, or `t` below
    ten haystacks), the independent `clusters`, how intervals were computed and why they are
    approximate, queries missing from either run, and results by slice and metric (if depths differ,
    only metrics that depth cannot change).
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
    """A setting with a new value."""

    setting: str
    before: str
    now: str


class LineHead(Record, tag_field="state"):
    """Fields of every line.

    `night` is the start of the list (UTC), `list_size` its number of runs. Dataset and system are
    the names in the list, and together identify the series.
    """

    version: Literal[1]
    night: str
    list_size: int
    dataset: str
    system: str
    finished: str

    @property
    def series(self) -> Series:
        """Returns the series of this line."""
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
    """Reads the lines of a history; also returns the bytes of a last line truncated by a crash.

    Raises UsageError with file and line for a missing or invalid file.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; a list of runs creates it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    whole = data[: data.rfind(b"\n") + 1]
    lines = [_line(path, number, text) for number, text in enumerate(whole.split(b"\n")[:-1], 1)]
    return lines, len(data) - len(whole)


def _line(path: Path, number: int, text: bytes) -> Line:
    where = f"{path}, line {number}"
    remedy = "read it with the harness version that wrote it, or remove the line"
    line: Line = decode(text, Line, where, remedy)  # type: ignore[arg-type]
    for name, value in (("night", line.night), ("finished", line.finished)):
        try:
            aware = datetime.fromisoformat(value).tzinfo is not None
        except ValueError:
            aware = False
        if not aware:
            raise UsageError(f"{where}: {name}: not a time with a time zone; remove the line")
    return line


class History:
    """A history open for writing; see `open_history`."""

    def __init__(self, path: Path, lines: list[Line]) -> None:
        self.path = path
        self.lines = lines

    def append(self, line: Line) -> None:
        """Appends one line and syncs it to disk."""
        with disk_errors(self.path.parent, REMEDY), open(self.path, "ab") as file:
            file.write(encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)


@contextmanager
def open_history(folder: Path) -> Iterator[tuple[History, str]]:
    """Opens the history of a folder, locked against other lists; also notes a truncated line.

    Raises UsageError for a folder that is not writable, a damaged file, and if another list is
    writing to the same history.
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
                f"{path}: another list is writing to this history; wait for it, or {REMEDY}"
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
                note = f"{path}: its last line was truncated by a crash and is dropped"
        yield History(path, lines), note
    finally:
        lock.release()


# -- Tests of one night -----------------------------------------------------------------------

ROSE, FELL = "rose", "fell"
NOT_SHOWN, UNCHANGED, INCONCLUSIVE = "no change shown", "unchanged", "inconclusive"
NOT_TESTED = "not tested"
INCONCLUSIVE_WORDS = f"{INCONCLUSIVE}: too few data to show any change"
"""Description of `inconclusive`."""

Key = tuple[Series, str, str]
"""Series, slice and metric."""


@dataclass(frozen=True)
class ChangeOutcome:
    """Result of the test of one metric, and its p after Holm (None if it was not tested)."""

    outcome: str
    p: float | None = None


@dataclass(frozen=True)
class ChangeOutcomes:
    """Verdicts of a night; `tested` is the number of tests that were corrected together.

    `drops` are those of main metrics over all queries, by series and metric.
    """

    results: dict[Key, ChangeOutcome]
    tested: int
    alpha: float
    drops: dict[tuple[Series, str], Drop]


def verdicts(lines: Iterable[Line]) -> ChangeOutcomes:
    """Judges every metric of a night that was compared with the last time.

    Metrics over all queries form one family with Holm's correction. Abilities are not tested: with
    five of them in the family, ten haystacks could not show a drop in any of five metrics. A test
    that cannot reach p <= alpha for any signs of its differences is excluded from the family:
    either its differences are all 0 (`unchanged`), or there are too few independent clusters
    (`inconclusive`). Excluding it is valid, because it can never be a false positive (Tarone,
    1990). A t test can be one at any spread and stays in. A metric that no p can show in a family
    of that size is inconclusive too.
    """
    found: dict[Key, ChangeOutcome] = {}
    alpha = 0.05
    testable: list[tuple[Key, MetricChange, float]] = []
    lines = list(lines)
    for line in lines:
        if not isinstance(line, ScoredLine) or line.change.state != "compared":
            continue
        alpha = line.change.alpha
        for part, metrics in line.change.results.items():
            for metric, one in metrics.items():
                key = line.series, part, metric
                moved = one.wins or one.losses or not one.n
                state = INCONCLUSIVE if part == "all" else NOT_TESTED
                found[key] = ChangeOutcome(state if moved else UNCHANGED)
                if part != "all" or not moved or one.p is None or one.smallest_p is None:
                    continue
                if line.change.test == "t" or one.smallest_p <= alpha:
                    testable.append((key, one, one.p))
    adjusted = holm([p for *_, p in testable])
    for (key, one, _), p in zip(testable, adjusted, strict=True):
        found[key] = ChangeOutcome(_outcome(one, float(p), len(testable), alpha), float(p))
    return ChangeOutcomes(found, len(testable), alpha, _drops(lines, alpha))


def _drops(lines: Sequence[Line], alpha: float) -> dict[tuple[Series, str], Drop]:
    """Returns the drops of a night that were tested against `max_drop`, corrected together."""
    tested = [
        (line, metric, one, MarginTest(**asdict(one.drop)))
        for line in lines
        if isinstance(line, ScoredLine) and line.change.max_drop is not None
        for metric, one in line.change.results.get("all", {}).items()
        if one.drop is not None
    ]
    found = corrected_drops(
        [test for *_, test in tested],
        [one.before or 0.0 for _, _, one, _ in tested],
        [line.change.max_drop or 0.0 for line, *_ in tested],
        [line.change.cluster_by for line, *_ in tested],
        alpha,
    )
    keys = [(line.series, metric) for line, metric, *_ in tested]
    return dict(zip(keys, found, strict=True))


def _outcome(change: MetricChange, p: float, tests: int, alpha: float) -> str:
    if p <= alpha:
        return ROSE if (change.difference or 0) > 0 else FELL
    # Holm's correction multiplies the smallest of m p-values by m.
    return INCONCLUSIVE if (change.smallest_p or 0) * tests > alpha else NOT_SHOWN


def drops(lines: Iterable[Line], found: ChangeOutcomes) -> list[GateResult]:
    """Returns a check, as of a gate, for each main metric with a `max_drop`, over all queries."""
    return [
        drop_check(f"{metric} of {line.system} on {line.dataset}", drop)
        for line in lines
        for metric in (line.change.results.get("all", {}) if isinstance(line, ScoredLine) else ())
        if (drop := found.drops.get((line.series, metric)))
    ]


def messages(lines: Sequence[Line], found: ChangeOutcomes) -> list[str]:
    """Summarizes a night over all queries, in a few words each."""
    parts = []
    changes = [line.change for line in lines if isinstance(line, ScoredLine)]
    states = [change.state for change in changes]
    if apart := states.count("not comparable"):
        parts.append(f"{apart} not comparable with the previous run")
    checks = [check.outcome for check in drops(lines, found)]
    most = next((f"{one.max_drop:g}" for one in changes if one.max_drop is not None), "")
    if failed := checks.count(GateOutcome.FAIL):
        parts.append(f"{failed} dropped by more than {most}")
    if undecided := checks.count(GateOutcome.INCONCLUSIVE):
        parts.append(f"{undecided} inconclusive: a drop of more than {most} is not ruled out")
    outcomes = [one.outcome for (_, part, _), one in found.results.items() if part == "all"]
    if {ROSE, FELL, NOT_SHOWN} & {*outcomes}:
        words = [word for word in (ROSE, FELL) if word in outcomes]
        shown = ", ".join(f"{outcomes.count(word)} {word}" for word in words)
        how = f"{count_of(found.tested, 'tests')}, Holm, alpha {found.alpha:g}"
        parts.append(f"{shown or NOT_SHOWN} ({how})")
    if INCONCLUSIVE in outcomes:
        parts.append(f"{outcomes.count(INCONCLUSIVE)} {INCONCLUSIVE_WORDS}")
    elif not parts and (UNCHANGED in outcomes or "unchanged" in states):
        parts.append(UNCHANGED)
    elif not parts and "first" in states:
        parts.append("first run, nothing to compare with")
    return parts
