"""What the official readers and judges send, on the true files with stand-ins for the scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from published_scripts import write_scripts

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.extensions.answers.answering import judges, readers
from harness.extensions.answers.answering.context import Context, ContextBuilder, ContextLimits
from harness.extensions.answers.answering.judges import make_judge
from harness.extensions.answers.answering.readers import make_reader
from harness.extensions.answers.answering.replies import ModelMessage
from harness.extensions.answers.answering.templates import (
    Prompt,
)
from harness.extensions.answers.scoring.locomo import CATEGORIES


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of the authors' repositories, whose hashes nobody asks for."""
    for module, name in (
        (readers, "GENERATION"),
        (judges, "EVALUATION"),
        (readers, "LOCOMO_PROMPTS"),
    ):
        monkeypatch.setattr(module, name, replace(getattr(module, name), sha256=None))
    return write_scripts(tmp_path / "clone")


def _longmemeval(data: Path, granularity: str) -> tuple[Dataset, list[Any]]:
    source = data / "longmemeval" / "longmemeval_s_sample.json"
    return open_dataset("longmemeval", granularity=granularity, source=source), orjson.loads(
        source.read_bytes()
    )


def _shown(dataset: Dataset, query: int, ids: list[str]) -> Context:
    rows = dataset.rows_by_id(int(dataset.query_haystack[query]))
    builder = ContextBuilder(dataset, ContextLimits())
    return Context(query, tuple(builder.items(query, [rows[id_] for id_ in ids])))


def test_longmemeval_shows_sessions_by_date_as_json_without_the_key(
    data: Path, scripts: Path
) -> None:
    dataset, records = _longmemeval(data, "session")
    record = records[0]
    query = dataset.query_ids.index(record["question_id"])
    late, early = record["haystack_session_ids"][9], record["haystack_session_ids"][2]
    dates = dict(zip(record["haystack_session_ids"], record["haystack_dates"], strict=True))
    turns = dict(zip(record["haystack_session_ids"], record["haystack_sessions"], strict=True))
    assert dates[early] < dates[late]
    by = make_reader("longmemeval-official", dataset, "gpt-4o", scripts)
    (prompt,) = by.prompts([_shown(dataset, query, [late, early])])

    def part(number: int, id_: str) -> str:
        said = [{k: v for k, v in turn.items() if k != "has_answer"} for turn in turns[id_]]
        return f"\n## S{number}, {dates[id_]}:\n{json.dumps(said)}\n"

    history = part(1, early) + part(2, late)
    now, question = record["question_date"], record["question"]
    assert prompt.messages == (
        ModelMessage(role="user", content=f"Chats:{history}\nNow: {now}\nQ: {question}\nA:"),
    )
    assert prompt.params == {"n": 1, "temperature": 0, "max_tokens": 500}
    assert by.signature == "longmemeval-official/9e0b455:json"
    slow = make_reader("longmemeval-official:nl:cot", dataset, "gpt-4o", scripts)
    (prompt,) = slow.prompts([_shown(dataset, query, [late])])
    text = prompt.messages[0].content
    first = turns[late][0]
    assert f"## S1, {dates[late]}:\n\n{first['role']}: {first['content'].strip()}" in text
    assert text.endswith("A (slowly):")
    assert prompt.params["max_tokens"] == 800
    (alone,) = by.prompts([Context(query, ())])
    assert alone.messages[0].content == question


def test_longmemeval_widens_a_turn_to_its_round(data: Path, scripts: Path) -> None:
    dataset, records = _longmemeval(data, "turn")
    record = records[1]
    query = dataset.query_ids.index(record["question_id"])
    session, turns = record["haystack_session_ids"][0], record["haystack_sessions"][0]
    by = make_reader("longmemeval-official", dataset, "gpt-4o", scripts)
    for number, shown in ((1, turns[:2]), (len(turns), turns[-1:])):
        if f"{session}_{number}" not in dataset.rows_by_id(int(dataset.query_haystack[query])):
            continue
        (prompt,) = by.prompts([_shown(dataset, query, [f"{session}_{number}"])])
        said = [{k: v for k, v in turn.items() if k != "has_answer"} for turn in shown]
        assert json.dumps(said) in prompt.messages[0].content


def test_longmemeval_judges_by_the_type_of_the_question(data: Path, scripts: Path) -> None:
    dataset, records = _longmemeval(data, "session")
    by = make_judge("longmemeval-official", dataset, "gpt-4o-2024-08-06", scripts)
    assert by.name == "judge:longmemeval-official(gpt-4o-2024-08-06)"
    words = {"knowledge-update": "Same, older", "multi-session": "Same?"}
    for record in records:
        query = dataset.query_ids.index(record["question_id"])
        messages, params = by.prompt(query, "I think so")
        text = messages[0].content
        assert text.startswith(words.get(record["question_type"], "Same?"))
        question, answer = record["question"], record["answer"]
        assert f"Q {question} / A {answer} / R I think so" in text
        assert params == {"n": 1, "temperature": 0, "max_tokens": 10}
    assert [by.verdict(reply) for reply in ("Yes.", "No", "yes or no", "Hm", "")] == [
        True,
        False,
        True,
        None,
        None,
    ]
    other = make_judge("longmemeval-official", dataset, "gpt-4o-mini", scripts)
    assert other.name == "judge:longmemeval-prompts(gpt-4o-mini)"


def test_locomo_puts_each_category_as_its_script_does(data: Path, scripts: Path) -> None:
    source = data / "locomo" / "locomo10.json"
    dataset = open_dataset("locomo", source=source)
    talk = orjson.loads(source.read_bytes())[0]
    by = make_reader("locomo-official", dataset, "gpt-4o", scripts)
    assert by.signature.startswith("locomo-official/3eb6f2c#")
    met = set()
    for number, question in enumerate(talk["qa"]):
        category = question["category"]
        query = dataset.query_ids.index(f"{talk['sample_id']}_qa{number}")
        assert CATEGORIES[str(dataset.categories[query])] == category
        (prompt,) = by.prompts([_shown(dataset, query, ["D1:5", "D1:3"])])
        text = prompt.messages[0].content
        turn = talk["conversation"]["session_1"][4]
        date = talk["conversation"]["session_1_date_time"]
        said = f'{date}: {turn["speaker"]} said, "{turn["text"]}"'
        if "blip_caption" in turn:
            said += f" and shared {turn['blip_caption']}"
        assert text.startswith(said + "\n")
        asked = question["question"]
        if category == 5:
            assert f"choose: {asked} Which? (a) " in text
            assert "Nobody said" in text
            assert str(question.get("answer", question.get("adversarial_answer"))) in text
            _check_choices(by, prompt)
        else:
            hint = " Say when." if category == 2 else ""
            assert text.endswith(f"shortly: {asked}{hint} Answer:\n")
            assert by.answer(prompt, " So. ") == "So."
        met.add(category)
    assert met == {1, 2, 3, 4, 5}
    first = {by._question(id_)[1]["a"] == "Nobody said" for id_ in _adversarial(dataset)}
    assert first == {True, False}  # either stands first
    older = make_reader("locomo-official", dataset, "gpt-3.5-turbo", scripts)
    (prompt,) = older.prompts([Context(0, ())])
    assert prompt.messages[0].role == "system"


def _check_choices(by: Any, prompt: Prompt) -> None:
    assert prompt.choices is not None
    for said, letter in (("a", "a"), (" (B) ", "b"), ("b", "b"), ("(a)", "a"), ("c", "b")):
        assert by.answer(prompt, said) == prompt.choices[letter].strip()
    assert by.answer(prompt, "(a) Something") == "(a) something"


def _adversarial(dataset: Dataset) -> list[str]:
    return [dataset.query_ids[row] for row in np.flatnonzero(dataset.categories == "adversarial")]


def test_official_ways_are_for_their_own_datasets(
    data: Path, scripts: Path, sample: Dataset, tmp_path: Path
) -> None:
    for name in ("longmemeval-official", "locomo-official"):
        with pytest.raises(UsageError, match="and this is sample"):
            make_reader(name, sample, "gpt-4o", scripts)
    with pytest.raises(UsageError, match="judges LongMemEval, and this is sample"):
        make_judge("longmemeval-official", sample, "gpt-4o", scripts)
    sessions = open_dataset(
        "locomo", granularity="session", source=data / "locomo" / "locomo10.json"
    )
    with pytest.raises(UsageError, match="shows turns"):
        make_reader("locomo-official", sessions, "gpt-4o", scripts)
    with pytest.raises(UsageError, match="did you mean plain"):
        make_reader("plane", sample, "gpt-4o")
    dataset, _ = _longmemeval(data, "session")
    with pytest.raises(UsageError, match="no variant 'xml'"):
        make_reader("longmemeval-official:xml", dataset, "gpt-4o", scripts)


def test_without_stand_ins_the_authors_own_files_are_asked_for(data: Path, tmp_path: Path) -> None:
    dataset, _ = _longmemeval(data, "session")
    with pytest.raises(UsageError, match="is not the authors' run_generation"):
        make_reader("longmemeval-official", dataset, "gpt-4o", write_scripts(tmp_path))
