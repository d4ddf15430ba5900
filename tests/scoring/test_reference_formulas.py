"""The witness's own formulas, held against what others have computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from reference.beside import interval
from reference.formulas import Answer, Metric, session_values, value
from reference.key import Document, Judged
from reference.levels import random_baseline
from reference.rankings import Ranking, cleaned, ordered, read_run

from harness.stats.intervals import mean_intervals

OFFICIAL = {"recall_any": "hit", "recall_all": "recall_all", "ndcg_any": "ndcg_b2"}
TREC = {
    "map": "map",
    "recip_rank": "mrr",
    "Rprec": "rprec",
    "ndcg": "ndcg",
    **{
        f"{theirs}_{k}": f"{ours}@{k}"
        for k in (5, 10, 100)
        for theirs, ours in (
            ("P", "precision"),
            ("recall", "recall"),
            ("ndcg_cut", "ndcg"),
            ("map_cut", "map"),
        )
    },
    **{f"success_{k}": f"hit@{k}" for k in (1, 5, 10)},
}


def judged(grades: dict[str, int]) -> list[Judged]:
    return [Judged(document, grade, None, False) for document, grade in grades.items()]


def metric(text: str) -> Metric:
    found = Metric.read(text)
    assert found is not None
    return found


def golden(data: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = orjson.loads(
        (data / "golden" / "longmemeval_official_metrics.json").read_bytes()
    )
    return cases


def test_longmemevals_own_functions_give_the_same(data: Path) -> None:
    for case in golden(data):
        answer = Answer(judged(dict.fromkeys(case["gold"], 1)), case["ranked_ids"])
        if len(set(case["ranked_ids"])) < len(case["ranked_ids"]) or not case["gold"]:
            continue  # what those are worth is for the rules
        for name, theirs in case["metrics"].items():
            theirs_name, _, k = name.partition("@")
            ours = value(metric(f"{OFFICIAL[theirs_name]}@{k}"), answer)
            assert ours == pytest.approx(theirs, abs=1e-12), (name, case)


def test_longmemevals_own_rule_of_turns_as_sessions_gives_the_same(data: Path) -> None:
    cases = [c for c in golden(data) if "session_metrics" in c and c["gold"]]
    assert len(cases) > 50
    for case in cases:
        ids = case["ranked_ids"]
        if len(set(ids)) < len(ids):
            continue
        # Their names tell turns of a gold session that are not gold apart; here a flag does.
        held = {
            id_: Document(id_.rpartition("_")[0].replace("noans", "answer"), None, None, None)
            for id_ in ids
        }
        wanted = {
            f"{OFFICIAL[n]}@{k}": metric(f"{OFFICIAL[n]}@{k}")
            for n, _, k in (name.partition("@") for name in case["session_metrics"])
        }
        found = session_values(
            wanted, judged(dict.fromkeys(case["gold"], 1)), ids, held, renamed=True
        )
        for name, theirs in case["session_metrics"].items():
            n, _, k = name.partition("@")
            assert found[f"{OFFICIAL[n]}@{k}"][0] == pytest.approx(theirs, abs=1e-12), name


def test_trec_evals_own_output_of_its_own_test_run_is_the_same(data: Path, tmp_path: Path) -> None:
    folder = data / "trec_eval"
    (tmp_path / "run.trec").write_bytes((folder / "results.trunc").read_bytes())
    run = read_run(tmp_path / "run.trec")
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.test").read_text().splitlines():
        query, _, document, grade = line.split()
        grades.setdefault(query, {})[document] = int(grade)
    checked = 0
    for line in (folder / "out.test.aqc").read_text().splitlines():
        name, query, theirs = line.split()
        if name not in TREC or query == "all":
            continue
        ranking = ordered(cleaned(run.get(query, Ranking([], None)))[0], "trec")
        ours = value(metric(TREC[name]), Answer(judged(grades[query]), ranking))
        assert ours == pytest.approx(float(theirs), abs=5.1e-5), (name, query)
        checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("ties", "order"),
    [("order", "bac"), ("trec", "cab"), ("trec64", "bca")],
)
def test_equal_scores_are_ordered_by_the_rule(ties: str, order: str) -> None:
    from array import array

    # c and a are equal; b is above them by less than a float of 32 bits can tell.
    ranking = Ranking(["b", "a", "c"], array("d", [1.00000001, 1.0, 1.0]))
    assert "".join(ordered(ranking, ties)) == {"trec": "cba"}.get(ties, order)


def test_chance_is_the_mean_over_all_orders() -> None:
    from itertools import permutations

    documents = "abcdef"
    key = judged({"a": 2, "b": 1, "c": 0, "x": 1})
    orders = [Answer(key, order) for order in permutations(documents)]
    for text in (
        *("recall@2", "hit@3", "recall_all@4", "precision@3", "precision_returned@3", "f1@2"),
        *("rprec", "judged@4", "mrr", "mrr@2", "map", "map@3", "ndcg", "ndcg@3", "ndcg_exp@2"),
        *("ndcg_b2@4", "recall(rel=2)@2"),
    ):
        one = metric(text)
        values = [v for order in orders if (v := value(one, order)) is not None]
        expected = sum(values) / len(values)
        assert random_baseline(one, orders[0].grade, {"a", "b", "c"}, 6) == pytest.approx(
            expected
        ), text


def test_intervals_are_those_of_the_statistics() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        sizes = rng.integers(1, 30, rng.integers(1, 12)) if rng.random() < 0.6 else [1] * 25
        labels = np.repeat(np.arange(len(sizes)), sizes)
        values = rng.choice([0, 0.25, 1], len(labels), p=rng.dirichlet([1, 1, 1]))
        if rng.random() < 0.5:
            values = (values == 1).astype(float)
        (theirs,) = mean_intervals(values, labels, bounds=(0, 1))
        groups = [values[labels == g].tolist() for g in range(len(sizes))]
        found = interval(groups, clustered=theirs.clustered)
        if theirs.method == "none":
            assert found is None
        else:
            assert found == pytest.approx((theirs.low, theirs.high), abs=1e-9)
