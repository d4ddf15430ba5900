"""Parses and validates the results of retrievers; contract.py lists their forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.retrievers.contract import Found, Hit, Result
from harness.retrievers.corpus import is_handle

Scores = Sequence[float] | npt.NDArray[np.floating[Any]] | None
"""Scores of documents, best first, or None."""

_LARGEST = np.finfo(np.float64).max
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotAnAnswerError(TypeError):
    """Raised if the return value of `search` has no accepted form; the message explains them."""


class WrongNumberError(ValueError):
    """Raised if the number of results is not that of the questions."""


def as_answers(found: Sequence[Found], n: int) -> Sequence[Found]:
    """Checks that `search` returned one answer for each of n questions.

    Raises NotAnAnswerError for values without a length, WrongNumberError for another length.
    """
    if not hasattr(found, "__len__"):
        raise NotAnAnswerError(
            f"search returned {_kind(found)}; it must return a list with one result per query, "
            "each a list of ids, of (id, score) pairs or of hits, or a Result"
        )
    if len(found) != n:
        raise WrongNumberError(
            f"search got {n} {'query' if n == 1 else 'queries'} and returned {len(found)} results; "
            "it must return one result per query: [[id, ...] for query in queries]"
        )
    return found


def as_result(found: Found) -> Result:
    """Converts the answer to one question to a Result, without its `padding`.

    Raises NotAnAnswerError for other values, TypeError for a mix of hits and ids. If the answer is
    an exception, raises it.
    """
    if isinstance(found, Exception):
        raise found
    if isinstance(found, Result):
        _check_abstain(found)
        return _without_padding(found) if count_padding(found) else found
    if isinstance(found, np.ndarray) and found.ndim == 1:
        return as_result(Result(found))
    if found is None or isinstance(found, str | bytes) or not hasattr(found, "__iter__"):
        raise NotAnAnswerError(
            f"search returned {_kind(found)} for a query; it must return a list of ids, of "
            "(id, score) pairs or of hits, or a Result"
        )
    given: Any = found
    if isinstance(given, Mapping):
        # mem0 gives {"results": [...]}.
        if not isinstance(given.get("results"), list):
            pairs = as_result([*given.items()])
            return replace(pairs, ranked_by="score")  # a dict has no order
        given = given["results"]
    items = list(given)
    # Fast path: most answers are thousands of ids.
    plain = items and isinstance(items[0], str | int | np.integer)
    hits = [item if isinstance(item, Hit) else None for item in items]
    if not plain:
        hits = [_as_hit(item) for item in items]
    if items and all(hit is not None for hit in hits):
        return Result(hits=[hit for hit in hits if hit is not None])
    if any(hit is not None for hit in hits):
        raise TypeError("an answer is all hits or all ids, not some of each")
    if items and all(isinstance(item, tuple | list) and len(item) == 2 for item in items):
        if any(score is None for _, score in items):
            raise NotAnAnswerError(
                "search returned a pair without a score, (id, None): give numbers, or ids only"
            )
        if isinstance(items[0][0], float) or isinstance(items[0][1], str):
            raise NotAnAnswerError(
                f"search returned the pair {tuple(items[0])!r}; a pair is (id, score), not "
                "(score, id)"
            )
        return Result([item[0] for item in items], [float(item[1]) for item in items])
    return Result(items)


def _check_abstain(found: Result) -> None:
    """Raises NotAnAnswerError for an `abstain` that is not a bool: "no" would be true."""
    if not isinstance(found.abstain, bool | np.bool_):
        raise NotAnAnswerError(
            f"search returned a Result with abstain={found.abstain!r}; it must be True or False"
        )


def count_padding(found: Found) -> int:
    """Counts the -1 in an array of positions, with which faiss and hnswlib pad results."""
    ids = found.ids if isinstance(found, Result) else found
    if not isinstance(ids, np.ndarray) or not np.issubdtype(ids.dtype, np.integer):
        return 0
    return int((ids == -1).sum())


def _without_padding(found: Result) -> Result:
    kept = np.asarray(found.ids) != -1
    scores = None if found.scores is None else np.asarray(found.scores)
    if scores is not None and scores.shape == kept.shape:
        scores = scores[kept]
    return replace(found, ids=np.asarray(found.ids)[kept], scores=scores)


_TEXTS, _SOURCES = ("text", "memory", "content", "page_content"), ("sources", "source", "handle")
"""Keys of a text and of its sources in hits of other systems; sources also in metadata."""


def _as_hit(item: Any) -> Hit | None:
    """Converts a hit of any accepted form; returns None for other values.

    Accepts Hit, a dict with a text, LangChain's Document, (Document, score) and LlamaIndex's
    NodeWithScore. Sources are the fields `sources`, `source` and `handle` of the item or its
    metadata, and an `id` or `doc_id` that is a handle.
    """
    if isinstance(item, Hit):
        return item
    if isinstance(item, tuple) and len(item) == 2 and hasattr(item[0], "page_content"):
        document, score = item
        return _hit(document.page_content, [vars(document), document.metadata], score)
    if hasattr(item, "page_content"):
        return _hit(item.page_content, [vars(item), item.metadata], None)
    if hasattr(item, "node") and hasattr(item, "score"):
        return _hit(item.node.get_content(), [item.node.metadata], item.score)
    if not isinstance(item, Mapping):
        return None
    texts = [item[name] for name in _TEXTS if isinstance(item.get(name), str)]
    hit = _hit(texts[0] if texts else "", [item, item.get("metadata")], item.get("score"))
    return hit if texts or len(hit.sources) else None


def _hit(text: str, about: Sequence[Any], score: Any) -> Hit:
    sources: list[Any] = []
    for said in about:
        if not isinstance(said, Mapping):
            continue
        for name in _SOURCES:
            given = said.get(name)
            if name == "source" and not is_handle(given):
                continue  # in frameworks: a file name or page number
            if isinstance(given, Iterable) and not isinstance(given, str | bytes):
                sources += list(given)
            else:
                sources.append(given)
        sources += [said.get(name) for name in ("id", "doc_id") if is_handle(said.get(name))]
    kinds = (str, int, np.integer)
    known: list[Any] = [
        one for one in sources if isinstance(one, kinds) and not isinstance(one, bool)
    ]
    return Hit(text, [*dict.fromkeys(known)], None if score is None else float(score))


def _kind(found: object) -> str:
    return "None" if found is None else type(found).__name__


def documents_of(hits: Sequence[Hit]) -> tuple[list[str | int], list[float] | None]:
    """Returns the source documents of hits, in their order, and the score of each one's hit.

    Scores are None if a hit has none. Sources that are not handles are skipped, as in a run.
    Raises NotAnAnswerError for a hit without a document.
    """
    named = [
        (hit, [s for s in hit.sources if not isinstance(s, str) or is_handle(s)]) for hit in hits
    ]
    for hit, documents in named:
        if not documents:
            raise NotAnAnswerError(
                f"a hit names no document that it was made from: {hit.text[:60]!r}; inside another "
                "retriever only documents can be ranked: return Hit(text, sources=[handle, ...])"
            )
    sources = [(source, hit.score) for hit, documents in named for source in documents]
    scores = [score for _, score in sources if score is not None]
    return [source for source, _ in sources], scores if len(scores) == len(sources) else None


def in_range(ids: Iterable[Any], n: int, place: Callable[[Any], int]) -> npt.NDArray[np.int64]:
    """Returns the positions of ids: integer arrays are positions, else `place` maps each id.

    Raises ValueError for positions outside a haystack of n documents, and NotAnAnswerError for
    booleans, since True would be position 1.
    """
    if isinstance(ids, np.ndarray) and np.issubdtype(ids.dtype, np.integer):
        found = ids.astype(np.int64, copy=False)
    else:
        given = list(ids)  # once: it may be a generator
        kinds = set(map(type, given))
        if wrong := [k for k in kinds if not (issubclass(k, str) or hasattr(k, "__index__"))]:
            raise NotAnAnswerError(
                f"search returned {wrong[0].__name__} instead of ids; return document.id, a "
                "position in the corpus, or Hit(text=...) for a text"
            )
        if not {bool, np.bool_}.isdisjoint(kinds):
            raise NotAnAnswerError(
                "search returned True or False instead of ids; if they are a mask over the "
                "corpus, return the positions: np.flatnonzero(mask)"
            )
        found = np.fromiter(map(place, given), np.int64)
    bad = (found < 0) | (found >= n)
    if bad.any():
        raise ValueError(f"position {found[bad][0]} is not in a haystack of {n} documents")
    return found


def check_ranked_by(retriever: object) -> None:
    """Raises UsageError for a `ranked_by` of a retriever that is neither `order` nor `score`."""
    if (by := getattr(retriever, "ranked_by", "")) not in ("", "order", "score"):
        raise UsageError(f"ranked_by of a retriever must be 'order' or 'score', not {by!r}")


def ranked_result(found: Found, retriever: object) -> Result:
    """Converts the answer to one question to a Result with its own `ranked_by`, else that of the
    retriever. Raises as `as_result` does, and NotAnAnswerError for an invalid `ranked_by`."""
    result = as_result(found)
    if result.ranked_by not in ("", "order", "score"):
        raise NotAnAnswerError(f"ranked_by must be 'order' or 'score', not {result.ranked_by!r}")
    return replace(result, ranked_by=result.ranked_by or getattr(retriever, "ranked_by", ""))


def _order_of(scores: npt.NDArray[np.float64], by: str) -> npt.NDArray[np.intp] | None:
    """Returns the order by descending score; None if scores descend already. Raises
    NotAnAnswerError if scores contradict the order by more than rounding, unless `by` is score."""
    lowest = np.minimum.accumulate(scores)
    if (scores == lowest).all():
        return None
    with np.errstate(over="ignore"):
        largest = np.maximum(np.abs(scores), np.abs(lowest))
        beyond = scores - lowest > 1e-6 * np.maximum(largest, np.median(np.abs(scores)))
    if by != "score" and beyond.any():
        first = np.argmax(beyond)
        raise NotAnAnswerError(
            f"the order of a result contradicts its scores: {float(lowest[first])!r} is above "
            f"{float(scores[first])!r}; are these distances? return ids only, or scores of which "
            "higher is better, or declare which one counts by ranked_by = 'order' or 'score'"
        )
    return np.argsort(-scores, kind="stable")


def in_order(
    positions: npt.NDArray[np.int64], scores: npt.NDArray[np.float64] | None, by: str = ""
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None, int]:
    """Returns positions and scores, best first, and the number of repeated documents; the best
    one is kept. `by`: see `Result.ranked_by`; with `order`, scores are dropped. Raises
    NotAnAnswerError for scores that contradict the order."""
    scores = None if by == "order" else scores
    order = None if scores is None else _order_of(scores, by)
    if order is not None and scores is not None:
        positions, scores = positions[order], scores[order]
    repeated = 0
    if (np.diff(np.sort(positions)) == 0).any():
        _, first = np.unique(positions, return_index=True)
        repeated = len(positions) - len(first)
        keep = np.sort(first)
        positions, scores = positions[keep], None if scores is None else scores[keep]
    return positions, scores, repeated


def scores_of(given: Scores, n: int) -> npt.NDArray[np.float64] | None:
    """Returns n scores, clipped to finite numbers. Raises ValueError for NaN and other shapes."""
    if given is None:
        return None
    scores = np.asarray(given, np.float64)
    if scores.shape != (n,):
        raise ValueError(f"{n} ids, but scores of shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    # The checkpoint is JSON, which has no infinity; clipping keeps the order.
    return np.clip(scores, -_LARGEST, _LARGEST)


def hits_in_order(hits: Sequence[Hit], by: str = "") -> list[Hit]:
    """Returns hits, best first; see `in_order`."""
    if by == "order":
        return [replace(hit, score=None) for hit in hits]
    scores = [float(hit.score) for hit in hits if hit.score is not None]
    known = scores_of(scores, len(hits)) if len(scores) == len(hits) else None
    order = None if known is None else _order_of(known, by)
    return [*hits] if order is None else [hits[i] for i in order]


def own_answer(result: Result) -> str | None:
    """Returns the system's own answer. Raises TypeError if it is not text."""
    if result.answer is not None and not isinstance(result.answer, str):
        raise TypeError(f"the answer must be a text, not {type(result.answer).__name__}")
    return None if result.answer is None else valid_text(result.answer)


def confidence_of(result: Result) -> float | None:
    """Returns the confidence. Raises ValueError if it is not finite."""
    if result.confidence is None:
        return None
    confidence = float(result.confidence)
    if not np.isfinite(confidence):
        raise ValueError(f"the confidence is {confidence}")
    return confidence


def valid_text(text: str) -> str:
    """Replaces lone surrogates, which cannot be written to a file, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def top_k(
    scores: npt.NDArray[np.floating[Any]], k: int, above: float = -np.inf
) -> npt.NDArray[np.int64]:
    """Returns the positions of the k best scores greater than `above`, best first.

    `scores` has shape (n,). Ties are resolved by position, so that the result does not depend on
    how the search was divided into blocks.
    """
    n = len(scores)
    wanted = scores > above
    if k < n // 4:
        threshold = np.partition(scores, n - k)[n - k]
        if threshold > above:
            wanted = scores >= threshold
    candidates = np.flatnonzero(wanted)
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
