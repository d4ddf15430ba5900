"""One ranker serves every way in: files, dictionaries and columns give the same numbers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.runfiles.rankings import best_first
from harness.runfiles.readers import read_rankings
from harness.scoring.evaluate import evaluate, rank_dicts
from harness.scoring.metrics import METRICS, Metric
from harness.scoring.qrels import from_dict
from harness.scoring.ranks import Ties, in_order, rank_judged

NAMES = [f"{name}@3" if METRICS[name].needs_cutoff else name for name in METRICS]
IDS = ["a", "B", "b", "é", "10", "9", "日本"]


def case(seed: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    rng = random.Random(seed)
    grades, scores = [-1, 0, 1, 1, 2], [1.0, 1.00000001, 0.5, -2.0, 1e300, 2e300]
    qrels = {q: {d: rng.choice(grades) for d in rng.sample(IDS, rng.randint(1, 5))} for q in "pqr"}
    found = [q for q in "pqrx" if rng.random() < 0.8]
    run = {q: {d: rng.choice(scores) for d in rng.sample(IDS, rng.randint(1, 7))} for q in found}
    return qrels, run


@given(st.integers(0, 2**32), st.sampled_from(list(Ties)), st.sampled_from(["zero", "skip"]))
@settings(max_examples=60)
def test_files_dictionaries_and_columns_agree(
    tmp_path_factory: pytest.TempPathFactory, seed: int, ties: Ties, missing: str
) -> None:
    qrels, run = case(seed)
    rows = [(q, d, s) for q, found in run.items() for d, s in found.items()]
    folder = tmp_path_factory.mktemp("run")
    (folder / "run").write_text("".join(f"{q} Q0 {d} 1 {s!r} t\n" for q, d, s in rows))
    # The lines of two queries by turns; each query's own stay in their order.
    turns = sorted(rows, key=lambda row: [r for r in rows if r[0] == row[0]].index(row))
    (folder / "turns").write_text("".join(f"{q} Q0 {d} 1 {s!r} t\n" for q, d, s in turns))
    ways = [run, read_rankings(run)] + ([folder / "run", folder / "turns"] if rows else [])
    first, *others = (evaluate(qrels, way, NAMES, ties=ties, missing=missing) for way in ways)
    for other in others:
        assert other.means == first.means
        assert (other.n, other.missing_queries) == (first.n, first.missing_queries)
        assert other.unknown_queries == first.unknown_queries == len(run.keys() - qrels.keys())
    of = rank_dicts(run, qrels, from_dict(qrels), ties)
    kept = of.answered if missing == "skip" else np.ones(3, bool)
    for name in NAMES:
        values = np.nan_to_num(Metric.parse(name)(of))[kept]
        np.testing.assert_array_equal(first.per_query[name], values, err_msg=name)


@given(st.integers(0, 2**32), st.sampled_from(list(Ties)))
@settings(max_examples=60)
def test_rows_put_in_order_stand_where_the_judged_are_ranked(seed: int, ties: Ties) -> None:
    _, run = case(seed)
    rankings = in_order(read_rankings(run), ties)
    everything = {q: dict.fromkeys(found, 1) for q, found in run.items()}
    if not run:
        return
    columns = from_dict(everything)
    rank = iter(rank_judged(read_rankings(run), columns, ties).rank.tolist())
    documents = iter(rankings.document.to_pylist())
    for found in run.values():
        by_rank = sorted((next(rank), d) for d in found)
        assert [d for _, d in by_rank] == [next(documents) for _ in found]


def test_equals_under_the_rule_order_are_kept_as_they_came() -> None:
    rankings = best_first(read_rankings({"q": {"c": 1.0, "a": 2.0, "b": 1.0, "d": 2.0}}))
    assert rankings.document.to_pylist() == ["a", "d", "c", "b"]


def test_a_document_that_stands_twice_counts_where_it_stands_first(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("q Q0 a 1 3 t\nq Q0 x 2 2 t\nq Q0 a 3 1 t\nq Q0 b 4 0 t\n")
    found = evaluate({"q": {"a": 1, "b": 1}}, path, "map,precision@3,recall@3")
    assert found.repeated_documents == 1
    assert found.means == {"map": (1 + 2 / 3) / 2, "precision@3": 2 / 3, "recall@3": 1}
