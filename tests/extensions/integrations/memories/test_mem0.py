"""mem0 itself, with its embedded Qdrant, over an endpoint on loopback. Run with -m systems."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import models
import notes
import pytest
from conversation import ANN, MIRA, corpus
from openai_endpoint import CHAT, EMBEDDINGS, Failure, OpenAIEndpoint

from harness.errors import UsageError
from harness.extensions.integrations.memories.endpoint_memories import Mem0
from harness.retrievers.contract import Hit, Question
from harness.retrievers.timing import Clock, timed
from harness.runs.usage import cost_usd, counts_in

pytestmark = pytest.mark.systems

Make = Callable[..., Mem0]


@pytest.fixture
def make(endpoint: OpenAIEndpoint) -> Iterator[Make]:
    """mem0 with the endpoint's embeddings, closed at the end."""
    endpoint.answer = models.mem0
    made: list[Mem0] = []

    def build(**params: Any) -> Mem0:
        made.append(Mem0(**{"embedder": "words", "retries": 0, "timeout": 60, **params}))
        return made[-1]

    yield build
    for memory in made:
        memory.close()


def find(memory: Mem0, text: str, k: int = 1) -> list[Hit]:
    (hits,) = memory.search([Question(text)], k)
    return hits


def test_facts_come_back_as_texts_best_first_and_at_most_k(make: Make) -> None:
    memory = make(threshold=0)
    memory.index(corpus(ANN))
    hits = find(memory, "Which cat went deaf?", k=3)
    assert hits[0].text == "Ann: My cat Pickle went deaf in spring."
    assert len(hits) == 3
    assert find(memory, " ") == []
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_fact_names_its_turn_when_told_turn_by_turn_and_no_turn_of_a_session(make: Make) -> None:
    by_turn, by_session = make(batch="turn"), make()
    for memory in (by_turn, by_session):
        memory.index(corpus(ANN))
    question = "Which cat went deaf in spring?"
    assert find(by_turn, question)[0].sources == ("d1",)
    assert find(by_session, question)[0].sources == ()
    assert (by_turn.report()["batches"], by_session.report()["batches"]) == (4, 2)


def test_the_model_is_told_speakers_and_the_datasets_dates_in_time_order(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    make().index(corpus(ANN))
    first, second = endpoint.chats()
    assert "user: Ann: I bought a cello yesterday." in first.text
    for chat, day in ((first, "2023-05-08"), (second, "2023-06-02")):
        assert chat.between("## Observation Date\n", "\n") == day
        assert chat.between("## Current Date\n", "\n") == day


def test_documents_without_date_and_speaker_are_told_as_they_stand_and_no_date_is_today(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    make().index(notes.corpus(["Boats leak."]))
    (chat,) = endpoint.chats()
    assert chat.between("## New Messages\n", "\n") == "user: Boats leak."
    assert chat.between("## Observation Date\n", "\n") == "unknown"
    assert str(date.today()) not in chat.text


def test_users_and_assistants_speak_in_their_roles(make: Make, endpoint: OpenAIEndpoint) -> None:
    make().index(corpus(MIRA))
    (chat,) = endpoint.chats()
    said = chat.between("## New Messages\n", "\n\n## ").splitlines()
    assert said == ["user: My marathon is in March.", "assistant: Rest your Achilles on Sundays."]


def test_a_new_haystack_finds_nothing_of_the_old_one(make: Make, endpoint: OpenAIEndpoint) -> None:
    memory = make()
    memory.index(corpus(ANN))
    memory.index(corpus(MIRA))
    assert {hit.text for hit in find(memory, "cat cello bees marathon Achilles", k=50)} == {
        "My marathon is in March.",
        "Rest your Achilles on Sundays.",
    }
    assert "cello" not in endpoint.chats()[-1].text


def test_without_inference_the_words_are_kept_and_name_their_turn(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    memory = make(infer=False)
    memory.index(corpus(ANN))
    (hit,) = find(memory, "boat hull")
    assert (hit.text, hit.sources) == ("Bob: I sold the boat with the leaking hull.", ("d0",))
    assert endpoint.chats() == []


def test_what_was_used_is_what_the_endpoint_says(make: Make, endpoint: OpenAIEndpoint) -> None:
    memory = make()
    memory.index(corpus(ANN))
    find(memory, "bees")
    report = memory.report()
    assert {name: report[name] for name in endpoint.counted()} == endpoint.counted()
    assert report["calls"] == 2
    assert report["memories"] == 5
    counts = counts_in(report)
    prices = {"gpt-4.1-mini": {"prompt_tokens": 1e6, "completion_tokens": 1e6}}
    assert cost_usd(counts, prices) is None  # nobody knows what the other model costs
    dollars = cost_usd(counts, {**prices, "words": {"embedded_tokens": 1e6}})
    assert dollars == sum(report[n] for n in endpoint.counted() if n.endswith("tokens"))
    assert "calls_without_usage" not in report


def test_what_it_waits_for_a_rate_limit_is_not_its_time(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    memory = make(retries=1)
    memory.index(corpus(ANN))
    endpoint.fail(EMBEDDINGS, Failure(429))
    with timed(Clock()) as clock:
        assert find(memory, "Which cat went deaf?")
    assert clock.waited > 0.2  # the pauses of the client begin at half a second, less a quarter


def test_calls_whose_cost_is_not_said_are_counted(make: Make, endpoint: OpenAIEndpoint) -> None:
    endpoint.usage = False
    memory = make()
    memory.index(corpus(MIRA))
    report = memory.report()
    assert report["calls_without_usage"] == report["calls"] + report["embedding_calls"] > 1


def test_the_packaged_minilm_embeds_here(
    make: Make, endpoint: OpenAIEndpoint, weights: None
) -> None:
    memory = make(embedder="minilm")
    memory.index(corpus(ANN))
    assert (
        find(memory, "Which pet cannot hear?")[0].text == "Ann: My cat Pickle went deaf in spring."
    )
    assert memory.report()["embedded_tokens"] == 0
    assert memory.report()["embedding"]["texts_asked"] > 5


@pytest.mark.parametrize(
    ("path", "failure"),
    [
        (CHAT, Failure(500)),
        (CHAT, Failure(text="I would rather not.")),
        (CHAT, Failure(text="")),
        (CHAT, Failure(text='{"facts": ["of another form"]}')),
        (EMBEDDINGS, Failure(500)),
    ],
)
def test_what_the_endpoint_fails_to_do_is_an_error_and_never_an_empty_memory(
    make: Make, endpoint: OpenAIEndpoint, path: str, failure: Failure
) -> None:
    memory = make()
    memory.index(corpus(MIRA))
    endpoint.fail(path, failure)
    with pytest.raises(Exception, match=r"500|is not what mem0 expects"):
        memory.index(corpus(ANN))


def test_an_embedding_that_fails_after_the_extraction_is_an_error(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    memory = make()
    endpoint.fail(EMBEDDINGS, Failure(), Failure(), Failure(500), Failure(500))
    with pytest.raises(RuntimeError, match="mem0 continued after"):
        memory.index(corpus(MIRA))


def test_a_question_that_fails_is_an_error_and_the_next_is_answered(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    memory = make(timeout=2)
    memory.index(corpus(MIRA))
    endpoint.fail(EMBEDDINGS, Failure(seconds=4))
    with pytest.raises(Exception, match="timed out"):
        find(memory, "marathon")
    assert find(memory, "marathon in March")[0].text == "My marathon is in March."


def test_no_endpoint_is_an_error(make: Make) -> None:
    with pytest.raises(Exception, match="Connection error"):
        make(base_url="http://127.0.0.1:9/v1").index(corpus(MIRA))


def test_openai_itself_is_not_asked_without_a_key(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        make()


def test_nothing_is_left_on_the_machine(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    memory = make()
    folder = Path(os.environ["MEM0_DIR"])
    memory.index(corpus(MIRA))
    assert any(folder.rglob("*.sqlite"))
    memory.close()
    assert not folder.exists()
    assert not (tmp_path / ".mem0").exists()
