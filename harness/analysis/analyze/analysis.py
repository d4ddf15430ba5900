"""What an analysis says: plain records, for tables, pages and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from harness.analysis.analyze.causes import Cause, Place
from harness.analysis.analyze.errata import BothKeys, Results
from harness.records.scores import ScoredDataset

ABOVE = 10
"""How many of the places above a missed piece are kept."""


class Relation(StrEnum):
    """What a returned document is to a piece that was missed; the first that is true."""

    NEWER = "newer version"
    OLDER = "older version"
    EVIDENCE = "other evidence"
    SESSION = "same session"
    SPEAKER = "another speaker"
    UNKNOWN = "no known document"
    OTHER = "other"


def bands(k: int, depth: int) -> list[tuple[int, int]]:
    """Ranks that are told together, first and last: those below k, to twice k, and so on."""
    edges = sorted({edge for edge in (k, 2 * k, 5 * k, 10 * k) if edge < depth} | {depth})
    return [(low + 1, high) for low, high in pairwise(edges)]


@dataclass(frozen=True)
class Above:
    """What stands in one of the k places.

    `row` is the document's row, -1 where no document is known; then `document` is empty.
    """

    rank: int
    row: int
    document: str
    relation: Relation


@dataclass(frozen=True)
class MissedPiece:
    """One piece of evidence that is not in the top k.

    `documents` are the ids that carry it, `row` the row of the one that was returned highest (-1:
    the dataset lacks it) and `rank` its rank, if it was. `shared` are the words of the query that
    it has, `similarity` the cosine with the query where it was asked for. `beside`: a document next
    to it in its session is in the top k; `session`: any document of its session is.
    """

    query: str
    documents: tuple[str, ...]
    row: int
    cause: Cause
    place: Place
    rank: int | None
    shared: tuple[str, ...]
    similarity: float | None
    beside: bool
    session: bool
    above: tuple[Above, ...]


@dataclass(frozen=True)
class QueryMisses:
    """A query that missed evidence: how many `pieces` it has, and those it missed."""

    query: str
    row: int
    ability: str
    category: str
    pieces: int
    recall: float
    missed: tuple[MissedPiece, ...]

    @property
    def causes(self) -> dict[Cause, int]:
        """How many pieces it missed for each cause, most first."""
        return dict(Counter(piece.cause for piece in self.missed).most_common())


@dataclass(frozen=True)
class Analysis:
    """Why a run missed what it missed at k.

    `queries` are those that missed something: most missed pieces first, of equal many the lowest
    recall. `scored` is the number of queries with evidence that count, `excluded` those that do
    not, by reason. `pieces` counts all pieces of evidence by ability. `results` are recall@k and
    hit@k by slice and metric, as `harness score` gives them; `errata` both answer keys' numbers.
    `depth` is how many documents a ranking could hold, `depth_message` says how many were returned.
    `similarity` is the cosine below which it is low; None: not looked at.
    """

    run: str
    system: str
    dataset: ScoredDataset
    k: int
    depth: int
    depth_message: str
    scored: int
    excluded: dict[str, int]
    pieces: dict[str, int]
    results: dict[str, Results]
    queries: tuple[QueryMisses, ...]
    similarity: float | None = None
    errata: BothKeys | None = None

    @property
    def missed(self) -> list[MissedPiece]:
        """Every missed piece, in the order of `queries`."""
        return [piece for query in self.queries for piece in query.missed]

    @property
    def causes(self) -> dict[str, dict[Cause, int]]:
        """Missed pieces by ability and cause."""
        found: dict[str, Counter[Cause]] = {ability: Counter() for ability in self.pieces}
        for query in self.queries:
            found[query.ability].update(piece.cause for piece in query.missed)
        return {ability: dict(counts) for ability, counts in found.items()}

    @property
    def places(self) -> dict[Cause, dict[Place, int]]:
        """Missed pieces by cause and place."""
        found: dict[Cause, Counter[Place]] = {}
        for piece in self.missed:
            found.setdefault(piece.cause, Counter())[piece.place] += 1
        return {cause: dict(found[cause]) for cause in Cause if cause in found}

    def ranks(self, low: int, high: int) -> int:
        """How many missed pieces were returned at ranks from `low` to `high`."""
        return sum(low <= piece.rank <= high for piece in self.missed if piece.rank is not None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; there is no text of the dataset in it but shared words."""
        found = asdict(self)
        found["missed"] = len(self.missed)
        found["causes"] = _plain(self.causes.items())
        found["places"] = _plain(self.places.items())
        for query, record in zip(self.queries, found["queries"], strict=True):
            record["causes"] = {str(cause): n for cause, n in query.causes.items()}
        return found


def _plain(counts: Iterable[tuple[Any, dict[Any, int]]]) -> dict[str, dict[str, int]]:
    return {str(name): {str(of): n for of, n in mine.items()} for name, mine in counts}
