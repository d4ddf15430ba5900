"""What a retriever gave for a question, read as an answer: rows of documents, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.masking import all_without_known, without_known
from harness.retrievers.contract import Hit, Result
from harness.retrievers.outputs import (
    NotAnAnswerError,
    as_result,
    in_order,
    padding,
    scores_of,
)
from harness.retrievers.plugins import FAILURES
from harness.runs.bench import Bench, name_of
from harness.runs.guards import trace, well_formed
from harness.runs.results import QueryResult, ResultHit
from harness.runs.view import BlindedCorpus


def to_query_result(
    bench: Bench, query: int, found: Any, seconds: float, k: int, exclude_self: bool
) -> QueryResult:
    """What a retriever gave for a query, as at most k rows of the documents, or as its error.

    `exclude_self`: the document that is the query itself is left out.
    """
    returns_dataset_ids = bool(getattr(bench.retriever, "returns_dataset_ids", False))
    try:
        result = as_result(found)
        if result.hits is not None:
            return _with_hits(bench, query, result, seconds, k, exclude_self)
        positions = bench.view.positions(result.ids, returns_dataset_ids=returns_dataset_ids)
        scores = scores_of(result.scores, len(positions))
        answer = QueryResult(query, seconds=seconds, abstained=bool(result.abstain))
        answer.answer = _own_answer(result)
        answer.confidence = _confidence(result)
        answer.padding = padding(found)
    except NotAnAnswerError as error:
        said = f"{name_of(bench.retriever)}: {error}"
        return QueryResult(query, error=said, seconds=seconds)
    except FAILURES:  # a result may run the retriever's code: a generator, an array of its own
        return QueryResult(query, error=trace(), seconds=seconds)
    positions, scores, answer.sorted_by_score, answer.duplicates = in_order(positions, scores)
    asked = k + 1 if exclude_self else k
    answer.beyond_k = max(0, len(positions) - asked)
    rows = bench.view.rows[positions]
    if exclude_self:
        other = rows != bench.dataset.rows_with_query_id[query]
        rows, scores = rows[other], None if scores is None else scores[other]
    answer.rows = np.ascontiguousarray(rows[:k], np.int32)
    answer.scores = None if scores is None else np.ascontiguousarray(scores[:k], np.float64)
    return answer


def _with_hits(
    bench: Bench, query: int, result: Result, seconds: float, k: int, exclude_self: bool
) -> QueryResult:
    """The answer of a system that returns texts; documents are looked for after the run."""
    hits = list(result.hits or ())
    returns_dataset_ids = bool(getattr(bench.retriever, "returns_dataset_ids", False))
    answer = QueryResult(query, seconds=seconds, abstained=bool(result.abstain))
    answer.answer = _own_answer(result)
    answer.confidence = _confidence(result)
    given = [hit.score for hit in hits]
    if all(score is not None for score in given):
        scores = scores_of([float(score or 0.0) for score in given], len(hits))
        if scores is not None and (scores[1:] > scores[:-1]).any():
            order = np.argsort(-scores, kind="stable")
            hits, answer.sorted_by_score = [hits[i] for i in order], True
    answer.beyond_k = max(0, len(hits) - k)
    own = bench.dataset.rows_with_query_id[query] if exclude_self else None
    answer.hits = [_hit(bench.view, hit, returns_dataset_ids, own) for hit in hits[:k]]
    # A service may repeat what it was sent, and runs hold the texts that it gives.
    texts = all_without_known(hit.text for hit in answer.hits)
    for one, text in zip(answer.hits, texts, strict=True):
        one.text = text
    return answer


def gold_of(bench: Bench, query: int) -> npt.NDArray[np.int64]:
    """Positions of a query's gold documents: best grade first, and of those the newest."""
    judged = bench.dataset.qrels()
    mine = (judged.query == query) & (judged.grade >= 1) & (judged.document >= 0)
    grade = dict(zip(judged.document[mine].tolist(), judged.grade[mine].tolist(), strict=True))
    positions = bench.view.gold_positions(list(grade))
    grades = np.array([grade[row] for row in bench.view.rows[positions].tolist()], np.int64)
    # Positions rise with time.
    return positions[np.lexsort((-positions, -grades))]


def _hit(view: BlindedCorpus, hit: Hit, returns_dataset_ids: bool, own: int | None) -> ResultHit:
    """Converts a hit: its sources to rows of the document table, without the query's own."""
    positions, unknown = view.known(hit.sources, returns_dataset_ids=returns_dataset_ids)
    rows = [row for row in view.rows[positions].tolist() if row != own]
    if not isinstance(hit.text, str):
        raise TypeError(f"the text of a hit must be a text, not {type(hit.text).__name__}")
    score = None if hit.score is None else float(hit.score)
    return ResultHit(well_formed(hit.text), rows, unknown, score)


def _own_answer(result: Result) -> str | None:
    """The system's own answer. Raises TypeError where it is no text."""
    if result.answer is not None and not isinstance(result.answer, str):
        raise TypeError(f"the answer must be a text, not {type(result.answer).__name__}")
    return None if result.answer is None else without_known(well_formed(result.answer))


def _confidence(result: Result) -> float | None:
    if result.confidence is None:
        return None
    confidence = float(result.confidence)
    if not np.isfinite(confidence):
        raise ValueError(f"the confidence is {confidence}")
    return confidence
