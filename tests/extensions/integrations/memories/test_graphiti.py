"""Graphiti itself, with its embedded Kuzu, over an endpoint on loopback. Run with -m systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import models
import notes
import pytest
from conversation import ANN, MIRA, corpus
from openai_endpoint import CHAT, EMBEDDINGS, Failure, OpenAIEndpoint

from harness.errors import UsageError
from harness.extensions.integrations.memories.endpoint_memories import Graphiti
from harness.retrievers.contract import Hit, Question

pytestmark = pytest.mark.systems

Make = Callable[..., Graphiti]


@pytest.fixture
def make(endpoint: OpenAIEndpoint) -> Iterator[Make]:
    """Graphiti with the endpoint's embeddings, closed at the end."""
    endpoint.answer = models.graphiti
    made: list[Graphiti] = []

    def build(**params: Any) -> Graphiti:
        made.append(Graphiti(**{"embedder": "words", "retries": 0, "timeout": 60, **params}))
        return made[-1]

    yield build
    for memory in made:
        memory.close()


def find(memory: Graphiti, text: str, k: int = 1) -> list[Hit]:
    (hits,) = memory.search([Question(text)], k)
    return hits


def test_a_fact_names_the_turn_of_its_episode_and_no_turn_of_a_session(make: Make) -> None:
    by_turn, by_session = make(batch="turn"), make()
    for memory in (by_turn, by_session):
        memory.index(corpus(ANN))
        assert find(memory, "deaf cat")[0].text == "Ann says: My cat Pickle went deaf in spring."
    assert find(by_turn, "deaf cat")[0].sources == ("d1",)
    assert find(by_session, "deaf cat")[0].sources == ()
    assert (by_turn.report()["episodes"], by_session.report()["episodes"]) == (4, 2)


def test_hits_are_best_first_and_at_most_k(make: Make) -> None:
    memory = make(threshold=-1)
    memory.index(corpus(ANN))
    hits = find(memory, "Who sold the boat?", k=3)
    assert hits[0].text == "Bob says: I sold the boat with the leaking hull."
    assert len(hits) == 3
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(find(memory, "Who sold the boat?", k=50)) == 4


def test_the_model_is_told_speakers_and_the_datasets_dates_in_time_order(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    make(batch="turn").index(corpus(ANN))
    told = [chat for chat in endpoint.chats() if chat.schema == "ExtractedEdges"]
    assert [models.episode(chat) for chat in told] == [f"{who}: {said}" for _, who, said in ANN]
    assert "2023-05-08" in told[0].text
    assert "2023-06-02" in told[-1].text


def test_documents_without_date_and_speaker_are_told_as_they_stand_and_no_date_is_today(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    make().index(notes.corpus(["Boats leak."]))
    entities, facts, *rest = endpoint.chats()
    assert models.episode(entities) == models.episode(facts) == "Boats leak."
    assert "1970-01-01" in facts.text
    assert not any(str(date.today()) in chat.text for chat in (entities, facts, *rest))


def test_a_new_haystack_finds_nothing_of_the_old_one(make: Make, endpoint: OpenAIEndpoint) -> None:
    memory = make(threshold=0)
    memory.index(corpus(ANN))
    memory.index(corpus(MIRA))
    assert {hit.text for hit in find(memory, "cat cello bees marathon Achilles", k=50)} == {
        "user says: My marathon is in March.",
        "assistant says: Rest your Achilles on Sundays.",
    }
    assert "cello" not in endpoint.chats()[-1].text


def test_what_was_used_is_what_the_endpoint_says(make: Make, endpoint: OpenAIEndpoint) -> None:
    memory = make()
    memory.index(corpus(ANN))
    find(memory, "bees")
    report = memory.report()
    assert {name: report[name] for name in endpoint.counted()} == endpoint.counted()
    assert report["calls"] > 2
    assert report["facts"] == 4


def test_the_packaged_minilm_embeds_here(
    make: Make, endpoint: OpenAIEndpoint, weights: None
) -> None:
    memory = make(embedder="minilm", threshold=0.3)
    memory.index(corpus(ANN))
    hits = find(memory, "Which pet is unable to hear?")
    assert hits[0].text == "Ann says: My cat Pickle went deaf in spring."
    assert memory.report()["embedded_tokens"] == 0


@pytest.mark.parametrize("path", [CHAT, EMBEDDINGS])
def test_an_endpoint_that_fails_is_an_error_and_never_an_empty_memory(
    make: Make, endpoint: OpenAIEndpoint, path: str
) -> None:
    memory = make()
    memory.index(corpus(MIRA))
    endpoint.fail(path, Failure(500))
    with pytest.raises(Exception, match="500"):
        memory.index(corpus(ANN))


def test_an_answer_of_another_form_is_an_error(make: Make, endpoint: OpenAIEndpoint) -> None:
    memory = make()
    endpoint.fail(CHAT, Failure(text='{"facts": []}'))
    with pytest.raises(ValueError, match="extracted_entities"):
        memory.index(corpus(ANN))


def test_a_date_that_the_model_fails_to_give_is_an_error(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    memory = make()
    endpoint.fail(CHAT, Failure(), Failure(), Failure(500))  # entities, facts, the first date
    with pytest.raises(RuntimeError, match="graphiti continued after"):
        memory.index(corpus(MIRA))


def test_a_question_that_fails_is_an_error_and_the_next_is_answered(
    make: Make, endpoint: OpenAIEndpoint
) -> None:
    memory = make(timeout=2)
    memory.index(corpus(MIRA))
    endpoint.fail(EMBEDDINGS, Failure(seconds=4))
    with pytest.raises(Exception, match="timed out"):
        find(memory, "marathon")
    assert find(memory, "marathon in March")[0].text == "user says: My marathon is in March."


def test_openai_itself_is_not_asked_without_a_key(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        make()
