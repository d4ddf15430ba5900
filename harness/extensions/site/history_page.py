"""Computes and renders a history as one HTML page: series over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import harness
from harness.errors import UsageError
from harness.extensions.site.history import (
    FELL,
    INCONCLUSIVE_WORDS,
    NOT_SHOWN,
    NOT_TESTED,
    ROSE,
    UNCHANGED,
    ChangedSetting,
    ChangeOutcomes,
    FailedLine,
    Line,
    ScoredLine,
    Series,
    messages,
    read_history,
    verdicts,
)
from harness.io.records import Record
from harness.records.scores import Counts, Floats
from harness.reports.html import page
from harness.schema import Ability

T = TypeVar("T")

_SLICES = ("all", "answerable", *(str(ability) for ability in Ability))
_SAID = (UNCHANGED, NOT_SHOWN, ROSE, FELL, INCONCLUSIVE_WORDS, NOT_TESTED)
_SHORT = tuple(word.partition(":")[0] for word in _SAID)  # as verdicts say it


class MetricSeries(Record):
    """Values of one metric over one slice, one per run, or a single value shared by all.

    `verdict` is an index into `HistoryData.verdicts`; `drop` describes a drop that fails the list.
    """

    value: Floats | None
    n: Counts | None
    low: Floats | None
    high: Floats | None
    difference: Floats | None
    difference_low: Floats | None
    difference_high: Floats | None
    p: Floats | None
    verdict: Counts | None
    drop: list[str | None] | str | None


class SystemSeries(Record):
    """Runs of one system on one dataset over time, as `MetricSeries`.

    `night` holds indexes into `HistoryData.nights`, `at` milliseconds since 1970. A line joins runs
    of the same `part`; a failure and a break start a new one. `breaks` explain why numbers stop
    being comparable.
    """

    dataset: str
    system: str
    night: list[int]
    at: list[int]
    part: list[int]
    error: list[str | None] | str | None
    breaks: list[list[str] | None] | None
    changed: list[list[ChangedSetting] | None] | None
    failed: list[int] | int
    asked: Counts | None
    since: list[str | None] | str | None
    index_ms: Floats | None
    search_ms: Floats | None
    about: str
    results: dict[str, dict[str, MetricSeries]]


class HistoryNight(Record):
    """A night: the start of its list, and the outcomes of its runs."""

    at: int
    runs: int
    ok: int
    failed: int
    tested: int
    messages: str


class HistoryDataset(Record):
    """A dataset with its slices and metrics."""

    name: str
    slices: list[str]
    metrics: list[str]


class HistoryData(Record):
    """A history; `torn` is true if its last line was truncated."""

    harness: str
    torn: bool
    verdicts: list[str]
    nights: list[HistoryNight]
    datasets: list[HistoryDataset]
    series: list[SystemSeries]


def history_page(path: Path, *, home: str = "") -> bytes:
    """Renders the page of a history file; `home` is the address of the leaderboard, if served.

    Raises UsageError for a damaged or empty history.
    """
    return page("Nightly history", "history", history_data(path), home=home)


def history_data(path: Path) -> HistoryData:
    """Returns all data of the page. Raises UsageError as `history_page` does."""
    lines, torn = read_history(path)
    if not lines:
        raise UsageError(f"{path}: no runs yet; add some with `harness run --config LIST.toml`")
    return _data(lines, torn)


def _data(lines: Sequence[Line], torn: int) -> HistoryData:
    nights: dict[str, dict[Series, Line]] = {}
    for line in lines:  # the last line of a series in a night counts
        nights.setdefault(line.night, {})[line.series] = line
    judged = [verdicts(night.values()) for night in nights.values()]
    series = {line.series: None for line in lines}
    found = [_series(one, list(nights.values()), judged) for one in series]
    return HistoryData(
        harness=harness.__version__,
        torn=bool(torn),
        verdicts=list(_SAID),
        nights=[
            _night(began, night, verdict)
            for (began, night), verdict in zip(nights.items(), judged, strict=True)
        ],
        datasets=[_dataset(name, found) for name in dict.fromkeys(name for name, _ in series)],
        series=found,
    )


def _night(began: str, night: dict[Series, Line], judged: ChangeOutcomes) -> HistoryNight:
    failed = sum(isinstance(line, FailedLine) for line in night.values())
    return HistoryNight(
        at=_milliseconds(began),
        runs=max(line.list_size for line in night.values()),
        ok=len(night) - failed,
        failed=failed,
        tested=judged.tested,
        messages="; ".join(messages([*night.values()], judged)),
    )


def _dataset(name: str, found: Sequence[SystemSeries]) -> HistoryDataset:
    """Returns the choices for a dataset: metrics, and slices in the usual order."""
    mine = [one.results for one in found if one.dataset == name]
    slices = {part for results in mine for part in results}
    metrics = {m: None for results in mine for part in results.values() for m in part}
    return HistoryDataset(
        name=name, slices=[part for part in _SLICES if part in slices], metrics=list(metrics)
    )


def _series(
    series: Series, nights: Sequence[dict[Series, Line]], judged: Sequence[ChangeOutcomes]
) -> SystemSeries:
    """Returns the runs of one system on one dataset."""
    places = [at for at, night in enumerate(nights) if series in night]
    lines = [nights[at][series] for at in places]
    scored = [line if isinstance(line, ScoredLine) else None for line in lines]
    breaks = [_breaks(line, first=at == 0) for at, line in enumerate(lines)]
    changed = [one.changed_settings or None if one else None for one in scored]
    return SystemSeries(
        dataset=series[0],
        system=series[1],
        night=places,
        at=[_milliseconds(line.finished) for line in lines],
        part=_parts(lines),
        error=_column([line.error if isinstance(line, FailedLine) else None for line in lines]),
        breaks=breaks if any(breaks) else None,
        changed=changed if any(changed) else None,
        failed=_column([one.queries.failed if one else 0 for one in scored]),
        asked=_column([one.queries.asked if one else None for one in scored]),
        since=_column([one.change.since if one else None for one in scored]),
        index_ms=_column([_index_ms(one) if one else None for one in scored]),
        search_ms=_column([one.times.search_ms if one else None for one in scored]),
        about=next((_about(one) for one in reversed(scored) if one), ""),
        results=_results(series, lines, [judged[at] for at in places]),
    )


def _index_ms(line: ScoredLine) -> float | None:
    seconds = line.times.index_seconds
    return None if seconds is None else seconds * 1000


def _about(line: ScoredLine) -> str:
    """Describes the numbers of a run."""
    data, over = line.data, ""
    if (found := line.intervals) is not None:
        approximate = f", approximate: {found.approximate}" if found.approximate else ""
        over = f"; intervals over {found.clusters} {found.cluster_by}{approximate}"
    return (
        f"protocol={line.protocol}  level={line.level}  text={data.text}  split={data.split}  "
        f"k={line.k}  data={data.fingerprint[:8]}{over}"
    )


def _breaks(line: Line, *, first: bool) -> list[str] | None:
    """Explains why the numbers of a run are not comparable with earlier ones."""
    if isinstance(line, FailedLine):
        return None
    if line.change.state == "not comparable":
        return line.change.reasons
    if line.change.state == "first" and not first:
        return ["no stored results of the previous run"]
    return None


def _parts(lines: Sequence[Line]) -> list[int]:
    """Returns the part of each line; a failed run has its own part."""
    parts: list[int] = []
    part = 0
    for at, line in enumerate(lines):
        failed = any(isinstance(one, FailedLine) for one in (line, lines[at - 1]))
        if at and (failed or _breaks(line, first=False)):
            part += 1
        parts.append(part)
    return parts


def _results(
    series: Series, lines: Sequence[Line], judged: Sequence[ChangeOutcomes]
) -> dict[str, dict[str, MetricSeries]]:
    places = {
        (part, metric): None
        for line in lines
        if isinstance(line, ScoredLine)
        for part, metrics in line.results.items()
        for metric in metrics
    }
    dropped = [_dropped(line, verdict) for line, verdict in zip(lines, judged, strict=True)]
    found: dict[str, dict[str, MetricSeries]] = {}
    for part, metric in places:
        rows = [
            (*_row(line, series, part, metric, verdict), drop.get((part, metric)))
            for line, verdict, drop in zip(lines, judged, dropped, strict=True)
        ]
        columns = [_column(list(column)) for column in zip(*rows, strict=True)]
        names = MetricSeries.__struct_fields__
        found.setdefault(part, {})[metric] = MetricSeries(**dict(zip(names, columns, strict=True)))
    return found


def _dropped(line: Line, judged: ChangeOutcomes) -> dict[tuple[str, str], str]:
    """Describes failed and inconclusive drops by slice (`all`) and metric."""
    if isinstance(line, FailedLine):
        return {}
    return {
        ("all", metric): f"{drop.outcome}: {drop}"
        for (series, metric), drop in judged.drops.items()
        if series == line.series and drop.outcome != "pass"
    }


def _row(
    line: Line, series: Series, part: str, metric: str, judged: ChangeOutcomes
) -> tuple[Any, ...]:
    found = line.results.get(part, {}).get(metric) if isinstance(line, ScoredLine) else None
    if found is None or isinstance(line, FailedLine):
        return (None,) * 9
    mean = (found.value, found.n, found.low, found.high)  # the page rounds
    if line.change.state == "unchanged":
        return (*mean, 0, None, None, None, _SHORT.index(UNCHANGED))
    verdict = judged.results.get((series, part, metric))
    if verdict is None:
        return (*mean, None, None, None, None, None)
    change = line.change.results[part][metric]
    ends = (change.difference, change.low, change.high)
    return (*mean, *ends, verdict.p, _SHORT.index(verdict.outcome))


def _column(values: list[T]) -> list[T] | T:
    """Returns a list, or its only value if all are equal."""
    if not values or any(value != values[0] for value in values):
        return values
    return values[0]


def _milliseconds(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)
