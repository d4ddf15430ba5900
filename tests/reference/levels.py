"""Random baselines, upper bounds, and the best and worst values that ties allow.

Of documents that are each their own piece of evidence, where these follow from few words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby

from reference.formulas import Answer, Metric, ndcg, value
from reference.key import Judged
from reference.rankings import Ranking, compared


def shared(judged: Sequence[Judged]) -> bool:
    """Whether a document carries several pieces of evidence, or a piece has several documents."""
    names = [one.evidence_id for one in judged if one.evidence_id is not None]
    documents = [one.document for one in judged]
    return len(set(names)) < len(names) or len(set(documents)) < len(documents)


def random_baseline(
    metric: Metric, grade: dict[str, int], there: set[str], size: int
) -> float | None:
    """The mean of the metric over all orders of the haystack; None where nothing is relevant.

    `there`: judged documents that can be found; `size`: documents in the haystack. In a random
    order every document is as likely to stand at any of the `size` ranks.
    """
    if metric.name == "judged":
        known = [d for d in grade if grade[d] >= 0 and d in there]
        return len(known) / size if grade else None
    k = min(metric.k if metric.k is not None else size, size)
    if metric.name.startswith("ndcg"):
        findable = [d for d in grade if grade[d] >= 1 and d in there]
        # One document at a known rank is worth gain / discount / ideal: sum over documents and
        # ranks, each with probability 1 / size. At rank 1 nothing is discounted.
        cut = metric.k if metric.k is not None else size
        at_first = [ndcg(metric.name, grade, {d: 1}, cut) or 0.0 for d in findable]
        if not any(g >= 1 for g in grade.values()):
            return None
        return math.fsum(at_first) * discounts(metric.name, k) / size
    relevant = [d for d in grade if grade[d] >= metric.rel]
    r, inside = len(relevant), sum(d in there for d in relevant)
    if not relevant:
        return None
    expected = inside * k / size  # relevant documents in the top k
    match metric.name:
        case "recall":
            return expected / r
        case "hit":
            return 1 - math.comb(size - k, inside) / math.comb(size, inside)
        case "recall_all":
            return math.comb(k, r) / math.comb(size, r) if inside == r else 0.0
        case "precision":
            return expected / (metric.k or 1)
        case "precision_returned":
            return inside / size
        case "f1":
            return 2 * expected / ((metric.k or 0) + r)
        case "rprec":
            return inside * min(r, size) / size / r
        case "mrr":
            return first_relevant(size, inside, k)
        case _:
            return average_precision(size, inside, k) / r


@cache
def discounts(name: str, k: int) -> float:
    """The sum of 1 / discount over the ranks 1 to k."""
    if name == "ndcg_b2":
        return math.fsum(1 / math.log2(max(at, 2)) for at in range(1, k + 1))
    return math.fsum(1 / math.log2(at + 1) for at in range(1, k + 1))


@cache
def first_relevant(size: int, relevant: int, k: int) -> float:
    """The mean of 1 / rank of the first relevant document, 0 below k."""
    terms, none_above = [], 1.0
    for at in range(1, min(k, size) + 1):
        left = size - at + 1
        terms.append(none_above * relevant / left / at)
        none_above *= (left - relevant) / left
    return math.fsum(terms)


@cache
def average_precision(size: int, relevant: int, k: int) -> float:
    """The mean of the sum of precisions at the ranks of the relevant documents in the top k.

    At rank i: the document there is relevant, with probability R / N, and of the i - 1 above it
    each is with (R - 1) / (N - 1).
    """
    above = (relevant - 1) / (size - 1) if size > 1 else 0.0
    terms = (relevant / size * (1 + (at - 1) * above) / at for at in range(1, k + 1))
    return math.fsum(terms) if relevant else 0.0


def ideals(judged: Sequence[Judged], there: set[str]) -> dict[int, Answer]:
    """The best answers: what can be found, best grade first, down to a grade, and nothing else."""
    grade = Answer(judged, ()).grade
    best = sorted((d for d in grade if d in there), key=lambda d: -grade[d])
    return {
        least: Answer(judged, [d for d in best if grade[d] >= least])
        for least in {0, 1, *grade.values()}
    }


def upper_bound(metric: Metric, best: Mapping[int, Answer]) -> float | None:
    """The best that any answer could score, of the `ideals`."""
    least = {"judged": 0}.get(metric.name, 1 if metric.name.startswith("ndcg") else metric.rel)
    return value(metric, best[min((g for g in best if g >= least), default=max(best))])


def session_ceiling(
    metric: Metric, judged: Sequence[Judged], session: Mapping[str, str | None]
) -> float | None:
    """The same for turns scored as sessions; `session` of the turns that can be found."""
    gold = {one.document for one in judged if one.grade >= 1}
    pieces = {session.get(d) or ("none", d) for d in gold}
    findable = {session[d] or ("none", d) for d in gold if d in session}
    found = min(len(findable), metric.k or 0)
    if not gold or metric.name not in ("recall", "hit", "recall_all"):
        return None
    return {
        "recall": found / len(pieces),
        "hit": float(found > 0),
        "recall_all": float(found == len(pieces)),
    }[metric.name]


def orders_of_ties(
    ranking: Ranking, judged: Sequence[Judged], ties: str
) -> tuple[list[str], list[str]]:
    """The ranking with the better ones first among equal scores, and with the better ones last."""
    scores = compared(ranking, ties)
    if scores is None:
        return ranking.documents, ranking.documents
    grade = Answer(judged, ()).grade
    best: list[str] = []
    worst: list[str] = []
    rows = sorted(zip(scores, ranking.documents, strict=True), key=lambda row: -row[0])
    for _, group in groupby(rows, key=lambda row: row[0]):
        # Unjudged, and grades below 0, which are read as that, stand behind grade 0.
        better = sorted((max(grade.get(d, -1), -1), d) for _, d in group)
        worst += [d for _, d in better]
        best += [d for _, d in reversed(better)]
    return best, worst
