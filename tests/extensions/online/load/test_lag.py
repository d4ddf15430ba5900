"""`harness lag`: a lag is at least the delay of the memory, and wrong results are counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import Message, Reply, serving

Harness = Callable[..., Any]

DELAY = 0.05

MEMORIES = f"""
import threading
import time

class Words:
    thread_safe = True
    def reset(self):
        self.pages = {{}}
    def add(self, documents):
        for document in documents:
            self.pages[document.id] = set(document.content.lower().split())
    def visible(self):
        return dict(self.pages)
    def search(self, queries, k):
        return [self.best(set(query.text.lower().split()), k) for query in queries]
    def best(self, words, k):
        scores = {{id_: len(words & page) for id_, page in self.visible().items()}}
        return sorted(scores.items(), key=lambda one: -one[1])[:k]

class Later(Words):
    "A document can be found some time after `add` returned."
    def add(self, documents):
        self.since = getattr(self, "since", {{}})
        self.since |= {{document.id: time.monotonic() for document in documents}}
        super().add(documents)
    def visible(self):
        now = time.monotonic()
        return {{id_: page for id_, page in self.pages.items() if now - self.since[id_] > {DELAY}}}

class Forgetful(Words):
    "Holds the last session only."
    def add(self, documents):
        self.pages = {{}}
        super().add(documents)

class Deaf(Words):
    def add(self, documents):
        pass

class Eager(Words):
    "Returns a handle that it was not given yet."
    def best(self, words, k):
        return [*super().best(words, k), ("d103", 0), ("d0", 0)][-k:]

class Broken(Words):
    n = 0
    def add(self, documents):
        Broken.n += 1
        if Broken.n == 2:
            raise ValueError("the store is full")
        super().add(documents)

class HangingAdd(Words):
    def add(self, documents):
        super().add(documents)
        if len(self.pages) > 20:
            time.sleep(3600)

class HangingAlone(HangingAdd):
    thread_safe = False

class HangingSearch(Words):
    def search(self, queries, k):
        time.sleep(3600)

class Paid(Later):
    usd = 0.0
    def add(self, documents):
        super().add(documents)
        self.usd += 0.01
    def report(self):
        return {{"usd": self.usd}}

class Private(Words):
    "Shows documents to their user only, in the namespace that it was given."
    def reset(self, namespace):
        assert namespace
        super().reset()
        self.users = {{}}
    def add(self, documents):
        super().add(documents)
        self.users |= {{document.id: document.user_id for document in documents}}
    def search(self, queries, k, user_id=None):
        mine = {{id_: page for id_, page in self.pages.items()
                if self.users[id_] in (None, user_id)}}
        return [sorted(((i, len(set(q.text.lower().split()) & p)) for i, p in mine.items()),
                       key=lambda one: -one[1])[:k] for q in queries]

class Asynchronous(Words):
    thread_safe = False
    async def add(self, documents):
        super().add(documents)
    async def search(self, queries, k):
        return super().search(queries, k)
"""


@pytest.fixture
def lag(harness: Harness, tmp_path: Path) -> Callable[..., Any]:
    """Runs `harness lag` on the sample."""
    (tmp_path / "memories.py").write_text(MEMORIES)

    def measure(retriever: str, *more: object, dataset: str = "sample") -> Any:
        given = f"{tmp_path / 'memories.py'}:{retriever}" if retriever[0].isupper() else retriever
        out = ("--out", tmp_path / "out", "--polls", 200)
        said = harness("lag", "--retriever", given, "--dataset", dataset, *out, *more, "--json")
        (file,) = (tmp_path / "out").iterdir()
        printed = json.loads(said.out)
        assert printed == json.loads(file.read_text()) | {"first_error": printed["first_error"]}
        return printed | {"status": said.status, "said": said.err}

    return measure


def wrong(found: dict[str, Any]) -> list[int]:
    names = ("write_errors", "search_errors", "foreign", "dropped", "lost", "never_found")
    return [found[name] for name in names]


@pytest.mark.parametrize("memory", ["Words", "Asynchronous"])
def test_a_memory_that_adds_at_once_has_every_document(lag: Harness, memory: str) -> None:
    found = lag(memory)
    assert found["status"] == 0
    assert wrong(found) == [0] * 6
    assert (found["mode"], found["concurrent"]) == ("add", True)
    assert found["writes"] == len(found["lags"]) == 12
    assert found["documents"] == 104


def test_the_lag_includes_the_time_until_a_document_is_visible(lag: Harness) -> None:
    found = lag("Later", "--writes", 4)
    assert found["status"] == 0
    assert len(found["lags"]) == 4
    assert all(seconds >= DELAY for seconds in found["lags"])
    assert found["lag"]["max"] == max(found["lags"])
    assert found["searches"] > 2 * 4  # a document was searched for more than once


def test_documents_that_a_later_write_removed_are_lost(lag: Harness) -> None:
    found = lag("Forgetful", "--writes", 4)
    assert found["lost"] == 3
    assert found["never_found"] == 0
    assert found["dropped"] > 0
    assert found["status"] == 1


def test_a_document_that_is_never_found_has_no_lag(lag: Harness) -> None:
    found = lag("Deaf", "--writes", 2, "--give-up", 0.05)
    assert found["lags"] == [None, None]
    assert found["lag"] == {"p50": None, "p90": None, "max": None}
    assert found["status"] == 1


def test_a_document_that_was_not_written_is_foreign(lag: Harness) -> None:
    found = lag("Eager", "--writes", 1, "--give-up", 0.05)
    assert found["foreign"] > 0
    assert found["status"] == 1


def test_a_failed_write_is_counted_and_the_others_are_measured(lag: Harness) -> None:
    found = lag("Broken", "--writes", 4)
    assert found["write_errors"] == 1
    assert found["writes"] == 4
    assert len(found["lags"]) == 3
    assert "the store is full" in found["first_error"]
    assert found["status"] == 1


def test_a_retriever_without_add_indexes_all_documents_so_far(lag: Harness) -> None:
    found = lag("bm25", "--writes", 4)
    assert found["mode"] == "index"
    assert wrong(found) == [0] * 6
    assert found["status"] == 0


def test_a_service_gets_all_documents_so_far(lag: Harness) -> None:
    texts: dict[str, str] = {}
    sizes: list[int] = []

    def answer(message: Message) -> Reply:
        if message["type"] == "reset":
            texts.clear()
            sizes.append(message["document_count"])
        texts.update((one["id"], one["text"]) for one in message.get("documents", ()))
        if message["type"] != "search":
            return 200, {}
        asked = [query["text"] for query in message["queries"]]
        same = [[{"id": id_} for id_, text in texts.items() if text == one] for one in asked]
        return 200, {"results": [{"hits": hits} for hits in same]}

    with serving(answer) as (url, _):
        found = lag("http", "--param", f"url={url}", "--writes", 3)
    assert wrong(found) == [0] * 6
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == found["documents"]


@pytest.mark.parametrize("memory", ["HangingAdd", "HangingAlone"])
def test_a_write_that_hangs_is_abandoned_when_the_time_is_up(lag: Harness, memory: str) -> None:
    found = lag(memory, "--seconds", 0.5)
    assert found["stopped"] == "--seconds 0.5: a call of add had not returned when the time was up"
    assert found["stopped"] in found["said"]
    assert 0 < found["writes"] < 12
    assert len(found["lags"]) == found["writes"]
    assert found["status"] == 1


def test_a_search_that_hangs_is_abandoned_when_the_time_is_up(lag: Harness) -> None:
    found = lag("HangingSearch", "--seconds", 0.5)
    assert "a call of search had not returned" in found["stopped"]
    assert found["status"] == 1


def test_the_number_of_calls_is_limited(lag: Harness) -> None:
    found = lag("Deaf", "--max-calls", 10)
    assert found["stopped"] == "--max-calls 10: all calls were made"
    assert found["searches"] + found["writes"] <= 10
    assert found["status"] == 1


def test_the_cost_is_limited(lag: Harness) -> None:
    found = lag("Paid", "--max-usd", 0.035)
    assert found["stopped"].startswith("--max-usd 0.035")
    assert 0 < found["writes"] <= 3
    assert found["usage"]["usd"] <= 0.035
    assert found["status"] == 1


def test_a_document_is_searched_for_by_its_user_in_a_namespace(lag: Harness) -> None:
    found = lag("Private", "--writes", 5, "--give-up", 0.5, dataset="scopes")
    assert found["write_errors"] == found["never_found"] == 0
    assert found["status"] == 0
