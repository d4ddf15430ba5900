"""Causes of missed evidence, by rules.

An evidence item of a scored query is missed if none of its documents is in the top k. Its cause is
the first rule that applies: first errors outside the ranking, then shared words, then the documents
in the k positions above it.

| cause                         | rule                                                            |
|-------------------------------|-----------------------------------------------------------------|
| label doubtful                | the errata name its query, and do not confirm it as evidence    |
| not ingested                  | the haystack of its query does not contain it                   |
| cut by a tie                  | it was returned below k, with the score of a document inside k  |
| hidden in a text              | half or more of the positions are the system's own texts        |
|                               | without a document: it may be in one of them                    |
| no word shared                | no word of the query is in it                                   |
| not returned                  | it shares a word, and was not returned although the ranking had |
|                               | room for more                                                   |
| only names shared             | it shares only names of its haystack's speakers                 |
| outranked by a newer version  | knowledge update: evidence of a later date is in the top k      |
| outranked by an older version | knowledge update: evidence of an earlier date is in the top k,  |
|                               | and none of a later one                                         |
| outranked by its session      | two positions or more are its own session's, and no other       |
|                               | session has more of them                                        |
| outranked by another speaker  | other speakers have more than half of the positions; and they   |
|                               | have all, or the query names another speaker and not its own    |
| low similarity                | the cosine of MiniLM's vectors of the query and of it is below  |
|                               | 0.3 (only if requested)                                         |
| outranked by more words       | more than half of the positions share more words of the query   |
|                               | than it does                                                    |
| outranked by others           | none of these                                                   |

Positions are the non-empty ones of the first k. Words are the `bm25` retriever's: two or
more letters or digits, lower case, stemmed, without stop words. An item in several documents is
ingested, or shares a word, if any of them is or does; the other rules use the one that was returned
highest. MiniLM reads the first 256 word pieces of a text.

Each missed item also has a place: `below k` (returned at a known rank), `beyond the depth` (the
ranking was full), `not returned` (the ranking had room), `not ingested`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.analyze.errata import BothKeys, Results
from harness.records.scores import ScoredDataset

Flags = npt.NDArray[np.bool_]

LOW_SIMILARITY = 0.3
"""5% of LoCoMo's pairs of question and evidence are below it, and 45% of random pairs."""


class Cause(StrEnum):
    """Cause of missing the top k, in the order of the rules."""

    LABEL = "label doubtful"
    NOT_INGESTED = "not ingested"
    TIE = "cut by a tie"
    HIDDEN = "hidden in a text"
    NO_WORD = "no word shared"
    NOT_RETURNED = "not returned"
    NAMES = "only names shared"
    NEWER = "outranked by a newer version"
    OLDER = "outranked by an older version"
    SESSION = "outranked by its session"
    SPEAKER = "outranked by another speaker"
    DISSIMILAR = "low similarity"
    MORE_WORDS = "outranked by more words"
    OTHERS = "outranked by others"


class Place(StrEnum):
    """Place of a missed evidence item."""

    BELOW = "below k"
    BEYOND = "beyond the depth"
    NOT_RETURNED = "not returned"
    NOT_INGESTED = "not ingested"


def rules() -> dict[Cause, str]:
    """The rule of each cause, from the table in the module docstring."""
    found: dict[Cause, str] = {}
    cause = ""
    for line in (__doc__ or "").splitlines():
        if line.startswith("| ") and line.count("|") == 3:
            _, name, words, _ = (part.strip() for part in line.split("|"))
            cause = name or cause
            if cause in set(Cause):
                found[Cause(cause)] = f"{found.get(Cause(cause), '')} {words}".strip()
    return found


def decide(true: Mapping[Cause, Flags]) -> list[Cause]:
    """The first cause of each item with a rule that applies; arrays of shape (pieces,)."""
    rules = [cause for cause in Cause if cause is not Cause.OTHERS]
    first = np.select(
        [true[cause] for cause in rules], [*range(len(rules))], default=len(rules)
    ).tolist()
    order = [*rules, Cause.OTHERS]
    return [order[at] for at in first]


# -- Records of an analysis, for tables, pages and JSON --------------------------------------------


ABOVE = 10
"""Number of recorded positions above a missed item."""


class Relation(StrEnum):
    """Relation of a returned document to a missed item; the first that applies."""

    NEWER = "newer version"
    OLDER = "older version"
    EVIDENCE = "other evidence"
    SESSION = "same session"
    SPEAKER = "another speaker"
    UNKNOWN = "no known document"
    OTHER = "other"


def bands(k: int, depth: int) -> list[tuple[int, int]]:
    """Bins of ranks, as (first, last): from below k to twice k, and so on."""
    edges = sorted({edge for edge in (k, 2 * k, 5 * k, 10 * k) if edge < depth} | {depth})
    return [(low + 1, high) for low, high in pairwise(edges)]


@dataclass(frozen=True)
class Above:
    """The document at one of the first k ranks.

    `row` is its row, or -1 if no document is known; then `document` is empty.
    """

    rank: int
    row: int
    document: str
    relation: Relation


@dataclass(frozen=True)
class MissedPiece:
    """One evidence item that is not in the top k.

    `documents` are the ids that contain it, `row` the row of the one that was returned highest (-1:
    not in the dataset) and `rank` its rank, if any. `shared` are the words of the query that it
    contains, `similarity` the cosine with the query if computed. `beside`: a neighbour in its
    session is in the top k; `session`: any document of its session is.
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
    """A query that missed evidence: the number of its `pieces`, and the missed ones."""

    query: str
    row: int
    ability: str
    category: str
    pieces: int
    recall: float
    missed: tuple[MissedPiece, ...]

    @property
    def causes(self) -> dict[Cause, int]:
        """Number of missed items by cause, largest first."""
        return dict(Counter(piece.cause for piece in self.missed).most_common())


@dataclass(frozen=True)
class Analysis:
    """The causes of a run's missed evidence at k.

    `queries` are those with missed evidence: most missed items first, then lowest recall. `scored`
    is the number of scored queries, `excluded` the number of others by reason. `pieces` counts all
    evidence items by ability. `results` are recall@k and hit@k by slice and metric, as from
    `harness score`; `errata` the numbers by both qrels. `depth` is the requested depth,
    `depth_message` describes the returned one. `similarity` is the threshold of the cosine; None if
    it was not computed.
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
        """All missed items, in the order of `queries`."""
        return [piece for query in self.queries for piece in query.missed]

    @property
    def causes(self) -> dict[str, dict[Cause, int]]:
        """Missed items by ability and cause."""
        found: dict[str, Counter[Cause]] = {ability: Counter() for ability in self.pieces}
        for query in self.queries:
            found[query.ability].update(piece.cause for piece in query.missed)
        return {ability: dict(counts) for ability, counts in found.items()}

    @property
    def places(self) -> dict[Cause, dict[Place, int]]:
        """Missed items by cause and place."""
        found: dict[Cause, Counter[Place]] = {}
        for piece in self.missed:
            found.setdefault(piece.cause, Counter())[piece.place] += 1
        return {cause: dict(found[cause]) for cause in Cause if cause in found}

    def ranks(self, low: int, high: int) -> int:
        """Number of missed items that were returned at ranks from `low` to `high`."""
        return sum(low <= piece.rank <= high for piece in self.missed if piece.rank is not None)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON, without texts of the dataset except shared words."""
        found = asdict(self)
        found["missed"] = len(self.missed)
        found["causes"] = _plain(self.causes.items())
        found["places"] = _plain(self.places.items())
        for query, record in zip(self.queries, found["queries"], strict=True):
            record["causes"] = {str(cause): n for cause, n in query.causes.items()}
        return found


def _plain(counts: Iterable[tuple[Any, dict[Any, int]]]) -> dict[str, dict[str, int]]:
    return {str(name): {str(of): n for of, n in mine.items()} for name, mine in counts}
