"""The curves of a report: metrics against k, recall against tokens, risk against coverage, latency.

The scoring code computes every value, so a curve agrees with the table at its cut-offs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.analysis.scored_run import Block
from harness.records.scores import MetricResult
from harness.reports.material import Material
from harness.reports.records import (
    Curve,
    CutoffCurves,
    CutoffSlice,
    Latency,
    LatencyHistogram,
    RiskCurve,
    TokenCurves,
    TokenSlice,
)
from harness.schema import Ability
from harness.scoring.abstention import risk_coverage, sureness
from harness.scoring.arrays import Flags, Values
from harness.scoring.metrics import Metric
from harness.scoring.protocols import protocol
from harness.scoring.ranks import Ties
from harness.scoring.resolve import in_haystack, sizes_by_query
from harness.scoring.score_columns import Column, Results, document_columns, with_intervals
from harness.scoring.tokens import BUDGETS, TokenBudget

FAMILIES = ("recall", "precision", "f1", "hit", "recall_all", "ndcg")
"""Metrics that are drawn against k; the first two serve to choose a k."""

_WITH_INTERVAL = FAMILIES[:2]
_EVERY_K = 20  # up to here each k is computed, then fewer
_DEEPER = (25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500, 750, 1000)
_POINTS = 200  # of a risk-coverage curve, as many as a screen shows
_BUDGETS = (50, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 4000, 5000, 7500)
_BINS = 48
_ROWS = 1 << 20


def grid(depth: int) -> list[int]:
    """Returns the cut-offs to compute: every one to 20, then fewer, and the depth itself."""
    ks = {*range(1, min(depth, _EVERY_K) + 1), *(k for k in _DEEPER if k <= depth), depth}
    return sorted(ks)


def by_k(material: Material, block: Block) -> CutoffCurves:
    """Computes metrics at every cut-off of `grid`, by slice, under the protocol of `block`."""
    dataset, rule = material.dataset, protocol(block[0])
    judged, ties = dataset.qrels(rule.key), Ties(material.run.blocks[block].ties)
    ranked = material.by_rule[rule.key, ties]
    scored, present = material.scored(block), in_haystack(dataset, judged.query, judged.document)
    sizes = sizes_by_query(dataset)
    ks = grid(min(material.depth, int(sizes.max(initial=1))))
    metrics = [Metric(family, k) for family in FAMILIES for k in ks]
    columns = document_columns(rule, metrics, ranked, scored, present, sizes)
    found = _results(columns, material.masks)
    certain = [c for c in columns if str(c.metric).partition("@")[0] in _WITH_INTERVAL]
    names = {str(c.metric) for c in certain}
    wanted = {s: {m: one for m, one in part.items() if m in names} for s, part in found.items()}
    for name, part in with_intervals(dataset, certain, material.masks, wanted).items():
        found[name].update(part)
    return CutoffCurves(
        ks=ks,
        slices={
            name: CutoffSlice(
                n=max(one.n for one in part.values()),
                best_f1=max(ks, key=lambda k: part[f"f1@{k}"].value or 0.0),
                families={
                    family: _curve([part[f"{family}@{k}"] for k in ks]) for family in FAMILIES
                },
            )
            for name, part in found.items()
        },
        tokens=_tokens_at(material, ks),
    )


def _results(columns: Sequence[Column], masks: Mapping[str, Flags]) -> dict[str, Results]:
    """Returns results by slice and metric, for the slices in which a query is scored."""
    found = {
        name: {str(c.metric): result for c in columns if (result := c.result(mask)) is not None}
        for name, mask in masks.items()
    }
    return {name: results for name, results in found.items() if results}


def _curve(results: Sequence[MetricResult]) -> Curve:
    """Returns the fields of results as parallel lists; None for those that some results lack."""

    def column(read: Callable[[MetricResult], float | None]) -> list[float] | None:
        values = [value for one in results if (value := read(one)) is not None]
        return values if len(values) == len(results) else None

    return Curve(
        value=[one.value for one in results],
        random_baseline=column(lambda one: one.random_baseline),
        upper_bound=column(lambda one: one.upper_bound),
        low=column(lambda one: one.interval.low if one.interval else None),
        high=column(lambda one: one.interval.high if one.interval else None),
    )


def _tokens_at(material: Material, ks: Sequence[int]) -> list[float]:
    """Returns the mean tokens of the top k, over the queries that count."""
    resolved, counted = material.resolved, material.counted
    spent = np.zeros(material.depth + 1)
    for start in range(0, len(resolved.query), _ROWS):  # few copies of all rows
        part = slice(start, start + _ROWS)
        inside = counted[resolved.query[part]]
        rank, cost = resolved.rank[part][inside], material.costs[part][inside]
        spent += np.bincount(rank, cost, minlength=len(spent))
    total = np.cumsum(spent)[np.array(ks)] / max(1, int(counted.sum()))
    return [float(value) for value in total]


def by_tokens(material: Material) -> TokenCurves:
    """Computes recall of the longest prefix within a budget of tokens, by slice, with intervals.

    If the share of rankings that ended is high, the depth of the run limits the curve.
    """
    if material.dataset.manifest.ids_only:
        return TokenCurves(budgets=[], slices={})
    budget = TokenBudget(material.ranked, material.resolved, material.costs)
    without = material.dataset.abilities == str(Ability.ABSTENTION)
    relevant = material.ranked.query[material.ranked.grade >= 1]
    evidence = np.bincount(relevant, minlength=material.ranked.n) > 0
    scored = material.counted & evidence & ~without
    most = int(budget.per_query[scored].max(initial=0))
    budgets = [b for b in _BUDGETS if b < most] + [b for b in _BUDGETS if b >= most][:1]
    budgets = sorted({*budgets, *BUDGETS})
    columns, ended = [], {}
    for tokens in budgets:
        values, short = budget.recall(tokens)
        known = np.ones(len(values), bool)
        columns.append(Column(str(tokens), np.where(scored, values, np.nan), known, None, None))
        ended[tokens] = short
    found = _results(columns, _answerable(material))
    found = with_intervals(material.dataset, columns, material.masks, found)
    return TokenCurves(
        budgets=budgets,
        slices={
            name: TokenSlice(
                n=part[str(budgets[0])].n,
                recall=_curve([part[str(tokens)] for tokens in budgets]),
                ended=[float(ended[b][scored & material.masks[name]].mean()) for b in budgets],
            )
            for name, part in found.items()
        },
    )


def _answerable(material: Material) -> dict[str, Flags]:
    """Returns slices without those that add nothing to `answerable`, or to `all` without that."""
    gone = {str(Ability.ABSTENTION)} | ({"all"} if "answerable" in material.masks else set())
    return {name: mask for name, mask in material.masks.items() if name not in gone}


def risk(material: Material) -> RiskCurve | None:
    """Computes risk against coverage; the section `abstention` of the scores has ten points of it.

    None if confidences are missing or all equal.
    """
    dataset, answered, ranked = material.dataset, material.answered, material.ranked
    without = dataset.abilities == str(Ability.ABSTENTION)
    relevant = ranked.query[ranked.grade >= 1]
    evidence = np.bincount(relevant, minlength=ranked.n) > 0
    spoke = answered.asked & ~answered.failed
    judged = (spoke & without | answered.counted & evidence) & (ranked.answered | answered.replied)
    k = min(10, material.depth)
    wrong = np.where(without, 1.0, 1.0 - np.nan_to_num(Metric("hit", k)(ranked)))[judged]
    silent = (answered.abstained | (ranked.returned == 0))[judged]
    own = answered.confidence[judged]
    given = ~np.isnan(own[~silent])
    confidence = own if given.any() else material.top_scores[judged]
    speaking = confidence[~silent]
    if np.isnan(speaking).any() or len(np.unique(speaking)) < 2:
        return None
    curve = risk_coverage(sureness(confidence, silent), wrong)
    best = risk_coverage(-wrong, wrong)
    n = len(curve)
    at = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).round().astype(int))
    return RiskCurve(
        n=n,
        coverage=((at + 1) / n).tolist(),
        risk=curve[at].tolist(),
        best=best[at].tolist(),
        aurc=float(curve.mean()),
        overall=float(curve[-1]),
        confidence_source="the system's own" if given.any() else "the top score",
        wrong_definition=f"hit@{k} = 0"
        + (", or no answer exists" if without[judged].any() else ""),
    )


def latency(materials: Sequence[Material]) -> Latency | None:
    """Computes histograms of milliseconds per query over common bins, on a log scale.

    None if no run measured any. An imported run has None in place of its counts.
    """
    times = [m.seconds[~np.isnan(m.seconds)] * 1000 for m in materials]
    everything = np.concatenate(times)
    everything = everything[everything > 0]
    if len(everything) == 0:
        return None
    low, high = everything.min() / 1.02, everything.max() * 1.02
    edges = np.geomspace(low, high, _BINS + 1)
    histograms = [_histogram(mine, low, edges) if len(mine) else None for mine in times]
    return Latency(edges_ms=edges.tolist(), runs=histograms)


def _histogram(values: Values, low: float, edges: Values) -> LatencyHistogram:
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    share = np.histogram(values.clip(low), edges)[0] / len(values)
    return LatencyHistogram(n=len(values), share=share.tolist(), p50=p50, p95=p95, p99=p99)
