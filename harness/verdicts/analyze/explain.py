"""The record of every missed piece: its cause, its place, and what stands above it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Judgements
from harness.scoring.ranks import NOT_RETRIEVED
from harness.verdicts.analyze.analysis import ABOVE, Above, MissedPiece, Relation
from harness.verdicts.analyze.causes import LOW_SIMILARITY, Cause, Flags, Place, decide
from harness.verdicts.analyze.errata import Errata
from harness.verdicts.analyze.likeness import SharedWords
from harness.verdicts.analyze.pieces import Pieces, had_room
from harness.verdicts.analyze.places import EMPTY, Taken, top
from harness.verdicts.analyze.scored_run import ScoredAt
from harness.verdicts.analyze.similarity import Embed, similarities
from harness.verdicts.analyze.versions import Versions


def explain(
    at: ScoredAt, missed: Pieces, errata: Errata | None, embed: Embed | None
) -> list[MissedPiece]:
    """A record for each missed piece, in their order."""
    dataset = at.dataset
    judged = dataset.judgements()
    taken = Taken(dataset, missed, top(at.resolved, dataset.n_queries, at.k))
    words = SharedWords(dataset, judged, missed)
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


def _doubtful(judged: Judgements, missed: Pieces, errata: Errata | None) -> Flags:
    """Pieces of queries that the errata name, unless they say that the piece is evidence."""
    doubtful = np.zeros(len(missed), bool)
    if errata is not None:
        for piece, query in enumerate(missed.query.tolist()):
            if query in errata.entries:
                evidence = errata.documents[query] or ()
                carriers = judged.document[missed.carriers(piece)].tolist()
                doubtful[piece] = set(carriers).isdisjoint(evidence)
    return doubtful


def _above(
    at: ScoredAt, missed: Pieces, taken: Taken, versions: Versions
) -> list[tuple[Above, ...]]:
    """The first ABOVE of the k places of each piece."""
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
