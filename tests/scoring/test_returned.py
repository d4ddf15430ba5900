"""Statistics of the returned documents against the requested depth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from small import lists, one_corpus

from harness.records.scores import ReturnedStats
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus, count_returned
from harness.scoring.scores import depth_message, unreached_message

IDS = [f"d{i}" for i in range(12)]


def stats(returned: list[int], size: int = 1000, own: bool = False) -> ReturnedStats:
    n = len(returned)
    sizes = np.full(n, size)
    found = count_returned(np.array(returned), sizes, np.full(n, own), 100, {1, 5, 10, 100})
    assert found is not None
    return found


def test_the_message_on_rankings_of_full_depth_is_the_number_of_documents() -> None:
    found = stats([100, 100])
    assert depth_message(found, 100, requested=True) == "returned 100 documents per query"
    assert not unreached_message(found)


def test_a_whole_haystack_is_not_short() -> None:
    found = stats([12, 12], size=12)
    assert depth_message(found, 100, requested=True) == (
        "returned 12.0 documents per query on average (min 12 = whole haystack, requested 100)"
    )
    assert not unreached_message(found)


def test_the_query_s_own_document_may_have_taken_a_place() -> None:
    assert stats([99], own=True).shorter == 0
    assert stats([98], own=True).shorter == 1
    assert stats([99]).shorter == 1


def test_a_message_names_every_cut_off_beyond_the_returned_documents() -> None:
    found = stats([5, 6, 7, 8])
    assert depth_message(found, 100, requested=True) == (
        "returned 6.5 documents per query on average (min 5, requested 100)"
    )
    assert depth_message(found, 100, requested=False).endswith("(min 5, max 100)")
    assert found.unreached_cutoffs == [10, 100]
    assert unreached_message(found).startswith("k = 10, 100 exceed the number of documents")
    assert unreached_message(found, ["ndcg@10", "mrr"]).startswith("k = 10 exceeds ")
    assert not unreached_message(found, ["recall@5", "recall@1"])


def test_a_tenth_of_the_rankings_may_be_short_before_a_cut_off_is_beyond_them() -> None:
    assert stats([3] + 9 * [100]).unreached_cutoffs == []
    assert stats([3] + 8 * [100]).unreached_cutoffs == [5, 10, 100]
    assert stats([3] + 9 * [100]).shorter == 1, "the head says it all the same"


def test_the_message_on_a_run_that_returned_nothing_says_so() -> None:
    assert depth_message(None, 100, requested=True) == "returned no documents (requested 100)"
    assert not unreached_message(None)


def test_queries_that_failed_abstained_or_got_nothing_are_not_counted(tmp_path: Path) -> None:
    names = ["plain", "failed", "abstained", "silent"]
    dataset = one_corpus(tmp_path / "data", IDS, {name: {"d0": 1} for name in names})
    answered = QueryStatus.everything(dataset.n_queries)
    answered.failed[dataset.query_ids.index("failed")] = True
    answered.abstained[dataset.query_ids.index("abstained")] = True
    run = lists({"plain": IDS[:7], "failed": IDS[:1], "abstained": IDS[:2], "silent": []})
    report = score(dataset, run, depth=10, answered=answered).report
    assert report.returned == ReturnedStats(
        rankings=1, mean=7.0, min=7, shorter=1, unreached_cutoffs=[10]
    )
    assert any(said.startswith("k = 10 exceeds the number") for said in report.warnings)
