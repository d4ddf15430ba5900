"""The graph of entities: in LadybugDB in this process, and on a server that speaks Bolt."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from math import log
from pathlib import Path
from typing import Any

import pytest
from answers import answers
from graph import Graph
from notes import ask, scores
from places import EXAMPLES
from polling import HANGS
from spoken import Turn, corpus

from harness.errors import RunError, UsageError
from harness.retrievers.contract import Question
from harness.schema import timestamp

pytestmark = pytest.mark.systems

PASSWORD = "playing-with-data"
FILLER = [Turn(f"filler{i} text{i}") for i in range(30)]


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "NEO4J_DATABASE"):
        monkeypatch.delenv(name, raising=False)


def test_a_document_scores_by_its_mentions_as_by_bm25() -> None:
    graph = Graph(hop=0, neighbour=0)
    graph.index(corpus(Turn("boat boat cello"), Turn("bee"), Turn("boat bee winter garden")))
    idf = log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    lengths, counts = [3, 1, 4], [2, 0, 1]
    expected = [
        idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / (8 / 3)))
        for tf, length in zip(counts, lengths, strict=True)
    ]
    assert scores(graph, "Boats", 3) == pytest.approx(expected, abs=1e-8)


def test_a_document_is_found_over_an_entity_it_shares_with_one_that_is_mentioned() -> None:
    turns = [Turn("Ann keeps Pickle"), Turn("Pickle went deaf"), *FILLER]
    with_hop, without = Graph(hop=0.5, neighbour=0), Graph(hop=0, neighbour=0)
    for graph in (with_hop, without):
        graph.index(corpus(*turns))
    assert list(ask(without, "Ann").ids) == [0]
    found = ask(with_hop, "Ann")
    assert list(found.ids) == [0, 1]
    # Half the first one's score, times the cosine of the two: they share one of three entities.
    once, twice = log(1 + 31.5 / 1.5), log(1 + 30.5 / 2.5)
    cosine = twice**2 / (2 * once**2 + twice**2)
    assert found.scores is not None
    assert found.scores[1] == pytest.approx(found.scores[0] * 0.5 * cosine, rel=0.01)


def test_the_turns_beside_one_that_is_found_get_a_part_of_its_score() -> None:
    turns = [Turn("How is Pickle?", session=0), Turn("Deaf since spring.", session=0)]
    graph = Graph(hop=0, neighbour=0.25)
    graph.index(corpus(*turns, Turn("Rain again.", session=1), *FILLER))
    found = ask(graph, "Pickle")
    assert list(found.ids) == [0, 1]
    assert found.scores is not None
    assert found.scores[1] == pytest.approx(found.scores[0] / 4, abs=1e-8)


def test_speakers_and_dates_are_entities() -> None:
    may = timestamp(datetime(2023, 5, 7))
    graph = Graph()
    graph.index(corpus(Turn("I swim."), Turn("I run.", "Ann Lee"), Turn("I sew.", timestamp=may)))
    assert [list(ask(graph, q).ids) for q in ("Ann", "on May 7, 2023", "in May 2023", "Bob")] == [
        [1],
        [2],
        [2],
        [],
    ]


def test_odd_corpora_and_questions_are_answered() -> None:
    graph = Graph()
    graph.index(corpus())
    assert list(ask(graph, "boat").ids) == []
    graph.index(corpus(Turn("boat"), Turn("bee " * 30_000), Turn("boat"), Turn("Zoë ' \" 東京 \0")))
    assert list(ask(graph, "boat").ids) == [0, 2]
    assert list(ask(graph, "boat", 1).ids) == [0]
    assert list(ask(graph, "bees").ids) == [1]
    assert [list(ask(graph, text).ids) for text in ("", "?!", "zoë", "東京")] == [[], [], [3], [3]]


def test_neo4j_without_an_address_or_an_answer_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match="set NEO4J_URI"):
        Graph(backend="neo4j")
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:9")
    with pytest.raises(RunError, match=r"no answer from bolt://127\.0\.0\.1:9"):
        Graph()
    monkeypatch.setenv("NEO4J_URI", "bolt://me:sesame@127.0.0.1:9")
    with pytest.raises(UsageError, match="must not hold a user or a password"):
        Graph()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """ArcadeDB in a process of its own: no Neo4j, but a database that speaks its protocol."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("arcadedb")
    script = Path(__file__).with_name("arcadedb_bolt.py")
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(
            [sys.executable, str(script), str(folder / "root"), PASSWORD, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
        ) as server,
    ):
        assert server.stdout is not None
        try:
            lines = iter(server.stdout.readline, b"")
            assert any(line.strip().endswith(b"ready") for line in lines), "the server ended"
            yield f"bolt://127.0.0.1:{port}"
        finally:
            server.kill()


@pytest.fixture
def bolt(address: str, no_server: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The driver that looks into the server; NEO4J_URI names it for the plug-in too."""
    import neo4j

    settings = {"URI": address, "USER": "root", "PASSWORD": PASSWORD, "DATABASE": "notes"}
    for name, value in settings.items():
        monkeypatch.setenv(f"NEO4J_{name}", value)
    with neo4j.GraphDatabase.driver(address, auth=("root", PASSWORD)) as driver:
        yield driver


def nodes(driver: Any) -> int:
    records, _, _ = driver.execute_query("match (n) return count(n)", database_="notes")
    count: int = records[0][0]
    return count


@pytest.mark.usefixtures("home", "bolt")
def test_over_bolt_the_same_documents_are_found_with_the_same_scores(tmp_path: Path) -> None:
    here, there = (
        answers(Graph(backend=backend), tmp_path / backend, limit=30)
        for backend in ("embedded", "neo4j")
    )
    assert len(here) > 25
    assert there.keys() == here.keys()
    for query, (ids, values) in here.items():
        assert there[query][0] == ids
        assert there[query][1] == pytest.approx(values, abs=1e-8)


def test_nodes_of_others_are_left_and_ours_are_removed(bolt: Any) -> None:
    bolt.execute_query("create (:Turn {position: 0})-[:NEXT]->(:Turn)", database_="notes")
    graph = Graph()
    assert "Bolt" in graph.revision
    graph.index(corpus(*FILLER))
    before = nodes(bolt)
    graph.index(corpus(Turn("a boat"), Turn("a boat and a bee")))
    assert nodes(bolt) == 2 + 2 + 2 < before
    assert len(graph.search([Question("boat"), Question("bee")], 5)) == 2
    graph.close()
    assert nodes(bolt) == 2
    indexes, _, _ = bolt.execute_query("show indexes", database_="notes")
    assert indexes == []
    bolt.execute_query("match (n:Turn) detach delete n", database_="notes")


def test_a_process_that_nobody_told_to_close_leaves_no_nodes(bolt: Any) -> None:
    script = (
        "from spoken import Turn, corpus\n"
        "from graph import Graph\n"
        "graph = Graph()\n"
        "graph.index(corpus(Turn('a boat')))\n"
        "print(graph._database.rows('match (n) return count(n)')[0][0])\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{EXAMPLES / 'retrievers'}:{Path(__file__).parents[1]}",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env=environment,
    )
    assert done.stdout.split() == ["2"], done.stderr
    assert nodes(bolt) == 0
