"""Converts the output of a retriever for a query to the result that a run records."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.io.masking import without_known
from harness.io.plugins import FAILURES
from harness.retrievers.contract import Hit, Result
from harness.retrievers.outputs import (
    NotAnAnswerError,
    confidence_of,
    hits_in_order,
    in_order,
    own_answer,
    padding,
    ranked,
    scores_of,
    well_formed,
)
from harness.runs.bench import Bench, name_of, trace
from harness.runs.results import QueryResult, ResultHit


def to_query_result(
    bench: Bench, query: int, found: Any, seconds: float, k: int, exclude_self: bool
) -> QueryResult:
    """Converts the output for a query to at most k document rows or texts, or to an error.

    `exclude_self` removes the document that has the query's own id.
    """
    answer = QueryResult(query, seconds=seconds)
    own = int(bench.dataset.rows_with_query_id[query]) if exclude_self else None
    try:
        result = ranked(found, bench.retriever)
        if result.hits is None:
            _put_documents(bench, answer, result, k, own)
            answer.padding = padding(found)
        else:
            _put_hits(bench, answer, result, k, own)
        answer.abstained = bool(result.abstain)
        answer.answer = own_answer(result)
        _mask(bench, answer)
        answer.confidence = confidence_of(result)
    except NotAnAnswerError as error:
        said = f"{name_of(bench.retriever)}: {error}"
        return QueryResult(query, error=said, seconds=seconds)
    except FAILURES:  # reading it may run the retriever's code, as of a generator
        return QueryResult(query, error=trace(), seconds=seconds)
    return answer


def _returns_dataset_ids(bench: Bench) -> bool:
    return bool(getattr(bench.retriever, "returns_dataset_ids", False))


def _put_documents(
    bench: Bench, answer: QueryResult, result: Result, k: int, own: int | None
) -> None:
    positions = bench.view.positions(result.ids, returns_dataset_ids=_returns_dataset_ids(bench))
    scores = scores_of(result.scores, len(positions))
    positions, scores, answer.duplicates = in_order(positions, scores, result.ranked_by)
    answer.beyond_k = max(0, len(positions) - (k if own is None else k + 1))
    rows = bench.view.rows[positions]
    if own is not None:
        other = rows != own
        rows, scores = rows[other], None if scores is None else scores[other]
    answer.rows = np.ascontiguousarray(rows[:k], np.int32)
    answer.scores = None if scores is None else np.ascontiguousarray(scores[:k], np.float64)


def _put_hits(bench: Bench, answer: QueryResult, result: Result, k: int, own: int | None) -> None:
    """Adds returned texts; they are resolved to documents after the run."""
    hits = hits_in_order(result.hits or (), result.ranked_by)
    answer.beyond_k = max(0, len(hits) - k)
    answer.hits = [_hit(bench, hit, own) for hit in hits[:k]]


def _mask(bench: Bench, answer: QueryResult) -> None:
    """Masks secrets in returned texts, unless the dataset contains them."""
    hits = answer.hits or []
    texts = [*(hit.text for hit in hits), answer.answer or ""]
    if any(texts):
        *shown, own = without_known(
            texts, lambda: [bench.dataset.query(answer.query).text, *bench.view.corpus.contents]
        )
        for hit, text in zip(hits, shown, strict=True):
            hit.text = text
        answer.answer = None if answer.answer is None else own


def _hit(bench: Bench, hit: Hit, own: int | None) -> ResultHit:
    """Converts a hit: its sources to rows of the document table, without the query's own."""
    ids = _returns_dataset_ids(bench)
    positions, unknown = bench.view.known(hit.sources, returns_dataset_ids=ids)
    rows = [row for row in bench.view.rows[positions].tolist() if row != own]
    if not isinstance(hit.text, str):
        raise TypeError(f"the text of a hit must be a text, not {type(hit.text).__name__}")
    score = None if hit.score is None else float(hit.score)
    return ResultHit(well_formed(hit.text), rows, unknown, score)
