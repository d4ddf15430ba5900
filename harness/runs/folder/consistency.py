"""Checks that the files of a run folder do not contradict each other.

Checksums show that files were written together, not that their content is true: an altered file can
get new checksums. These checks need no dataset. All raise UsageError, with the numbers that
contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError
from harness.records.run import RunRecord
from harness.records.scores import ProtocolResult, ScoreReport, SliceColumns
from harness.schema import Ability

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Names = npt.NDArray[np.str_]

_TOLERANCE = 1e-9
_CATEGORY = "category:"
_IDS = ("query", "haystack")
_NAMES = ("protocol", "level", "ability", "category")


def check_report(folder: Path, record: RunRecord | None, report: ScoreReport) -> None:
    """Checks that scores.json has the counts of run.json, and that means are in their intervals."""
    path, queries = folder / "scores.json", report.queries
    if record is not None:
        published = report.dataset.published_files and not record.dataset.published_files
        for name, found, expected in (
            ("queries asked", queries.asked, record.queries.asked),
            ("queries failed", queries.failed, record.queries.failed),
            ("published_files", bool(published), False),
        ):
            if found != expected:
                raise UsageError(f"{path}: {name} is {found}, but {expected} in run.json")
    for protocol in report.protocols:
        for name, part in protocol.columns.items():
            low, value, high = (_floats(part, field) for field in ("low", "value", "high"))
            outside = (value < low - _TOLERANCE) | (value > high + _TOLERANCE)
            for at in np.flatnonzero(outside)[:1]:
                raise UsageError(
                    f"{path}: {_metrics(protocol, part)[at]} ({protocol.name}, {name}) is "
                    f"{value[at]:.4f}, outside its own interval {low[at]:.4f} to {high[at]:.4f}"
                )


def check_means(folder: Path, report: ScoreReport, table: pa.Table) -> None:
    """Checks that each mean of scores.json is the mean of its queries in scores.parquet."""
    path = folder / "scores.json"
    # pyarrow looks for dateutil at each comparison with a string; NumPy does not.
    names = {c: np.array(table[c].to_pylist(), str) for c in _NAMES}
    values = {c: table[c].to_numpy() for c in table.column_names if c not in (*_NAMES, *_IDS)}
    for protocol in report.protocols:
        mine = (names["protocol"] == protocol.protocol) & (names["level"] == protocol.level)
        all_metrics = list(
            dict.fromkeys(m for part in protocol.columns.values() for m in _metrics(protocol, part))
        )
        masks = _masks(names["ability"][mine], names["category"][mine], [*protocol.columns])
        means, n = _means(values, mine, masks, all_metrics)
        for row, (name, part) in enumerate(protocol.columns.items()):
            metrics, published = _metrics(protocol, part), _floats(part, "value")
            at = [all_metrics.index(metric) for metric in metrics]
            wrong = ~np.isnan(published) & ~(np.abs(published - means[row, at]) <= _TOLERANCE)
            for i in np.flatnonzero(wrong)[:1]:
                raise UsageError(
                    f"{path}: {metrics[i]} ({protocol.name}, {name}) is {published[i]:.6f}, but "
                    f"the mean of {n[row, at[i]]:.0f} queries in scores.parquet is "
                    f"{means[row, at[i]]:.6f}"
                )


def _means(
    columns: Mapping[str, Floats], mine: Flags, masks: Floats, metrics: list[str]
) -> tuple[Floats, Floats]:
    """Returns the mean of each metric over each slice (NaN for no queries), and its query count."""
    values = np.full((masks.shape[1], len(metrics)), np.nan)
    for at, metric in enumerate(metrics):
        if metric in columns:
            values[:, at] = columns[metric][mine]
    scored = ~np.isnan(values)
    n = masks @ scored
    return np.where(n, masks @ np.where(scored, values, 0) / np.maximum(n, 1), np.nan), n


def _masks(abilities: Names, categories: Names, slices: list[str]) -> Floats:
    """Returns 1 for the queries of each slice and 0 for all others, (slices, queries)."""
    masks = {"all": np.ones(len(abilities), bool), "answerable": abilities != Ability.ABSTENTION}
    for slice_ in slices:
        name = slice_.removeprefix(_CATEGORY)
        masks.setdefault(slice_, (abilities if name == slice_ else categories) == name)
    return np.array([masks[slice_] for slice_ in slices], float)


def _metrics(protocol: ProtocolResult, part: SliceColumns) -> list[str]:
    return protocol.metrics if part.metrics is None else part.metrics


def _floats(part: SliceColumns, field: str) -> Floats:
    """Returns a column with an entry for each metric; NaN for None."""
    column = getattr(part, field)
    entries = column if isinstance(column, list) else [column] * len(part.value)
    return np.array([np.nan if one is None else one for one in entries], float)
