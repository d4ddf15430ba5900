"""The clients of hosted memories in examples/systems rank what a service returns, and pay once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hosted_stub import HostedStub, share
from places import EXAMPLES

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import RunError
from harness.records.run import RunRecord
from harness.retrievers.contract import Corpus
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.run import run
from harness.runs.settings import Settings

CLIENTS = {
    "mem0": "hosted_mem0.py:Mem0Platform",
    "zep": "hosted_zep.py:ZepGraph",
    "letta": "hosted_letta.py:LettaArchive",
    "supermemory": "hosted_supermemory.py:Supermemory",
}
TOKENS = {
    "mem0": "Token secret-1234",
    "zep": "Api-Key secret-1234",
    "letta": "Bearer secret-1234",
    "supermemory": "Bearer secret-1234",
}
HAYSTACKS, QUERIES = 3, 12

LONG = 25_000
TOPICS = ["garden", "violin", "ferry", "dentist", "marathon", "kitchen", "goats", "chess"]


class Shares:
    """Ranks the documents as the stub ranks facts of one turn."""

    def index(self, corpus: Corpus) -> None:
        turns = [turn for session in corpus.sessions() for turn in session]
        self.lines = [(f"{turn.speaker}: {turn.content}", turn.id) for turn in turns]

    def search(self, queries: Any, k: int) -> list[list[tuple[str, float]]]:
        return [self.best(query.text, k) for query in queries]

    def best(self, text: str, k: int) -> list[tuple[str, float]]:
        scored = [(id_, share(text, line)) for line, id_ in self.lines]
        return sorted(scored, key=lambda one: -one[1])[:k]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three people with four dated sessions of five turns; a question for a third of the turns."""
    folder = tmp_path_factory.mktemp("notes")
    turns = [
        {
            "id": f"p{person}-{session}-{turn}",
            "text": f"We spoke about the {TOPICS[(person + session * 5 + turn) % 8]} in week "
            f"{session} and planned part {turn}",
            "haystack": f"person {person}",
            "session": f"p{person}-{session}",
            "timestamp": f"2025-0{session + 1}-0{person + 1}T10:0{turn}:00",
            "speaker": ("user", "assistant")[turn % 2],
        }
        for person in range(HAYSTACKS)
        for session in range(4)
        for turn in range(5)
    ]
    asked = turns[::5]
    queries = [
        {
            "id": f"q-{one['id']}",
            "text": f"What about {one['text'][15:40]}?",
            "haystack": one["haystack"],
        }
        for one in asked
    ]
    qrels = [{"query": f"q-{one['id']}", "document": one["id"]} for one in asked]
    for name, records in (("documents", turns), ("queries", queries), ("qrels", qrels)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines)
    return open_dataset("labelled", source=folder)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostedStub]:
    monkeypatch.setenv("MEMORY_KEY", "secret-1234")
    with HostedStub() as server:
        yield server


def client(name: str, stub: HostedStub, **params: Any) -> RetrieverSpec:
    given: dict[str, Any] = {"api_key": "env:MEMORY_KEY", "url": stub.url, "batch": "turn"}
    if name == "mem0":
        given["threshold"] = 0
    return RetrieverSpec(f"{EXAMPLES}/systems/{CLIENTS[name]}", {**given, **params})


def ran(notes: Dataset, retriever: Any, out: Path, mode: Mode = Mode.NEW, **settings: Any) -> Path:
    return run(notes, retriever, Settings(k=10, **settings), out=out, mode=mode)


def ranked(folder: Path) -> dict[str, list[str]]:
    table = pq.read_table(RunFolder(folder).rankings)
    found: dict[str, list[str]] = {}
    pairs = zip(table["query"].to_pylist(), table["document"].to_pylist(), strict=True)
    for query, document in pairs:
        found.setdefault(query, []).append(document)
    return found


def record(folder: Path) -> RunRecord:
    return RunFolder(folder).record


@pytest.fixture(scope="module")
def expected(notes: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return ranked(ran(notes, Shares(), tmp_path_factory.mktemp("expected")))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_ranks_turns_as_the_service_does_whatever_it_refuses_for_its_rate(
    name: str, stub: HostedStub, notes: Dataset, tmp_path: Path, expected: dict[str, list[str]]
) -> None:
    stub.refuse_every = 7
    folder = ran(notes, client(name, stub, usd_per_call=0.001), tmp_path, concurrency=4)
    about = record(folder)
    assert about.queries.failed == 0
    assert ranked(folder) == expected
    assert about.hits is not None
    assert about.hits.by_method == {"sources": about.hits.returned}
    assert stub.tokens == {TOKENS[name]}
    assert "secret-1234" not in (folder / "run.json").read_text()
    assert len(stub.spaces) == HAYSTACKS
    items = [item for space in stub.spaces.values() for item in space.items.values()]
    assert all(item.created for item in items)
    searching, ingestion = about.measured.searching, about.measured.ingestion
    assert searching is not None
    assert searching.usd == pytest.approx(QUERIES * 0.001)
    assert ingestion is not None
    assert ingestion.usd is not None
    requests = HAYSTACKS * 2 if name == "letta" else len(items)
    assert ingestion.usd == pytest.approx(requests * 0.001)


@pytest.mark.parametrize("name", CLIENTS)
def test_an_interrupted_run_resumes_in_the_same_namespaces(
    name: str,
    stub: HostedStub,
    notes: Dataset,
    tmp_path: Path,
    expected: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, searches = stub.reply, 0

    def interrupted(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        nonlocal searches
        searches += "search" in path
        return (402, {"error": "no more credit"}) if searches > 7 else answer(method, path, body)

    stub.reply = interrupted  # type: ignore[method-assign]
    with pytest.raises(RunError, match="402"):
        ran(notes, client(name, stub), tmp_path, strict=True)
    before = set(stub.spaces)
    stub.reply = answer  # type: ignore[method-assign]
    folder = ran(notes, client(name, stub), tmp_path, Mode.RESUME)
    assert record(folder).resumed_queries == 7
    assert ranked(folder) == expected
    assert before < set(stub.spaces)
    assert len(stub.spaces) == HAYSTACKS
    again = ran(notes, client(name, stub), tmp_path, Mode.OVERWRITE)
    assert ranked(again) == expected
    assert len(stub.spaces) == HAYSTACKS


@pytest.mark.parametrize("name", CLIENTS)
def test_a_run_stops_at_its_limit_of_dollars(
    name: str, stub: HostedStub, notes: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=r"--max-usd 0\.1"):
        ran(notes, client(name, stub, usd_per_call=0.01), tmp_path, max_usd=0.1)
    paid = [path for method, path, _ in stub.log if method == "POST" and path != "/users"]
    # Calls of less than 20 ms are counted together: at most those of a haystack.
    assert 0 < len(paid) * 0.01 <= 0.1 + 20 * 0.01


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_can_be_part_of_a_hybrid(
    name: str, stub: HostedStub, notes: Dataset, tmp_path: Path
) -> None:
    spec = client(name, stub)
    part = {"name": spec.name, "params": spec.params}
    fused = RetrieverSpec("hybrid", {"retrievers": [part, "bm25"]})
    assert record(ran(notes, fused, tmp_path)).queries.failed == 0


@pytest.mark.parametrize("name", ["mem0", "zep", "supermemory"])
def test_facts_of_a_session_are_found_in_its_turns_by_their_text(
    name: str, stub: HostedStub, notes: Dataset, tmp_path: Path, expected: dict[str, list[str]]
) -> None:
    folder = ran(notes, client(name, stub, batch="session"), tmp_path)
    about = record(folder)
    assert about.hits is not None
    assert about.hits.unknown_sources == 0
    assert set(about.hits.by_method) <= {"exact", "normalised"}
    same = sum(ranked(folder)[query] == documents for query, documents in expected.items())
    assert same >= 0.9 * QUERIES


@pytest.mark.parametrize("batch", ["turn", "session"])
def test_zep_gets_long_sessions_in_parts_and_the_end_of_a_long_question(
    stub: HostedStub, tmp_path: Path, batch: str
) -> None:
    texts = ["We fed the goats", "violin " * (LONG // 7), "We planted " * 900, "The ferry sank"]
    same = {"haystack": "h", "session": "s"}
    turns = [
        {"id": f"t{i}", "text": text, "timestamp": f"2025-01-01T10:0{i}:00", **same}
        for i, text in enumerate(texts)
    ]
    query = {"id": "q", "text": "And so on. " * 100 + "What about the ferry?", "haystack": "h"}
    for name, records in (
        ("documents", turns),
        ("queries", [query]),
        ("qrels", [{"query": "q", "document": "t3"}]),
    ):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    long = open_dataset("labelled", source=tmp_path)
    folder = ran(long, client("zep", stub, batch=batch), tmp_path / "results")
    assert record(folder).queries.failed == 0
    assert ranked(folder)["q"][0] == "t3"
    sent = [body["data"] for method, path, body in stub.log if (method, path) == ("POST", "/graph")]
    assert max(map(len, sent)) <= 10_000
    assert len(sent) == {"turn": 1 + 3 + 1 + 1, "session": 5}[batch]
    assert "".join(sent).replace("\n", "") == "".join(texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_passes_the_check_of_a_retriever(
    name: str, stub: HostedStub, harness: Callable[..., Any]
) -> None:
    spec = client(name, stub)
    params = [f"--param={key}={value}" for key, value in spec.params.items()]
    told = harness("check", spec.name, *params)
    assert told.status == 0, told
