"""The answers that stand beside a board: what readers made of its runs, as judges saw them.

One group a reader and judge, which is what must be equal for answers to compare: systems, and the
baselines of the same reader. They are no rows of the board of rankings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.records.base import to_plain
from harness.records.scores import MetricResult, ProtocolResult
from harness.runs.answering.context import BASELINES
from harness.runs.answering.folder import RECORD, AnswersFolder, display_names
from harness.runs.answering.judging import reader_of
from harness.runs.answering.records import AnswersRecord
from harness.runs.folder.run_folder import read_scores
from harness.schema import Ability
from harness.scoring.answered.error_attribution import CLASSES
from harness.scoring.scores import main_metrics, main_protocol, range_over_judges

Key = tuple[str, str, str, str]
"""Name, granularity, split and fingerprint of a dataset."""


def key_of_dataset(dataset: Mapping[str, Any]) -> Key:
    """What answers and a board must have in common to stand beside each other."""
    return dataset["name"], dataset["granularity"], dataset["split"], dataset["fingerprint"]


def answers_below(results: Path) -> dict[Key, list[dict[str, Any]]]:
    """The groups of answers below a folder of results, by dataset; sorted, so that the same folders
    give the same groups. Folders that cannot be read or were not scored are left out."""
    groups: dict[tuple[Key, str, str, str], list[tuple[AnswersRecord, dict[str, Any]]]] = {}
    for path in sorted(results.glob(f"*.answers/{RECORD}")):
        folder = AnswersFolder(path.parent)
        try:
            record, scores = folder.record, read_scores(path.parent)
        except UsageError:
            continue
        key = key_of_dataset(to_plain(record.dataset))
        judged = [one for one in scores.protocols if one.protocol.startswith("judge:")]
        over = range_over_judges(judged)
        for protocol in judged or filter(None, [main_protocol(scores.protocols)]):
            metric = next(iter(main_metrics(protocol.overall)), "")
            if metric:
                of = (key, reader_of(record), protocol.protocol, metric)
                row = _row(path.parent.name, record, protocol, metric)
                if over:
                    row["over_judges"] = [_short(end) for end in over]
                groups.setdefault(of, []).append((record, row))
    found: dict[Key, list[dict[str, Any]]] = {}
    for (key, reader, judge, metric), of_group in sorted(groups.items()):
        names = display_names([record for record, _ in of_group])
        named = [{**row, "system": name} for name, (_, row) in zip(names, of_group, strict=True)]
        # A baseline is asked beside each run, and is the same for contexts of one size.
        once = {_once(row): row for row in sorted(named, key=_place, reverse=True)}
        rows = sorted(once.values(), key=_place)
        group = {"reader": reader, "protocol": judge, "metric": metric, "rows": rows}
        found.setdefault(key, []).append(group)
    return found


def _row(
    folder: str, record: AnswersRecord, protocol: ProtocolResult, metric: str
) -> dict[str, Any]:
    slices = {name: part.metrics for name, part in protocol.slices.items()}
    shown = ("all", *(str(ability) for ability in Ability))
    losses = {name: slices["all"][name] for name in CLASSES if name in slices["all"]}
    return {
        "folder": folder,
        "system": record.name,
        "arm": record.settings.condition,
        "tokens": _short(record.mean_context_tokens),
        "usd": _short(record.usage.usd if record.usage else None),
        "failed": record.queries.failed,
        "values": {
            name: _cell(slices[name][metric])
            for name in shown
            if name in slices and metric in slices[name]
        },
        "losses": {name: _cell(cell) for name, cell in losses.items()},
    }


def _cell(result: MetricResult) -> dict[str, float]:
    interval = result.interval
    ends = {"low": interval.low, "high": interval.high} if interval else {}
    found = {name: _short(value) for name, value in {"value": result.value, **ends}.items()}
    return {"n": result.n, **{name: value for name, value in found.items() if value is not None}}


def _short(value: float | None) -> float | None:
    """To six significant digits, as the rest of a summary."""
    return None if value is None else float(f"{value:.6g}")


def _once(row: Mapping[str, Any]) -> str:
    """What is the same for rows that would stand twice: all but the folder, of a baseline."""
    same = {name: value for name, value in row.items() if name != "folder"}
    return repr(same) if row["arm"] in BASELINES else str(row["folder"])


def _place(row: Mapping[str, Any]) -> tuple[int, str, str]:
    """Systems first, then the baselines in their order."""
    arm = row["arm"]
    return (BASELINES.index(arm) + 1 if arm in BASELINES else 0, row["system"], row["folder"])
