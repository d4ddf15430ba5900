"""Finds the cause of each missed evidence item of a run, from rankings and qrels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.analysis.analyze.causes import (
    ABOVE,
    LOW_SIMILARITY,
    Above,
    Analysis,
    Cause,
    Flags,
    MissedPiece,
    Place,
    QueryMisses,
    Relation,
    decide,
)
from harness.analysis.analyze.errata import (
    CorrectedDataset,
    Errata,
    both_keys,
    corrected,
    read_errata,
    results_of,
)
from harness.analysis.analyze.pieces import (
    EMPTY,
    Embed,
    Pieces,
    Taken,
    Versions,
    WordSimilarity,
    had_room,
    pieces,
    similarities,
    top,
)
from harness.datasets.reader import Dataset, DatasetQrels
from harness.errors import UsageError
from harness.runs.folder.rankings import read_run_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import query_outcomes
from harness.schema import Ability
from harness.scoring.arrays import Values
from harness.scoring.protocols import Choices
from harness.scoring.ranks import NOT_RETRIEVED, Ranked, Ties, from_dataset, rank_judged
from harness.scoring.resolve import Resolved, canonicalize, resolve, sizes_by_query
from harness.scoring.score import score
from harness.scoring.scores import Scores, depth_message

PROTOCOL = "memory"
"""All abilities, normalised evidence, and the returned order of equal scores."""


def analyze(
    folder: str | Path,
    dataset: Dataset,
    k: int = 10,
    *,
    errata: str | Path | None = None,
    embed: Embed | None = None,
) -> Analysis:
    """Find the cause of each evidence item that is not in the top k (see `causes`).

    `folder` is a run folder, `dataset` its dataset; nothing is written. `errata` is a file that
    corrects the qrels (see `errata`). `embed` returns unit vectors of texts for the rule of low
    similarity; its threshold is for MiniLM (`minilm.unit_vectors`).

    Raises UsageError for a folder that is no run, rankings shorter than k, and an errata file that
    does not fit the dataset.
    """
    run = RunFolder(Path(folder))
    at = ScoredAt(run, dataset, k)
    overlay = None if errata is None else read_errata(Path(errata), dataset)
    counts, queries = misses(at.seen, overlay, embed)
    record = run.record
    both = None
    if overlay is not None:
        key = CorrectedDataset(dataset, corrected(dataset.qrels(), overlay, dataset))
        both = both_keys(dataset, overlay, at.scores, at.score(key), at.answered.counted)
    return Analysis(
        run=run.path.resolve().name,
        system=record.retriever.name,
        dataset=at.scores.report.dataset,
        k=k,
        depth=at.depth,
        depth_message=depth_message(at.scores.report.returned, at.depth, requested=record.executed),
        scored=int(at.seen.scored.sum()),
        excluded=at.excluded,
        pieces=counts,
        results={
            name: {m: one for m, one in part.items() if m in (f"recall@{k}", f"hit@{k}")}
            for name, part in results_of(at.scores).items()
        },
        queries=queries,
        similarity=None if embed is None else LOW_SIMILARITY,
        errata=both,
    )


@dataclass(frozen=True)
class Seen:
    """The rankings of a run, scored at k.

    `recall` at k has shape (queries,), NaN for queries that are not scored. `texts`: the system
    returns its own texts.
    """

    dataset: Dataset
    k: int
    depth: int
    texts: bool
    resolved: Resolved
    ranked: Ranked
    recall: Values

    @property
    def scored(self) -> Flags:
        """Whether a query is scored, shape (queries,)."""
        return ~np.isnan(self.recall)


def misses(
    seen: Seen, errata: Errata | None = None, embed: Embed | None = None
) -> tuple[dict[str, int], tuple[QueryMisses, ...]]:
    """The number of evidence items by ability, and the queries that missed some, sorted as in
    `Analysis.queries`; `errata` and `embed` as for `analyze`.
    """
    dataset = seen.dataset
    found = pieces(dataset, dataset.qrels(), seen.ranked, seen.scored, seen.k)
    missed = found.take(np.flatnonzero(found.rank > seen.k))
    records = explain(seen, missed, errata, embed)
    by_query: dict[int, list[int]] = {}
    for piece, query in enumerate(missed.query.tolist()):
        by_query.setdefault(query, []).append(piece)
    counts = np.bincount(found.query, minlength=dataset.n_queries)
    queries = [
        QueryMisses(
            dataset.query_ids[query],
            query,
            str(dataset.abilities[query]),
            str(dataset.categories[query]),
            int(counts[query]),
            float(seen.recall[query]),
            tuple(records[piece] for piece in mine),
        )
        for query, mine in by_query.items()
    ]
    queries.sort(key=lambda query: (-len(query.missed), query.recall, query.row))
    by_ability = {
        str(ability): n
        for ability in Ability
        if (n := int(counts[dataset.abilities == str(ability)].sum()))
    }
    return by_ability, tuple(queries)


class ScoredAt:
    """Score a run at k by the protocol `memory`, without writing to its folder."""

    def __init__(self, run: RunFolder, dataset: Dataset, k: int) -> None:
        """Raises UsageError for a k beyond the depth of the rankings."""
        self._k = k
        self.depth: int = run.record.settings.k
        deepest = int(sizes_by_query(dataset).max(initial=0))
        if k < 1:
            raise UsageError(f"--k must be 1 or more, not {k}")
        if self.depth < k and self.depth < deepest:
            raise UsageError(
                f"{run.path}: rankings have at most {self.depth} documents, too few for the top "
                f"{k}; choose a smaller --k"
            )
        self.answered = query_outcomes(run, dataset)
        self._rankings = read_run_rankings(run.rankings)
        rankings, _ = canonicalize(self._rankings, dataset)
        self.scores = self.score(dataset)
        table = self.scores.per_query
        table = table.filter(np.array(table["level"]) == dataset.manifest.granularity)
        row = dataset.query_rows
        recall = np.full(dataset.n_queries, np.nan)
        at = [row[name] for name in table["query"].to_pylist()]
        recall[at] = table[f"recall@{k}"].to_numpy(zero_copy_only=False)
        self.seen = Seen(
            dataset,
            k,
            self.depth,
            run.hits.is_file(),
            resolve(rankings, dataset),
            rank_judged(rankings, from_dataset(dataset), Ties.ORDER),
            recall,
        )

    def score(self, dataset: Dataset) -> Scores:
        """The run's scores at k by this dataset's default qrels."""
        choices = Choices(protocols=(PROTOCOL,), ks=(self._k,))
        return score(dataset, self._rankings, choices, depth=self.depth, answered=self.answered)

    @property
    def excluded(self) -> dict[str, int]:
        """Counts of queries that are not scored, by reason."""
        reasons = self.scores.excluded[PROTOCOL].items()
        return {name: len(ids) for name, ids in reasons if not name.startswith("not asked")}


def explain(
    at: Seen, missed: Pieces, errata: Errata | None, embed: Embed | None
) -> list[MissedPiece]:
    """A record for each missed item, in their order."""
    dataset = at.dataset
    judged = dataset.qrels()
    taken = Taken(dataset, missed, top(at.resolved, dataset.n_queries, at.k))
    words = WordSimilarity(dataset, judged, missed)
    versions = Versions(dataset, judged)
    newer, older = versions.above(missed, taken.rows)
    room = had_room(dataset, at.ranked, missed, at.depth)
    cosines = None if embed is None else similarities(dataset, missed, embed)
    causes = decide(
        {
            Cause.LABEL: _doubtful(judged, missed, errata),
            Cause.NOT_INGESTED: ~missed.held,
            Cause.TIE: missed.tied,
            Cause.HIDDEN: taken.hidden & at.texts,
            Cause.NO_WORD: words.counts == 0,
            Cause.NOT_RETURNED: room,
            Cause.NAMES: words.only_names,
            Cause.NEWER: newer,
            Cause.OLDER: older,
            Cause.SESSION: taken.mostly_session,
            Cause.SPEAKER: taken.by_others(words.names_another),
            Cause.DISSIMILAR: np.zeros(len(missed), bool)
            if cosines is None
            else cosines < LOW_SIMILARITY,
            Cause.MORE_WORDS: words.more_in(taken.rows),
        }
    )
    returned: Flags = np.not_equal(missed.rank, NOT_RETRIEVED)
    places = np.select(
        [~missed.held, returned, room],
        [Place.NOT_INGESTED, Place.BELOW, Place.NOT_RETURNED],
        default=Place.BEYOND,
    )
    names = judged.document_id.take(missed.judgements).to_pylist()
    beside, session = taken.beside, taken.session_there
    above = _above(at, missed, taken, versions)
    return [
        MissedPiece(
            dataset.query_ids[int(missed.query[i])],
            tuple(names[missed.start[i] : missed.end[i]]),
            int(missed.document[i]),
            causes[i],
            Place(places[i]),
            int(missed.rank[i]) if returned[i] else None,
            words.shared[i],
            None if cosines is None or np.isnan(cosines[i]) else float(cosines[i]),
            bool(beside[i]),
            bool(session[i]),
            above[i],
        )
        for i in range(len(missed))
    ]


def _doubtful(judged: DatasetQrels, missed: Pieces, errata: Errata | None) -> Flags:
    """Evidence items of queries in the errata, except those that the errata confirm."""
    doubtful = np.zeros(len(missed), bool)
    if errata is not None:
        for piece, query in enumerate(missed.query.tolist()):
            if query in errata.entries:
                evidence = errata.documents[query] or ()
                carriers = judged.document[missed.carriers(piece)].tolist()
                doubtful[piece] = set(carriers).isdisjoint(evidence)
    return doubtful


def _above(at: Seen, missed: Pieces, taken: Taken, versions: Versions) -> list[tuple[Above, ...]]:
    """The first ABOVE of the k positions of each item."""
    rows: npt.NDArray[np.int32] = taken.rows[:, :ABOVE]
    column = at.dataset.documents.column("id", np.unique(rows[rows >= 0]))
    names = dict(zip(np.unique(rows[rows >= 0]).tolist(), column.to_pylist(), strict=True))
    session, others = taken.of_session.tolist(), taken.of_others.tolist()
    found = []
    for piece, (query, document, mine) in enumerate(
        zip(missed.query.tolist(), missed.document.tolist(), rows.tolist(), strict=True)
    ):
        gold = versions.gold(query)
        above = []
        for place, row in enumerate(mine):
            if row == EMPTY:
                break
            order = versions.compare(query, document, row) if row in gold else 0
            if row < 0:
                relation = Relation.UNKNOWN
            elif row in gold:
                relation = {1: Relation.NEWER, -1: Relation.OLDER, 0: Relation.EVIDENCE}[order]
            elif session[piece][place]:
                relation = Relation.SESSION
            else:
                relation = Relation.SPEAKER if others[piece][place] else Relation.OTHER
            above.append(Above(place + 1, row, names.get(row, ""), relation))
        found.append(tuple(above))
    return found
