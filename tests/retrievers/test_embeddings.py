"""The cache of vectors: a text is embedded once, whoever asks, and whatever breaks."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from counting import TEXTS, WIDE, Counting, embed, embedded, goes_on, vector, write_forever
from notes import corpus
from polling import HANGS, Watched, wait_until

from harness.errors import UsageError
from harness.extensions.answers.answering.replies import ChatReply, Replies
from harness.extensions.dense import embeddings
from harness.extensions.dense.embedder import Embedder, VectorOptions, VectorRetriever
from harness.extensions.dense.embeddings import Store, cached_vectors, digests
from harness.retrievers.contract import Question
from harness.retrievers.timing import Clock, timed

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
    assert [(one.revision, one.vectors) for one in cached_vectors()] == [("r1", 2), ("r2", 1)]


def test_processes_that_embed_the_same_texts_at_once_embed_each_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [spawn.Process(target=embed, args=(log, 0.02, 20 * i)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(HANGS)
        assert process.exitcode == 0
    assert sorted(embedded(log)) == sorted(TEXTS)


@pytest.mark.slow
def test_who_has_one_text_to_embed_has_its_turn_while_another_embeds_a_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    process = spawn.Process(target=embed, args=(log, 0.3, 0, 8))
    process.start()
    wait_until(lambda: len(embedded(log)) > 8)
    before = len(embedded(log))
    # The other goes on when this one says that it waits.
    monkeypatch.setattr(sys, "stderr", Watched("note: waiting", goes_on(log).touch))
    with timed(Clock()) as clock:
        Embedder(Counting(log))(["mine"])
    clock.stop()
    lines = embedded(log)
    process.join()
    # The turn that the other had, and one more where it came first: of half a second each.
    assert lines.index("mine") - before <= 2 * 16
    assert len(embedded(log)) == len(TEXTS) + 1
    assert clock.waited > clock.seconds  # which is not its own time


@pytest.mark.slow
def test_who_is_waited_for_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    process = spawn.Process(target=embed, args=(log, 0, 0, 0))
    process.start()
    wait_until(lambda: bool(embedded(log)))
    note = f"note: waiting for process {process.pid}, which embeds with counting too"
    monkeypatch.setattr(sys, "stderr", said := Watched(note, process.kill))
    Embedder(Counting(log))(["mine"])
    process.join()
    assert f"{note}\n" in said.getvalue()


def test_what_a_killed_process_embedded_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = spawn.Process(target=embed, args=(log, 0.3, 0, 40))
    process.start()
    wait_until(lambda: sum(one.vectors for one in cached_vectors()) >= 16)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    done = cached_vectors()[0].vectors
    before = embedded(log)
    assert 16 <= done < len(TEXTS)
    assert len(before) - done <= 16  # of half a second
    embed(log, 0.0, 0)
    assert embedded(log) == before + TEXTS[done:]


@pytest.mark.parametrize("after", [1, 3, 6])
def test_what_is_killed_in_the_midst_of_writing_leaves_whole_vectors(after: int) -> None:
    process = spawn.Process(target=write_forever)
    process.start()
    wait_until(lambda: sum(one.vectors for one in cached_vectors()) >= after * WIDE)
    process.kill()
    process.join()
    store = Store("wide", "r")
    places = store.find(digests(str(i) for i in range(100 * WIDE)))
    n = int((places >= 0).sum())
    assert n >= after * WIDE
    assert (places[:n] >= 0).all()
    found = store.read(places[:n])
    assert (found == np.arange(n)[:, None]).all()
    with store.alone():
        store.add(digests(["next"]), np.full((1, WIDE), -1, np.float32))
    again = Store("wide", "r")
    found = again.read(again.find(digests([str(n - 1), "next"])))
    assert found[:, 0].tolist() == [n - 1, -1]


def test_a_flipped_byte_is_noticed_and_said_and_its_shard_alone_is_embedded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(embeddings, "BYTES", 16 * 4 * 4)  # 16 vectors a shard
    log = tmp_path / "log"
    Embedder(Counting(log))(TEXTS)
    damaged = sorted(cached_vectors()[0].path.glob("*.npy"))[1]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    Embedder(Counting(log))(TEXTS[:8])  # who reads another shard does not meet it
    assert capsys.readouterr().err == ""
    for _ in range(2):
        found = Embedder(Counting(log))(TEXTS)
        assert found.tolist() == [vector(text) for text in TEXTS]
        assert len(embedded(log)) == len(TEXTS) + 16
    said = capsys.readouterr().err
    assert said == f"note: {damaged}: damaged (row 15); its texts are embedded again\n"


def test_a_retriever_embeds_again_what_is_damaged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    retriever = VectorRetriever(Counting(log), VectorOptions())
    retriever.index(corpus(TEXTS))
    wanted = retriever.search([Question(TEXTS[3])], 5)[0].ids.tolist()
    path = next(cached_vectors()[0].path.glob("*.npy"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    retriever = VectorRetriever(Counting(log), VectorOptions())
    retriever.index(corpus(TEXTS))
    assert retriever.search([Question(TEXTS[3])], 5)[0].ids.tolist() == wanted
    assert len(embedded(log)) == 2 * len(TEXTS)


def test_cache_verify_names_the_damaged_block_and_the_replies(
    tmp_path: Path, harness: Callable[..., Any], home: Path
) -> None:
    Embedder(Counting(tmp_path / "log"))(TEXTS)
    replies = Replies(home)
    for name in "ab":
        replies.put(name, ChatReply(text=f"said {name}"), "model")
    assert harness("cache", "verify").status == 0
    (block,) = cached_vectors()[0].path.glob("*.npy")
    data = bytearray(block.read_bytes())
    data[-3] ^= 4
    block.write_bytes(data)
    with sqlite3.connect(home / "replies.sqlite") as db:
        db.execute("update replies set reply = replace(reply, 'said b', 'said c') where key = 'b'")
    assert (replies.get("a"), replies.get("b")) == (ChatReply(text="said a"), None)
    replies.close()
    told = harness("cache", "verify")
    assert told.status == 1
    assert f"{block}: damaged (row 63)" in told.err
    assert "1 replies of models are not as they were written" in told.err


def test_vectors_that_are_no_numbers_are_not_kept(tmp_path: Path) -> None:
    store = Store("another/model", "abc")
    for wrong in (np.nan, np.inf):
        with store.alone(), pytest.raises(UsageError, match="NaN or infinity"):
            store.add(digests(["k"]), np.array([[1.0, wrong]], np.float32))
    with store.alone():
        store.add(digests(["k"]), np.array([[1.0, 2.0]], np.float32))


@pytest.mark.parametrize("ending", ["npy", "keys", "json"])
def test_a_file_that_is_cut_short_or_overwritten_is_said_in_one_line_and_made_again(
    tmp_path: Path,
    harness: Callable[..., Any],
    ending: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    log = tmp_path / "log"
    Embedder(Counting(log))(TEXTS)
    path = next(cached_vectors()[0].path.glob(f"*.{ending}"))
    path.write_bytes(b"" if ending == "npy" else b"neither keys nor settings" * 100)
    assert _json(harness("cache", "list", "--json"))["models"][0]["revision"] == "damaged"
    found = Embedder(Counting(log))(TEXTS)
    assert found.tolist() == [vector(text) for text in TEXTS]
    said = capfd.readouterr().err
    assert str(path.with_suffix(".npy" if ending == "keys" else f".{ending}")) in said
    assert said.count("\n") == 1
    assert len(embedded(log)) == 2 * len(TEXTS)
    assert _json(harness("cache", "list", "--json"))["models"][0]["revision"] == "r1"


def test_a_disk_that_is_full_in_the_midst_of_a_block_loses_only_what_did_not_fit(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    Embedder(Counting(log))(TEXTS[:8])
    # A limit of this process on the size of a file: half of the next vectors fit into the block.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = next(cached_vectors()[0].path.glob("*.npy")).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4 * 16, before[1]))
    try:
        with pytest.raises(UsageError, match="free space there") as caught:
            Store("counting", "r1").add(digests(TEXTS[8:16]), np.ones((8, 4), np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    found = Embedder(Counting(log))(TEXTS)
    assert found.tolist() == [vector(text) for text in TEXTS]
    assert embedded(log) == TEXTS


def test_keys_that_were_cut_short_are_not_there_and_are_written_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    Embedder(Counting(log))(TEXTS[:8])
    keys = next(cached_vectors()[0].path.glob("*.keys"))
    whole = keys.read_bytes()
    Embedder(Counting(log))(TEXTS[8:16])
    for cut in (len(whole) + 3, len(keys.read_bytes()) - 1):
        keys.write_bytes(keys.read_bytes()[:cut])
        assert cached_vectors()[0].vectors == (8 if cut == len(whole) + 3 else 15)
        found = Embedder(Counting(log))(TEXTS[:16])
        assert found.tolist() == [vector(text) for text in TEXTS[:16]]
        assert cached_vectors()[0].vectors == 16


def test_an_error_of_the_model_loses_nothing_that_was_embedded_before_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    encoder = Counting(log)

    class Fails:
        model, revision, at_once = encoder.model, encoder.revision, encoder.at_once

        def __call__(self, texts: list[str], prompt: str) -> Any:
            if TEXTS[40] in texts:
                raise RuntimeError("out of memory")
            return encoder(texts, prompt)

    with pytest.raises(RuntimeError, match="out of memory"):
        Embedder(Fails())(TEXTS)
    assert cached_vectors()[0].vectors == 40
    Embedder(encoder)(TEXTS)
    assert embedded(log) == TEXTS


def test_many_small_pieces_make_few_files(tmp_path: Path) -> None:
    embed = Embedder(Counting(tmp_path / "log"))
    for text in TEXTS:
        embed([text])
    assert len([*cached_vectors()[0].path.iterdir()]) == 3
    assert np.load(next(cached_vectors()[0].path.glob("*.npy"))).tolist() == [
        vector(text) for text in TEXTS
    ]


def test_half_precision_takes_half_the_disk(tmp_path: Path) -> None:
    log = tmp_path / "log"
    full = Embedder(Counting(log))(TEXTS)
    half = Embedder(Counting(log), "float16")(TEXTS)
    assert half.dtype == np.float32
    assert half.tolist() == full.astype(np.float16).tolist()
    assert [one.dtype for one in cached_vectors()] == ["float32", "float16"]
    sizes = [next(one.path.glob("*.npy")).stat().st_size - 128 for one in cached_vectors()]
    assert sizes == [64 * 4 * 4, 64 * 4 * 2]
    large = Store("counting", "r1", "float16")
    with (
        large.alone(),
        pytest.raises(UsageError, match="range of float16; use dtype=float32"),
    ):
        large.add(digests(["large"]), np.full((1, 4), 70_000, np.float32))
    with pytest.raises(ValueError, match="float32 or float16"):
        Embedder(Counting(log), "float8")


def test_a_process_goes_on_with_vectors_that_another_one_cleared(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    log = tmp_path / "log"
    embed = Embedder(Counting(log))
    embed(TEXTS[:8])
    harness("cache", "clear")
    assert embed(TEXTS).tolist() == [vector(text) for text in TEXTS]
    assert embedded(log) == TEXTS
    assert cached_vectors()[0].vectors == len(TEXTS) - 8


def test_the_command_lists_and_clears_one_model_or_all(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    log = tmp_path / "log"
    Embedder(Counting(log))(TEXTS)
    other = Store("another/model", "abc")
    with other.alone():
        other.add(digests(["k"]), Embedder(Counting(log))(["x"])[:, :2])
    listed = _json(harness("cache", "list", "--json"))["models"]
    assert [(one["model"], one["vectors"], one["dimension"]) for one in listed] == [
        ("another/model", 1, 2),
        ("counting", len(TEXTS) + 1, 4),
    ]
    for one in listed:
        files = Path(one["path"]).iterdir()
        assert one["bytes"] == sum(path.stat().st_size for path in files)
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


@pytest.mark.parametrize("odd", [{"dimension": {}}, {"dimension": -1}, {"dtype": "f"}], ids=str)
def test_a_settings_file_of_another_shape_is_damage(
    odd: dict[str, Any], tmp_path: Path, harness: Callable[..., Any]
) -> None:
    Embedder(Counting(tmp_path / "log"))(TEXTS)
    path = cached_vectors()[0].path / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **odd}))
    assert _json(harness("cache", "list", "--json"))["models"][0]["revision"] == "damaged"
    told = harness("cache", "verify")
    assert (told.status, "model.json: damaged" in told.err) == (1, True), told
    Embedder(Counting(tmp_path / "log"))(TEXTS)
    assert len(embedded(tmp_path / "log")) == 2 * len(TEXTS)
