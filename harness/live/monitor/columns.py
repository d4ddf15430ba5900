"""Recalls as columns of the window, and the values that tests of change take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.live.logs.recall import Recall
from harness.live.monitor.labels import Labels
from harness.live.monitor.scorer import ranking
from harness.live.monitor.window import COLUMNS, Columns
from harness.scoring.arrays import Values


def as_columns(
    recalls: Sequence[Recall], rows: Sequence[int], labels: Labels | None, abilities: Sequence[int]
) -> Columns:
    """The columns of recalls; `rows` are their labelled queries (below 0: none), and `abilities`
    codes of theirs."""
    at = np.array(rows)
    labelled = at >= 0
    unanswerable = np.full(len(rows), -1)
    if labels is not None:
        unanswerable[labelled] = labels.unanswerable[at[labelled]]
    found: dict[str, Any] = {
        "time": [_float(r.time) for r in recalls],
        "seconds": [_float(r.seconds) for r in recalls],
        "ability": abilities,
        "known": [r.returned is not None or r.texts is not None for r in recalls],
        "empty": [r.returned is not None and not r.returned and not r.texts for r in recalls],
        "abstained": [r.abstained for r in recalls],
        "failed": [r.failed for r in recalls],
        "unanswerable": unanswerable,
        "labelled": labelled,
        "click": [_first_click(r) for r in recalls],
        "rating": [_float(r.rating) for r in recalls],
        "request": [0 if r.request is None else name_of(r.request) for r in recalls],
    }
    return {name: np.array(found[name], kind) for name, (kind, _) in COLUMNS.items()}


def tested(columns: Columns, values: Values, metrics: Sequence[str]) -> dict[str, Values]:
    """The values of every metric and rate, each over what it is over (see measure.py)."""
    well = ~columns["failed"]
    known, silent = well & columns["known"], columns["empty"] | columns["abstained"]
    scored = values[~np.isnan(values[:, 0])]
    return {
        **{name: scored[:, i] for i, name in enumerate(metrics)},
        "no_result": columns["empty"][known].astype(float),
        "abstained": columns["abstained"][well].astype(float),
        "failed": columns["failed"].astype(float),
        "false_evidence": (~silent)[known & (columns["unanswerable"] == 1)].astype(float),
    }


def name_of(request: str) -> int:
    """64 bits of a request's name; never 0."""
    import hashlib

    digest = hashlib.blake2b(request.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def _float(value: float | None) -> float:
    return np.nan if value is None else value


def _first_click(recall: Recall) -> int:
    """Rank of the first clicked document; 0 for none of them, -1 where nobody watched."""
    if recall.clicked is None:
        return -1
    if not recall.clicked:
        return 0
    places = ranking(recall)
    return min((places[name] for name in recall.clicked if name in places), default=0)
