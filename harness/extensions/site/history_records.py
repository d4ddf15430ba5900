"""Records of the JSON that the page of a history reads."""

from __future__ import annotations

from harness.extensions.site.history import ChangedSetting
from harness.io.records import Record
from harness.records.scores import Counts, Floats


class MetricSeries(Record):
    """One metric over one slice, a value a run, or one value that all of them have.

    `verdict` is a position in `HistoryData.verdicts`; `drop` describes a drop that fails the list.
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
    """The runs of one system on one dataset over time, as `MetricSeries`.

    `night` has positions in `HistoryData.nights`, `at` milliseconds since 1970. Runs of the same
    `part` are joined by a line; a failure and a break begin a new one. `breaks` say why numbers
    stop being comparable.
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
    """A night: when its list was started, and what became of its runs."""

    at: int
    runs: int
    ok: int
    failed: int
    tested: dict[str, int]
    messages: str


class HistoryDataset(Record):
    """A dataset with its slices and metrics."""

    name: str
    slices: list[str]
    metrics: list[str]


class HistoryData(Record):
    """A history; `torn`: its last line was cut off."""

    harness: str
    torn: bool
    verdicts: list[str]
    nights: list[HistoryNight]
    datasets: list[HistoryDataset]
    series: list[SystemSeries]
