"""Changes the scores of a folder metric by metric, though scores.json holds columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.io.records import convert, read_json_record, to_plain, write_json_record
from harness.records.scores import MetricResult, ProtocolResult, ScoreReport, SliceResult

_STORAGE = ("slices", "metrics", "interval_bases")


def edit_scores(folder: Path, edit: Callable[[Any], object]) -> None:
    """Writes scores.json anew; `edit` changes its JSON values, in which each slice holds a
    dictionary of its metrics. Checksums stay what they were."""
    report = read_json_record(folder / "scores.json", ScoreReport)
    tree = to_plain(report)
    for plain, protocol in zip(tree["protocols"], report.protocols, strict=True):
        plain["slices"] = to_plain(protocol.slices)
    edit(tree)
    tree["protocols"] = [to_plain(_protocol(plain)) for plain in tree["protocols"]]
    write_json_record(folder / "scores.json", convert(tree, ScoreReport, "edited scores"))


def result(folder: Path, metric: str = "recall@10", slice_: str = "all") -> MetricResult:
    """Returns a result of the first protocol, whatever the checksums say."""
    report = read_json_record(folder / "scores.json", ScoreReport)
    return report.protocols[0].slices[slice_].metrics[metric]


def _protocol(plain: dict[str, Any]) -> ProtocolResult:
    slices = convert(plain["slices"], dict[str, SliceResult], "edited slices")
    about = {name: value for name, value in plain.items() if name not in _STORAGE}
    return ProtocolResult(**about).with_slices(slices)
