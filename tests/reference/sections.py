"""What stands beside the protocols: knowledge update, abstention, prompt cost; default answer key.

Each function gives numbers by the path where scores.json has them: `("update_recall@5",)`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from statistics import fmean
from typing import Any

from harness.io.scripts import SCRIPTS
from reference.formulas import Answer, Metric, evidence, value
from reference.key import ABSTENTION, Key, Outcomes
from reference.rankings import Ranking

Numbers = dict[tuple[str, ...], float | None]

_TOKEN = re.compile(rb"[A-Za-z0-9_\x80-\xff]+|[!-~]")
"""A run of word characters (all of UTF-8 beyond ASCII is one), or one other visible character."""


_RANGES = {**SCRIPTS, "marks": "\u3000-\u303f\uff01-\uff65"}
_RATES = {
    ("Han", "Kana", "marks"): 1.35,
    ("Hangul",): 1.3,
    ("Thai",): 2.1,
    ("Lao",): 0.65,
    ("Khmer",): 1.2,
    ("Myanmar",): 1.15,
}
"""Characters per token, as docs/explanation/what-the-numbers-mean.md has them."""


def updates(key: Key, counted: Sequence[str], run: Mapping[str, Ranking], ks: list[int]) -> Numbers:
    """Is the newest statement of a fact found, and above the older ones?

    Over knowledge-update queries whose gold documents have different dates. Undated gold does not
    count.
    """
    new_above: list[float] = []
    new_found: dict[int, list[float]] = {k: [] for k in ks}
    old_alone: dict[int, list[float]] = {k: [] for k in ks}
    for query in counted:
        if key.queries[query].ability != "knowledge-update":
            continue
        held = key.held(query)
        dates = {}
        for one in key.of("default", query):
            document = held.get(one.document)
            if one.grade >= 1 and document is not None and document.timestamp is not None:
                dates[one.document] = document.timestamp
        if len(set(dates.values())) < 2:
            continue
        rank = {d: at for at, d in enumerate(_documents(run, query), 1)}
        latest = max(dates.values())
        new = min((rank.get(d, math.inf) for d in dates if dates[d] == latest), default=math.inf)
        old = min((rank.get(d, math.inf) for d in dates if dates[d] != latest), default=math.inf)
        new_above.append(float(new < old))
        for k in ks:
            new_found[k].append(float(new <= k))
            old_alone[k].append(float(old <= k < new))
    numbers: Numbers = {("n",): len(new_above)}
    if new_above:
        numbers["update_ranked_first",] = fmean(new_above)
        for k in ks:
            numbers[f"update_recall@{k}",] = fmean(new_found[k])
            numbers[f"stale_only_rate@{k}",] = fmean(old_alone[k])
    return numbers


def abstention(key: Key, outcomes: Outcomes, run: Mapping[str, Ranking], depth: int) -> Numbers:
    """Silence and confidence as signs that there is no answer; no numbers where one kind is absent.

    Over queries without an answer, and those with evidence. Silence is nothing returned, or said to
    have no answer; a failure is neither, and has no confidence. A query of which nobody knows
    whether it was answered does not count. The
    threshold of `at_threshold` is chosen over drawn parts of the queries and not recomputed.
    """
    hit = Metric("hit", 1, min(10, depth))
    # query, confidence, silent, wrong
    answerable: list[tuple[str, float | None, bool, float]] = []
    without: list[tuple[str, float | None, bool, float]] = []
    rows = []
    for query in key.queries.values():
        judged = key.of("default", query.id)
        none = query.ability == ABSTENTION
        asked = query.id in outcomes.asked
        counts = asked if none else outcomes.counted(query.id) and bool(evidence(judged))
        ranking = _documents(run, query.id)
        failed = query.id in outcomes.failed
        if not counts or not (ranking or failed or query.id in outcomes.replied):
            continue
        found = value(hit, Answer(judged, ranking))
        silent = not failed and (query.id in outcomes.abstained or not ranking)
        rows.append((query.id, none, silent, 1.0 if none else 1.0 - (found or 0.0)))
    own = any(q in outcomes.confidence for q, _, silent, _ in rows if not silent)
    for query_id, none, silent, wrong in rows:
        sure = outcomes.confidence.get(query_id) if own else _top(run, query_id)
        (without if none else answerable).append((query_id, sure, silent, wrong))
    if not answerable or not without:
        return {}
    numbers: Numbers = {
        ("n_unanswerable",): len(without),
        ("n_answerable",): len(answerable),
        ("false_positive_rate",): fmean(not silent for _, _, silent, _ in without),
    }
    right = sum(silent for _, _, silent, _ in without)
    said = right + sum(silent for _, _, silent, _ in answerable)
    numbers["as_returned", "precision"] = right / said if said else None
    numbers["as_returned", "recall"] = right / len(without)
    numbers["as_returned", "f1"] = 2 * right / (said + len(without))
    answerable, without = (
        [one for one in group if one[0] not in outcomes.failed] for group in (answerable, without)
    )
    both = [*answerable, *without]
    spoken = [sure for _, sure, silent, _ in both if not silent]
    if not answerable or not without or None in spoken or len(set(spoken)) < 2:
        return numbers  # no confidence to speak of
    # Silence is the least sure answer of all.
    ranked = [(-math.inf if silent else float(sure or 0), wrong) for _, sure, silent, wrong in both]
    high, low = ranked[: len(answerable)], sorted(sure for sure, _ in ranked[len(answerable) :])
    below = sum(bisect_left(low, sure) + bisect_right(low, sure) for sure, _ in high)
    numbers["confidence", "n"] = len(both)
    numbers["confidence", "auroc"] = below / 2 / (len(high) * len(low))
    risks = risk_of_the_surest(ranked)
    numbers["confidence", "aurc"] = fmean(risks)
    for tenth in range(10):
        at = max(0, round((tenth + 1) / 10 * len(risks)) - 1)
        numbers["confidence", "risk_coverage", str(tenth), "risk"] = risks[at]
        numbers["confidence", "risk_coverage", str(tenth), "coverage"] = (tenth + 1) / 10
    return numbers


def risk_of_the_surest(ranked: Sequence[tuple[float, float]]) -> list[float]:
    """The share of wrong answers among the n surest, for each n; those equally sure share theirs.

    `ranked` holds (confidence, 1.0 where wrong).
    """
    by_confidence: dict[float, list[float]] = {}
    for sure, wrong in ranked:
        by_confidence.setdefault(sure, []).append(wrong)
    risks: list[float] = []
    total = 0.0
    for sure in sorted(by_confidence, reverse=True):
        for _ in by_confidence[sure]:
            total += fmean(by_confidence[sure])
            risks.append(total / (len(risks) + 1))
    return risks


def tokens(
    key: Key,
    counted: Sequence[str],
    failed: set[str],
    run: Mapping[str, Ranking],
    costs: Mapping[str, list[int]],
    budgets: Sequence[str],
) -> Numbers:
    """What the rankings cost in a prompt, and recall within a budget; `costs` a row, by query."""
    whole = [sum(costs.get(q, ())) for q in counted if q not in failed]
    top = [sum(costs.get(q, [])[:10]) for q in counted if q not in failed]
    numbers = _summary("per_query", whole) | _summary("per_query_top_10", top)
    for budget in budgets:
        values: dict[str, dict[str, float]] = {"": {}}
        ended = 0
        for query in counted:
            judged, ability = key.of("default", query), key.queries[query].ability
            if ability == ABSTENTION or not evidence(judged):
                continue
            spent, cut = 0, 0
            for cost in costs.get(query, ()):
                if (spent := spent + cost) > int(budget):
                    break
                cut += 1
            ranking = _documents(run, query)
            found = value(Metric("recall", 1, cut), Answer(judged, ranking))
            values[""][query] = values.setdefault(ability, {})[query] = found or 0.0
            ended += cut == len(ranking) and spent < int(budget)
        for ability, mine in values.items():
            where = ("recall_within_budget", budget, *(["by_ability", ability] * bool(ability)))
            where = tuple(where)
            numbers[*where, "recall"] = fmean(mine.values()) if mine else None
            numbers[*where, "n"] = len(mine)
        numbers["recall_within_budget", budget, "ended"] = ended
    return numbers


def document_costs(key: Key, run: Mapping[str, Ranking]) -> dict[str, list[int]]:
    """Tokens of each returned document, title and text; one that the haystack lacks costs none."""
    known: dict[tuple[str, str], int] = {}
    costs: dict[str, list[int]] = {}
    for query in key.queries.values():
        held = key.held(query.id)
        mine = costs[query.id] = []
        for document in _documents(run, query.id):
            place = (query.haystack, document)
            if place not in known:
                one = held.get(document)
                known[place] = token_count(one.text) + token_count(one.title) if one else 0
            mine.append(known[place])
    return costs


def token_count(text: str | None) -> int:
    """Tokens of a text: of scripts without spaces by a rate for each run, of others by word."""
    found, rest = 0, ""
    for rate, run in groupby(text or "", _rate):
        if rate is None:
            rest += "".join(run)
        else:
            found += max(1, round(len([*run]) / rate))
            rest += " "
    return found + len(_TOKEN.findall(rest.encode()))


@cache
def _rate(character: str) -> float | None:
    """Characters per token of a character's script; None for scripts with spaces."""
    for names, rate in _RATES.items():
        if any(re.match(f"[{_RANGES[name]}]", character) for name in names):
            return rate
    return None


def _summary(name: str, counts: Sequence[int]) -> Numbers:
    numbers: Numbers = {
        (name, "n"): len(counts),
        (name, "mean"): fmean(counts) if counts else None,
    }
    for percent in (50, 95):
        numbers[name, f"p{percent}"] = percentile(counts, percent) if counts else None
    return numbers


def percentile(counts: Sequence[int], percent: int) -> float:
    """Between the two values that it falls between, by how far."""
    ordered = sorted(counts)
    at = (len(ordered) - 1) * percent / 100
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    return low + (high - low) * (at - math.floor(at))


def _documents(run: Mapping[str, Ranking], query: str) -> list[str]:
    return run[query].documents if query in run else []


def _top(run: Mapping[str, Ranking], query: str) -> float | None:
    scores: Any = run[query].scores if query in run else None
    return max(scores) if scores else None
