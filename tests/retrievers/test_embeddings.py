"""The cache of vectors: a text is embedded once, whoever asks, and whatever breaks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from counting import TEXTS, Counting, embed, embedded, vector

from harness.errors import UsageError
from harness.retrievers.embedder import Embedder
from harness.retrievers.embeddings import Store, kept

spawn = multiprocessing.get_context("spawn")
pytestmark = pytest.mark.usefixtures("home")


def test_a_text_is_embedded_once_whatever_asks_for_it_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = Embedder(Counting(log))
    found = first(["b", "a", "b", ""])
    assert found.tolist() == [vector(text) for text in ("b", "a", "b", "")]
    assert Embedder(Counting(log))(["", "b"]).tolist() == [vector(""), vector("b")]
    assert embedded(log) == ["b", "a", ""]
    report = first.report()
    assert (report["texts_asked"], report["texts_embedded"], report["cache_hit_rate"]) == (3, 3, 0)


def test_another_prompt_and_another_revision_are_other_vectors(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for revision, prompt in (("r1", ""), ("r1", "query: "), ("r2", ""), ("r2", "")):
        assert Embedder(Counting(log, revision))(["a"], prompt).tolist() == [vector(prompt + "a")]
    assert embedded(log) == ["a", "query: a", "a"]
    assert [(one.revision, one.vectors) for one in kept()] == [("r1", 2), ("r2", 1)]


def test_processes_that_embed_the_same_texts_at_once_embed_each_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [spawn.Process(target=embed, args=(log, 0.02, 20 * i)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(embedded(log)) == sorted(TEXTS)


def test_what_a_killed_process_embedded_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = spawn.Process(target=embed, args=(log, 0.1, 0))
    process.start()
    deadline = time.monotonic() + 30
    while sum(one.vectors for one in kept()) < 16 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    done = kept()[0].vectors
    before = embedded(log)
    assert 16 <= done < len(TEXTS)
    embed(log, 0.0, 0)
    assert embedded(log) == before + TEXTS[done:]


def test_a_damaged_file_is_said_in_one_line_and_cleared(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    log = tmp_path / "log"
    Embedder(Counting(log))(TEXTS)
    path = kept()[0].path
    path.write_bytes(b"not a database, however long one looks at it" * 100)
    with pytest.raises(UsageError, match="damaged") as caught:
        Embedder(Counting(log))(TEXTS)
    assert str(path) in str(caught.value)
    assert "harness cache clear" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert _json(harness("cache", "list", "--json"))["models"][0]["revision"] == "damaged"
    _json(harness("cache", "clear", "--json"))
    Embedder(Counting(log))(TEXTS)
    assert len(embedded(log)) == 2 * len(TEXTS)


def test_the_command_lists_and_clears_one_model_or_all(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    log = tmp_path / "log"
    Embedder(Counting(log))(TEXTS)
    Store("another/model", "abc").create(2)
    Store("another/model", "abc").add([b"k"], Embedder(Counting(log))(["x"])[:, :2])
    listed = _json(harness("cache", "list", "--json"))["models"]
    assert [(one["model"], one["vectors"], one["dimension"]) for one in listed] == [
        ("another/model", 1, 2),
        ("counting", len(TEXTS) + 1, 4),
    ]
    assert all(one["bytes"] == Path(one["path"]).stat().st_size for one in listed)
    _json(harness("cache", "clear", "--model", "counting", "--json"))
    left = _json(harness("cache", "--json"))["models"]
    assert [one["model"] for one in left] == ["another/model"]
    Embedder(Counting(log))(TEXTS[:3])
    assert embedded(log)[-3:] == TEXTS[:3]
    _json(harness("cache", "clear", "--json"))
    assert _json(harness("cache", "--json"))["models"] == []


def test_a_folder_that_cannot_be_written_is_said_in_one_line(home: Path, tmp_path: Path) -> None:
    home.write_text("a file stands where the folder should be")
    with pytest.raises(UsageError, match="set HARNESS_HOME") as caught:
        Embedder(Counting(tmp_path / "log"))(["a"])
    assert "\n" not in str(caught.value)


def _json(said: Any) -> list[dict[str, object]]:
    assert said.status == 0, said.err
    found: list[dict[str, object]] = orjson.loads(said.out)
    return found
