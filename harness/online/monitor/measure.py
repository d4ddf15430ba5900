"""Means, rates and times over the window, by ability. Every number has the n that it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.online.logs.events import CAVEATS
from harness.online.monitor.buckets import ratio
from harness.online.monitor.rules import RATES, TIMES
from harness.online.monitor.window import Window

Flags = npt.NDArray[np.bool_]
Cell = dict[str, Any]


def cells(window: Window, metrics: Sequence[str], abilities: Sequence[str]) -> dict[str, Cell]:
    """A cell for `all`, and one for each ability that the window has."""
    n = window.n
    ability = window.columns["ability"][:n]
    masks: dict[str, Flags] = {"all": np.ones(n, bool)}
    for code, name in enumerate(abilities):
        mask = ability == code
        if mask.any():
            masks[name] = mask
    return {name: _cell(window, metrics, mask) for name, mask in masks.items()}


def _cell(window: Window, metrics: Sequence[str], mask: Flags) -> Cell:
    """The numbers of one slice.

    `metrics` are means over the `scored` requests (labelled, with evidence, not failed). Rates have
    their own n: `no_result` is over requests that say what was returned, `abstained` over those that
    did not fail, `false_evidence` over those of labelled queries without an answer: the share that
    something was returned for without abstaining.
    """
    at = {name: column[: window.n] for name, column in window.columns.items()}
    values = window.values[: window.n][mask]
    scored = ~np.isnan(values[:, 0]) if values.shape[1] else np.zeros(len(values), bool)
    well = mask & ~at["failed"]
    silent = at["empty"] | at["abstained"]
    over = {
        "no_result": (at["empty"], well & at["known"]),
        "abstained": (at["abstained"], well),
        "failed": (at["failed"], mask),
        "false_evidence": (~silent, well & at["known"] & (at["unanswerable"] == 1)),
    }
    means = values[scored].mean(axis=0).tolist() if scored.any() else [None] * len(metrics)
    seconds = at["seconds"][mask]
    seconds = seconds[~np.isnan(seconds)]
    return {
        "n": int(mask.sum()),
        "labelled": int((at["labelled"] & mask).sum()),
        "scored": int(scored.sum()),
        "metrics": dict(zip(metrics, means, strict=True)),
        **{name: rate(flags, base) for name, (flags, base) in over.items()},
        "seconds": {
            "n": len(seconds),
            **dict(zip(TIMES, _percentiles(seconds), strict=True)),
        },
    }


def rate(flags: Flags, base: Flags) -> Cell:
    """The share of `base` that has the flag, and n."""
    n = int(base.sum())
    return {"value": ratio(int((flags & base).sum()), n), "n": n}


def feedback(window: Window) -> Cell | None:
    """Clicks and ratings of the window with what they cannot tell; None where there are none."""
    click, rating = window.columns["click"][: window.n], window.columns["rating"][: window.n]
    first = click[click > 0]
    watched = int((click >= 0).sum())
    rated = rating[~np.isnan(rating)]
    if not watched and not len(rated):
        return None
    return {
        "click_rate": {"value": ratio(len(first), watched), "n": watched},
        "first_click_mrr": {"value": ratio(float((1 / first).sum()), len(first)), "n": len(first)},
        "rating": {"value": ratio(float(rated.sum()), len(rated)), "n": len(rated)},
        "caveats": list(CAVEATS),
    }


def number(
    name: str,
    cell: Cell | None,
    given: Mapping[str, Any] | None,
    drift: Mapping[str, Any] | None,
) -> tuple[float | None, int]:
    """(value, n) of what an alarm is about; None where it is not measurable."""
    if name == "drift":
        return (drift["excess"], drift["n"]) if drift else (None, 0)
    if name == "unseen_words":
        return (drift["unseen"], drift["n"]) if drift else (None, 0)
    if name in ("click_rate", "first_click_mrr", "rating"):
        return (given[name]["value"], given[name]["n"]) if given else (None, 0)
    if cell is None:
        return None, 0
    if name in TIMES:
        return cell["seconds"][name], cell["seconds"]["n"]
    if name in RATES:
        return cell[name]["value"], cell[name]["n"]
    return cell["metrics"].get(name), cell["scored"]


def _percentiles(seconds: npt.NDArray[np.float64]) -> list[float | None]:
    if not len(seconds):
        return [None] * len(TIMES)
    return [float(p) for p in np.percentile(seconds, [float(name[1:]) for name in TIMES])]
