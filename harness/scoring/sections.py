"""What a run gets beside the protocols: knowledge update, abstention, prompt cost; all signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.rankings.rankings import Rankings
from harness.schema import Ability
from harness.scoring.abstention import abstention
from harness.scoring.answered import Answered
from harness.scoring.arrays import Ints, Values, mean
from harness.scoring.budget import BUDGETS, TokenBudget, token_summary
from harness.scoring.freshness import freshness
from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ranked
from harness.scoring.resolve import Resolved
from harness.scoring.tokens import TOKENIZER, token_counts

Flags = npt.NDArray[np.bool_]
Sign = Callable[[str, str, str, str, int], str]
"""The signature of a number: of its metric, protocol, unit, slice and n."""


class Sections:
    """The sections of a summary, on the default answer key."""

    def __init__(self, dataset: Dataset, ranked: Ranked, counted: Flags, sign: Sign) -> None:
        """`ranked` in the order as returned; `counted` (n,): asked, and did not fail."""
        self._dataset, self._ranked, self._counted, self._sign = dataset, ranked, counted, sign
        self._unit = dataset.manifest.granularity
        self._without = dataset.abilities == str(Ability.ABSTENTION)
        relevant = ranked.query[ranked.grade >= 1]
        self._evidence = np.bincount(relevant, minlength=ranked.n) > 0

    def updates(self, ks: tuple[int, ...]) -> dict[str, Any] | None:
        """See freshness.py; None where no query is one."""
        dataset = self._dataset
        found = freshness(dataset, dataset.judgements(), self._ranked, self._counted, ks)
        if found is not None:
            ability = str(Ability.KNOWLEDGE_UPDATE)
            found["signatures"] = {
                name: self._sign(name, "knowledge-update/1", self._unit, ability, found["n"])
                for name in found
                if name != "n"
            }
        return found

    def abstention(
        self, rankings: Rankings, answered: Answered, depth: int
    ) -> dict[str, Any] | None:
        """See abstention.py; None unless queries with and without an answer are there."""
        ranked, without = self._ranked, self._without
        # A run file cannot tell silence from a query that was left out: those are not judged here.
        known = ranked.answered | answered.replied
        spoke = answered.asked & ~answered.failed
        mine = (spoke & without | self._counted & self._evidence) & known
        k = min(10, depth)
        wrong = np.where(without, 1.0, 1.0 - np.nan_to_num(Metric("hit", k)(ranked)))
        silent = answered.abstained | (ranked.returned == 0)
        confidence, source = self._confidence(rankings, answered.confidence, mine & ~silent)
        result = abstention(
            without[mine],
            silent[mine],
            confidence[mine],
            wrong[mine],
            self._dataset.query_haystack[mine],
        )
        if result is None:
            return None
        alone = result["n_unanswerable"]
        both = alone + result["n_answerable"]
        slices = {"false_evidence_rate": ("abstention", alone), "as_returned": ("all", both)}
        if result["confidence"] is not None:
            slices |= dict.fromkeys(("auroc", "at_threshold", "aurc"), ("all", both))
        return result | {
            "confidence_is": source,
            "wrong_is": f"hit@{k} = 0, or no answer exists",
            "signatures": {
                name: self._sign(name, "abstention/1", self._unit, slice_, n)
                for name, (slice_, n) in slices.items()
            },
        }

    def _confidence(self, rankings: Rankings, own: Values, speaking: Flags) -> tuple[Values, str]:
        """How sure each answer is, by one measure for all queries that speak, and which it is."""
        given, all_ = int((~np.isnan(own[speaking])).sum()), int(speaking.sum())
        if given == 0:
            return self._top_scores(rankings), "the top score"
        part = "" if given == all_ else f", given for {given} of {all_} answers only"
        return own, f"the system's own{part}"

    def _top_scores(self, rankings: Rankings) -> Values:
        """Best score of each query's ranking; NaN without."""
        top = np.full(self._ranked.n, np.nan)
        if rankings.score is None:
            return top
        known = {name: i for i, name in enumerate(self._dataset.query_ids)}
        starts = rankings.starts
        for i, name in enumerate(rankings.query_ids):
            at = known.get(name)
            if at is not None and starts[i + 1] > starts[i]:
                top[at] = rankings.score[starts[i] : starts[i + 1]].max()
        return top

    def tokens(
        self, resolved: Resolved, masks: Mapping[str, Flags], costs: Ints | None
    ) -> dict[str, Any]:
        """What the rankings cost, and recall within BUDGETS over answerable queries.

        `costs` aligns with `resolved`: where texts were returned, theirs; None: the documents'.
        """
        counted = self._counted
        if costs is None:
            costs = token_counts(self._dataset, resolved.row)
        budget = TokenBudget(self._ranked, resolved, costs)
        scored = counted & self._evidence & ~self._without
        within: dict[str, Any] = {}
        for tokens in BUDGETS:
            values, ended = budget.recall(tokens)
            within[str(tokens)] = self._within(tokens, values, scored, "answerable") | {
                "rankings_that_ended_before": int(ended[scored].sum()),
                "by_ability": {
                    name: self._within(tokens, values, scored & mask, name)
                    for name, mask in masks.items()
                    if name in set(Ability) and (scored & mask).any()
                },
            }
        return {
            "tokenizer": TOKENIZER,
            "retrieved_a_query": token_summary(budget.per_query[counted]),
            "retrieved_a_query_top_10": token_summary(budget.tokens_at(10, resolved)[counted]),
            "recall_within_budget": within,
        }

    def _within(self, tokens: int, values: Values, mask: Flags, slice_: str) -> dict[str, Any]:
        n = int(mask.sum())
        signature = self._sign(f"recall_in_tokens@{tokens}", "tokens/1", self._unit, slice_, n)
        return {"recall": mean(values[mask]), "n": n, "signature": signature}
