"""The protocols in plain words, restated: which queries count, and what one without evidence does.

A protocol that does not stand here, or in another version, is not verified, and said to be so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.verdicts.verify.key import ABSTENTION, Judged, Key, Outcomes, Query

ABILITIES = ("lookup", "multi-hop", "temporal", "knowledge-update", ABSTENTION)


@dataclass(frozen=True)
class Rule:
    """A protocol.

    `key`: the answer key. `unanswerable`: queries without an answer count too. `needs`: a query
    counts only where it has a `judgement`, or `evidence` (a judgement of grade 1 or more). `empty`:
    what a metric is worth where a query that counts has no evidence; 0 for those not named.
    `renamed`: of turns scored as sessions, those of a gold session that are not gold themselves
    count as another session (LongMemEval's `noans_`).
    """

    key: str = "default"
    unanswerable: bool = True
    needs: str = ""
    empty: Mapping[str, float] = field(default_factory=dict)
    renamed: bool = False


RULES = {
    # The harness's own: every query with evidence, also those without an answer that have some.
    "memory/1": Rule(needs="evidence"),
    # trec_eval -c: every judged query; one that the run lacks, or nothing is relevant to, counts 0.
    "trec/1": Rule(needs="judgement"),
    # LongMemEval's evaluate_retrieval: answerable questions that have evidence.
    "longmemeval-official/1": Rule(
        "longmemeval-official", unanswerable=False, needs="evidence", renamed=True
    ),
    # Its printing script: all answerable questions. Of no evidence, all was found, but not any.
    "longmemeval-470/1": Rule(
        "longmemeval-official", unanswerable=False, empty={"recall_all": 1.0}, renamed=True
    ),
    # LoCoMo's eval_question_answering: every question; one without evidence counts 1.
    "locomo-official/1": Rule("locomo-official", empty={"recall": 1.0}),
    # Its aggregating script: every question; one without evidence counts 0.
    "locomo-official-aggregate/1": Rule("locomo-official"),
}


def why_not(
    rule: Rule,
    query: Query,
    judged: list[Judged],
    outcomes: Outcomes,
    *,
    skipped: bool,
) -> str | None:
    """Why a protocol does not score a query, in the words of left_out.json; None: it does.

    `skipped`: the run has no ranking for it, and such queries were to be left out.
    """
    if query.id not in outcomes.asked:
        return "not asked in this run"
    if query.id in outcomes.failed:
        return "failed with an error"
    if query.id in outcomes.unmeasurable:
        return "not measurable: no text was resolved"
    if query.ability == ABSTENTION and not rule.unanswerable:
        return "no answer exists (abstention)"
    if rule.needs == "judgement" and not judged:
        return "no judgement"
    if rule.needs == "evidence" and not any(one.grade >= 1 for one in judged):
        return "no evidence in the answer key"
    return "no ranking in the run" if skipped else None


def slices(key: Key) -> dict[str, set[str]]:
    """The queries of each slice: all, answerable, each ability, each category of the dataset."""
    found: dict[str, set[str]] = {"all": set(key.queries)}
    without = {q.id for q in key.queries.values() if q.ability == ABSTENTION}
    if without:
        found["answerable"] = set(key.queries) - without
    for query in key.queries.values():
        found.setdefault(query.ability, set()).add(query.id)
        if query.category:
            found.setdefault(f"category:{query.category}", set()).add(query.id)
    return found
