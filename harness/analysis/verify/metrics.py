"""Computes the metrics of each query.

pytrec_eval computes the metrics it has. The others follow docs/reference/metrics.md. In a random
order of a haystack each document is equally likely at each rank, and the number of relevant
documents in the top k is hypergeometric.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.analysis.verify.inputs import Floats, QueryQrels, QueryRanking
from harness.errors import RunError, UsageError
from harness.io.packages import install_command

TIME_LIMIT = 600.0
"""Time limit in seconds for a call of pytrec_eval, which takes a few for a million documents."""

_TREC_EVAL = {
    "recall": "recall",
    "hit": "success",
    "precision": "P",
    "map": "map",
    "ndcg": "ndcg",
    "mrr": "recip_rank",
    "rprec": "Rprec",
}
_DEFINED = ("recall_all", "precision_returned", "f1", "judged", "ndcg_exp", "ndcg_b2")
_NAME = re.compile(r"([a-z_0-9]+?)(?:\(rel=(\d+)\))?(?:@(\d+))?")


class MetricName(NamedTuple):
    """`recall(rel=2)@10`: a name, the lowest relevant grade, and a cutoff or none."""

    name: str
    rel: int
    k: int | None

    @classmethod
    def parse(cls, text: str) -> MetricName | None:
        """Parses a metric; None for one that is not recomputed."""
        found = _NAME.fullmatch(text)
        if found is None or found[1] not in (*_TREC_EVAL, *_DEFINED):
            return None
        return cls(found[1], int(found[2] or 1), int(found[3]) if found[3] else None)

    @property
    def measure(self) -> str:
        """The name in pytrec_eval: `ndcg_cut_10`."""
        name = _TREC_EVAL[self.name]
        if self.k is None or self.name == "mrr":
            return name
        return f"{name}_cut_{self.k}" if name in ("map", "ndcg") else f"{name}_{self.k}"

    @property
    def of_evidence(self) -> bool:
        """Whether the metric counts evidence items."""
        return self.name in ("recall", "hit", "recall_all")

    @property
    def of_sessions(self) -> bool:
        """Whether the metric is defined for turns scored as sessions."""
        return self.k is not None and (self.of_evidence or self.name.startswith("ndcg"))

    @property
    def least_grade(self) -> int:
        """The lowest grade that the value depends on."""
        return 0 if self.name == "judged" else 1 if self.name.startswith("ndcg") else self.rel

    def is_defined(self, qrels: QueryQrels) -> bool:
        """Whether a query has the documents that the metric needs: relevant or judged ones."""
        return bool(qrels.grades if self.name == "judged" else qrels.relevant(self.least_grade))

    def of_share(self, share: float) -> float:
        """Returns recall, hit or recall_all from the share of found evidence."""
        if self.name == "recall":
            return share
        return float(share > 0 if self.name == "hit" else share == 1)


Metrics = Mapping[str, MetricName]
Values = dict[str, Floats]
"""Metric as printed -> value of each query."""


def evaluate(
    metrics: Metrics, qrels: Sequence[QueryQrels], rankings: Sequence[Sequence[str]]
) -> Values:
    """Returns the value of each query; NaN if the metric is not defined."""
    found = {name: np.full(len(qrels), np.nan) for name in metrics}
    for rel in {metric.rel for metric in metrics.values()}:
        mine = {n: m for n, m in metrics.items() if m.rel == rel and m.name in _TREC_EVAL}
        called = _pytrec_eval({m.measure for m in mine.values()}, rel, qrels, rankings)
        for name, metric in mine.items():
            values = np.array([one.get(metric.measure, 0.0) for one in called])
            if metric.name == "mrr" and metric.k is not None:  # it has no cutoff there
                values[values * metric.k < 1 - 1e-9] = 0.0
            found[name] = values
    for query, (judged, ranking) in enumerate(zip(qrels, rankings, strict=True)):
        for name, metric in metrics.items():
            if not metric.is_defined(judged):
                found[name][query] = np.nan
            elif metric.name in _DEFINED or (metric.name == "recall" and judged.shares_evidence):
                found[name][query] = _defined(metric, judged, ranking)
    return found


def _pytrec_eval(
    measures: Collection[str],
    rel: int,
    qrels: Sequence[QueryQrels],
    rankings: Sequence[Sequence[str]],
) -> list[Mapping[str, float]]:
    """Returns the measures of each query; nothing for one without a ranking or a relevant document.

    pytrec_eval reads undefined memory for queries with negative grades only, so they are not
    passed. Raises UsageError without the package, and RunError if it fails.
    """
    if find_spec("pytrec_eval") is None:
        raise UsageError(f"harness verify needs pytrec_eval: {install_command('pytrec_eval')}")
    queries: dict[int, list[list[int]]] = {}
    for i, (judged, ranking) in enumerate(zip(qrels, rankings, strict=True)):
        if ranking and judged.relevant():
            # No measure depends on documents below the last judged one.
            ranks = (rank for rank, d in enumerate(ranking, 1) if d in judged.grades)
            top = ranking[: max(ranks, default=1)]
            others = judged.grades.keys() - {*top}
            queries[i] = [[judged.grades.get(d, -1) for d in some] for some in (top, others)]
    cutoffs: dict[str, list[str]] = {}
    for measure in measures:
        name, _, k = measure.rpartition("_") if measure[-1].isdigit() else (measure, "", "")
        cutoffs.setdefault(name, []).append(k)
    asked = [f"{name}.{','.join(ks)}" if all(ks) else name for name, ks in cutoffs.items()]
    given = {"queries": queries, "measures": asked, "relevance_level": rel}
    found = _in_process(given) if queries and asked else {}
    return [found.get(str(i), {}) for i in range(len(qrels))]


def _in_process(given: Mapping[str, object]) -> dict[str, Mapping[str, float]]:
    """Returns the output of pytrec_worker.py, by query. Raises RunError if it fails."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("pytrec_worker.py"))]
    try:
        done = subprocess.run(
            command, input=json.dumps(given).encode(), capture_output=True, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"pytrec_eval did not finish within {TIME_LIMIT:g} seconds") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise RunError(f"pytrec_eval failed (exit status {done.returncode}) {reason}".strip())
    found: dict[str, Mapping[str, float]] = json.loads(done.stdout)
    return found


def _defined(metric: MetricName, qrels: QueryQrels, ranking: Sequence[str]) -> float:
    """Returns a metric of one query by its definition."""
    top = ranking[: metric.k]
    if metric.of_evidence:
        pieces = qrels.pieces(metric.rel)
        return metric.of_share(sum(not piece.isdisjoint(top) for piece in pieces) / len(pieces))
    if metric.name.startswith("ndcg"):
        return ndcg(metric.name, qrels, top, metric.k)
    relevant = qrels.relevant(metric.rel)
    found = len({*relevant}.intersection(top))
    if metric.name == "judged":
        found = sum(qrels.grades.get(document, -1) >= 0 for document in top)
    if metric.name == "f1":
        return 2 * found / ((metric.k or 0) + len(relevant))
    return found / len(top) if top else 0.0


def ndcg(name: str, qrels: QueryQrels, ranking: Sequence[str], k: int | None) -> float:
    """Returns DCG / DCG of the ideal order, both down to rank k.

    `ndcg_exp` has gains 2^grade - 1; `ndcg_b2` has discounts log2(rank), from rank 2 on.
    """
    ideal = sorted((qrels.grades[d] for d in qrels.relevant()), reverse=True)
    return _dcg(name, [qrels.grades.get(d, 0) for d in ranking[:k]]) / _dcg(name, ideal[:k])


def _dcg(name: str, grades: Sequence[int]) -> float:
    gains = [2.0**grade - 1 if name == "ndcg_exp" else grade for grade in grades]
    pairs = zip(gains, discounts(name, len(grades)), strict=True)
    return math.fsum(gain * discount for gain, discount in pairs if gain > 0)


def discounts(name: str, k: int) -> Floats:
    """Returns the discounts at the ranks 1 to k."""
    ranks = np.arange(1, k + 1)
    return 1 / np.log2(np.maximum(ranks, 2) if name == "ndcg_b2" else ranks + 1)


# -- Random baselines, upper bounds, and the best and worst order of equal scores ------------------


_LARGEST_HAYSTACK = 1_000_000
"""Haystack size above which no baseline of whole rankings is published."""


def random_baselines(metrics: Metrics, qrels: Sequence[QueryQrels], sizes: Sequence[int]) -> Values:
    """Returns the mean over all orders of haystacks of these sizes; NaN if it is not defined.

    Not for recall_all with shared evidence, nor for whole rankings of large haystacks.
    """
    found: Values = {}
    shared = any(one.shares_evidence for one in qrels)
    large = max(sizes, default=0) > _LARGEST_HAYSTACK
    for name, metric in metrics.items():
        if not (shared and metric.name == "recall_all") and (metric.k or not large):
            pairs = zip(qrels, sizes, strict=True)
            found[name] = np.array([_of_random_orders(metric, *pair) for pair in pairs])
    return found


def _of_random_orders(metric: MetricName, qrels: QueryQrels, size: int) -> float:
    if not metric.is_defined(qrels):
        return math.nan
    if not size:
        return 0.0
    k = size if metric.k is None else min(metric.k, size)
    relevant = qrels.relevant(metric.rel)
    r, inside = len(relevant), len(qrels.present.intersection(relevant))
    share = inside / size
    match metric.name:
        case "judged":
            return sum(qrels.grades[document] >= 0 for document in qrels.present) / size
        case "ndcg" | "ndcg_exp" | "ndcg_b2":
            gold = qrels.present.intersection(qrels.relevant())
            at_first = math.fsum(ndcg(metric.name, qrels, [d], metric.k or size) for d in gold)
            return at_first * _discount(metric.name, k) / size
        case "recall":
            pieces = [piece & qrels.present for piece in qrels.pieces(metric.rel)]
            return math.fsum(_hit(size, len(piece), k) for piece in pieces) / len(pieces)
        case "hit":
            return _hit(size, inside, k)
        case "recall_all":
            return math.comb(k, r) / math.comb(size, r) if inside == r else 0.0
        case "precision":
            return share * k / (metric.k or 1)
        case "precision_returned":
            return share
        case "f1":
            return 2 * share * k / ((metric.k or 0) + r)
        case "rprec":
            return share * min(r, size) / r
        case "mrr":
            return _reciprocal_rank(size, inside, k)
        case _:
            return _precisions(size, inside, k) / r


@cache
def _hit(size: int, relevant: int, k: int) -> float:
    return 1 - math.comb(size - k, relevant) / math.comb(size, relevant)


@cache
def _discount(name: str, k: int) -> float:
    return float(discounts(name, k).sum())


@cache
def _reciprocal_rank(size: int, relevant: int, k: int) -> float:
    ranks = np.arange(1, k + 1)
    here = relevant / (size - ranks + 1)  # if no rank above has a relevant document
    none_above = np.cumprod(1 - here)
    return float((np.concatenate([[1.0], none_above[:-1]]) * here / ranks).sum())


@cache
def _precisions(size: int, relevant: int, k: int) -> float:
    """Returns the mean of the sum of the precisions at relevant documents in the top k."""
    ranks = np.arange(1, k + 1)
    above = (ranks - 1) * (relevant - 1) / max(size - 1, 1)  # if the rank has a relevant one
    return float((relevant / size * (1 + above) / ranks).sum()) if relevant else 0.0


def upper_bounds(metrics: Metrics, qrels: Sequence[QueryQrels]) -> Values:
    """Returns the best value of any ranking: that of the relevant documents, best first.

    Not for recall and recall_all with shared evidence, where the best is hard to find.
    """
    found: Values = {}
    shared = any(one.shares_evidence for one in qrels)
    for least in {metric.least_grade for metric in metrics.values()}:
        mine = {
            name: metric
            for name, metric in metrics.items()
            if metric.least_grade == least and not (shared and metric.name.startswith("recall"))
        }
        ideal = [
            sorted(one.present.intersection(one.relevant(least)), key=lambda d: -one.grades[d])
            for one in qrels
        ]
        found |= evaluate(mine, qrels, ideal)
    return found


def orders_of_ties(
    ranking: QueryRanking, qrels: QueryQrels, ties: str
) -> tuple[list[str], list[str]]:
    """Returns the documents with better ones last, and first, among equal scores."""
    grades = [max(qrels.grades.get(document, -1), -1) for document in ranking.documents]
    rows = [*zip(ranking.documents, ranking.compared(ties), grades, strict=True)]
    worst = sorted(rows, key=lambda row: (-row[1], row[2]))
    best = sorted(rows, key=lambda row: (-row[1], -row[2]))
    return [row[0] for row in worst], [row[0] for row in best]
