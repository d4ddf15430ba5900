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

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

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
