"""Agreement of a judge with human labels, and the accuracy that results from it."""

from __future__ import annotations

import numpy as np

from harness.io.records import Record
from harness.scoring.arrays import Values
from harness.scoring.score_columns import name_clusters
from harness.stats.agreement import cohens_kappa
from harness.stats.judged import Errors, JudgedRate, corrected_rate, prediction_powered


class Kappa(Record, omit_defaults=False):
    """Cohen's kappa with its interval; null if not measurable, which `note` explains."""

    value: float | None
    low: float | None
    high: float | None
    note: str


class ConfusionCounts(Record):
    """Counts of a judge's verdicts against human labels; positive is correct."""

    true_positives: int
    false_negatives: int
    true_negatives: int
    false_positives: int


class RateEstimate(Record, omit_defaults=False):
    """A rate of correct answers with its interval, from `n` judged and `human` labelled answers;
    `weight` is the weight of the judge (1: as of a human label)."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    human: int
    note: str
    weight: float

    @classmethod
    def of(cls, rate: JudgedRate, cluster_by: str) -> RateEstimate:
        """Converts an estimate of harness/stats/judged.py over clusters of that name."""
        return cls(
            value=rate.value,
            low=rate.low,
            high=rate.high,
            n=rate.n,
            human=rate.people,
            note=name_clusters(rate.note, cluster_by),
            weight=rate.weight,
        )


class JudgeAgreement(Record, omit_defaults=False):
    """A judge compared with human labels of `n` answers; `corrected` and `prediction_powered` are
    the accuracy over all judged answers (see harness/stats/judged.py)."""

    n: int
    agreement: float
    kappa: Kappa
    confusion: ConfusionCounts
    sensitivity: float | None
    specificity: float | None
    corrected: RateEstimate
    prediction_powered: RateEstimate


def judge_agreement(
    judged: Values, human: Values, clusters: np.ndarray | None, cluster_by: str
) -> JudgeAgreement | None:
    """Compares a judge with human labels; None if they have no answer in common.

    `judged` and `human` have 0 or 1 by answer and NaN where there is no verdict; of repeated
    judgements the majority counts. `clusters` label answers that are not independent; `cluster_by`
    is their kind: haystacks or queries.
    """
    verdict = np.where(judged == 0.5, np.nan, np.round(judged))
    both = ~np.isnan(verdict) & ~np.isnan(human)
    if not both.any():
        return None
    kappa = cohens_kappa(verdict[both], human[both], None if clusters is None else clusters[both])
    predicted, actual = verdict[both] == 1, human[both] == 1
    errors = Errors(
        int((predicted & actual).sum()),
        int((~predicted & actual).sum()),
        int((~predicted & ~actual).sum()),
        int((predicted & ~actual).sum()),
    )
    return JudgeAgreement(
        n=int(both.sum()),
        agreement=float((predicted == actual).mean()),
        kappa=Kappa(
            value=_number(kappa.value),
            low=_number(kappa.low),
            high=_number(kappa.high),
            note=name_clusters(kappa.note, cluster_by),
        ),
        confusion=ConfusionCounts(
            true_positives=errors.hits,
            false_negatives=errors.misses,
            true_negatives=errors.rejections,
            false_positives=errors.alarms,
        ),
        sensitivity=_number(errors.sensitivity),
        specificity=_number(errors.specificity),
        corrected=RateEstimate.of(corrected_rate(verdict, errors, clusters), cluster_by),
        prediction_powered=RateEstimate.of(
            prediction_powered(verdict, human, clusters), cluster_by
        ),
    )


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
