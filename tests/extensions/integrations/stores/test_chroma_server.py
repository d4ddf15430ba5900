"""Chroma's own server on loopback, in a process of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answers import answers
from notes import ask, corpus
from places import ROOT
from polling import HANGS, wait_until

from harness.retrievers.registry import RetrieverSpec

pytestmark = [pytest.mark.systems, pytest.mark.usefixtures("weights", "home")]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`chroma run`, with a collection that is somebody else's."""
    import chromadb

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("chroma")
    program = shutil.which("chroma", path=str(Path(sys.executable).parent))
    command = [str(program), "run", "--host", "127.0.0.1", "--port", str(port), "--path"]
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(
            [*command, str(folder / "data")],
            stdout=log,
            stderr=log,
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
        ) as server,
    ):
        address = f"http://127.0.0.1:{port}"
        try:
            wait(f"{address}/api/v2/heartbeat", server)
            client = chromadb.HttpClient("127.0.0.1", port)
            client.create_collection("mine", embedding_function=None)
            yield address
        finally:
            server.terminate()


def wait(address: str, server: subprocess.Popen[bytes]) -> None:
    """Until the server answers."""

    def answers() -> bool:
        try:
            urllib.request.urlopen(address, timeout=HANGS)
        except OSError:
            return False
        return True

    wait_until(answers, server)


def names(url: str) -> list[str]:
    import chromadb

    port = int(url.rpartition(":")[2])
    return [found.name for found in chromadb.HttpClient("127.0.0.1", port).list_collections()]


def test_the_server_finds_what_an_exact_search_finds(url: str, tmp_path: Path) -> None:
    expected = answers(RetrieverSpec("minilm"), tmp_path)
    found = answers(RetrieverSpec("chroma", {"url": url, "ef_search": 1000}), tmp_path)
    for query, (ids, scores) in expected.items():
        assert found[query][0] == ids
        assert found[query][1] == pytest.approx(scores, abs=1e-5)
    assert names(url) == ["mine"]


def test_a_new_corpus_and_close_leave_the_collections_of_others(url: str) -> None:
    store: Any = RetrieverSpec("chroma", {"url": url}).build()
    store.index(corpus(["a boat", "a cello"]))
    store.index(corpus(["a bee"]))
    assert list(ask(store, "boat").ids) == [0]
    assert len(names(url)) == 2
    store.close()
    assert names(url) == ["mine"]


def test_a_process_that_nobody_told_to_close_leaves_nothing(url: str) -> None:
    script = (
        "from notes import ask, corpus\n"
        "from harness.extensions.integrations.vector_stores import Chroma\n"
        f"store = Chroma(url={url!r})\n"
        "store.index(corpus(['a boat']))\n"
        "print(len(store._client.list_collections()), *ask(store, 'boat').ids)\n"
    )
    notes = ROOT / "tests"
    environment = {**os.environ, "PYTHONPATH": f"{notes}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env=environment,
    )
    assert done.stdout.split() == ["2", "0"], done.stderr
    assert names(url) == ["mine"]


def test_a_key_reaches_no_result(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", "sesame-open")
    answers(RetrieverSpec("chroma", {"url": url, "api_key_env": "TOKEN_OF_MINE"}), tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "run.json" and url.encode() in path.read_bytes() for path in files)
    assert not any(b"sesame" in path.read_bytes() for path in files)
