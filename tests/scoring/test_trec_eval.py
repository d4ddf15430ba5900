"""Equality with trec_eval's own outputs and with pytrec_eval, metric by metric, query by query."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.runfiles.readers import read_rankings
from harness.scoring.evaluate import rank_dicts
from harness.scoring.metrics import METRICS, Metric
from harness.scoring.qrels import from_dict, read_qrels
from harness.scoring.ranks import Ties, rank_judged

KS = [5, 10, 15, 20, 30, 100, 200, 500, 1000]


def _measures() -> dict[str, str]:
    """trec_eval's name -> ours, of every metric that has a reference there."""
    found = {}
    for one in METRICS.values():
        measure = one.reference
        if measure and not one.needs_cutoff:
            found[measure] = one.name
        if one.needs_cutoff or measure in ("map", "ndcg"):
            ks = (1, 5, 10) if measure == "success" else KS
            cut = "" if one.needs_cutoff else "_cut"
            found |= {f"{measure}{cut}_{k}": f"{one.name}@{k}" for k in ks if measure}
    return found


NAMES = _measures()


def trec_eval_output(path: Path) -> dict[str, dict[str, str]]:
    """`measure -> query -> printed value` of trec_eval's text output."""
    values: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines():
        measure, query, value = line.split()
        values.setdefault(measure, {})[query] = value
    return values


@pytest.mark.parametrize(
    ("output", "qrels", "run", "rel"),
    [
        ("out.test.aq", "qrels.test", "results.test", 1),
        ("out.test.aqc", "qrels.test", "results.trunc", 1),
        ("out.test.aql", "qrels.rel_level", "results.test", 2),
    ],
)
def test_equals_what_trec_eval_prints_for_its_own_test_data(
    data: Path, output: str, qrels: str, run: str, rel: int
) -> None:
    folder = data / "trec_eval"
    expected = trec_eval_output(folder / output)
    judged = read_qrels(folder / qrels)
    ranked = rank_judged(read_rankings(folder / run), judged)
    compared = 0
    for theirs, ours in NAMES.items():
        metric = Metric.parse(ours)
        metric = Metric(metric.name, metric.k, rel)
        values = dict(zip(judged.query_ids, np.nan_to_num(metric(ranked)), strict=True))
        for query, printed in expected[theirs].items():
            value = np.mean(list(values.values())) if query == "all" else values[query]
            assert f"{value:.4f}" == printed, (theirs, query)
            compared += 1
    assert compared >= 4 * len(NAMES)


def test_equals_pytrec_eval_on_scifact_with_many_ties(data: Path) -> None:
    golden = orjson.loads((data / "golden/scifact_test_bm25okapi.trec_eval.json").read_bytes())
    qrels = read_qrels(data / "beir/scifact/qrels/test.tsv")
    ranked = rank_judged(read_rankings(data / "golden/scifact_test_bm25okapi.trec.gz"), qrels)
    assert ranked.has_ties
    measures = NAMES.keys() & golden["1"].keys()
    assert len(measures) >= 15
    for theirs in measures:
        values = Metric.parse(NAMES[theirs])(ranked)
        for query, value in zip(qrels.query_ids, values, strict=True):
            assert value == pytest.approx(golden[query][theirs], abs=1e-9), (theirs, query)


def random_case(rng: random.Random) -> tuple[dict, dict]:
    """Qrels and a run with ties, unsorted scores, negative grades, odd ids, missing queries."""
    ids = ["d1", "d10", "d2", "é", "z", "Z", "日本", "𝄞", "00", "0", *map(str, range(20))]
    qrels, run = {}, {}
    for q in map(str, range(rng.randint(1, 5))):
        judged = rng.sample(ids, rng.randint(1, 12))
        qrels[q] = {d: rng.choice([-1, 0, 0, 1, 1, 2, 3]) for d in judged}
        # pytrec_eval 0.5.11 never returns for a query whose judgements are all negative.
        qrels[q][judged[0]] = max(0, qrels[q][judged[0]])
        if rng.random() < 0.85:
            found = rng.sample(ids, rng.randint(1, len(ids)))
            scores = [1.0, 1.00000001, 0.5, 0.25, -3.0, rng.random()]
            run[q] = {d: rng.choice(scores) for d in found}
    run["only in the run"] = {"d1": 1.0}
    return qrels, run


@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=150)
def test_equals_pytrec_eval_on_random_cases(seed: int) -> None:
    import pytrec_eval

    qrels, run = random_case(random.Random(seed))
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, {"map", "Rprec", "recip_rank", "ndcg", "P", "recall", "ndcg_cut", "map_cut"}
    )
    expected = evaluator.evaluate(run)
    columns = from_dict(qrels)
    from_columns = rank_judged(read_rankings(run), columns)
    from_dicts = rank_dicts(run, qrels, columns)
    for ranked in (from_columns, from_dicts):
        assert [q for q, a in zip(columns.query_ids, ranked.answered, strict=True) if a] == [
            q for q in columns.query_ids if q in expected
        ]
        for theirs, ours in NAMES.items():
            values = np.nan_to_num(Metric.parse(ours)(ranked))
            for query, value in zip(columns.query_ids, values, strict=True):
                if query in expected and theirs in expected[query]:
                    assert value == pytest.approx(expected[query][theirs], abs=1e-9), (
                        theirs,
                        query,
                    )


def test_the_tie_rules_differ_where_they_should() -> None:
    qrels = {"q": {"a": 1}}
    run = {"q": {"a": 1.00000001, "b": 1.0}}
    columns = from_dict(qrels)
    rankings = read_rankings(run)
    first = {t: int(rank_judged(rankings, columns, t).rank[0]) for t in Ties}
    # float32 cannot tell the scores apart, and b > a; float64 can; the order is a first.
    assert first == {Ties.TREC: 2, Ties.TREC64: 1, Ties.ORDER: 1}
    assert rank_dicts(run, qrels, columns, Ties.TREC).rank[0] == 2
    assert rank_dicts(run, qrels, columns, Ties.TREC64).rank[0] == 1


def test_constant_scores_are_ordered_by_id_whatever_the_order_of_insertion() -> None:
    qrels = {"q": {"a": 1}}
    for ids in ("abcd", "dcba"):
        ranked = rank_dicts({"q": dict.fromkeys(ids, 0.5)}, qrels, from_dict(qrels))
        assert Metric.parse("mrr")(ranked)[0] == 0.25
        assert Metric.parse("mrr@10")(ranked)[0] == 0.25
        assert Metric.parse("ndcg@1")(ranked)[0] == 0


def test_the_ideal_is_what_is_relevant_not_what_was_retrieved() -> None:
    qrels = {"q": {"a": 1, "b": 1, "c": 1}}
    ranked = rank_dicts({"q": {"a": 1.0}}, qrels, from_dict(qrels))
    assert Metric.parse("ndcg@10")(ranked)[0] == pytest.approx(0.469, abs=5e-4)


def test_a_run_file_is_read_the_same_from_every_format(data: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with gzip.open(data / "golden/scifact_test_bm25okapi.trec.gz", "rt") as file:
        lines = [line.split() for line in file]
    (tmp_path / "aligned.run").write_text("".join("   ".join(f) + " \n" for f in lines))
    (tmp_path / "tabs.run").write_text("".join("\t".join(f) + "\r\n" for f in lines))
    (tmp_path / "run.jsonl").write_bytes(
        b"\n".join(
            orjson.dumps({"query": q, "document": d, "score": float(s)})
            for q, _, d, _, s, _ in lines
        )
    )
    columns = {"query": [f[0] for f in lines], "document": [f[2] for f in lines]}
    columns["score"] = [float(f[4]) for f in lines]
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    qrels = read_qrels(data / "beir/scifact/qrels/test.tsv")
    expected = rank_judged(read_rankings(data / "golden/scifact_test_bm25okapi.trec.gz"), qrels)
    for name in ("aligned.run", "tabs.run", "run.jsonl", "run.parquet"):
        ranked = rank_judged(read_rankings(tmp_path / name), qrels)
        assert ranked.rank.tolist() == expected.rank.tolist(), name
