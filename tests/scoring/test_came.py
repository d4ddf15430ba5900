"""How many documents came, where a run says how many were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from small import lists, one_corpus

from harness.scoring.came import beyond, count_came, deep
from harness.scoring.score import score
from harness.scoring.slices import Answered

IDS = [f"d{i}" for i in range(12)]


def came(returned: list[int], size: int = 1000, own: bool = False) -> dict[str, Any]:
    n = len(returned)
    sizes = np.full(n, size)
    found = count_came(np.array(returned), sizes, np.full(n, own), 100, {1, 5, 10, 100})
    assert found is not None
    return found


def test_rankings_of_all_that_was_asked_for_are_that_deep() -> None:
    found = came([100, 100])
    assert deep(found, 100, executed=True) == "100 documents deep"
    assert not beyond(found)


def test_a_whole_haystack_is_not_short() -> None:
    found = came([12, 12], size=12)
    assert deep(found, 100, executed=True) == "100 documents deep"
    assert not beyond(found)


def test_the_query_s_own_document_may_have_taken_a_place() -> None:
    assert came([99], own=True)["shorter"] == 0
    assert came([98], own=True)["shorter"] == 1
    assert came([99])["shorter"] == 1


def test_what_came_is_said_with_every_cut_off_beyond_it() -> None:
    found = came([5, 6, 7, 8])
    assert deep(found, 100, executed=True) == (
        "6.5 documents deep on average, 5 at least, of 100 asked"
    )
    assert deep(found, 100, executed=False).endswith("of 100 at most")
    assert found["k_beyond"] == [10, 100]
    assert beyond(found).startswith("k = 10, 100: beyond what came")
    assert beyond(found, ["ndcg@10", "mrr"]).startswith("k = 10: ")
    assert not beyond(found, ["recall@5", "recall@1"])


def test_a_tenth_of_the_rankings_may_be_short_before_a_cut_off_is_beyond_them() -> None:
    assert came([3] + 9 * [100])["k_beyond"] == []
    assert came([3] + 8 * [100])["k_beyond"] == [5, 10, 100]
    assert came([3] + 9 * [100])["shorter"] == 1, "the head says it all the same"


def test_scores_of_an_older_harness_are_said_to_be_at_most_that_deep() -> None:
    assert deep(None, 100, executed=True) == "at most 100 documents deep"
    assert not beyond(None)


def test_queries_that_failed_abstained_or_got_nothing_are_not_counted(tmp_path: Path) -> None:
    names = ["plain", "failed", "abstained", "silent"]
    dataset = one_corpus(tmp_path / "data", IDS, {name: {"d0": 1} for name in names})
    answered = Answered.everything(dataset.n_queries)
    answered.failed[dataset.query_ids.index("failed")] = True
    answered.abstained[dataset.query_ids.index("abstained")] = True
    run = lists({"plain": IDS[:7], "failed": IDS[:1], "abstained": IDS[:2], "silent": []})
    summary = score(dataset, run, depth=10, answered=answered).summary
    assert summary["came"] == {
        **{"rankings": 1, "mean": 7.0, "least": 7, "shorter": 1},
        "k_beyond": [10],
    }
    assert any(said.startswith("k = 10: beyond what came") for said in summary["warnings"])
