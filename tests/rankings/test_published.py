"""Published rankings: each form is read as its project writes it, nothing is merged in silence."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from harness.errors import UsageError
from harness.rankings.published.form import (
    Answer,
    Question,
    formats,
    recognised,
    register_run_format,
    run_format,
)
from harness.rankings.published.records import read_records
from tests.places import DATA

PUBLISHED = DATA / "published"


def _read(path: Path, ranking: str = "", granularity: str = "session") -> list[Answer]:
    name = recognised(path)
    assert name is not None
    form = run_format(name)
    found = read_records(path, name, form, ranking or next(iter(form.rankings)), granularity)
    assert not found.broken
    return found.answers


@pytest.mark.parametrize(
    ("file", "form"),
    [
        ("mempalace/results_locomo_raw_session_top10_20260414_1634.json", "mempalace"),
        ("mempalace/results_mempal_hybrid_v4_llmrerank_session_20260414_1654.jsonl", "longmemeval"),
        ("letta/results.jsonl", "agent-memory-benchmarks"),
        ("memory-core-eval/bm25_2026-04-19_19-46-05_n500.json", "memory-core-eval"),
        ("cogito/baseline_per_question.json", "cogito"),
    ],
)
def test_every_form_is_recognised_by_its_fields(file: str, form: str) -> None:
    assert recognised(PUBLISHED / file) == form


def test_the_official_log_is_read_without_its_twist(tmp_path: Path) -> None:
    ids = ["noans_a1", "sharegpt_x_0", "f", "sharegpt_x_0"]
    turns = ["noans_a1_3", "answer_b_2_1", "f_2", "f_2"]
    for granularity, named, expected in (
        ("session", ids, ["answer_a1", "sharegpt_x_0", "f", "sharegpt_x_0#2"]),
        ("turn", turns, ["answer_a1_3", "answer_b_2_1", "f_2", "f#2_2"]),
    ):
        items = [{"corpus_id": one, "text": "", "timestamp": ""} for one in named]
        line = {"question_id": "q", "retrieval_results": {"ranked_items": items}}
        path = tmp_path / "log.jsonl"
        path.write_bytes(orjson.dumps(line) + b"\n")
        assert _read(path, granularity=granularity) == [Answer(Question("q"), expected)]


def test_sessions_of_locomo_get_the_names_of_the_dataset() -> None:
    first = _read(PUBLISHED / "letta" / "results.jsonl", "retrieved_session_ids")[0]
    assert first.documents == ["S1", "S10", "S9", "S7", "S5"]
    assert (first.question.haystack, first.question.place) == ("conv-26", 0)


def test_memories_of_both_speakers_stand_by_their_scores(tmp_path: Path) -> None:
    def memory(text: str, score: float) -> dict[str, object]:
        return {"memory": text, "timestamp": "", "score": score}

    record = {
        "question": "Where?",
        "speaker_1_memories": [memory("here", 0.5), memory("there", 0.1)],
        "speaker_2_memories": [memory("nowhere", 0.3)],
    }
    path = tmp_path / "results.json"
    path.write_bytes(orjson.dumps({"3": [record]}))
    assert _read(path) == [
        Answer(Question(haystack=3, text="Where?"), texts=["here", "nowhere", "there"])
    ]


def test_texts_are_read_under_the_names_that_projects_give_them(tmp_path: Path) -> None:
    records = [
        {"conv_index": 0, "question_index": 2, "question": "Why?", "retrieved_contents": ["a"]},
        {"question_id": "q7", "retrieved_memories": [{"used_content": "b"}, {"memory": "c"}]},
    ]
    path = tmp_path / "results.json"
    path.write_bytes(orjson.dumps({"per_question": records}))
    assert _read(path) == [
        Answer(Question(haystack=0, text="Why?", place=2), texts=["a"]),
        Answer(Question("q7"), texts=["b", "c"]),
    ]


def test_what_cannot_be_read_is_named_by_its_line(tmp_path: Path) -> None:
    good = orjson.dumps({"qid": "q", "s1_top5_ids": [], "s2_top5_ids": ["a"]})
    path = tmp_path / "run.jsonl"
    path.write_bytes(good + b'\n{"qid": "r", "s2_t\n\n{"qid": 3}\n' + good[:-1])
    found = read_records(path, "cogito", run_format("cogito"), "s2_top5_ids", "session")
    assert len(found.answers) == 1
    assert [one.partition(":")[0] for one in found.broken] == ["line 2", "line 4", "line 5"]
    path.write_text("[]")
    with pytest.raises(UsageError, match="no record of the form cogito"):
        read_records(path, "cogito", run_format("cogito"), "s2_top5_ids", "session")


def test_another_package_brings_a_form_of_its_own(tmp_path: Path) -> None:
    @register_run_format("mine")
    class Mine:
        about = "mine"
        rankings = {"found": ("turn",)}  # noqa: RUF012

        def recognises(self, head: bytes) -> bool:
            return b"my_question" in head

        def records(self, value: list[dict[str, str]]) -> list[dict[str, str]]:
            return value

        def answer(self, record: dict[str, str], ranking: str, granularity: str) -> Answer:
            return Answer(Question(record["my_question"]), record[ranking].split())

    try:
        path = tmp_path / "run.json"
        path.write_text('[{"my_question": "q", "found": "a b"}]')
        assert "mine" in formats()
        assert _read(path, granularity="turn") == [Answer(Question("q"), ["a", "b"])]
    finally:
        from harness.rankings.published import form

        form._registered.pop("mine")
    with pytest.raises(UsageError, match="did you mean cogito"):
        run_format("cogitoo")
