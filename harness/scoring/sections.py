"""What a run gets beside the protocols: updates, changes, abstention, prompt cost; all signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from harness.datasets.reader import Dataset, DatasetQrels
from harness.records.scores import (
    AbstentionResult,
    BudgetRecall,
    BudgetResult,
    ChangesResult,
    KnowledgeUpdateResult,
    TokensResult,
)
from harness.runfiles.rankings import Rankings
from harness.schema import Ability
from harness.scoring.arrays import Flags, Ints, Values, count_by, mean, ratio
from harness.scoring.metrics import Metric
from harness.scoring.metrics.definition import none_found
from harness.scoring.ranks import NOT_RETRIEVED, Ranked
from harness.scoring.resolve import Resolved, haystack_sizes, held
from harness.scoring.results import QueryStatus
from harness.scoring.tokens import (
    BUDGETS,
    ORDERS,
    TOKENIZER,
    TokenBudget,
    TokenCounts,
    recall_random_baseline,
    token_summary,
)

Template = Callable[[str], str]
"""Returns the signature that the numbers of a protocol share, by its name and version."""


class Sections:
    """The sections of a report beside the protocols, on the default qrels."""

    def __init__(
        self, dataset: Dataset, ranked: Ranked, counted: Flags, template: Template
    ) -> None:
        """`ranked` in the order as returned; `counted` (n,): asked and measurable."""
        self._dataset, self._ranked, self._counted = dataset, ranked, counted
        self._template = template
        self._without = dataset.abilities == str(Ability.ABSTENTION)
        relevant = ranked.query[ranked.grade >= 1]
        self._evidence = np.bincount(relevant, minlength=ranked.n) > 0

    def updates(self, cutoffs: tuple[int, ...], depth: int) -> KnowledgeUpdateResult | None:
        """See `freshness`; None where no query is one. The random baseline is exact."""
        dataset = self._dataset
        return freshness(
            dataset,
            dataset.qrels(),
            self._ranked,
            self._counted,
            cutoffs,
            depth,
            self._template("knowledge-update/1"),
        )

    def changes(
        self, resolved: Resolved, answered: QueryStatus, cutoffs: tuple[int, ...]
    ) -> ChangesResult | None:
        """See changes.py; None where the dataset has none, or nobody asks after one."""
        if not self._dataset.has_changes:
            return None
        from harness.scoring.changes import after_changes

        # Who leaves a query out has not kept anything back: as with abstention.
        asked = self._counted & (self._ranked.answered | answered.replied)
        return after_changes(self._dataset, resolved, asked, cutoffs, self._template("changes/1"))

    def abstention(
        self, rankings: Rankings, answered: QueryStatus, depth: int
    ) -> AbstentionResult | None:
        """See abstention.py; None unless queries with and without an answer are there."""
        ranked, without, failed = self._ranked, self._without, answered.failed
        if not without.any():
            return None
        from harness.scoring.abstention import abstention

        # A run file cannot tell silence from a query that was left out: those are not judged here.
        known = ranked.answered | answered.replied | failed
        mine = (answered.asked & without | self._counted & self._evidence) & known
        cutoff = min(10, depth)
        wrong = np.where(without, 1.0, 1.0 - np.nan_to_num(Metric("hit", cutoff)(ranked)))
        silent = (answered.abstained | (ranked.returned == 0)) & ~failed
        speaking = mine & ~silent & ~failed
        confidence, source = self._confidence(rankings, answered.confidence, speaking)
        found = abstention(
            without[mine],
            silent[mine],
            confidence[mine],
            wrong[mine],
            self._dataset.query_shares[mine],
            failed[mine],
        )
        if found is None:
            return None
        return AbstentionResult(
            n_unanswerable=found.n_unanswerable,
            n_answerable=found.n_answerable,
            false_positive_rate=found.false_positive_rate,
            as_returned=found.as_returned,
            confidence=found.confidence,
            confidence_source=source,
            wrong_definition=f"hit@{cutoff} = 0, or no answer exists",
            signature=self._template("abstention/1"),
        )

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
        self,
        resolved: Resolved,
        masks: Mapping[str, Flags],
        costs: Ints | None,
        depth: int,
        failed: Flags,
    ) -> TokensResult:
        """What the rankings cost, and recall within BUDGETS over answerable queries.

        Costs are over queries that did not fail: what failed costs nothing and saves nothing.
        `costs` aligns with `resolved`: where texts were returned, theirs; None: the documents'.
        The random baseline is that of the haystack's documents, `depth` of them in a random order.
        """
        counted = self._counted
        of_documents = TokenCounts(self._dataset)
        if costs is None:
            costs = of_documents.of(resolved.row)
        budget = TokenBudget(self._ranked, resolved, costs)
        scored = counted & self._evidence & ~self._without
        levels = recall_random_baseline(
            self._dataset, self._ranked, scored, depth, BUDGETS, of_documents
        )
        answered = counted & ~failed
        within = {}
        for tokens, random in zip(BUDGETS, levels.T, strict=True):
            values, ended = budget.recall(tokens)
            within[str(tokens)] = BudgetResult(
                recall=mean(values[scored]),
                n=int(scored.sum()),
                random_baseline=mean(random[scored]),
                ended=int(ended[scored].sum()),
                by_ability={
                    name: BudgetRecall(
                        recall=mean(values[mine]),
                        n=int(mine.sum()),
                        random_baseline=mean(random[mine]),
                    )
                    for name, mask in masks.items()
                    if name in set(Ability) and (mine := scored & mask).any()
                },
            )
        return TokensResult(
            tokenizer=TOKENIZER,
            per_query=token_summary(budget.per_query[answered]),
            per_query_top_10=token_summary(budget.tokens_at(10, resolved)[answered]),
            recall_within_budget=within,
            random_method=f"from {ORDERS} random orders of each haystack",
            signature=self._template("tokens/1"),
        )


def freshness(
    dataset: Dataset,
    judged: DatasetQrels,
    ranked: Ranked,
    scored: np.ndarray,
    cutoffs: tuple[int, ...],
    depth: int,
    signature: str,
) -> KnowledgeUpdateResult | None:
    """Knowledge update: is the newest statement of a fact found, and above the older ones?

    Over knowledge-update queries whose gold documents have different dates.
    update_recall@k: a gold document of the latest date is in the top k. stale_only_rate@k: an older
    gold document is, and none of the latest date. update_ranked_first: the first gold document
    of the latest date was returned and stands above every older one. None without such queries.
    `random_baseline` has what random orders would score, `depth` documents deep, by the same names;
    `signature` is the template of theirs.
    """
    update = dataset.abilities == str(Ability.KNOWLEDGE_UPDATE)
    gold = (ranked.grade >= 1) & (judged.document >= 0) & (update & scored)[ranked.query]
    stamps = _timestamps(dataset, judged, gold)
    dated = gold & ~np.isnan(stamps)
    latest = np.full(ranked.n, -np.inf)
    np.maximum.at(latest, ranked.query[dated], stamps[dated])
    newest = dated & (stamps == latest[ranked.query])
    older = dated & ~newest
    queries = np.unique(ranked.query[older])
    if len(queries) == 0:
        return None
    first_new, first_old = (_first(ranked, rows)[queries] for rows in (newest, older))
    # Distinct documents that a ranking can hold, and how many others there are.
    once = ranked.first_of_document & held(dataset, judged.query, judged.document)
    new, old = (count_by(ranked.query[rows & once], ranked.n)[queries] for rows in (newest, older))
    size, both = haystack_sizes(dataset)[queries], new + old
    seen = 1 - none_found(size, both, np.minimum(depth, size))
    values = {
        "update_ranked_first": (
            (first_new != NOT_RETRIEVED) & (first_new < first_old),
            ratio(new, both, 0.0) * seen,
        )
    }
    for cutoff in cutoffs:
        top = np.minimum(cutoff, size)
        missed, nothing = none_found(size, new, top), none_found(size, both, top)
        values[f"update_recall@{cutoff}"] = (first_new <= cutoff, 1 - missed)
        values[f"stale_only_rate@{cutoff}"] = (
            (first_new > cutoff) & (first_old <= cutoff),
            missed - nothing,
        )
    return KnowledgeUpdateResult(
        n=len(queries),
        values={name: mean(found.astype(float)) for name, (found, _) in values.items()},
        random_baseline={name: mean(level) for name, (_, level) in values.items()},
        signature=signature,
    )


def _first(ranked: Ranked, rows: np.ndarray) -> np.ndarray:
    first = np.full(ranked.n, NOT_RETRIEVED)
    np.minimum.at(first, ranked.query[rows], ranked.rank[rows])
    return first


def _timestamps(dataset: Dataset, judged: DatasetQrels, wanted: np.ndarray) -> np.ndarray:
    """When each judged document was said in its query's haystack; NaN where nobody knows."""
    stamps = np.full(len(judged.query), np.nan)
    haystack = dataset.query_haystack[judged.query]
    for one in np.unique(haystack[wanted]):
        rows = dataset.haystack_rows(int(one))
        dates = dataset.haystack_timestamps(int(one)).to_numpy(zero_copy_only=False).astype(float)
        order = np.argsort(rows, kind="stable")
        mine = np.flatnonzero(wanted & (haystack == one))
        at = order[
            np.searchsorted(rows, judged.document[mine], sorter=order).clip(max=len(rows) - 1)
        ]
        stamps[mine] = np.where(rows[at] == judged.document[mine], dates[at], np.nan)
    return stamps
