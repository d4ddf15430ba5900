"""`harness score RUNFILE --qrels FILE`: trec_eval's job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytrec_eval


def test_score_by_qrels_prints_what_trec_eval_prints(
    harness: Callable[..., Any], data: Path
) -> None:
    qrels, run = data / "trec_eval" / "qrels.test", data / "trec_eval" / "results.test"
    said = harness("score", run, "--qrels", qrels, "--metrics", "map,ndcg@10", "--json")
    assert (said.status, said.err) == (0, "")
    with open(qrels) as file:
        evaluator = pytrec_eval.RelevanceEvaluator(
            pytrec_eval.parse_qrel(file), {"map", "ndcg_cut_10"}
        )
    with open(run) as file:
        theirs = evaluator.evaluate(pytrec_eval.parse_run(file))
    found = orjson.loads(said.out)
    assert found["n"] == len(theirs)
    for ours, name in (("map", "map"), ("ndcg@10", "ndcg_cut_10")):
        expected = sum(values[name] for values in theirs.values()) / len(theirs)
        assert found["means"][ours] == pytest.approx(expected, abs=1e-9)
    said = harness("score", run, "--qrels", qrels)
    assert said.status == 0
    assert said.out.splitlines()[1].split()[0] == "ndcg@10"


def test_a_query_without_a_ranking_counts_0_or_is_left_out_and_the_head_says_which(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    qrels, run = tmp_path / "qrels", tmp_path / "run"
    qrels.write_text("q 0 a 1\nr 0 a 1\n")
    run.write_text("q Q0 a 1 1.0 t\n")
    said = harness("score", run, "--qrels", qrels, "--metrics", "mrr")
    assert said.out.splitlines() == ["2 queries, 1 of them without a ranking", f"{'mrr':16} 0.5000"]
    said = harness("score", run, "--qrels", qrels, "--metrics", "mrr", "--missing", "skip")
    head, value = said.out.splitlines()
    assert head == "1 queries, 1 excluded without a ranking"
    assert value == f"{'mrr':16} 1.0000"
