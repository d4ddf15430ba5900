"""Computes metrics of abstention on unanswerable queries, where recall is undefined.

A system may return nothing, abstain explicitly, or give a confidence (its own, or else its top
score). The threshold of the confidence is cross-validated: chosen for the best F1 on the other
folds. Folds are made of haystacks, as the level of scores may differ between haystacks: two to nine
haystacks are one fold each, ten or more are distributed over five. The queries of a single haystack
are split into five folds at random, stratified by whether they have an answer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.records.scores import (
    AbstentionResult,
    ConfidenceResult,
    PrecisionRecallF1,
    RiskPoint,
    ThresholdResult,
)
from harness.runfiles.rankings import Rankings
from harness.schema import Ability
from harness.scoring.arrays import Flags, Values, mean
from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ranked
from harness.scoring.score_columns import QueryStatus

FOLDS = 5
_HAYSTACKS = 10


def run_abstention(
    dataset: Dataset,
    ranked: Ranked,
    rankings: Rankings,
    answered: QueryStatus,
    counted: Flags,
    depth: int,
    signature: str,
) -> AbstentionResult | None:
    """Computes the abstention metrics of a run, over unanswerable queries and `counted` ones (n,)
    with evidence; None unless there are both."""
    without, failed = dataset.abilities == str(Ability.ABSTENTION), answered.failed
    # A run file does not distinguish an empty answer from a missing query: skip these.
    known = ranked.answered | answered.replied | failed
    mine = (answered.asked & without | counted & ranked.has_relevant) & known
    cutoff = min(10, depth)
    wrong = np.where(without, 1.0, 1.0 - np.nan_to_num(Metric("hit", cutoff)(ranked)))
    silent = (answered.abstained | (ranked.returned == 0)) & ~failed
    own = answered.confidence[mine & ~silent & ~failed]
    given = int((~np.isnan(own)).sum())
    confidence, source = answered.confidence, "the system's own"
    if given == 0:
        confidence, source = _top_scores(dataset, rankings), "the top score"
    elif given < len(own):
        source += f", given for {given} of {len(own)} answers only"
    found = abstention(
        without[mine],
        silent[mine],
        confidence[mine],
        wrong[mine],
        dataset.query_shares[mine],
        failed[mine],
    )
    return found and replace(
        found,
        confidence_source=source,
        wrong_definition=f"hit@{cutoff} = 0, or no answer exists",
        signature=signature,
    )


def _top_scores(dataset: Dataset, rankings: Rankings) -> Values:
    """Returns the best score of each query's ranking; NaN without scores."""
    top = np.full(dataset.n_queries, np.nan)
    if rankings.score is None:
        return top
    known = dataset.query_rows
    starts = rankings.starts
    for i, name in enumerate(rankings.query_ids):
        at = known.get(name)
        if at is not None and starts[i + 1] > starts[i]:
            top[at] = rankings.score[starts[i] : starts[i + 1]].max()
    return top


def abstention(
    unanswerable: Flags,
    silent: Flags,
    confidence: Values,
    wrong: Values,
    haystack: npt.NDArray[np.int32],
    failed: Flags | None = None,
    seed: int = 0,
) -> AbstentionResult | None:
    """Computes all abstention metrics over n queries; None if one of the two kinds is missing.

    The descriptive texts of the result are left empty.

    `silent`: the system returned nothing or abstained. `confidence`: NaN if there is none; silence
    counts as the lowest. `wrong`: 1 - hit@k for answerable queries, 1 for unanswerable ones (any
    result is a false positive). Queries that `failed` are not silent: an error is never credited
    as an abstention. They have no confidence, so the metrics of confidence exclude them.
    """
    n_without = int(unanswerable.sum())
    if n_without == 0 or n_without == len(unanswerable):
        return None
    answered = np.ones(len(unanswerable), bool) if failed is None else ~failed
    return AbstentionResult(
        n_unanswerable=n_without,
        n_answerable=len(unanswerable) - n_without,
        false_positive_rate=mean((~silent[unanswerable]).astype(float)),
        as_returned=precision_recall_f1(silent, unanswerable),
        confidence=_confidence_result(
            unanswerable[answered],
            silent[answered],
            confidence[answered],
            wrong[answered],
            haystack[answered],
            seed,
        ),
        confidence_source="",
        wrong_definition="",
        signature="",
    )


def _confidence_result(
    unanswerable: Flags,
    silent: Flags,
    confidence: Values,
    wrong: Values,
    haystack: npt.NDArray[np.int32],
    seed: int,
) -> ConfidenceResult | None:
    """Computes metrics of confidence; None if it is missing, constant or for one kind only."""
    usable = silent | ~np.isnan(confidence)
    kinds = len(np.unique(unanswerable))
    if kinds < 2 or not usable.all() or len(np.unique(confidence[~silent])) < 2:
        return None
    sure = sureness(confidence, silent)
    folds = deal(unanswerable, haystack, seed)
    abstained = cross_validated(sure, unanswerable, folds)
    curve = risk_coverage(sure, wrong)
    below = precision_recall_f1(abstained, unanswerable)
    return ConfidenceResult(
        n=len(unanswerable),
        auroc=auroc(sure[~unanswerable], sure[unanswerable]),
        at_threshold=ThresholdResult(
            precision=below.precision,
            recall=below.recall,
            f1=below.f1,
            false_positive_rate=mean((~abstained[unanswerable]).astype(float)),
        ),
        fold_rule=f"{len(np.unique(folds))} folds, {_rule(haystack)}, "
        "threshold of best F1 on the other folds",
        aurc=float(curve.mean()),
        risk_coverage=[
            RiskPoint(coverage=c, risk=float(curve[max(0, round(c * len(curve)) - 1)]))
            for c in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
        ],
    )


def precision_recall_f1(abstained: Flags, unanswerable: Flags) -> PrecisionRecallF1:
    """Computes precision (None without abstentions), recall and F1 of abstentions."""
    right = int((abstained & unanswerable).sum())
    said, there = int(abstained.sum()), int(unanswerable.sum())
    return PrecisionRecallF1(
        precision=right / said if said else None,
        recall=right / there if there else None,
        f1=2 * right / (said + there) if said + there else None,
    )


def auroc(answerable: Values, unanswerable: Values) -> float:
    """Returns P(confidence with an answer > confidence without one), ties half (Mann-Whitney U).

    SciPy's mannwhitneyu would add an unused p-value and a second for importing scipy.stats.
    """
    ordered = np.sort(unanswerable)
    below = np.searchsorted(ordered, answerable, "left")
    upto = np.searchsorted(ordered, answerable, "right")
    return float((below + upto).sum() / 2 / (len(answerable) * len(unanswerable)))


def sureness(confidence: Values, silent: Flags) -> Values:
    """Returns the confidence, with a value below all others for silent queries."""
    lowest = confidence[~silent].min()
    return np.where(silent, lowest - max(1.0, abs(lowest)), confidence)


def risk_coverage(confidence: Values, wrong: Values) -> Values:
    """Returns the share of wrong answers among the i surest queries, i = 1..n; ties averaged.

    The mean of the curve is the area under it (AURC; Geifman et al., ICLR 2019).
    """
    order = np.argsort(-confidence, kind="stable")
    _, group, sizes = np.unique(-confidence[order], return_inverse=True, return_counts=True)
    expected = (np.bincount(group, weights=wrong[order]) / sizes)[group]
    return np.asarray(np.cumsum(expected) / np.arange(1, len(order) + 1))


def _rule(haystack: npt.NDArray[np.int32]) -> str:
    n = len(np.unique(haystack))
    if n < 2:
        return "queries, stratified by answerability"
    return "a haystack each" if n < _HAYSTACKS else "whole haystacks"


def deal(unanswerable: Flags, haystack: npt.NDArray[np.int32], seed: int) -> npt.NDArray[np.int64]:
    """Assigns each query to a fold, seeded; see the module for the rule."""
    rng = np.random.default_rng(seed)
    names, which = np.unique(haystack, return_inverse=True)
    if 2 <= len(names) < _HAYSTACKS:
        return np.asarray(which, np.int64)
    if len(names) >= _HAYSTACKS:
        folds = np.empty(len(names), np.int64)
        # Haystacks of one question (LongMemEval) are stratified by kind, as queries are.
        kind = np.bincount(which, weights=unanswerable) / np.bincount(which)
        order = rng.permutation(len(names))
        order = order[np.argsort(kind[order], kind="stable")]
        folds[order] = np.arange(len(names)) % FOLDS
        return folds[which]
    order = rng.permutation(len(unanswerable))
    order = order[np.argsort(unanswerable[order], kind="stable")]
    result = np.empty(len(order), np.int64)
    result[order] = np.arange(len(order)) % FOLDS
    return result


def cross_validated(confidence: Values, unanswerable: Flags, folds: npt.NDArray[np.int64]) -> Flags:
    """Tests whether each query is abstained from, with a threshold chosen on the other folds."""
    abstained = np.zeros(len(confidence), bool)
    for fold in np.unique(folds).tolist():
        test = folds == fold
        threshold = best_threshold(confidence[~test], unanswerable[~test])
        abstained[test] = confidence[test] < threshold
    return abstained


def best_threshold(confidence: Values, unanswerable: Flags) -> float:
    """Returns the lowest threshold with the best F1 of abstaining below it; -inf if none helps."""
    order = np.argsort(confidence, kind="stable")
    ordered, without = confidence[order], unanswerable[order]
    right = np.cumsum(without)
    said = np.arange(1, len(order) + 1)
    f1 = 2 * right / (said + max(int(without.sum()), 1))
    ends = np.append(ordered[1:] > ordered[:-1], True)  # thresholds are between different values
    f1[~ends] = -1
    if len(f1) == 0 or f1.max() <= 0:
        return -np.inf
    best = int(np.argmax(f1))
    if best + 1 == len(ordered):
        return float(np.inf)
    below, above = float(ordered[best]), float(ordered[best + 1])
    middle = below + (above - below) / 2
    return middle if below < middle < above else above
