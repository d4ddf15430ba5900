"""Finds haystacks in which every query got an empty result."""

from __future__ import annotations

from collections.abc import Sequence

from harness.datasets.reader import Dataset, last_of_base
from harness.io.scripts import main_script
from harness.records.run import EmptyHaystacks
from harness.retrievers.bm25.tokenizer import TERMS
from harness.runs.request import RunRequest
from harness.runs.results import QueryResult

_NAMED = 5
"""Number of empty haystacks that a record names."""
_READ = 100
"""Number of documents whose script is determined."""


def find_empty(request: RunRequest, given: Sequence[QueryResult]) -> EmptyHaystacks | None:
    """Counts haystacks with documents in which all queries that did not fail returned nothing.

    None if there are none. An abstention is an answer. Lexical retrievers return nothing if no
    document has a term of the query, or score all documents 0 (bm25-okapi): that is reported if all
    scores of the run are 0.
    """
    dataset = request.dataset
    by_words = TERMS in (request.about.revision or "")
    results: dict[int, list[QueryResult]] = {}
    for one in given:
        haystack = int(dataset.query_haystack[one.query])
        if dataset.manifest.as_of:  # a haystack as of one time may have a single question
            haystack = last_of_base(dataset.haystack_ids, haystack)
        mine = results.setdefault(haystack, [])
        if one.error is None:
            mine.append(one)
    empty = [
        haystack
        for haystack, mine in sorted(results.items())
        if mine and dataset.haystack_sizes[haystack] and not any(map(has_output, mine))
    ]
    if not empty and by_words and not any(map(_has_score, given)):
        empty = [haystack for haystack, mine in sorted(results.items()) if mine]
    if not empty:
        return None
    return EmptyHaystacks(
        n=len(empty),
        total=len(results),
        queries=sum(len(results[haystack]) for haystack in empty),
        examples=[dataset.haystack_bases[haystack] for haystack in empty[:_NAMED]],
        scripts=_scripts(dataset, results, empty[0]) if by_words else None,
    )


def _scripts(
    dataset: Dataset, results: dict[int, list[QueryResult]], haystack: int
) -> tuple[str, str]:
    """Returns the script of most letters in the queries of a haystack, and in its documents."""
    queries = (dataset.query(one.query).text for one in results[haystack])
    return main_script(queries), main_script(
        dataset.documents.contents(dataset.haystack_rows(haystack)[:_READ])
    )


def _has_score(result: QueryResult) -> bool:
    return result.scores is None or bool(result.scores.any())


def has_output(result: QueryResult) -> bool:
    """Tests whether a query got documents, texts, or an abstention."""
    return bool(len(result.rows) or result.hits or result.abstained)
