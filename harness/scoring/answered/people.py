"""Judges beside people: how well they agree, and what the judged number is once that is known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from harness.scoring.arrays import Values
from harness.statistics.agreement import Agreement, cohens_kappa
from harness.statistics.judged import Errors, Rate, corrected_rate, prediction_powered


def beside_people(
    judged: Values, people: Values, clusters: np.ndarray | None
) -> dict[str, Any] | None:
    """What is known of a judge from the answers that people judged too; None where there are none.

    `judged` and `people` are by answer, 0 or 1, NaN where there is no verdict; of a judge that was
    asked several times what most of its judgements say. `clusters` are labels of answers that are
    not independent. `kappa` is Cohen's, `errors` counts, `corrected` and `with_people` are rates of
    right answers over all that was judged; see harness/statistics/judged.
    """
    verdict = np.where(judged == 0.5, np.nan, np.round(judged))
    both = ~np.isnan(verdict) & ~np.isnan(people)
    if not both.any():
        return None
    mine = None if clusters is None else clusters[both]
    kappa = cohens_kappa(verdict[both], people[both], mine)
    said, true = verdict[both] == 1, people[both] == 1
    errors = Errors(
        int((said & true).sum()),
        int((~said & true).sum()),
        int((~said & ~true).sum()),
        int((said & ~true).sum()),
    )
    return {
        "n": int(both.sum()),
        "agree": float((said == true).mean()),
        "kappa": _agreement(kappa),
        "errors": asdict(errors),
        "sensitivity": _number(errors.sensitivity),
        "specificity": _number(errors.specificity),
        "corrected": _rate(corrected_rate(verdict, errors, clusters)),
        "with_people": _rate(prediction_powered(verdict, people, clusters)),
    }


def _agreement(found: Agreement) -> dict[str, Any]:
    values = {name: _number(getattr(found, name)) for name in ("value", "low", "high")}
    return {**values, "note": found.note}


def _rate(found: Rate) -> dict[str, Any]:
    return asdict(found)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
