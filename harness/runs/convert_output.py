"""Converts the output of a retriever for a query to the result that a run records."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.io.masking import redact_texts
from harness.io.plugins import FAILURES
from harness.retrievers.contract import Hit, Result
from harness.retrievers.outputs import (
    NotAnAnswerError,
    confidence_of,
    count_padding,
    hits_in_order,
    in_order,
    own_answer,
    ranked_result,
    scores_of,
    valid_text,
)
from harness.runs.results import QueryResult, ResultHit
from harness.runs.worker_state import WorkerState, name_of, trace


def to_query_result(
    state: WorkerState, query: int, found: Any, seconds: float, k: int, exclude_self: bool
) -> QueryResult:
    """Converts the output for a query to at most k document rows or texts, or to an error.

    `exclude_self` removes the document that has the query's own id.
    """
    own = int(state.dataset.rows_with_query_id[query]) if exclude_self else None
    if own is None or own < 0:
        plain = _plain_ranking(state, found, k + exclude_self)
        if plain is not None:
            rows, scores = plain
            scores = None if scores is None else scores[:k]
            return QueryResult(query, rows[:k], scores, seconds=seconds)
    answer = QueryResult(query, seconds=seconds)
    try:
        result = ranked_result(found, state.retriever)
        if result.hits is None:
            _put_documents(state, answer, result, k, own)
            answer.padding = count_padding(found)
        else:
            _put_hits(state, answer, result, k, own)
        answer.abstained = bool(result.abstain)
        answer.answer = own_answer(result)
        _mask(state, answer)
        answer.confidence = confidence_of(result)
    except NotAnAnswerError as error:
        said = f"{name_of(state.retriever)}: {error}"
        return QueryResult(query, error=said, seconds=seconds)
    except FAILURES:  # reading it may run the retriever's code, as of a generator
        return QueryResult(query, error=trace(), seconds=seconds)
    return answer


def _plain_ranking(
    state: WorkerState, found: Any, k: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64] | None] | None:
    """Converts the usual forms of a ranking in less time than `_put_documents`, to the same values.

    The forms: a list of handles or positions, or of their pairs with descending scores, and an
    array of positions. None for other output, and whatever needs a correction or a message.
    """
    retriever, scores = state.retriever, None
    if type(found) is np.ndarray and found.ndim == 1 and found.dtype.kind == "i":
        found = found.tolist()
    if type(found) is not list or not 0 < len(found) <= k or _returns_dataset_ids(state):
        return None
    if {*map(type, found)} == {tuple}:
        if {*map(len, found)} != {2}:
            return None
        found, given = map(list, zip(*found, strict=True))
        if {*map(type, given)} != {float} or getattr(retriever, "ranked_by", "") != "":
            return None
        if not isfinite(sum(given)) or sorted(given, reverse=True) != given:
            return None
        scores = np.array(given)
    positions = state.blinded.distinct_positions(found)
    return None if positions is None else (state.blinded.rows[positions], scores)


def _returns_dataset_ids(state: WorkerState) -> bool:
    return bool(getattr(state.retriever, "returns_dataset_ids", False))


def _put_documents(
    state: WorkerState, answer: QueryResult, result: Result, k: int, own: int | None
) -> None:
    positions = state.blinded.positions(result.ids, returns_dataset_ids=_returns_dataset_ids(state))
    scores = scores_of(result.scores, len(positions))
    positions, scores, answer.duplicates = in_order(positions, scores, result.ranked_by)
    answer.beyond_k = max(0, len(positions) - (k if own is None else k + 1))
    rows = state.blinded.rows[positions]
    if own is not None:
        other = rows != own
        rows, scores = rows[other], None if scores is None else scores[other]
    answer.rows = np.ascontiguousarray(rows[:k], np.int32)
    answer.scores = None if scores is None else np.ascontiguousarray(scores[:k], np.float64)


def _put_hits(
    state: WorkerState, answer: QueryResult, result: Result, k: int, own: int | None
) -> None:
    """Adds returned texts; they are resolved to documents after the run."""
    hits = hits_in_order(result.hits or (), result.ranked_by)
    answer.beyond_k = max(0, len(hits) - k)
    answer.hits = [_hit(state, hit, own) for hit in hits[:k]]


def _mask(state: WorkerState, answer: QueryResult) -> None:
    """Masks secrets in returned texts, unless the dataset contains them."""
    hits = answer.hits or []
    texts = [*(hit.text for hit in hits), answer.answer or ""]
    if any(texts):
        *shown, own = redact_texts(
            texts, lambda: [state.dataset.query(answer.query).text, *state.blinded.corpus.contents]
        )
        for hit, text in zip(hits, shown, strict=True):
            hit.text = text
        answer.answer = None if answer.answer is None else own


def _hit(state: WorkerState, hit: Hit, own: int | None) -> ResultHit:
    """Converts a hit: its sources to rows of the document table, without the query's own."""
    ids = _returns_dataset_ids(state)
    positions, sessions, unknown = state.blinded.known(hit.sources, returns_dataset_ids=ids)
    rows = [row for row in state.blinded.rows[positions].tolist() if row != own]
    if not isinstance(hit.text, str):
        raise TypeError(f"the text of a hit must be a text, not {type(hit.text).__name__}")
    score = None if hit.score is None else float(hit.score)
    return ResultHit(valid_text(hit.text), rows, unknown, score, sessions)
