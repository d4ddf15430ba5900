"""A provider of agent-memory-benchmark runs as it is, by the interface that is published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_memory_benchmark import Amb
from places import EXAMPLES
from rank_bm25 import BM25Okapi
from spoken import Turn, corpus

from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.extensions.integrations.memories.session_feed import line
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run

AMB = f"{EXAMPLES}/retrievers/agent_memory_benchmark.py:Amb"
PROVIDERS = '''
from dataclasses import dataclass
from pathlib import Path

from rank_bm25 import BM25Okapi


@dataclass
class Document:
    id: str
    content: str
    user_id: str | None = None
    messages: list | None = None
    timestamp: str | None = None
    source_ids: list | None = None


class Lexical:
    """Like their baseline: chunks of all users in one object, ids of the documents."""

    def ingest(self, documents):
        self.chunks = [Document(d.id, d.content, d.user_id) for d in documents]

    def retrieve(self, query, k=10, user_id=None, query_timestamp=None):
        own = [chunk for chunk in self.chunks if chunk.user_id == user_id]
        index = BM25Okapi([chunk.content.lower().split() for chunk in own])
        scores = index.get_scores(query.lower().split())
        best = sorted(range(len(own)), key=lambda i: scores[i], reverse=True)[:k]
        return [own[i] for i in best], None


class Facts:
    """A memory with ids of its own, in a file, that is asynchronous and logs what it is told."""

    def __init__(self, log, names="source_ids"):
        self.log, self.names = open(log, "a", buffering=1), names

    def initialize(self):
        self.log.write("initialize\\n")

    def prepare(self, store_dir, unit_ids=None, reset=True):
        self.log.write(f"prepare {len(list(store_dir.iterdir()))} {len(unit_ids)} {reset}\\n")
        self.file = store_dir / "facts"

    async def ingest(self, documents):
        self.facts = [(d.id, d.messages[0]["role"], d.content, d.timestamp) for d in documents]
        self.file.write_text(str(self.facts))
        self.log.write(f"ingest {self.facts}\\n")

    async def retrieve(self, query, k, user_id):
        found = []
        for i, (id, role, content, timestamp) in enumerate(self.facts):
            named = f"\\nmetadata: {{'doc_id': '{id}'}}" if self.names == "text" else ""
            sources = [id] if self.names == "source_ids" else None
            found.append(Document(f"memory-{i}", content + named, source_ids=sources))
        return found, {"results": len(found)}

    def cleanup(self):
        self.log.write("cleanup\\n")


class Other:
    pass
'''


@pytest.fixture
def providers(tmp_path: Path) -> Path:
    path = tmp_path / "providers.py"
    path.write_text(PROVIDERS)
    return path


class Lexical:
    """The same here, over what the bridge tells a provider."""

    def index(self, corpus: Corpus) -> None:
        self.index_ = BM25Okapi([line(document).lower().split() for document in corpus])

    def search(self, queries: list[Question], k: int) -> list[list[int]]:
        found = []
        for query in queries:
            scores = self.index_.get_scores(query.text.lower().split())
            order = sorted(range(len(scores)), key=lambda i: scores[i], reverse=True)
            found.append(order[:k])
        return found


@pytest.mark.slow
def test_a_provider_ranks_as_the_same_code_does_as_a_class(
    providers: Path, home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    spec = RetrieverSpec(AMB, {"provider": f"{providers}:Lexical"})
    theirs = run(dataset, spec, out=tmp_path / "theirs")
    ours = run(dataset, Lexical(), out=tmp_path / "ours")  # type: ignore[arg-type]
    told, local = (read_rankings(RunFolder(folder).rankings) for folder in (theirs, ours))
    assert told.document.equals(local.document)


def test_each_haystack_has_a_provider_and_an_empty_folder(providers: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    memory = Amb(f"{providers}:Facts", {"log": str(log)})
    memory.index(corpus(Turn("green tea", timestamp=86_400)))
    memory.index(corpus(Turn("black tea")))
    memory.close()
    memory.close()
    assert log.read_text().splitlines() == [
        "initialize",
        "prepare 0 1 True",
        "ingest [('d0', 'user', 'green tea', '1970-01-02T00:00:00')]",
        "cleanup",
        "initialize",
        "prepare 0 1 True",
        "ingest [('d0', 'user', 'black tea', None)]",
        "cleanup",
    ]


@pytest.mark.parametrize("names", ["source_ids", "text", "nothing"])
def test_a_memory_is_known_by_the_sources_that_it_names(
    providers: Path, tmp_path: Path, names: str
) -> None:
    options: dict[str, Any] = {"log": str(tmp_path / "log"), "names": names}
    memory = Amb(f"{providers}:Facts", options)
    memory.index(corpus(Turn("green tea"), Turn("vitamin d0 tea")))
    told = ["\nmetadata: {'doc_id': 'd1'}", "\nmetadata: {'doc_id': 'd0'}"]
    if names != "text":
        told = ["", ""]
    sources: list[list[str | int]] = [["d1"], ["d0"]] if names != "nothing" else [[], []]
    assert memory.search([Question("tea")], 5) == [
        [Hit("green tea" + told[0], sources[0]), Hit("vitamin d0 tea" + told[1], sources[1])]
    ]
    assert len(memory.search([Question("tea")], 1)[0]) == 1
    memory.index(corpus())
    assert memory.search([Question("tea")], 5) == [[]]
    memory.close()


def test_what_is_no_provider_is_said(providers: Path) -> None:
    for provider, said in [
        ("mem0", "name its class"),
        (f"{providers}:Other", r"has no ingest\(\): it is no MemoryProvider"),
        (f"{providers}:Fact", "has no 'Fact'; did you mean Facts"),
        ("memory_bench.memory.bm25:BM25MemoryProvider", "no module 'memory_bench'"),
    ]:
        with pytest.raises(UsageError, match=said):
            RetrieverSpec(AMB, {"provider": provider}).build()
