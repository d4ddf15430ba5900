"""Causes of missed evidence, by rules.

A piece of evidence of a scored query is missed when none of its documents stands in the top k.
It gets one cause: the first rule, from the top, that is true of it. First what is no fault of the
ranking, then what its words say, then what took the k places instead of it.

| cause                         | rule                                                            |
|-------------------------------|-----------------------------------------------------------------|
| label doubtful                | the errata name its query, and do not say that it is evidence   |
| not ingested                  | the haystack of its query does not hold it                      |
| cut by a tie                  | it was returned below k, with the score of a document inside k  |
| hidden in a text              | half or more of the places hold texts of the system's own that  |
|                               | no document was found for: it may be in one of them             |
| no word shared                | no word of the query is in it                                   |
| not returned                  | it shares a word, and was not returned although the ranking had |
|                               | room for more                                                   |
| only names shared             | the only words that it shares are names of its haystack's       |
|                               | speakers                                                        |
| outranked by a newer version  | knowledge update: evidence of a later date stands in the top k  |
| outranked by an older version | knowledge update: evidence of an earlier date stands there, and |
|                               | none of a later one                                             |
| outranked by its session      | two places or more are its own session's, and no other session  |
|                               | has more of them                                                |
| outranked by another speaker  | other speakers have more than half of the places; and they have |
|                               | all, or the query names another speaker and not its own         |
| low similarity                | the cosine of MiniLM's vectors of the query and of it is below  |
|                               | 0.3 (looked at only where asked for)                            |
| outranked by more words       | more than half of the places share more words of the query than |
|                               | it does                                                         |
| outranked by others           | none of these                                                   |

The places are those of the first k that hold something. Words are the `bm25` retriever's: two or
more letters or digits, lower case, stemmed, without stop words. A piece that several documents
carry is there, or shares a word, where any of them does; the other rules look at the one that was
returned highest. MiniLM reads a text's first 256 word pieces.

Apart from its cause, each piece has a place: `below k` (it was returned, and its rank is known),
`beyond the depth` (it was not, and the ranking was full), `not returned` (it was not, and the
ranking had room), `not ingested`.
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
"""Of LoCoMo's pairs of question and evidence 5% are below it; of random pairs 45%."""


class Cause(StrEnum):
    """Why a piece of evidence is not in the top k; in the order of the rules."""

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
    """Where a missed piece of evidence stood."""

    BELOW = "below k"
    BEYOND = "beyond the depth"
    NOT_RETURNED = "not returned"
    NOT_INGESTED = "not ingested"


def rules() -> dict[Cause, str]:
    """The rule of each cause in words, from the table at the head of this file."""
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
    """The first cause of each piece whose rule is true of it; arrays of shape (pieces,)."""
    rules = [cause for cause in Cause if cause is not Cause.OTHERS]
    first = np.select(
        [true[cause] for cause in rules], [*range(len(rules))], default=len(rules)
    ).tolist()
    order = [*rules, Cause.OTHERS]
    return [order[at] for at in first]


# -- What an analysis says: plain records, for tables, pages and JSON ------------------------------


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
