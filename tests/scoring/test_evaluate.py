"""`evaluate` from files, dictionaries and columns: one answer, and what it says beside it."""

from __future__ import annotations

import gzip
import math
import random
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageError
from harness.runfiles.readers import read_rankings
from harness.runfiles.write import blocks, write_trec
from harness.scoring.evaluate import Evaluation, evaluate
from harness.scoring.ranks import Ties

METRICS = {
    "ndcg_cut_10": "ndcg@10",
    "map": "map",
    "recip_rank": "mrr",
    "recall_100": "recall@100",
    "P_10": "precision@10",
}
# Long lines make a file of several blocks (4 MB each) without making many of them.
TAG = "t" * 300
BLOCK = 4 << 20

Qrels = dict[str, dict[str, int]]
Rows = list[tuple[str, str, str]]


def a_run(rng: random.Random) -> tuple[Qrels, Rows]:
    """Judgements and rows (query, document, score) in queries of all sizes, one beyond a block."""
    qrels: Qrels = {}
    rows = []
    for number, size in enumerate([3, 900, 1, 15_000, *rng.choices(range(1, 1500), k=25), 2]):
        query = f"q{number}"
        documents = [f"{rng.choice(['d', 'a-long-name-'])}{n}" for n in range(size)]
        judged = rng.sample(documents, min(size, rng.randint(1, 9)))
        qrels[query] = {d: rng.choice([0, 1, 1, 2]) for d in judged} | {"never returned": 1}
        rows += [(query, d, f"{rng.gauss(0, 1):.2f}") for d in documents]
    return qrels, rows


def write(path: Path, rows: Rows) -> Path:
    path.write_text("".join(f"{q} Q0 {d} 0 {score} {TAG}\n" for q, d, score in rows))
    return path


def as_dict(rows: Rows) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for query, document, score in rows:
        run.setdefault(query, {}).setdefault(document, float(score))
    return run


def same(a: Evaluation, b: Evaluation) -> bool:
    """Equal to the last bit."""
    values = [{m: v.tolist() for m, v in e.per_query.items()} for e in (a, b)]
    return values[0] == values[1] and a.query_ids == b.query_ids and a.means == b.means


def test_a_file_of_many_blocks_scores_as_pytrec_eval_scores_it(tmp_path: Path) -> None:
    import pytrec_eval

    qrels, rows = a_run(random.Random(1))
    path = write(tmp_path / "a.run", rows)
    assert path.stat().st_size > 2 * BLOCK
    run = as_dict(rows)
    found = evaluate(qrels, path, list(METRICS.values()))
    measures = {"ndcg_cut.10", "map", "recip_rank", "recall.100", "P.10"}
    expected = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    for theirs, ours in METRICS.items():
        values = dict(zip(found.query_ids, found.per_query[ours], strict=True))
        for query, value in values.items():
            assert value == pytest.approx(expected[query][theirs], abs=1e-9), (query, ours)
    assert same(found, evaluate(qrels, run, ",".join(METRICS.values())))
    assert same(found, evaluate(qrels, read_rankings(path), list(METRICS.values())))
    assert (found.n, found.missing_queries, found.unknown_queries) == (len(qrels), 0, 0)


def test_queries_may_come_in_any_order_and_their_lines_apart(tmp_path: Path) -> None:
    rng = random.Random(2)
    qrels, rows = a_run(rng)
    metrics = list(METRICS.values())
    found = evaluate(qrels, write(tmp_path / "grouped.run", rows), metrics)
    rng.shuffle(rows)
    assert same(found, evaluate(qrels, write(tmp_path / "apart.run", rows), metrics))
    packed = tmp_path / "apart.run.gz"
    packed.write_bytes(gzip.compress((tmp_path / "apart.run").read_bytes(), 1))
    assert same(found, evaluate(qrels, packed, metrics))


def test_a_repeated_document_counts_once_and_is_counted(tmp_path: Path) -> None:
    qrels = {"q": {"b": 1}, "r": {"c": 1}}
    rows = [("q", "a", "3"), ("q", "a", "2"), ("q", "b", "1"), ("r", "c", "1"), ("r", "c", "0")]
    found = evaluate(qrels, write(tmp_path / "a.run", rows), "mrr")
    assert found.repeated_documents == 2
    assert found.per_query["mrr"].tolist() == [0.5, 1.0]


def test_a_nan_in_a_late_block_is_refused_with_its_line(tmp_path: Path) -> None:
    qrels, rows = a_run(random.Random(3))
    query, document, _ = rows[-5]
    rows[-5] = (query, document, "nan")
    with pytest.raises(UsageError, match=f"line {len(rows) - 4}"):
        evaluate(qrels, write(tmp_path / "a.run", rows), "map")
    with pytest.raises(UsageError, match="NaN"):
        evaluate(qrels, as_dict(rows), "map")


def test_a_broken_line_in_a_late_block_is_named(tmp_path: Path) -> None:
    qrels, rows = a_run(random.Random(4))
    path = write(tmp_path / "a.run", rows)
    with open(path, "a") as file:
        file.write("q0 Q0 d\n")
    with pytest.raises(UsageError, match=f"line {len(rows) + 1}: 3 fields"):
        evaluate(qrels, path, "map")


def test_a_judged_query_without_a_ranking_counts_zero_or_is_left_out(tmp_path: Path) -> None:
    qrels = {"q": {"a": 1}, "r": {"a": 1}, "nothing relevant": {"a": 0}}
    run = {"r": {"a": 1.0}, "x": {"a": 1.0}, "nothing relevant": {"a": 1.0}}
    path = tmp_path / "a.jsonl"
    path.write_text('{"query": "r", "document": "a"}\n{"query": "x", "document": "a"}\n')
    zero, skip = evaluate(qrels, run, "mrr"), evaluate(qrels, run, "mrr", missing="skip")
    assert (zero.n, zero.means) == (3, {"mrr": pytest.approx(1 / 3)})
    assert (skip.n, skip.means) == (2, {"mrr": 0.5})
    assert skip.query_ids == ["r", "nothing relevant"]
    assert {(e.missing_queries, e.unknown_queries) for e in (zero, skip)} == {(1, 1)}
    assert evaluate(qrels, path, "mrr", missing="skip").means == {"mrr": 1.0}
    assert evaluate({"z": {"a": 1}}, run, "mrr", missing="skip").means == {"mrr": None}
    with pytest.raises(UsageError, match="missing must be zero or skip"):
        evaluate(qrels, run, "mrr", missing="ignore")


def test_scoring_a_file_needs_no_large_package(tmp_path: Path) -> None:
    write(tmp_path / "a.run", [("q", "a", "1"), ("q", "b", "1")])
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    code = (
        "import sys; from pathlib import Path; from harness.scoring.evaluate import evaluate\n"
        "found = evaluate(Path('qrels'), Path('a.run'), 'mrr')\n"
        "large = {'pandas', 'scipy', 'datasets', 'torch', 'bm25s'} & set(sys.modules)\n"
        "print(found.means['mrr'], *large)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["0.5"], done.stderr


# -- Comments, as trec_eval 10 has them ------------------------------------------------------------

COMMENTED_QRELS = """\
# This is a test comment
301 0 a 1
# And two
# together, one with four fields:
#301 0 b 1
301 0 b#37 1
  # behind blanks
301 0 c 0
"""
COMMENTED_RUN = """\
# My favourite run
#
301 Q0 a 1 2.0 t

# 302 Q0 a 1 9.0 t
301 Q0 b#37 2 1.5 t#1
  # behind blanks
301 Q0 c 3 1.0 t
# the end"""


def test_lines_that_begin_with_a_hash_are_comments_and_ids_may_hold_one(tmp_path: Path) -> None:
    qrels, run = tmp_path / "qrels", tmp_path / "run"
    qrels.write_text(COMMENTED_QRELS)
    run.write_text(COMMENTED_RUN)
    plain = evaluate(
        {"301": {"a": 1, "b#37": 1, "c": 0}},
        as_dict([("301", "a", "2.0"), ("301", "b#37", "1.5"), ("301", "c", "1.0")]),
        list(METRICS.values()),
    )
    found = evaluate(qrels, run, list(METRICS.values()))
    assert same(found, plain)
    assert (found.n, found.unknown_queries, found["map"]) == (1, 0, 1.0)
    run.write_text(COMMENTED_RUN.replace(" ", "\t"))
    assert same(evaluate(qrels, run, list(METRICS.values())), plain)
    run.write_text("# nothing but\n# comments")
    with pytest.raises(UsageError, match="empty"):
        evaluate(qrels, run, "map")


def test_comments_may_stand_anywhere_in_a_file_of_many_blocks(tmp_path: Path) -> None:
    rng = random.Random(5)
    qrels, rows = a_run(rng)
    metrics = list(METRICS.values())
    expected = evaluate(qrels, write(tmp_path / "plain.run", rows), metrics)
    lines = (tmp_path / "plain.run").read_text().splitlines(keepends=True)
    for at in sorted(rng.sample(range(len(lines)), 40), reverse=True):
        lines.insert(at, "# " + "c" * rng.choice([0, 5, 300_000]) + "\n")
    path = tmp_path / "commented.run"
    path.write_bytes(b"# first \xff\n" * 10_000 + "".join(lines).encode())
    assert path.stat().st_size > 2 * BLOCK
    assert same(evaluate(qrels, path, metrics), expected)
    broken = path.read_bytes().splitlines()
    at = broken.index(lines[-2].rstrip("\n").encode()) + 1
    broken[at - 1] = b"q0 Q0 d"
    path.write_bytes(b"\n".join(broken))
    with pytest.raises(UsageError, match=f"line {at}: 3 fields where line 10001 has 6"):
        evaluate(qrels, path, "map")


def test_a_hash_begins_an_id_where_there_are_no_comments(tmp_path: Path) -> None:
    # BEIR's form and JSON lines have none.
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\n#1\td\t1\n")
    (tmp_path / "run.jsonl").write_text('{"query": "#1", "document": "d"}\n')
    assert evaluate(tmp_path / "beir.tsv", tmp_path / "run.jsonl", "mrr").means == {"mrr": 1.0}
    with pytest.raises(UsageError, match="query ids that begin with # are comments"):
        write_trec(blocks(read_rankings({"#1": {"d": 1.0}})), tmp_path / "out.trec", "t")


# -- Dictionaries of another form ------------------------------------------------------------------

HALF = "\ud800"  # of a surrogate pair
GOOD: Any = {"q": {"a": 1}}


@pytest.mark.parametrize("ties", list(Ties))
@pytest.mark.parametrize(
    ("qrels", "run", "says"),
    [
        ({1: {"a": 1}}, GOOD, "the judged query 1 is int, not text"),
        ({"q": {1: 1}}, GOOD, "of query 'q', the judged document 1 is int"),
        ({"q": {None: 1}}, GOOD, "None is NoneType"),
        ({"q": {HALF: 1}}, GOOD, "half a surrogate pair"),
        ({"q": ["a"]}, GOOD, "are list, where {document: grade} is needed"),
        ({"q": {"a": None}}, GOOD, "None, of document 'a' for query 'q'"),
        ({"q": {"a": 10**400}}, GOOD, "a grade that is not a whole number of 32 bits: 1000"),
        ([("q", "a", 1)], GOOD, "the judgements must be a file or {query: {document: number}}"),
        (GOOD, {1: {"a": 1.0}}, "the run's query 1 is int"),
        (GOOD, {"q": {1: 1.0, "b": 2.0}}, "in the run, of query 'q', the document 1 is int"),
        (GOOD, {"q": {"a": 1.0, 1: 1.0}}, "the document 1 is int"),
        (GOOD, {"q": {None: 1.0}}, "None is NoneType"),
        (GOOD, {"q": {HALF: 1.0}}, "half a surrogate pair"),
        (GOOD, {HALF: {"a": 1.0}}, "half a surrogate pair"),
        (GOOD, {"q": ["a"]}, "ranking of query 'q' is list, where {document: score} is needed"),
        (GOOD, {"q": {"a": None}}, "query 'q'"),
        (GOOD, {"q": {"a": "high"}}, "no number of 64 bits"),
        (GOOD, {"q": {"a": 10**400}}, "no number of 64 bits"),
        (GOOD, {"q": {"a": 1.0, "b": float("nan")}}, "NaN score (nan, of document 'b')"),
        (GOOD, ["q"], "the run must be a file or {query: {document: number}}"),
    ],
    ids=repr,
)
def test_what_is_no_judgements_or_run_is_refused_in_one_line(
    qrels: Any, run: Any, says: str, ties: Ties
) -> None:
    with pytest.raises(UsageError) as refused:
        evaluate(qrels, run, "ndcg@10,mrr,map", ties=ties)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_numbers_of_every_kind_are_taken_and_ids_that_can_change_nothing() -> None:
    run = {"q": {"a": Fraction(1, 2), "b": np.float32(2), "c": Decimal(1), "d": True, 5: 0.1}}
    assert evaluate({"q": {"a": np.int64(1), "b": False}}, run, "mrr").means == {"mrr": 0.25}
    assert evaluate(GOOD, {"q": None, "r": {}}, "mrr").missing_queries == 1  # type: ignore[dict-item]
    beyond = {"q": {"a": 10**300, "b": -(10**300), "c": 1}}  # no float32 can hold them
    assert evaluate({"q": {"c": 2.0}}, beyond, "mrr").means == {"mrr": 0.5}


@pytest.mark.parametrize(
    "metric", [None, 5, [None], "ndcg@" + "9" * 400, "recall(rel=" + "9" * 30 + ")@5", "map@²", ""]
)
def test_what_is_no_metric_is_refused_in_one_line(metric: Any) -> None:
    with pytest.raises(UsageError) as refused:
        evaluate(GOOD, GOOD, metric)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_exponential_gain_is_refused_where_it_cannot_be_added_up(tmp_path: Path) -> None:
    def judged(grade: int) -> Qrels:
        return {"q": {"a": grade, "b": grade - 1}}

    run = {"q": {"b": 2.0, "a": 1.0}}
    at_most = evaluate(judged(1000), run, "ndcg_exp").means["ndcg_exp"]
    a, b = Fraction(2**1000 - 1), Fraction(2**999 - 1)
    second = Fraction(1 / math.log2(3))
    assert at_most == pytest.approx(float((b + a * second) / (a + b * second)), abs=1e-12)
    for metric in ("ndcg_exp", "ndcg_exp@1"):
        with pytest.raises(UsageError, match=r"grades up to 1,000, as 2\^1100 cannot be added up"):
            evaluate(judged(1100), run, metric)
    assert 0 < evaluate(judged(1100), run, "ndcg").means["ndcg"] < 1
    (tmp_path / "qrels").write_text("q 0 a 1100\n")
    write(tmp_path / "run", [("q", "a", "1")])
    with pytest.raises(UsageError, match="grades up to 1,000"):
        evaluate(tmp_path / "qrels", tmp_path / "run", "ndcg_exp@10")
