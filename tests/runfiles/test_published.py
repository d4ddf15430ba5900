"""Published rankings: each form is read as its project writes it, nothing is merged in silence."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from harness.errors import UsageError
from harness.runfiles.run_formats import (
    PublishedRanking,
    QuestionRef,
    formats,
    read_records,
    recognised,
    register_run_format,
    run_format,
)

pytestmark = pytest.mark.extensions


def _read(path: Path, ranking: str = "") -> list[PublishedRanking]:
    name = recognised(path)
    assert name is not None
    form = run_format(name)
    found = read_records(path, name, form, ranking or next(iter(form.rankings)))
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
def test_every_form_is_recognised_by_its_fields(data: Path, file: str, form: str) -> None:
    assert recognised(data / "published" / file) == form


def test_the_official_log_is_read_without_its_twist(tmp_path: Path) -> None:
    ids = ["noans_a1", "sharegpt_x_0", "f", "sharegpt_x_0", "f"]
    turns = ["noans_a1_3", "answer_b_2_1", "f_2", "f_2", "f_3"]
    twice = {"haystack_session_ids": ["answer_a1", "f", "sharegpt_x_0", "sharegpt_x_0", "f"]}
    for named, more, expected in (
        (ids, twice, ["answer_a1", "sharegpt_x_0", "f", "sharegpt_x_0#2", "f#2"]),
        (turns, twice, ["answer_a1_3", "answer_b_2_1", "f_2", "f#2_2", "f_3"]),
        # A log of chunks names a session once a chunk: there is no copy of it in the haystack.
        (ids, {}, ["answer_a1", "sharegpt_x_0", "f", "sharegpt_x_0", "f"]),
        (["f"] * 3, twice, ["f", "f#2", "f"]),
    ):
        items = [{"corpus_id": one, "text": "", "timestamp": ""} for one in named]
        line = {"question_id": "q", "retrieval_results": {"ranked_items": items}, **more}
        path = tmp_path / "log.jsonl"
        path.write_bytes(orjson.dumps(line) + b"\n")
        assert _read(path) == [PublishedRanking(QuestionRef("q"), expected)]


def test_sessions_of_locomo_get_the_names_of_the_dataset(data: Path) -> None:
    first = _read(data / "published" / "letta" / "results.jsonl", "retrieved_session_ids")[0]
    assert first.found == ["S1", "S10", "S9", "S7", "S5"]
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
        PublishedRanking(QuestionRef(haystack=3, text="Where?"), ["here", "nowhere", "there"])
    ]


def test_texts_are_read_under_the_names_that_projects_give_them(tmp_path: Path) -> None:
    records = [
        {"conv_index": 0, "question_index": 2, "question": "Why?", "retrieved_contents": ["a"]},
        {"question_id": "q7", "retrieved_memories": [{"used_content": "b"}, {"memory": "c"}]},
    ]
    path = tmp_path / "results.json"
    path.write_bytes(orjson.dumps({"per_question": records}))
    assert _read(path) == [
        PublishedRanking(QuestionRef(haystack=0, text="Why?", place=2), ["a"]),
        PublishedRanking(QuestionRef("q7"), ["b", "c"]),
    ]


def test_what_cannot_be_read_is_named_by_its_line(tmp_path: Path) -> None:
    good = orjson.dumps({"qid": "q", "s1_top5_ids": [], "s2_top5_ids": ["a"]})
    path = tmp_path / "run.jsonl"
    path.write_bytes(good + b'\n{"qid": "r", "s2_t\n\n{"qid": 3}\n{"qid": "s\n' + good[:-1])
    found = read_records(path, "cogito", run_format("cogito"), "s2_top5_ids")
    # Of a line that was cut off behind its id it is known which question it was of.
    ids = [(answer.question.id, answer.broken.partition(":")[0]) for answer in found.answers]
    assert ids == [("q", ""), ("r", "line 2"), ("q", "line 6")]
    assert [one.partition(":")[0] for one in found.unread] == ["line 4", "line 5"]
    assert found.broken == 4
    for nothing in ("[]", '[{"qid": "q", "s2_top5_ids": null}]', '[{"qid": "q"}]'):
        path = tmp_path / "run.json"
        path.write_text(nothing)
        with pytest.raises(UsageError, match="no record of the form cogito"):
            read_records(path, "cogito", run_format("cogito"), "s2_top5_ids")


@pytest.mark.parametrize(
    ("form", "record"),
    [
        ("longmemeval", {"question_id": "q", "retrieval_results": {"ranked_items": {}}}),
        ("longmemeval", {"question_id": "q", "retrieval_results": [5]}),
        ("mem0", {"question": "q", "speaker_1_memories": {}, "speaker_2_memories": []}),
        (
            "mem0",
            {
                "question": "q",
                "speaker_1_memories": [{"memory": "m", "score": "nan"}],
                "speaker_2_memories": [],
            },
        ),
        ("retrieved-texts", {"question_id": "q", "retrieved_texts": [{"words": "?"}]}),
        ("cogito", {"qid": "q", "s2_top5_ids": [True]}),
    ],
)
def test_a_record_of_another_shape_is_still_one_of_its_question(
    tmp_path: Path, form: str, record: dict[str, object]
) -> None:
    path = tmp_path / "run.json"
    good: dict[str, object] = {
        "longmemeval": {"question_id": "p", "retrieval_results": {"ranked_items": []}},
        "mem0": {"question": "p", "speaker_1_memories": [], "speaker_2_memories": None},
        "retrieved-texts": {"question_id": "p", "retrieved_texts": []},
        "cogito": {"qid": "p", "s2_top5_ids": []},
    }[form]
    records = [good, record]
    path.write_bytes(orjson.dumps({"0": records, "1": 5} if form == "mem0" else records))
    reader = run_format(form)
    found = read_records(path, form, reader, next(iter(reader.rankings)))
    assert [answer.found for answer in found.answers] == [[], None]
    assert found.answers[1].broken.startswith("record 2: ")
    assert len(found.unread) == (form == "mem0")


@pytest.mark.parametrize(
    "names",
    [
        {"conv_index": True, "question": "Why?"},
        {"conv_index": [0], "question": "Why?"},
        {"conv_index": 0, "question_index": "1", "question": "Why?"},
        {"sample_id": {}, "question": "Why?"},
        {"question_id": None, "question": "Why?"},
        {"question_id": 1.5},
    ],
)
def test_a_record_that_names_no_question_is_of_none(
    tmp_path: Path, names: dict[str, object]
) -> None:
    path = tmp_path / "run.json"
    good = {"question_id": 7, "retrieved_texts": ["b"]}
    path.write_bytes(orjson.dumps([good, {**names, "retrieved_texts": ["a"]}]))
    found = read_records(path, "retrieved-texts", run_format("retrieved-texts"), "texts")
    assert [answer.question for answer in found.answers] == [QuestionRef("7")]
    assert len(found.unread) == 1


def test_another_package_brings_a_form_of_its_own(tmp_path: Path) -> None:
    @register_run_format("mine")
    class Mine:
        about = "mine"
        rankings = {"found": ("turn",)}  # noqa: RUF012
        texts = False

        def recognises(self, head: bytes) -> bool:
            return b"my_question" in head

        def records(self, value: list[dict[str, str]]) -> list[dict[str, str]]:
            return value

        def question(self, record: dict[str, str]) -> QuestionRef:
            return QuestionRef(record["my_question"])

        def found(self, record: dict[str, str], ranking: str) -> list[str]:
            return record[ranking].split()

    try:
        path = tmp_path / "run.json"
        path.write_text('[{"my_question": "q", "found": "a b"}]')
        assert "mine" in formats()
        assert _read(path) == [PublishedRanking(QuestionRef("q"), ["a", "b"])]
    finally:
        from harness.runfiles import run_formats as form

        form._registered.pop("mine")
    with pytest.raises(UsageError, match="did you mean cogito"):
        run_format("cogitoo")
