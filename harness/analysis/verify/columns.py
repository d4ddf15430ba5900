"""Computes the scored queries of a protocol, and their metrics with baselines and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from harness.analysis.verify.inputs import (
    DocumentFacts,
    Flags,
    Floats,
    Inputs,
    QueryQrels,
    QueryRanking,
)
from harness.analysis.verify.leaks import LeakMetric, ScopedQuery, retrieval_metrics
from harness.analysis.verify.metrics import (
    MetricName,
    Metrics,
    Values,
    evaluate,
    ndcg,
    orders_of_ties,
    random_baselines,
    upper_bounds,
)
from harness.records.scores import ProtocolResult

SESSIONS = "turn>session"


class MetricValues(NamedTuple):
    """The value of a metric for each query; NaN for a `scored` one is unknown.

    `levels`: random baselines, upper bounds and orders of ties, by their key in scores.json. If not
    `recomputed`, the values are those of scores.parquet.
    """

    values: Floats
    scored: Flags
    levels: Mapping[str, Floats]
    recomputed: bool


class ProtocolRules(NamedTuple):
    """The queries that a protocol scores, and its qrels.

    `needs`: whether a query must have a `judgement`, `evidence` (of grade 1 or more) or a `user`.
    `empty`: the value of a metric for a query without evidence, by default 0. `renamed`: other
    turns of a gold session count as another session (LongMemEval's `noans_`).
    """

    qrels: str = "default"
    unanswerable: bool = True
    needs: str = ""
    empty: Mapping[str, float] = {}
    renamed: bool = False


PROTOCOLS = {
    "memory/1": ProtocolRules(needs="evidence"),
    "trec/1": ProtocolRules(needs="judgement"),
    "longmemeval-official/1": ProtocolRules(
        "longmemeval-official", False, "evidence", renamed=True
    ),
    "longmemeval-470/1": ProtocolRules(
        "longmemeval-official", False, empty={"recall_all": 1.0}, renamed=True
    ),
    "locomo-official/1": ProtocolRules("locomo-official", empty={"recall": 1.0}),
    "locomo-official-aggregate/1": ProtocolRules("locomo-official"),
    "realmem-official/1": ProtocolRules("realmem-official", False, "evidence"),
    "scope/1": ProtocolRules(needs="user"),
    "precisionmembench-official/1": ProtocolRules("precisionmembench-official"),
}


def exclusions(protocol: ProtocolRules, inputs: Inputs) -> list[str]:
    """Returns the reason why each query is not scored, or an empty string."""
    qrels = inputs.qrels(protocol.qrels)
    judged, evidence = np.array([[bool(q.grades), bool(q.relevant())] for q in qrels]).T
    unanswerable = inputs.dataset.abilities == "abstention"
    users = inputs.dataset.scopes
    reasons = {
        "not asked in this run": ~inputs.asked,
        "unanswerable": unanswerable & (not protocol.unanswerable),
        "without a judgement": ~judged & (protocol.needs == "judgement"),
        "without relevant documents": ~evidence & (protocol.needs == "evidence"),
        "without a user": np.array(protocol.needs == "user")
        & ~(users.has_user if users else np.zeros(len(qrels), bool)),
        "not measurable: no text was resolved": ~inputs.measurable,
        "without a ranking": inputs.skipped,
    }
    found: list[str] = np.select([*reasons.values()], [*reasons], default="").tolist()
    return found


def columns(inputs: Inputs, result: ProtocolResult, scored: Flags) -> dict[str, MetricValues]:
    """Returns the recomputed metrics of a protocol."""
    protocol = PROTOCOLS[result.name]
    results = [one for part in result.slices.values() for one in part.metrics.items()]
    metrics = {name: m for name, _ in results if (m := MetricName.parse(name)) is not None}
    if result.name == "scope/1":
        return _of_scopes([name for name, _ in results], inputs, protocol, scored, result.ties)
    if result.name == "precisionmembench-official/1":
        known = retrieval_metrics(inputs, inputs.qrels(protocol.qrels), scored)
        return {
            name: MetricValues(values, ~np.isnan(values), {}, True)
            for name, values in known.items()
        }
    rows = np.flatnonzero(scored).tolist()
    if result.level == SESSIONS:
        metrics = {name: metric for name, metric in metrics.items() if metric.of_sessions}
        by_level = _of_sessions(metrics, inputs, protocol, rows, result.ties)
    else:
        documents = Rows.of(inputs, protocol, rows)
        by_level = _of_documents(metrics, documents, protocol, result.ties)
    return _as_columns(metrics, by_level, rows, len(scored))


def _as_columns(
    metrics: Iterable[str], by_level: Mapping[str, Values], rows: Sequence[int], n: int
) -> dict[str, MetricValues]:
    """Returns the values of n queries from those of some rows."""
    scored = np.zeros(n, bool)
    scored[rows] = True
    found = {}
    for name in metrics:
        levels: Values = {}
        for level, values in by_level.items():
            if name in values:
                levels[level] = np.full(n, np.nan)
                levels[level][rows] = values[name]
        found[name] = MetricValues(levels.pop("value"), scored, levels, True)
    return found


def _of_scopes(
    names: Iterable[str], inputs: Inputs, protocol: ProtocolRules, scored: Flags, ties: str
) -> dict[str, MetricValues]:
    """Scores leaks of answered queries, and the recall of rankings without leaks."""
    metrics = {name: metric for name in names if (metric := LeakMetric.parse(name))}
    answered = np.flatnonzero(scored & (inputs.ranked | inputs.answered)).tolist()
    scopes = {row: ScopedQuery.of(inputs, row) for row in np.flatnonzero(scored).tolist()}
    levels: dict[str, Values] = {"value": {}, "random_baseline": {}, "upper_bound": {}}
    leaks = {name: one for name, one in metrics.items() if one.name != "recall_in_scope"}
    for name, metric in leaks.items():
        leak = [scopes[row].leak(metric, inputs.rankings[row].documents) for row in answered]
        random = [scopes[row].random_leak(metric, inputs.sizes[row]) for row in answered]
        for level, values in zip(levels, (leak, random, [0.0] * len(leak)), strict=True):
            levels[level][name] = np.array(values)
    found = _as_columns(leaks, levels, answered, len(scored))
    judged = [row for row in scopes if inputs.qrels(protocol.qrels)[row].relevant()]
    whole = Rows.of(inputs, protocol, judged)
    seen = [scopes[row] for row in judged]
    rows = Rows(
        [one.without(scope.foreign) for one, scope in zip(whole.qrels, seen, strict=True)],
        [scope.ranking(one) for one, scope in zip(whole.rankings, seen, strict=True)],
        [size - scope.n_foreign for size, scope in zip(whole.sizes, seen, strict=True)],
        whole.failed,
    )
    recalls = {
        name: MetricName("recall", 1, one.k) for name, one in metrics.items() if name not in leaks
    }
    by_level = _of_documents(recalls, rows, protocol, ties)
    return found | _as_columns(recalls, by_level, judged, len(scored))


class Rows(NamedTuple):
    """The inputs of metrics for some queries; `sizes` are those of their haystacks."""

    qrels: list[QueryQrels]
    rankings: list[QueryRanking]
    sizes: list[int]
    failed: Flags

    @classmethod
    def of(cls, inputs: Inputs, protocol: ProtocolRules, rows: Sequence[int]) -> Rows:
        """Selects the inputs of some queries."""
        qrels = [inputs.qrels(protocol.qrels)[row] for row in rows]
        rankings = [inputs.rankings[row] for row in rows]
        return cls(qrels, rankings, [inputs.sizes[row] for row in rows], inputs.failed[rows])


def _of_documents(
    metrics: Metrics, rows: Rows, protocol: ProtocolRules, ties: str
) -> dict[str, Values]:
    qrels, rankings = rows.qrels, rows.rankings
    values = evaluate(metrics, qrels, [ranking.order(ties) for ranking in rankings])
    found: dict[str, Values] = {"value": values}
    tied = [at for at, ranking in enumerate(rankings) if ranking.has_ties(ties)]
    orders = [orders_of_ties(rankings[at], qrels[at], ties) for at in tied]
    for level, i in (("ties.0", 0), ("ties.2", 1)):
        others = evaluate(metrics, [qrels[at] for at in tied], [order[i] for order in orders])
        found[level] = {name: column.copy() for name, column in values.items()}
        for name, column in others.items():
            found[level][name][tied] = column
    found["upper_bound"] = upper_bounds(metrics, qrels)
    found["random_baseline"] = random_baselines(metrics, qrels, rows.sizes)
    for level, values in found.items():
        for name, column in values.items():
            empty = np.full(len(column), protocol.empty.get(metrics[name].name, 0.0))
            if level not in ("upper_bound", "random_baseline"):
                empty[rows.failed] = 0
            values[name] = np.where(np.isnan(column), empty, column)
    return found


def _of_sessions(
    metrics: Metrics, inputs: Inputs, protocol: ProtocolRules, rows: Sequence[int], ties: str
) -> dict[str, Values]:
    """Scores turns as sessions by LongMemEval's evaluate_retrieval_turn2session.

    The cutoff grows from k until the turns above it are of k sessions; the evidence is the sessions
    of the gold turns. The value is unknown if the ranking ends before that.
    """
    values = {name: np.full(len(rows), np.nan) for name in metrics}
    bounds = {name: np.zeros(len(rows)) for name, one in metrics.items() if one.of_evidence}
    for at, query in enumerate(rows):
        qrels, ranking = inputs.qrels(protocol.qrels)[query], inputs.rankings[query].order(ties)
        gold, session = {*qrels.relevant()}, _sessions(inputs.documents(query))
        counted = [(session(d), protocol.renamed and d in gold) for d in ranking]
        wanted, present = ({session(d) for d in some} for some in (gold, gold & qrels.present))
        complete = len(ranking) >= inputs.sizes[query] or len(ranking) < inputs.k
        for name, metric in metrics.items():
            cutoff = _effective_cutoff(counted, metric.k or 0)
            top = ranking[:cutoff]
            if not gold:
                empty = 0.0 if inputs.failed[query] else protocol.empty.get(metric.name, 0.0)
                values[name][at] = empty
            elif metric.of_evidence:
                bounds[name][at] = metric.of_share(min(len(present), metric.k or 0) / len(wanted))
                found = {session(d) for d in top if d in gold or not protocol.renamed}
                values[name][at] = metric.of_share(len(wanted & found) / len(wanted))
            else:
                values[name][at] = ndcg(metric.name, qrels, top, cutoff or len(ranking) + 1)
            if gold and cutoff is None and not complete:
                values[name][at] = np.nan
    return {"value": values, "upper_bound": bounds}


def _sessions(held: Mapping[str, DocumentFacts]) -> Callable[[str], tuple[bool, str]]:
    """Returns a function from a document to its session; without one, to itself."""

    def session(document: str) -> tuple[bool, str]:
        name = held[document].session if document in held else None
        return (False, document) if name is None else (True, name)

    return session


def _effective_cutoff(sessions: Sequence[object], k: int) -> int | None:
    """Returns the rank of the k-th different session; None if there are fewer."""
    met: set[object] = set()
    for rank, session in enumerate(sessions, 1):
        met.add(session)
        if len(met) == k:
            return rank
    return None
