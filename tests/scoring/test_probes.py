"""The probes that other evaluators fail: see what each of them gave in the comments."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from small import one_corpus

from harness.runfiles.readers import read_rankings
from harness.scoring.evaluate import rank_dicts
from harness.scoring.metrics import METRICS, Metric
from harness.scoring.protocols import Choices
from harness.scoring.qrels import from_dict
from harness.scoring.ranks import Ties, rank_judged
from harness.scoring.score import score

EVERY = [f"{name}@{k}" for name in METRICS if name != "rprec" for k in (1, 3, 10)]
EVERY += [name for name in METRICS if not METRICS[name].needs_cutoff]


def test_constant_scores_give_one_order_to_every_metric_whatever_was_inserted_first() -> None:
    # RR .25 but RR@10 1.0 (ir_measures); NDCG@1 0 but MRR@10 1.0 (BEIR); 1.0 or .25 (ranx).
    qrels = {"q": {"a": 1}}
    for ids in ("abcd", "dcba"):
        run = {"q": dict.fromkeys(ids, 1.0)}
        of = rank_judged(read_rankings(run), from_dict(qrels))
        again = rank_dicts(run, qrels, from_dict(qrels))
        assert of.rank.tolist() == again.rank.tolist() == [4]
        for name in EVERY:
            metric = Metric.parse(name)
            assert metric(of)[0] == metric(again)[0]
            if name.startswith(("mrr", "map")):
                assert metric(of)[0] == (0.25 if metric.k in (None, 10) else 0)
            elif metric.k in (1, 3) and not name.startswith("judged"):
                assert metric(of)[0] == 0, name


def test_a_perfect_answer_to_one_query_of_ten_is_a_tenth(tmp_path: Path) -> None:
    # mean 1.0 (pytrec_eval, MTEB); NDCG@10 1.0 with MRR@10 .1 (BEIR); an error (ranx).
    judged = {f"q{i}": {"a": 1} for i in range(10)}
    dataset = one_corpus(tmp_path / "data", ["a", "b"], judged)
    run = read_rankings({"q3": {"a": 2.0, "b": 1.0}})
    (trec,) = score(dataset, run, Choices(["trec"], metrics=[Metric("ndcg")])).report.protocols
    for name, cell in trec.slices["all"].metrics.items():
        tenth = {"precision@1": 0.1, "judged@1": 0.1}.get(name, 0.1)
        assert (cell.value, cell.n) == (pytest.approx(tenth), 10), name
    left = score(dataset, run, Choices(["trec"], missing="skip"))
    (trec,) = left.report.protocols
    cell = trec.slices["all"].metrics["ndcg@1"]
    assert (cell.value, cell.n) == (1.0, 1)
    assert len(left.excluded["trec"]["without a ranking"]) == 9


def test_a_query_that_the_judgements_do_not_know_is_ignored_and_counted(tmp_path: Path) -> None:
    # KeyError (BEIR, MTEB), error (ranx).
    dataset = one_corpus(tmp_path / "data", ["a", "b"], {"q": {"a": 1}})
    run = read_rankings({"x": {"a": 1.0}, "q": {"a": 2.0, "b": 1.0}, "y": {"b": 1.0}})
    report = score(dataset, run).report
    assert report.queries.unknown_in_run == 2
    for block in report.protocols:
        assert block.slices["all"].metrics["mrr@1"].value == 1
        assert block.slices["all"].n == 1


def test_the_caller_s_dictionaries_are_left_as_they_are(tmp_path: Path) -> None:
    # Changed in place by BEIR and ranx.
    run = {"q": {"q": 3.0, "b": 1.0, "a": 2.0}, "x": {"a": 1.0}}
    judged = {"q": {"a": 1, "b": 0}}
    before = copy.deepcopy((run, judged))
    dataset = one_corpus(tmp_path / "data", ["a", "b", "q"], judged, exclude_self=True)
    score(dataset, read_rankings(run))
    for ties in Ties:
        rank_dicts(run, judged, from_dict(judged), ties)
    assert (run, judged) == before
    assert [list(documents) for documents in run.values()] == [["q", "b", "a"], ["a"]]


def test_a_dictionary_is_ranked_by_its_scores_under_every_tie_rule() -> None:
    judged = {"q": {"a": 1, "b": 1, "c": 1}}
    run = {"q": {"c": 1.0, "a": 3.0, "b": 2.0}}
    for ties in Ties:
        of = rank_judged(read_rankings(run), from_dict(judged), ties)
        assert of.rank.tolist() == [1, 2, 3], ties
        assert rank_dicts(run, judged, from_dict(judged), ties).rank.tolist() == [1, 2, 3], ties


def test_under_the_rule_order_equals_stay_as_they_were_returned() -> None:
    judged = {"q": {"a": 1, "b": 1, "c": 1}}
    run = {"q": {"b": 1.0, "c": 2.0, "a": 1.0}}
    for of in (
        rank_judged(read_rankings(run), from_dict(judged), Ties.ORDER),
        rank_dicts(run, judged, from_dict(judged), Ties.ORDER),
    ):
        assert of.rank.tolist() == [3, 2, 1]
