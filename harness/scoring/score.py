"""Scores the rankings of a run on a dataset under every applicable protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import harness
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.plugins import provider, provider_or_none
from harness.io.progress import progress
from harness.records.scores import (
    AbstentionResult,
    ChangesResult,
    KnowledgeUpdateResult,
    ProtocolResult,
    ScorableQueries,
    ScoredDataset,
    ScoredQueries,
    ScoreReport,
    SliceResult,
)
from harness.runfiles.rankings import Rankings, Run, without_queries
from harness.schema import Ability
from harness.scoring.arrays import Ints
from harness.scoring.bounds import stable_depth
from harness.scoring.metrics import Metric
from harness.scoring.protocols import ANSWERS, Choices, Protocol, choose_protocols
from harness.scoring.ranks import Ranked, Ties, from_dataset, in_order, rank_judged
from harness.scoring.resolve import Resolved, canonicalize, in_haystack, resolve, sizes_by_query
from harness.scoring.score_columns import (
    Column,
    MetricWarnings,
    QueryStatus,
    document_columns,
    query_table,
    returned_stats,
    slice_results,
    slices,
    with_failed_as_zero,
    with_intervals,
    with_macro_category,
)
from harness.scoring.scores import Scores, unreached_message
from harness.scoring.signatures import Signature, digest
from harness.scoring.tokens import run_tokens

if TYPE_CHECKING:
    from harness.runfiles.tables import Frame

_NO_RANKING = "without a ranking"
NOT_ASKED = "not asked in this run"
NO_ANSWER = "unanswerable"
NO_JUDGEMENT = "without a judgement"
NO_EVIDENCE = "without relevant documents"
NO_USER = "without a user"
Flags = npt.NDArray[np.bool_]


def score(
    dataset: Dataset,
    rankings: str | Path | Run | Frame | Rankings,
    choices: Choices | None = None,
    *,
    depth: int | None = None,
    answered: QueryStatus | None = None,
) -> Scores:
    """Scores rankings (a file, a dict, a frame, columns) with the dataset's own ids.

    `depth` is the maximum length of a ranking (default: that of the longest one). Raises UsageError
    for unreadable rankings, and for unknown or inapplicable protocols.

    A failed query counts 0 in every mean, even if it has a ranking.
    """
    choices = choices or Choices()
    if choices.missing not in ("zero", "skip"):
        raise UsageError(
            f"missing queries count as 0 ('zero') or are excluded ('skip'), not {choices.missing!r}"
        )
    answered = answered or QueryStatus.everything(dataset.n_queries)
    if not isinstance(rankings, Rankings):
        from harness.runfiles.readers import read_rankings

        rankings = read_rankings(rankings)
    columns, repeated = canonicalize(rankings, dataset)
    if answered.failed.any():
        failed = {dataset.query_ids[i] for i in np.flatnonzero(answered.failed)}
        columns = without_queries(columns, failed)
    resolved = resolve(columns, dataset)
    if depth is None:
        depth = int(resolved.rank.max(initial=1))
    if repeated:
        answered = replace(answered, repeated=answered.repeated + repeated)
    scorer = _Scorer(dataset, columns, resolved, choices, depth, answered)
    where = f"{dataset.name} ({dataset.manifest.granularity})"
    users = dataset.scopes is not None
    protocols = choose_protocols(dataset.qrels_sets, choices.protocols, where, users=users)
    with progress(len(protocols), "protocols", "score") as bar:
        for protocol in protocols:
            scorer.apply(protocol)
            bar.update(1)
    if choices.answers or (answered.texts is not None and provider_or_none("scoring_answers")):
        scorer.apply_answers()
    return scorer.finish(repeated)


def scored_dataset(dataset: Dataset) -> ScoredDataset:
    """Returns the record of the dataset in scores."""
    manifest = dataset.manifest
    return ScoredDataset(
        name=manifest.name,
        granularity=manifest.granularity,
        text=manifest.text,
        split=manifest.split,
        fingerprint=manifest.fingerprint,
        published_files=manifest.published,
        excludes_own_document=manifest.exclude_self,
    )


class _Scorer:
    """Collects the parts of a score report; for a single use."""

    def __init__(
        self,
        dataset: Dataset,
        rankings: Rankings,
        resolved: Resolved,
        choices: Choices,
        depth: int,
        answered: QueryStatus,
    ) -> None:
        self._dataset, self._rankings, self._resolved = dataset, rankings, resolved
        self._choices, self._depth, self._answered = choices, depth, answered
        ids = set(rankings.query_ids)
        has_ranking = np.array([id_ in ids for id_ in dataset.query_ids], bool)
        self._skipped = answered.skipped(has_ranking, choices.missing)
        self._counted = answered.counted & ~self._skipped
        self._masks = slices(dataset)
        self._sizes = sizes_by_query(dataset)
        # Protocols with the same qrels and tie rule are ranked once.
        self._ranked = cache(
            lambda key, ties: rank_judged(rankings, from_dataset(dataset, key), ties)
        )
        self._results: list[ProtocolResult] = []
        self._tables: list[pa.Table] = []
        self._excluded: dict[str, dict[str, list[str]]] = {}
        self._warnings: list[str] = []
        self._scored_cutoffs: set[int] = set()  # of documents
        self._unscorable = np.ones(dataset.n_queries, bool)  # by any protocol, in any run
        self._metric_warnings = MetricWarnings(depth, self._sizes)

    def apply(self, protocol: Protocol) -> None:
        """Scores documents under one protocol, and sessions if it has session metrics."""
        dataset = self._dataset
        judged = dataset.qrels(protocol.key)
        ties = protocol.ties
        if self._choices.ties is not None and not protocol.fixed_ks:
            ties = self._choices.ties
        ranked = self._ranked(protocol.key, ties)
        scored = self._scored(protocol, ranked)
        if protocol.module:
            self._apply_module(protocol, scored, ties)
            return
        metrics = self._metrics(protocol)
        if scored.any():
            self._scored_cutoffs.update(m.k for m in metrics if m.k is not None)
        present = in_haystack(dataset, judged.query, judged.document)
        stable = self._stable_depth(ties)
        columns = document_columns(protocol, metrics, ranked, scored, present, self._sizes, stable)
        self._add(protocol, dataset.manifest.granularity, ties, columns)
        of_sessions = dataset.manifest.granularity == "turn" and (dataset.session_codes >= 0).any()
        if protocol.session_metrics and of_sessions:
            self._apply_sessions(protocol, ranked, scored, present, ties)

    def _apply_module(self, protocol: Protocol, scored: Flags, ties: Ties) -> None:
        """Adds the metrics that another module computes."""
        dataset, answered = self._dataset, self._answered
        reach = self._largest_cutoff()
        cutoffs = [
            k for k in self._cutoffs(protocol, int(self._sizes.max(initial=0))) if k <= reach
        ]
        rankings = in_order(self._rankings, ties)
        columns = import_module(protocol.module).columns(
            dataset, protocol, rankings, cutoffs, scored, answered.replied
        )
        self._add(protocol, dataset.manifest.granularity, ties, columns)

    def _apply_sessions(
        self, protocol: Protocol, ranked: Ranked, scored: Flags, present: Flags, ties: Ties
    ) -> None:
        """Scores turn rankings at session level."""
        from harness.scoring.sessions import SessionLevel, session_columns

        dataset, resolved = self._dataset, self._resolved
        if ties is not Ties.ORDER:
            resolved = resolve(in_order(self._rankings, ties), dataset)
        judged, renamed = dataset.qrels(protocol.key), protocol.renamed
        level = SessionLevel(dataset, resolved, judged, ranked, self._depth, renamed=renamed)
        cutoffs = self._cutoffs(protocol, level.most_sessions(dataset))
        stable = self._stable_depth(ties)
        columns = session_columns(dataset, protocol, cutoffs, level, scored, present, stable)
        self._add(protocol, "turn>session", ties, columns)

    def apply_answers(self) -> None:
        """Scores returned texts against the reference answers, if there are any."""
        dataset, answered = self._dataset, self._answered
        counted = answered.asked & ~self._skipped
        counted &= dataset.abilities != str(Ability.ABSTENTION)
        columns = provider("scoring_answers").text_columns(
            dataset, self._resolved, answered.texts, counted, self._largest_cutoff()
        )
        without = counted & np.isnan(columns[0].values)
        reasons = {"no reference answer": without, _NO_RANKING: self._skipped}
        self._excluded[ANSWERS.name] = {
            reason: [dataset.query_ids[i] for i in np.flatnonzero(mask)]
            for reason, mask in reasons.items()
            if mask.any()
        }
        if counted.sum() > without.sum():
            self._add(ANSWERS, dataset.manifest.granularity, ANSWERS.ties, columns)

    def _scored(self, protocol: Protocol, ranked: Ranked) -> Flags:
        """Returns the scored queries, and records why others are excluded."""
        answered, known = self._answered, self._answered.counted
        n = ranked.n
        any_judged = np.bincount(ranked.query, minlength=n) > 0
        without = self._dataset.abilities == str(Ability.ABSTENTION)
        reasons = {
            NOT_ASKED: ~answered.asked,
            # Reasons that apply to every run precede those of this run.
            NO_ANSWER: without & (not protocol.unanswerable),
            NO_JUDGEMENT: ~any_judged & protocol.judged,
            NO_EVIDENCE: ~ranked.has_relevant & protocol.relevant,
            NO_USER: np.zeros(n, bool) if not protocol.of_users else self._without_user(),
            "not measurable: no text was resolved": answered.asked & ~known,
            _NO_RANKING: self._skipped,
        }
        self._unscorable &= reasons[NO_ANSWER] | reasons[NO_JUDGEMENT] | reasons[NO_EVIDENCE]
        scored = np.ones(n, bool)
        excluded: dict[str, list[str]] = {}
        for reason, mask in reasons.items():
            gone = mask & scored
            if gone.any():
                excluded[reason] = [self._dataset.query_ids[i] for i in np.flatnonzero(gone)]
            scored &= ~mask
        self._excluded[protocol.name] = excluded
        return scored

    def _without_user(self) -> Flags:
        scopes = self._dataset.scopes
        return np.ones(self._dataset.n_queries, bool) if scopes is None else ~scopes.has_user

    def _metrics(self, protocol: Protocol) -> list[Metric]:
        """Returns the protocol's metrics at the chosen cutoffs up to the depth of the rankings."""
        cutoffs = self._cutoffs(protocol, int(self._sizes.max(initial=0)))
        texts = [
            t.format(k=cutoff)
            for t in protocol.metrics
            for cutoff in (cutoffs if "{k}" in t else (0,))
        ]
        metrics = [Metric.parse(text) for text in texts]
        if not protocol.fixed_ks:
            metrics += self._choices.metrics
        metrics = list(dict.fromkeys(metrics))
        reach = self._largest_cutoff()
        chosen = {*self._choices.ks, *(m.k for m in self._choices.metrics)}
        told = protocol.ks if protocol.fixed_ks else chosen
        deep = sorted({m.k for m in metrics if m.k in told and m.k is not None and m.k > reach})
        if deep:
            self._warn(
                f"rankings hold at most {self._depth} documents: nothing is reported at k = "
                f"{', '.join(map(str, deep))}, which needs deeper rankings"
            )
        return [m for m in metrics if m.k is None or m.k <= reach]

    def _cutoffs(self, protocol: Protocol, largest: int) -> Sequence[int]:
        """Returns the protocol's fixed cutoffs, or the chosen ones and the defaults below the size
        of the largest haystack (at its full size a cutoff is uninformative)."""
        if protocol.fixed_ks:
            if self._choices.ks or self._choices.metrics:
                self._warn(f"{protocol.name}: metrics and cut-offs are part of it and stay as are")
            return protocol.ks
        own = [cutoff for cutoff in protocol.ks if cutoff < largest]
        return sorted({*own, *self._choices.ks}) or [1]

    def _stable_depth(self, ties: Ties) -> Ints:
        """Returns the rank up to which deeper rankings would be equal; (n,)."""
        results = None
        if self._answered.texts is not None:
            results = np.array([len(texts) for texts in self._answered.texts], np.int64)
        elif self._answered.repeated:  # any ranking may have been truncated
            results = np.full(self._dataset.n_queries, self._depth)
        ids, sizes = self._dataset.query_ids, self._sizes
        return stable_depth(self._rankings, ids, sizes, results, self._depth, ties)

    def _largest_cutoff(self) -> float:
        """Returns the largest cutoff that the depth of the rankings allows."""
        return np.inf if self._depth >= self._sizes.max(initial=0) else self._depth

    def _add(self, protocol: Protocol, level: str, ties: Ties, columns: list[Column]) -> None:
        """Adds the results of one protocol at one level, and its per-query table."""
        dataset, failed = self._dataset, self._answered.failed
        columns = with_failed_as_zero(columns, failed) if failed.any() else columns
        found = slice_results(columns, self._masks, failed)
        found = with_intervals(dataset, columns, self._masks, found)
        if dataset.manifest.mean_over == "categories":
            found = with_macro_category(found)
        self._results.append(
            ProtocolResult(
                protocol=protocol.name,
                version=protocol.version,
                description=protocol.about,
                level=level,
                ties=str(ties),
                signature=self._template(f"{protocol.name}/{protocol.version}", level, ties),
                excluded={r: len(ids) for r, ids in self._excluded[protocol.name].items()},
                depth_sensitive=[
                    str(c.metric)
                    for c in columns
                    if c.depth_sensitive is not None
                    and (c.depth_sensitive & ~np.isnan(c.values)).any()
                ],
            ).with_slices({name: SliceResult.of(results) for name, results in found.items()})
        )
        self._metric_warnings.collect(columns, level, found.get("all", {}))
        self._tables.append(
            query_table(dataset, self._answered.asked, protocol.name, level, columns)
        )

    def _template(self, protocol: str, level: str = "", ties: Ties = Ties.ORDER) -> str:
        """Returns the signature template of a protocol's numbers."""
        m = self._dataset.manifest
        return Signature(
            metric="",
            protocol=protocol,
            data=f"{m.name}#{m.fingerprint[:8]}",
            level=level or m.granularity,
            text=m.text,
            split=m.split,
            slice="",
            n=0,
            queries=self._queries,
            ties=str(ties),
            depth=self._depth,
            missing=self._choices.missing,
            v=harness.__version__,
            match=self._answered.match,
        ).template

    @cached_property
    def _queries(self) -> str:
        """The scorable queries of the run, for the signature."""
        if self._counted.all():
            return "all"
        return digest([self._dataset.query_ids[i] for i in np.flatnonzero(self._counted)])

    def _scorable(self) -> ScorableQueries:
        """Returns the queries that were asked and that some protocol could score."""
        rows = np.flatnonzero(self._answered.asked & ~self._unscorable)
        ids = sorted(self._dataset.query_ids[row] for row in rows)
        return ScorableQueries(n=len(ids), digest=digest(ids))

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    # -- what is not a protocol ----------------------------------------------------------------

    def finish(self, repeated: int) -> Scores:
        """Returns the complete scores; `repeated`: number of duplicates from `canonicalize`."""
        dataset, manifest = self._dataset, self._dataset.manifest
        ranked = self._ranked("default", Ties.ORDER)
        asked = self._answered.asked & ~self._answered.failed
        cutoffs = tuple(
            cutoff
            for cutoff in sorted({1, 5, 10, *self._choices.ks})
            if cutoff <= self._largest_cutoff()
        )
        returned = returned_stats(
            dataset, self._answered, ranked, self._depth, self._scored_cutoffs
        )
        if message := unreached_message(returned):
            self._warn(message)
        unresolved = self._answered.places_unresolved
        report = ScoreReport(
            harness=harness.__version__,
            dataset=scored_dataset(dataset),
            depth=self._depth,
            returned=returned,
            missing=self._choices.missing,
            requested=self._choices.record(),
            queries=ScoredQueries(
                in_dataset=dataset.n_queries,
                asked=int(self._answered.asked.sum()),
                scorable=self._scorable(),
                failed=int(self._answered.failed.sum()),
                without_ranking=int((asked & ~ranked.answered).sum()),
                unknown_in_run=len(self._resolved.unknown_queries),
            ),
            unknown_documents=self._resolved.unknown_documents - unresolved,
            repeated_documents=repeated,
            protocols=self._results,
            knowledge_update=self._knowledge_update(ranked, cutoffs),
            changes=self._changes(ranked, cutoffs),
            abstention=self._abstention(ranked),
            tokens=None
            if manifest.ids_only
            else run_tokens(
                dataset,
                ranked,
                self._resolved,
                self._answered,
                self._counted,
                self._depth,
                self._template("tokens/1"),
            ),
            warnings=[*self._warnings, *self._metric_warnings.lines()],
        )
        table = pa.concat_tables(self._tables, promote_options="default")
        return Scores(report, table, self._excluded)

    def _knowledge_update(
        self, ranked: Ranked, cutoffs: tuple[int, ...]
    ) -> KnowledgeUpdateResult | None:
        dataset = self._dataset
        if not (dataset.abilities == str(Ability.KNOWLEDGE_UPDATE)).any():
            return None
        from harness.scoring.knowledge_update import knowledge_update

        signature = self._template("knowledge-update/1")
        return knowledge_update(dataset, ranked, self._counted, cutoffs, self._depth, signature)

    def _changes(self, ranked: Ranked, cutoffs: tuple[int, ...]) -> ChangesResult | None:
        if not self._dataset.has_changes:
            return None
        from harness.scoring.changes import after_changes

        # A missing query does not count as correctly returning nothing, as with abstention.
        asked = self._counted & (ranked.answered | self._answered.replied)
        signature = self._template("changes/1")
        return after_changes(self._dataset, self._resolved, asked, cutoffs, signature)

    def _abstention(self, ranked: Ranked) -> AbstentionResult | None:
        dataset, answered = self._dataset, self._answered
        if not (dataset.abilities == str(Ability.ABSTENTION)).any():
            return None
        from harness.scoring.abstention import run_abstention

        return run_abstention(
            dataset,
            ranked,
            self._rankings,
            answered,
            self._counted,
            self._depth,
            self._template("abstention/1"),
        )
