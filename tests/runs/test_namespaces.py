"""Each haystack of a run has a name of its own at a service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.datasets.registry import open_dataset
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_state import Mode
from harness.runs.run import run
from harness.runs.settings import Settings

MEMORY = """
from pathlib import Path

STOP = Path(__file__).with_name("stop")

class Base:
    def __init__(self, log, model="small"):
        self.log = Path(log)

    def keep(self, namespace):
        with self.log.open("a") as file:
            file.write(namespace + chr(10))

    def search(self, queries, k):
        if STOP.exists():
            raise KeyboardInterrupt
        return [[0] for _ in queries]

class Memory(Base):
    def index(self, corpus):
        self.keep(corpus.namespace)

class Streaming(Base):
    def reset(self, namespace):
        self.keep(namespace)

    def add(self, documents):
        pass
"""


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    (tmp_path / "memory.py").write_text(MEMORY)
    return tmp_path


def namespaces(
    memory: Path, kind: str, name: str = "", log: str = "log", **params: str
) -> set[str]:
    path = memory / log
    path.unlink(missing_ok=True)
    spec = RetrieverSpec(f"{memory}/memory.py:{kind}", {"log": str(path), **params})
    settings = Settings(name=name, limit=60)
    run(open_dataset("sample"), spec, settings, out=memory / "out", mode=Mode.OVERWRITE)
    return set(path.read_text().split())


@pytest.mark.parametrize("kind", ["Memory", "Streaming"])
def test_a_namespace_is_stable_and_differs_by_haystack_run_name_and_system(
    memory: Path, kind: str
) -> None:
    first = namespaces(memory, kind)
    assert len(first) == len((memory / "log").read_text().split()) == 12
    assert all(re.fullmatch("h[0-9a-f]{31}", one) for one in first)
    assert namespaces(memory, kind) == first
    assert not first & namespaces(memory, kind, name="another")
    assert not first & namespaces(memory, kind, model="large")


def test_a_resumed_run_has_the_namespaces_of_the_stopped_one(memory: Path) -> None:
    whole = namespaces(memory, "Memory")
    (memory / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        namespaces(memory, "Memory")
    stopped = (memory / "log").read_text().split()
    (memory / "stop").unlink()
    spec = RetrieverSpec(f"{memory}/memory.py:Memory", {"log": str(memory / "log")})
    dataset = open_dataset("sample")
    run(dataset, spec, Settings(limit=60), out=memory / "out", mode=Mode.RESUME)
    resumed = (memory / "log").read_text().split()[len(stopped) :]
    assert stopped == resumed[:1]
    assert set(resumed) == whole


def test_two_parts_of_one_system_have_different_namespaces(memory: Path) -> None:
    part = {"name": f"{memory}/memory.py:Memory", "params": {"log": str(memory / "log")}}
    spec = RetrieverSpec("hybrid", {"retrievers": [part, part]})
    run(open_dataset("sample"), spec, Settings(limit=60), out=memory / "out")
    found = (memory / "log").read_text().split()
    assert len(set(found)) == len(found) == 24
