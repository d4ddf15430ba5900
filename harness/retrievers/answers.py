"""How the answers of a retriever are read; contract.py says in which forms they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.retrievers.contract import Found, Hit, Result

Scores = Sequence[float] | npt.NDArray[np.floating[Any]] | None
"""Of documents, best first; None where there are none."""

_LARGEST = np.finfo(np.float64).max


class NotAnAnswerError(TypeError):
    """What `search` returned is no answer at all: the message says what is needed."""


class WrongNumberError(ValueError):
    """There are more or fewer results than questions."""


def as_answers(found: Sequence[Found], n: int) -> Sequence[Found]:
    """What `search` returned for n questions, one answer each.

    Raises NotAnAnswerError for what is no list, WrongNumberError for one of another length.
    """
    if not hasattr(found, "__len__"):
        raise NotAnAnswerError(
            f"search returned {_kind(found)}; it must return a list with one answer a question, "
            "each a list of ids, of (id, score) pairs or of hits, or a Result"
        )
    if len(found) != n:
        raise WrongNumberError(f"{n} questions, but {len(found)} results")
    return found


def as_result(found: Found) -> Result:
    """What `search` returned for one question, as a Result. Raises TypeError for anything else."""
    if isinstance(found, Result):
        return found
    if found is None or isinstance(found, str | bytes) or not hasattr(found, "__iter__"):
        raise NotAnAnswerError(
            f"search returned {_kind(found)} for a question; it must return a list of ids, of "
            "(id, score) pairs or of hits, or a Result"
        )
    items: list[Any] = list(found.items() if isinstance(found, Mapping) else found)
    if items and all(isinstance(item, tuple | list) and len(item) == 2 for item in items):
        return Result([item[0] for item in items], [float(item[1]) for item in items])
    if items and all(isinstance(item, Hit) for item in items):
        return Result(hits=items)
    if any(isinstance(item, Hit) for item in items):
        raise TypeError("an answer is all hits or all ids, not some of each")
    return Result(items)


def _kind(found: object) -> str:
    return "None" if found is None else type(found).__name__


def documents_of(hits: Sequence[Hit]) -> tuple[list[str | int], list[float] | None]:
    """The documents that hits were made from, in their order, and the score of the hit of each.

    Without scores where a hit has none. Raises NotAnAnswerError for a hit without sources.
    """
    for hit in hits:
        if not len(hit.sources):
            raise NotAnAnswerError(
                f"a hit names no document that it was made from: {hit.text[:60]!r}; inside another "
                "retriever only documents can be ranked: return Hit(text, sources=[handle, ...])"
            )
    sources = [(source, hit.score) for hit in hits for source in hit.sources]
    scores = [score for _, score in sources if score is not None]
    return [source for source, _ in sources], scores if len(scores) == len(sources) else None


def within(ids: Iterable[Any], n: int, place: Callable[[Any], int]) -> npt.NDArray[np.int64]:
    """Positions: an array of whole numbers as it is, of anything else the `place` of each.

    Raises ValueError for one that is not in a haystack of n documents.
    """
    if isinstance(ids, np.ndarray) and np.issubdtype(ids.dtype, np.integer):
        found = ids.astype(np.int64, copy=False)
    else:
        found = np.fromiter(map(place, ids), np.int64)
    bad = (found < 0) | (found >= n)
    if bad.any():
        raise ValueError(f"position {found[bad][0]} is not in a haystack of {n} documents")
    return found


def in_order(
    positions: npt.NDArray[np.int64], scores: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None, bool, int]:
    """Positions and scores, sorted by these where they rise, each document once, where it is best.

    With them: whether scores rose, and how many documents stood there again.
    """
    rose = scores is not None and len(scores) > 1 and bool((scores[1:] > scores[:-1]).any())
    if rose and scores is not None:
        order = np.argsort(-scores, kind="stable")
        positions, scores = positions[order], scores[order]
    repeated = 0
    if (np.diff(np.sort(positions)) == 0).any():
        _, first = np.unique(positions, return_index=True)
        repeated = len(positions) - len(first)
        keep = np.sort(first)
        positions, scores = positions[keep], None if scores is None else scores[keep]
    return positions, scores, rose, repeated


def scores_of(given: Scores, n: int) -> npt.NDArray[np.float64] | None:
    """The scores of n documents as finite numbers. Raises ValueError for NaN and another length."""
    if given is None:
        return None
    scores = np.asarray(given, np.float64)
    if scores.shape != (n,):
        raise ValueError(f"{n} ids, but scores of shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    # The journal is JSON, which has no infinity; the order stays.
    return np.clip(scores, -_LARGEST, _LARGEST)
