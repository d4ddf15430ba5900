"""Answers that systems gave themselves, and what others judged of them, are taken in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from output import protocols

from harness.datasets.registry import open_dataset
from harness.extensions.answers.scoring.locomo import f1
from harness.records.scores import MetricResult

Harness = Callable[..., Any]
IDS = ["--dataset", "longmemeval/s-ids"]


def _one(told: Any) -> dict[str, Any]:
    assert told.status == 0, told.err
    (found,) = orjson.loads(told.out)["results"]
    return dict(found)


def _cell(one: dict[str, Any], protocol: str, metric: str, part: str = "all") -> MetricResult:
    block = next(b for b in protocols(one["scores"]) if b.protocol == protocol)
    return block.slices[part].metrics[metric]


def test_the_official_scripts_output_gives_its_own_aggregates(
    harness: Harness, tmp_path: Path
) -> None:
    dataset = open_dataset("longmemeval/s-ids")
    draw = np.random.default_rng(5)
    records = [
        {
            "question_id": id_,
            "hypothesis": f"I think {id_}",
            "autoeval_label": {"model": "gpt-4o-2024-08-06", "label": bool(draw.random() < 0.7)},
        }
        for id_ in dataset.query_ids
    ]
    path = tmp_path / "log.jsonl.eval-results-gpt-4o"
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in records))
    one = _one(harness("answer", path, *IDS, "--name", "theirs", "--json"))
    judge = "judge:imported(gpt-4o-2024-08-06)"
    labels = {r["question_id"]: r["autoeval_label"]["label"] for r in records}
    kinds = dict(zip(dataset.query_ids, dataset.categories.tolist(), strict=True))
    by_kind = {
        kind: np.mean([labels[id_] for id_ in labels if kinds[id_] == kind])
        for kind in set(kinds.values())
    }
    cell = _cell(one, judge, "accuracy")
    assert (cell.n, cell.value) == (500, pytest.approx(np.mean([*labels.values()])))
    assert cell.macro_category.value == pytest.approx(np.mean([*by_kind.values()]))
    for kind, value in by_kind.items():
        assert _cell(one, judge, "accuracy", f"category:{kind}").value == pytest.approx(value)
    abstention = [label for id_, label in labels.items() if "_abs" in id_]
    cell = _cell(one, judge, "accuracy", "abstention")
    assert (cell.n, cell.value) == (30, pytest.approx(np.mean(abstention)))


def test_locomo_predictions_have_its_official_f1(
    harness: Harness, data: Path, locomo: list[str], tmp_path: Path
) -> None:
    talks = orjson.loads((data / "locomo" / "locomo10.json").read_bytes())
    expected = []
    for talk in talks:
        for number, one in enumerate(talk["qa"]):
            answer = str(one.get("answer", "Not mentioned in the conversation"))
            said = answer if number % 3 else f"{answer} and more, or not mentioned"
            one["gpt-x_prediction"] = said
            expected.append(f1(said, str(one.get("answer")), one["category"]))
    path = tmp_path / "predictions.json"
    path.write_bytes(orjson.dumps([{k: t[k] for k in ("sample_id", "qa")} for t in talks]))
    one = _one(harness("answer", path, *locomo, "--json"))
    cell = _cell(one, "locomo-answers", "f1")
    assert (cell.n, cell.value) == (1986, pytest.approx(np.mean(expected), abs=1e-12))
    assert one["answers"]["imported"]["format"] == "locomo"
    assert set(protocols(one["scores"])[1].slices) >= {"category:adversarial", "multi-hop"}


def test_an_answer_that_is_null_or_empty_counts_0_whatever_was_judged_of_it(
    harness: Harness, data: Path, locomo: list[str], tmp_path: Path
) -> None:
    talks = orjson.loads((data / "locomo" / "locomo10.json").read_bytes())
    for talk in talks:
        for number, one in enumerate(talk["qa"]):
            answer = str(one.get("answer", "Not mentioned in the conversation"))
            one["gpt-x_prediction"] = (answer, None, " ")[number % 3]
    path = tmp_path / "predictions.json"
    path.write_bytes(orjson.dumps([{k: t[k] for k in ("sample_id", "qa")} for t in talks]))
    told = harness("answer", path, *locomo, "--json")
    one = _one(told)
    n = sum(len(range(0, len(talk["qa"]), 3)) for talk in talks)
    left = {"no answer in the file": 1986 - n}
    assert one["answers"]["queries"] == {
        "asked": 1986,
        "answers": 1986,
        "failed": 1986 - n,
        "reasons": left,
    }
    for protocol, metric in (("locomo-answers", "f1"), ("answers-text", "abstained")):
        cell = _cell(one, protocol, metric)
        assert (cell.n, cell.answered_only.n) == (1986, n)
        assert cell.value == pytest.approx(cell.answered_only.value * n / 1986), metric

    records = [
        {"question_id": id_, "hypothesis": text, "autoeval_label": {"model": "m", "label": True}}
        for id_, text in (("e47becba", "Business"), ("118b2229", ""), ("51a45a95", None))
    ]
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in records))
    cell = _cell(_one(harness("answer", path, *IDS, "--json")), "judge:imported(m)", "accuracy")
    assert (cell.n, cell.value) == (3, pytest.approx(1 / 3))
    assert (cell.answered_only.n, cell.answered_only.value) == (1, 1.0)


def test_mem0s_results_bring_their_judgements(
    harness: Harness, data: Path, locomo: list[str], tmp_path: Path
) -> None:
    talks = orjson.loads((data / "locomo" / "locomo10.json").read_bytes())
    results = {
        str(place): [
            {
                "question": one["question"],
                "answer": one["answer"],
                "response": str(one["answer"]),
                "llm_score": int(number % 2 == 0),
            }
            for number, one in enumerate(talk["qa"])
            if one["category"] != 5
        ]
        for place, talk in enumerate(talks)
    }
    path = tmp_path / "mem0.json"
    path.write_bytes(orjson.dumps(results))
    told = harness("answer", path, *locomo, "--json")
    one = _one(told)
    # One question stands twice in its conversation, and only one of the two was answered.
    assert "1 answers may be of several questions, ignored" in told.err
    labels = [r["llm_score"] for records in results.values() for r in records]
    cell = _cell(one, "judge:imported(llm_score)", "accuracy")
    assert cell.n == len(labels) - 1 == 1539
    assert cell.value == pytest.approx(np.mean(labels), abs=1e-3)
    assert _cell(one, "answers-text", "exact_match").value == 1.0


def test_retrieved_text_that_stands_for_answers_is_told(
    harness: Harness, data: Path, longmemeval: list[str], tmp_path: Path
) -> None:
    sample = orjson.loads((data / "longmemeval" / "longmemeval_s_sample.json").read_bytes())
    records = [
        {"question_id": r["question_id"], "hypothesis": r["haystack_sessions"][3][0]["content"]}
        for r in sample
    ]
    path = tmp_path / "results.json"
    path.write_bytes(orjson.dumps({"results": records}))
    told = harness("answer", path, *longmemeval, "--granularity", "turn")
    assert told.status == 0, told.err
    assert "4 of 4 answers are texts of the documents: what was retrieved" in told.err
    told = harness("answer", path, *longmemeval, "--granularity", "turn", "--strict")
    assert told.status == 2


def test_what_is_published_as_a_hypothesis_and_is_none_is_told_without_texts_too(
    harness: Harness, data: Path
) -> None:
    (path,) = (data / "published" / "memory-core-eval").glob("bm25*")
    told = harness("answer", path, *IDS)
    assert told.status == 0
    assert "hypothesis is retrieved text, not an answer" in told.err


def test_what_is_odd_is_counted_and_what_is_of_no_form_refused(
    harness: Harness, tmp_path: Path
) -> None:
    good = {"question_id": "e47becba", "hypothesis": "Business"}
    path = tmp_path / "answers.jsonl"
    records = [good, {**good, "hypothesis": "Other"}, {"question_id": "x", "hypothesis": "y"}]
    records.append({"question_id": "118b2229", "hypothesis": None})
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in records))
    told = harness("answer", path, *IDS, "--json")
    assert "1 answers are of no question of longmemeval/s-ids, ignored (x)" in told.err
    assert "1 answers are of a question again, the latest counts (e47becba)" in told.err
    assert _one(told)["answers"]["queries"] == {
        "asked": 2,
        "answers": 2,
        "failed": 1,
        "reasons": {"no answer in the file": 1},
    }
    for text, said in (
        ("[1]", "expected records of question_id"),
        ('{"question_id": "e47becba"}', "hypothesis: is missing"),
        (
            '{"0": [{"question": "q", "response": "r", "llm_score": 3}]}',
            "llm_score: invalid enum value 3",
        ),
        ("{", "line 1: not valid JSON"),
        (
            '[{"question_id": "nobody", "hypothesis": "r"}]',
            "none of its 1 answers is of a question",
        ),
    ):
        path.write_text(text)
        told = harness("answer", path, *IDS)
        assert (told.status, len(told.err.strip().splitlines())) == (2, 1), told.err
        assert said in told.err
    told = harness("answer", path)
    assert "name its dataset with --dataset" in told.err
    told = harness("answer", path, *IDS, "--model", "m")
    assert "--model has no effect for a file of answers" in told.err


SAYS = """
import json, sys

documents = []
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "index":
        documents += asked["documents"]
        print(json.dumps({}), flush=True)
    elif asked["type"] == "search":
        hits = [{"id": one["id"]} for one in documents[:asked["k"]]]
        said = lambda q: {"hits": hits, "answer": "It is " + documents[0]["text"][:5]}
        print(json.dumps({"results": [said(q) for q in asked["queries"]]}), flush=True)
    else:
        documents = [] if asked["type"] == "reset" else documents
        print(json.dumps({}), flush=True)
"""

MINE = """
from harness import Result

class Answers:
    def index(self, corpus):
        self.first = corpus[0]

    def search(self, queries, k):
        texts = [q.text for q in queries]
        return [Result([self.first.id], answer=None if "?" not in t else t[::-1]) for t in texts]

class Fails(Answers):
    def search(self, queries, k):
        if len(queries[0].text) % 2:
            raise ValueError("no")
        return super().search(queries, k)

class Numbers(Answers):
    def search(self, queries, k):
        return [Result([self.first.id], answer=7) for _ in queries]
"""


@pytest.mark.slow
def test_a_system_that_answers_itself_is_judged_by_what_it_said(
    harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "says.py").write_text(SAYS)
    run = ["run", "--dataset", "sample", "--limit", 12, "--k", 5, "--json"]
    for retriever, expected in (
        (["mine.py:Answers"], lambda text, first: text[::-1]),
        (["mine.py:Answers", "--isolate"], lambda text, first: text[::-1]),
        (["command", "--param", "run=python says.py"], lambda text, first: f"It is {first}"),
    ):
        told = harness(*run, "--retriever", *retriever)
        assert told.status == 0, told.err
        folder = Path(orjson.loads(told.out)["folder"])
        one = _one(harness("answer", folder, "--json"))
        dataset = open_dataset("sample")
        table = pq.read_table(Path(one["folder"]) / "answers.parquet").to_pylist()
        assert len(table) == 12
        for row in table:
            query = dataset.query_ids.index(row["query"])
            held = dataset.haystack_rows(int(dataset.query_haystack[query]))
            first = dataset.documents[int(held[0])]
            assert row["answer"] == expected(dataset.query(query).text, first.text[:5])
            assert row["documents"][0] == first.id
        assert one["scores"]["reader"] == "its own"
    told = harness(*run, "--retriever", "mine.py:Fails", "--batch-size", 1)
    folder = Path(orjson.loads(told.out)["folder"])
    one = _one(harness("answer", folder, "--json"))
    table = pq.read_table(Path(one["folder"]) / "answers.parquet").to_pylist()
    assert len(table) == 12
    for row in table:
        text = dataset.query(dataset.query_ids.index(row["query"])).text
        assert row["answer"] == (None if len(text) % 2 else text[::-1])
    failed = sum(row["answer"] is None for row in table)
    assert 0 < failed < 12
    assert _cell(one, "answers-text", "abstained").answered_only.n == 12 - failed
    told = harness(*run, "--retriever", "mine.py:Numbers")
    assert told.status == 1
    assert "the answer must be a text, not int" in told.err


def test_answers_are_scored_anew_and_are_no_run(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"question_id": "e47becba", "hypothesis": "Business"}')
    first = _one(harness("answer", path, *IDS, "--json"))
    folder = Path(first["folder"])
    (folder / "scores.json").unlink()
    again = _one(harness("score", folder, "--json"))
    assert again["scores"] == first["scores"]
    told = harness("score", folder, "--ks", 3)
    assert "--ks has no effect for a folder of answers" in told.err
    told = harness("report", folder)
    assert (told.status, "contains answers, not a run" in told.err) == (2, True)
