"""Servers of the Model Context Protocol, over the official SDK. Run with -m systems.

The reference memory server comes by npx; mcp-kb-sqlite is a package of others; a third one is made
with the SDK here, for what those two do not do: to live on over HTTP, and to fail.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from notes import corpus
from polling import HANGS, listens, wait_until

from harness.datasets.registry import open_dataset
from harness.errors import RunError, UsageError
from harness.extensions.integrations.memories.mcp_memory import Mcp
from harness.retrievers import calls
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run
from harness.runs.settings import Settings

pytestmark = pytest.mark.systems

NOTES = f"{sys.executable} {Path(__file__).with_name('mcp_notes_server.py')}"
ADD = {"remember": {"note": "{text}", "key": "{id}"}}
RECALL = {"recall": {"query": "{query}", "limit": "{k}"}}

Make = Callable[..., Mcp]


@pytest.fixture
def make() -> Iterator[Make]:
    """A memory that is left at the end."""
    made: list[Mcp] = []

    def build(**params: Any) -> Mcp:
        made.append(Mcp(**{"add": ADD, "search": RECALL, **params}))
        return made[-1]

    yield build
    for memory in made:
        calls.close(memory)


def ask(memory: Mcp, text: str, k: int = 5) -> list[Hit]:
    (found,) = calls.search(memory, [Question(text)], k)
    return list(found)  # type: ignore[arg-type]


def sources(hits: list[Hit]) -> list[list[str | int]]:
    return [list(hit.sources) for hit in hits]


def test_the_reference_memory_server_finds_what_it_was_told(make: Make) -> None:
    memory = make(
        command="npx -y @modelcontextprotocol/server-memory",
        env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
        add={
            "create_entities": {
                "entities": [{"name": "{id}", "entityType": "note", "observations": ["{text}"]}]
            }
        },
        search={"search_nodes": {"query": "{each_word}"}},
        timeout=HANGS,
    )
    calls.index(memory, corpus(["green tea", "black coffee", "a green coffee bean", "milk"]))
    found = ask(memory, "Which green coffee?")
    assert sources(found) == [["d1"], ["d3"], ["d2"]]  # two words, then one each as they came
    assert found[0].text == "note\na green coffee bean"
    assert sources(ask(memory, "Which green coffee?", k=1)) == [["d1"]]
    # The next haystack finds nothing of this one.
    calls.index(memory, corpus(["red wine"]))
    assert ask(memory, "Which green coffee?") == []
    assert memory.report()["server"].startswith("memory-server ")


def test_mcp_kb_sqlite_ranks_by_its_full_text_search(make: Make) -> None:
    memory = make(
        command=str(Path(sys.executable).with_name("mcp-kb-sqlite")),
        env={"DB_PATH": "{folder}/kb.db"},
        add={"save": {"ns": "notes", "key": "{id}", "title": "{text}"}},
        search={"search": {"query": "{any_word}", "limit": "{k}"}},
        error="Error|Search failed",
    )
    texts = ["green tea", "black coffee with milk and sugar", "green coffee", "milk"]
    calls.index(memory, corpus(texts))
    assert sources(ask(memory, "Any green coffee?"))[0] == ["d1"]
    assert ask(memory, "whisky") == []
    assert ask(memory, "?!") == []


def test_what_a_server_only_says_is_an_error_is_one(make: Make) -> None:
    memory = make(
        command=str(Path(sys.executable).with_name("mcp-kb-sqlite")),
        env={"DB_PATH": "{folder}/kb.db"},
        add={"save": {"ns": "notes", "key": "{id}", "title": "{text}"}},
        search="search",
        error="Error|Search failed",
    )
    calls.index(memory, corpus(["green tea"]))
    with pytest.raises(RuntimeError, match=r"'search' reports: Search failed: .*syntax error"):
        ask(memory, "Tea?")  # not a word of its query language


def test_scores_and_sources_come_through_and_an_error_of_a_tool_is_one(make: Make) -> None:
    memory = make(command=NOTES)
    calls.index(memory, corpus(["green tea", "black tea leaves"]))
    assert ask(memory, "black tea") == [
        Hit("black tea leaves", ["d0"], 2.0),
        Hit("green tea", ["d1"], 1.0),
    ]
    with pytest.raises(RuntimeError, match=r"'remember' reports: Error executing tool remember"):
        calls.index(memory, corpus(["unspeakable"]))
    calls.index(memory, corpus([]))
    assert ask(memory, "black tea") == []


def test_without_the_handle_the_text_decides(make: Make) -> None:
    memory = make(command=NOTES, add="remember", search="recall")
    calls.index(memory, corpus(["green tea with d0", "black tea"]))
    assert ask(memory, "green") == [Hit("green tea with d0", [], 1.0)]


def test_a_store_that_is_not_empty_is_refused(make: Make, tmp_path: Path) -> None:
    memory = make(command=f"{NOTES} {tmp_path / 'kept.json'}")
    calls.index(memory, corpus(["green tea"]))
    with pytest.raises(RunError, match=r"not empty .*returned 'green tea'"):
        calls.index(memory, corpus(["green tea", "black tea"]))
    assert json.loads((tmp_path / "kept.json").read_text()) == {"d0": "green tea"}


@pytest.fixture
def service() -> Iterator[str]:
    """The server over HTTP."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*NOTES.split(), str(port)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(port), process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def test_a_server_that_lives_on_is_emptied_by_its_tool(make: Make, service: str) -> None:
    memory = make(url=service, reset="forget")
    for texts in (["green tea", "black tea"], ["black tea"]):
        calls.index(memory, corpus(texts))
        assert [hit.text for hit in ask(memory, "black")] == ["black tea"]
    assert memory.report()["tool_calls"] == {"forget": 2, "recall": 4, "remember": 3}
    other = make(url=service)
    with pytest.raises(RunError, match="not empty"):
        calls.index(other, corpus(["black tea"]))
    with pytest.raises(RuntimeError, match="may hold another haystack by now"):
        ask(memory, "black")


def test_two_workers_share_a_server_that_lives_on(service: str, home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    params = {"url": service, "add": ADD, "search": RECALL, "reset": "forget"}
    spec, own = RetrieverSpec("mcp", params), {**params, "url": "", "command": NOTES}
    del own["reset"]
    shared = run(dataset, spec, Settings(workers=2, limit=60), out=tmp_path / "shared")
    alone = run(dataset, RetrieverSpec("mcp", own), Settings(limit=60), out=tmp_path / "alone")
    told, local = (read_rankings(RunFolder(folder).rankings) for folder in (shared, alone))
    assert told.document.equals(local.document)


def test_what_is_wrong_is_said_in_one_line(make: Make) -> None:
    texts = corpus(["green tea"])
    with pytest.raises(RunError, match=r"has no tool 'find'; it has forget, recall, remember"):
        calls.index(make(command=NOTES, search="find"), texts)
    with pytest.raises(RunError, match=r"stderr: ModuleNotFoundError: No module named 'nowhere'"):
        calls.index(make(command=f"{sys.executable} -c 'import nowhere'"), texts)
    with pytest.raises(RunError, match=r"no response in 0\.5 s"):
        calls.index(make(command="sleep 60", timeout=0.5), texts)
    with pytest.raises(UsageError, match="program 'no-such-server' not found"):
        make(command="no-such-server")
    for params, said in [
        ({}, "needs two tools"),
        ({"add": "a", "search": "b"}, "command= .* or url="),
        ({"add": "a", "search": "b", "url": "http://me:secret@here/"}, "HARNESS_MCP_TOKEN"),
        ({"add": "a", "search": {"b": "{query}"}, "command": "cat"}, "search must be a tool"),
    ]:
        with pytest.raises(UsageError, match=f"retriever 'mcp': .*{said}"):
            RetrieverSpec("mcp", params).build()


def test_what_ends_in_between_fails_that_haystack_alone(make: Make, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import os\nimport mcp_notes_server as notes\n\n"
        "@notes.server.tool()\n"
        "def ask(query: str) -> list:\n"
        "    return os._exit(3) if query == 'leave' else notes.recall(query)\n\n"
        'notes.server.run("stdio")\n'
    )
    path = Path(__file__).parent
    memory = make(command=f"env PYTHONPATH={path} {sys.executable} {program}", search="ask")
    small: Corpus = corpus(["green tea"])
    calls.index(memory, small)
    for text in ("leave", "green"):
        with pytest.raises(RuntimeError, match="tool 'ask': MCPError: Connection closed"):
            ask(memory, text)
    calls.index(memory, small)
    assert [hit.text for hit in ask(memory, "green")] == ["green tea"]


def test_a_server_that_minds_no_end_of_its_input_ends_with_a_killed_harness(
    home: Path, tmp_path: Path
) -> None:
    server = tmp_path / "deaf.py"
    server.write_text(
        f"import os, sys, time\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "open('pid', 'w').write(str(os.getpid()))\n"
        "from mcp_notes_server import server\nserver.run('stdio')\ntime.sleep(3600)\n"
    )
    command = [sys.executable, "-m", "harness", "run", "--dataset", "sample", "--retriever", "mcp"]
    given = {"command": f"{sys.executable} {server}", "add": ADD, "search": RECALL}
    params = [
        f"{name}={one if name == 'command' else json.dumps(one)}" for name, one in given.items()
    ]
    words = [word for param in params for word in ("--param", param)]
    with subprocess.Popen([*command, *words], cwd=tmp_path, stderr=subprocess.DEVNULL) as run:
        pid = tmp_path / "pid"
        wait_until(lambda: pid.is_file() and pid.read_text() != "", run)
        run.kill()
    place = Path("/proc", pid.read_text())

    def has_ended() -> bool:
        try:
            return "Z" in (place / "stat").read_text().rpartition(")")[2][:3]
        except FileNotFoundError:
            return True

    wait_until(has_ended)
