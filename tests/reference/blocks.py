"""One protocol of a run, at one unit, by its definitions: a value a query, for every metric."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from reference.formulas import Answer, Metric, session_values, value
from reference.key import (
    ABSTENTION,
    NO_RANKING,
    Key,
    Outcomes,
    Rule,
    why_not,
)
from reference.levels import (
    ideals,
    orders_of_ties,
    random_baseline,
    session_ceiling,
    shared,
    upper_bound,
)
from reference.rankings import Ranking, ordered
from reference.texts import PLAIN, bleu, by_rank

Values = dict[str, dict[str, float]]
"""Metric as printed -> query -> value."""

SESSIONS = "turn>session"
_LARGEST = 1_000_000
"""Of larger haystacks no random baseline of a whole ranking is published."""


@dataclass
class Material:
    """What every number is made of. `run` holds cleaned rankings of the dataset's queries alone."""

    key: Key
    outcomes: Outcomes
    run: dict[str, Ranking]
    depth: int
    missing: str
    _orders: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def ranking(self, query: str, ties: str) -> list[str]:
        """The documents of a query, best first."""
        known = self._orders.setdefault(ties, {})
        if query not in known:
            known[query] = ordered(self.run[query], ties) if query in self.run else []
        return known[query]

    def skipped(self, query: str) -> bool:
        """Whether the query is left out since the run has no ranking for it."""
        known = query in self.run or query in self.outcomes.replied or query in self.outcomes.failed
        return self.missing == "skip" and not known

    @cached_property
    def counted(self) -> list[str]:
        """The queries that something can be said of, in the dataset's order."""
        return [q for q in self.key.queries if self.outcomes.counted(q) and not self.skipped(q)]


class Block:
    """One protocol at one unit and order of equals."""

    def __init__(self, material: Material, rule: Rule, unit: str, ties: str) -> None:
        self._material, self._rule, self._unit, self._ties = material, rule, unit, ties
        self.why: dict[str, str] = {}
        self.scored: list[str] = []
        for query in material.key.queries.values():
            reason = why_not(
                rule,
                query,
                material.key.of(rule.key, query.id),
                material.outcomes,
                skipped=material.skipped(query.id),
            )
            if reason is None:
                self.scored.append(query.id)
            else:
                self.why[query.id] = reason

    def values(self, metrics: Mapping[str, Metric]) -> tuple[Values, dict[str, set[str]]]:
        """Values by plain Python, and for each metric the queries whose ranking was too short."""
        if self._unit == SESSIONS:
            return self._of_sessions(metrics)
        found: Values = {text: {} for text in metrics}
        for query in self.scored:
            answer = Answer(self._judged(query), self._material.ranking(query, self._ties))
            for text, metric in metrics.items():
                found[text][query] = self._finished(metric, value(metric, answer))
        return found, {}

    def _of_sessions(self, metrics: Mapping[str, Metric]) -> tuple[Values, dict[str, set[str]]]:
        found: Values = {text: {} for text in metrics}
        short: dict[str, set[str]] = {text: set() for text in metrics}
        key = self._material.key
        for query in self.scored:
            ranking = self._material.ranking(query, self._ties)
            # As much as the system had to give, though fewer sessions than k: that is all of it.
            ended = len(ranking) >= key.size(query) or len(ranking) < self._material.depth
            judged, held = self._judged(query), key.held(query)
            ours = session_values(metrics, judged, ranking, held, renamed=self._rule.renamed)
            for text, (one, enough) in ours.items():
                found[text][query] = self._finished(metrics[text], one)
                if not enough and not ended:
                    short[text].add(query)
        return found, short

    def levels(self, metrics: Mapping[str, Metric], *, ties: bool) -> dict[str, Values]:
        """`upper_bound`, `random_baseline`, and with `ties` the `best` and `worst` orders.

        By name and metric; what is not there is not recomputed: anything where documents share
        pieces of evidence, and of sessions all but the upper bound of what is counted.
        """
        if any(shared(self._judged(query)) for query in self.scored):
            return {}
        of = self._session_levels if self._unit == SESSIONS else self._document_levels
        found: dict[str, Values] = {}
        for query in self.scored:
            for name, text, one in of(query, metrics, ties):
                finished = self._finished(metrics[text], one)
                found.setdefault(name, {}).setdefault(text, {})[query] = finished
        return found

    def _document_levels(
        self, query: str, metrics: Mapping[str, Metric], ties: bool
    ) -> Iterator[tuple[str, str, float | None]]:
        judged, there = self._judged(query), self._there(query)
        size, given = self._material.key.size(query), self._material.run.get(query)
        best = ideals(judged, there)
        orders = orders_of_ties(given, judged, self._ties) if ties and given else ([], [])
        of_ties = [Answer(judged, order) for order in orders]
        for text, metric in metrics.items():
            yield "upper_bound", text, upper_bound(metric, best)
            if metric.k is not None or size <= _LARGEST:
                yield "random_baseline", text, random_baseline(metric, best[0].grade, there, size)
            if ties:
                for name, answer in zip(("best", "worst"), of_ties, strict=True):
                    yield name, text, value(metric, answer)

    def _session_levels(
        self, query: str, metrics: Mapping[str, Metric], ties: bool
    ) -> Iterator[tuple[str, str, float | None]]:
        held = self._material.key.held(query)
        sessions = {d: held[d].session for d in self._there(query)}
        for text, metric in metrics.items():
            if not metric.name.startswith("ndcg"):
                yield "upper_bound", text, session_ceiling(metric, self._judged(query), sessions)

    def _there(self, query: str) -> set[str]:
        """The judged documents that the query could be answered with."""
        own = self._material.key.left_out(query)
        return {j.document for j in self._judged(query) if not j.missing and j.document != own}

    def _judged(self, query: str) -> list[Any]:
        return self._material.key.of(self._rule.key, query)

    def _finished(self, metric: Metric, one: float | None) -> float:
        """A query without evidence is worth what the protocol says."""
        return self._rule.empty.get(metric.name, 0.0) if one is None else one


def answer_values(
    material: Material, texts: Mapping[str, Sequence[str]], metrics: Sequence[str]
) -> tuple[Values, dict[str, str]]:
    """Values of `texts`, best first by query, against reference answers; why queries have none.

    Metrics that are not here (BLEU, where sacrebleu is not) are left out.
    """
    key = material.key
    functions = {**PLAIN, **bleu()}
    found: Values = {text: {} for text in metrics if text.partition("@")[0] in functions}
    cuts: dict[str, list[int]] = {}
    for name, _, cut in (text.partition("@") for text in found):
        cuts.setdefault(name, []).append(int(cut))
    why: dict[str, str] = {}
    for query in key.queries.values():
        if material.skipped(query.id):
            why[query.id] = NO_RANKING
            continue
        if query.id not in material.outcomes.asked or query.ability == ABSTENTION:
            continue
        for name, function in functions.items():
            at = by_rank(function, texts.get(query.id, ()), query.answers)
            for k in cuts.get(name, ()):
                if at is not None:
                    found[f"{name}@{k}"][query.id] = max(at[: k + 1])
            if at is None and name == "success":
                why[query.id] = "no reference answer"
    return found, why


def mean(values: Sequence[float]) -> float | None:
    """The mean, summed without rounding; None of nothing."""
    return math.fsum(values) / len(values) if values else None
