"""What is asked of the matching, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError


class Way(StrEnum):
    """How the documents of a text of a system's own were found, the surest first."""

    SOURCES = "sources"
    """The system named them."""
    EXACT = "exact"
    """Letter for letter, in one direction or the other, prefixes taken off."""
    ESCAPED = "json-escaped"
    """Letter for letter once JSON's escapes are resolved on one of the two sides."""
    NORMALISED = "normalised"
    """Word for word, whatever the case, the marks and the spaces; or a long quote."""
    F1 = "token-f1"
    """Enough of their words are the same."""
    SEMANTIC = "semantic"
    """Their vectors are close enough."""
    NONE = "none"
    """Not found, so not measurable."""


@dataclass(frozen=True, slots=True)
class Matching:
    """How a text is matched with documents: the user's setting.

    `f1` is the least token F1 (above 0, at most 1), `semantic` the least cosine similarity (-1 to
    1), None for no such way. Raises UsageError for other values.
    """

    f1: float = 0.3
    semantic: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.f1 <= 1:
            raise UsageError(
                f"the least token F1 of a match is above 0 and at most 1, not {self.f1}"
            )
        if self.semantic is not None and not -1 <= self.semantic <= 1:
            raise UsageError(
                f"the least semantic similarity of a match is between -1 and 1, not {self.semantic}"
            )


@dataclass(frozen=True, slots=True)
class Match:
    """The documents of one text: positions in the haystack, in the order of their worth.

    A text that spans several documents has them in the order in which it does. `f1` is the best
    token F1 with any document, whichever way was taken.
    """

    positions: npt.NDArray[np.int64]
    way: Way
    f1: float
