"""LongMemEval as the official retrieval script sees it, and what it does not see."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from places import ROOT
from rank_bm25 import BM25Okapi

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.schema import as_datetime

GENERATOR = ROOT / "tests" / "benchmarks" / "make_longmemeval.py"
Records = list[dict[str, Any]]


@pytest.fixture
def sample(data: Path) -> Path:
    return data / "longmemeval" / "longmemeval_s_sample.json"


def _gold(dataset: Dataset, key: str) -> dict[str, list[str]]:
    """Ids judged for each query."""
    judged = dataset.qrels(key)
    gold: dict[str, list[str]] = {}
    for query, id_ in zip(judged.query, judged.document_id.to_pylist(), strict=True):
        gold.setdefault(dataset.query_ids[query], []).append(id_)
    return gold


def _ids(dataset: Dataset, haystack: int) -> list[str]:
    ids: list[str] = dataset.documents.column("id", dataset.haystack_rows(haystack)).to_pylist()
    return ids


def _prepared(path: Path, records: Records, granularity: str, text: str) -> Dataset:
    path.write_bytes(orjson.dumps(records))
    return open_dataset(
        "longmemeval", granularity=granularity, text=text, source=path, rebuild=True
    )


@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_documents_gold_and_bm25_scores_are_the_official_script_s(
    home: Path, data: Path, sample: Path, granularity: str
) -> None:
    dataset = open_dataset("longmemeval", granularity=granularity, source=sample)
    gold = _gold(dataset, "longmemeval-official")
    golden = orjson.loads((data / "golden" / "longmemeval_s_sample_bm25okapi.json").read_bytes())
    for row, expected in enumerate(golden):
        query = dataset.query(row)
        texts = dataset.documents.contents(dataset.haystack_rows(row))
        scores = BM25Okapi([t.split(" ") for t in texts]).get_scores(query.text.split(" "))
        top = np.argsort(-scores, kind="stable")[:10]
        wanted = expected[granularity]
        assert query.id == expected["question_id"]
        assert len(texts) == wanted["n_docs"]
        assert sorted(gold[query.id]) == sorted(wanted["gold"])
        np.testing.assert_allclose(scores[top], wanted["top10_scores"], rtol=0, atol=1e-9)
        ids = _ids(dataset, row)
        # The script gives what is not gold another name; a retriever sees neither.
        assert [ids[i] for i in top] == [i.replace("noans", "answer") for i in wanted["top10"]]


def _turn(role: str, content: str, has_answer: bool | None = None) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": role, "content": content}
    return turn if has_answer is None else turn | {"has_answer": has_answer}


def _record(**changes: Any) -> dict[str, Any]:
    """A question with evidence in one session's user turn and in another's assistant turn."""
    return {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "Where and when?",
        "answer": 7,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"] * 2,
        "haystack_session_ids": ["filler", "answer_a_1", "answer_a_2", "filler"],
        "haystack_sessions": [
            [_turn("assistant", "f0"), _turn("user", "f1")],
            [
                _turn("user", "u0", False),
                _turn("assistant", "v0", False),
                _turn("user", "u1", True),
            ],
            [_turn("user", "w0", False), _turn("assistant", "w1", True)],
            [_turn("assistant", "f0"), _turn("user", "f1")],
        ],
        "answer_session_ids": ["answer_a_1", "answer_a_2"],
    } | changes


@pytest.mark.parametrize(
    ("granularity", "text", "documents", "official", "default"),
    [
        (
            "session",
            "official",
            {"filler": "f1", "answer_a_1": "u0 u1", "answer_a_2": "w0", "filler#2": "f1"},
            ["answer_a_1"],
            ["answer_a_1", "answer_a_2"],
        ),
        (
            "turn",
            "official",
            {
                "filler_2": "f1",
                "answer_a_1_1": "u0",
                "answer_a_1_3": "u1",
                "answer_a_2_1": "w0",
                "filler#2_2": "f1",
            },
            ["answer_a_1_3"],
            ["answer_a_1_3"],
        ),
        (
            "session",
            "dated",
            {
                "filler": "[2023-05-20 02:21]\nassistant: f0\nuser: f1",
                "answer_a_1": "[2023-05-21 10:00]\nuser: u0\nassistant: v0\nuser: u1",
                "answer_a_2": "[2023-05-20 02:21]\nuser: w0\nassistant: w1",
                "filler#2": "[2023-05-21 10:00]\nassistant: f0\nuser: f1",
            },
            ["answer_a_1"],
            ["answer_a_1", "answer_a_2"],
        ),
        (
            "turn",
            "dated",
            {
                "filler_1": "[2023-05-20 02:21] assistant: f0",
                "filler_2": "[2023-05-20 02:21] user: f1",
                "answer_a_1_1": "[2023-05-21 10:00] user: u0",
                "answer_a_1_2": "[2023-05-21 10:00] assistant: v0",
                "answer_a_1_3": "[2023-05-21 10:00] user: u1",
                "answer_a_2_1": "[2023-05-20 02:21] user: w0",
                "answer_a_2_2": "[2023-05-20 02:21] assistant: w1",
                "filler#2_1": "[2023-05-21 10:00] assistant: f0",
                "filler#2_2": "[2023-05-21 10:00] user: f1",
            },
            ["answer_a_1_3"],
            ["answer_a_1_3", "answer_a_2_2"],
        ),
    ],
)
def test_each_view_holds_its_documents_and_both_answer_keys(
    home: Path,
    tmp_path: Path,
    granularity: str,
    text: str,
    documents: dict[str, str],
    official: list[str],
    default: list[str],
) -> None:
    dataset = _prepared(tmp_path / "s.json", [_record()], granularity, text)
    assert {d.id: d.text for d in dataset.documents} == documents
    assert _gold(dataset, "longmemeval-official") == {"q1": official}
    assert _gold(dataset, "default") == {"q1": default}
    assert [r.examples for r in dataset.manifest.repairs] == [["q1: filler"]]


def test_a_shared_session_is_stored_once_and_dated_by_each_haystack(
    home: Path, tmp_path: Path
) -> None:
    later = [date.replace("/05/", "/06/") for date in _record()["haystack_dates"]]
    records = [_record(), _record(question_id="q2", haystack_dates=later)]
    dataset = _prepared(tmp_path / "s.json", records, "turn", "official")
    assert len(dataset.documents) == 5
    assert dataset.haystack_rows(0).tolist() == dataset.haystack_rows(1).tolist()
    first, second = (
        [f"{as_datetime(s):%m-%d %H:%M}" for s in dataset.haystack_timestamps(h).to_pylist()]
        for h in (0, 1)
    )
    assert first == ["05-20 02:21", "05-21 10:00", "05-21 10:00", "05-20 02:21", "05-21 10:00"]
    assert second == [date.replace("05-", "06-") for date in first]
    turn = dataset.documents[2]
    assert (turn.session, turn.speaker, turn.position) == ("answer_a_1", "user", 2)
    assert turn.timestamp is None
    query = dataset.query(0)
    assert (query.ability, query.category, query.answers) == ("multi-hop", "multi-session", ("7",))
    assert query.timestamp is not None
    assert f"{as_datetime(query.timestamp):%Y-%m-%d %H:%M}" == "2023-05-30 23:40"


def test_an_abstention_question_has_official_gold_and_no_evidence_of_its_own(
    home: Path, tmp_path: Path
) -> None:
    dataset = _prepared(tmp_path / "s.json", [_record(question_id="q1_abs")], "session", "official")
    assert dataset.query(0).ability == "abstention"
    assert dataset.query(0).category == "multi-session"
    assert _gold(dataset, "longmemeval-official") == {"q1_abs": ["answer_a_1"]}
    assert _gold(dataset, "default") == {}


def test_what_the_official_script_would_stop_at_or_pass_over_is_kept_and_counted(
    home: Path, tmp_path: Path
) -> None:
    odd = _record(question_id="q2", answer_session_ids=["answer_a_1", "answer_gone"])
    odd["haystack_session_ids"][3] = "other"
    del odd["haystack_sessions"][1][0]["has_answer"]
    odd["haystack_sessions"][0][1]["content"] = "another text under the same id"
    dataset = _prepared(tmp_path / "s.json", [_record(), odd], "session", "official")
    assert _gold(dataset, "default")["q2"] == ["answer_a_1", "answer_gone"]
    assert dataset.qrels().document.tolist()[-1] == -1
    assert len(dataset.documents) == 6
    assert [(r.count, r.examples) for r in dataset.manifest.repairs] == [
        (1, ["q1: filler"]),
        (1, ["filler"]),
        (1, ["q2: answer_a_1_1"]),
        (1, ["q2: answer_gone"]),
    ]


@pytest.mark.slow
def test_a_generated_file_keeps_the_official_proportions(
    home: Path, tmp_path: Path, sample: Path
) -> None:
    generate: Callable[..., Any] = runpy.run_path(str(GENERATOR))["write"]
    path = tmp_path / "generated.json"
    generate(path, sample, "s", 20, seed=1)
    once = path.read_bytes()
    generate(path, sample, "s", 20, seed=1)
    assert path.read_bytes() == once
    dataset = open_dataset("longmemeval", granularity="session", source=path)
    slots = dataset.haystack_sizes[:20].sum()
    twice = dataset.manifest.repairs[0].count
    assert slots == 23_867 * 20 // 500
    assert len(dataset.documents) - twice == 19_195 * 20 // 500
    assert len(once) == pytest.approx(277_383_467 * 20 / 500, rel=0.1)
    groups = [kind for kind, _ in groupby(dataset.categories.tolist())]
    assert len(groups) == len(set(groups))


def _spoilt(**changes: Any) -> Records:
    return [_record(), _record(question_id="q2", **changes)]


def _without(name: str) -> Records:
    records = _spoilt()
    del records[1][name]
    return records


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (_without("question_date"), "record 1 .question q2.: the field 'question_date' is missing"),
        (_without("answer"), "record 1 .question q2.: the field 'answer' is missing"),
        (_without("question_id"), "record 1: the field 'question_id' is missing"),
        (_spoilt(question_date="30 May"), "question q2.: question_date '30 May' is not a date"),
        (
            _spoilt(haystack_dates=["2023/02/30 (Sat) 02:21"] * 4),
            r"question q2.: haystack_dates\[0\] '2023/02/30 .Sat. 02:21' is not a date",
        ),
        (_spoilt(haystack_dates=[]), "0 haystack_dates and 4 haystack_sessions; they must align"),
        (_spoilt(question_type="riddle"), "question_type 'riddle' is not one of"),
        (
            _spoilt(haystack_sessions=[[{"role": "user"}]] * 4),
            "session filler, turn 0: the field 'content' is missing",
        ),
        ([7], "record 0: not an object"),
    ],
)
def test_a_bad_record_is_one_error_that_says_where(
    home: Path, tmp_path: Path, records: Records, message: str
) -> None:
    with pytest.raises(UsageError, match=r"s\.json: .*" + message):
        _prepared(tmp_path / "s.json", records, "session", "official")


def test_a_truncated_file_is_refused_with_the_byte_where_it_ends(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "s.json"
    whole = orjson.dumps([_record(), _record(question_id="q2")])
    path.write_bytes(whole[:-30])
    with pytest.raises(UsageError, match=rf"ends at byte {len(whole) - 30}, inside record 1"):
        open_dataset("longmemeval", source=path)
    with pytest.raises(UsageError, match=r"no longmemeval_s_cleaned\.json in this folder"):
        open_dataset("longmemeval", source=tmp_path)


def test_a_file_of_another_dataset_is_recognised(home: Path, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "locomo10.json", tmp_path / "longmemeval_s.json"
    theirs.write_text('[{"sample_id": "conv-26", "conversation": {}, "qa": []}]')
    ours.write_text('[{"question_id": "q", "haystack_sessions": []}]')
    for given, name, file in (("longmemeval", "locomo", theirs), ("locomo", "longmemeval", ours)):
        with pytest.raises(UsageError, match=f"looks like a file for --dataset {name} --source"):
            open_dataset(given, source=file)
