"""Stores of vectors in this process: real ones, and the answers of an exact search."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import answers
from notes import ask, corpus
from polling import HANGS

from harness.errors import RunError, UsageError
from harness.retrievers.contract import Question
from harness.retrievers.registry import RetrieverSpec

pytestmark = [pytest.mark.systems, pytest.mark.usefixtures("weights", "home")]

EXACT: dict[str, dict[str, Any]] = {
    "qdrant": {},
    "lancedb": {},
    "duckdb": {},
    # As far as a search in its graph can look: every document of the largest haystack.
    "chroma": {"ef_search": 1000},
}


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_search_of_a_store_is_the_exact_search_of_minilm(
    name: str, similarity: str, tmp_path: Path
) -> None:
    expected = answers(RetrieverSpec("minilm", {"similarity": similarity}), tmp_path, limit=80)
    spec = RetrieverSpec(name, {**EXACT[name], "similarity": similarity})
    found = answers(spec, tmp_path, limit=80)
    assert len(expected) == 80
    assert found.keys() == expected.keys()
    for query, (ids, scores) in expected.items():
        assert found[query][0] == ids
        assert found[query][1] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize(
    "params", [{"index_type": "ivf_flat"}, {"index_type": "ivf_pq", "nprobes": 50}]
)
def test_an_index_of_lancedb_finds_most_of_what_an_exact_search_finds(
    params: dict[str, Any],
) -> None:
    notes = corpus([f"Note {i}: {WORDS[i % 7]} and {WORDS[i % 11]} {i * i}" for i in range(600)])
    questions = [Question(f"{a} and {b}") for a in WORDS for b in WORDS]
    nearest = []
    for given in ({}, {**params, "refine_factor": 10}):
        store = RetrieverSpec("lancedb", given).build()
        store.index(notes)
        nearest.append([set(map(int, found.ids)) for found in store.search(questions, 10)])
    overlap = np.mean([len(a & b) / 10 for a, b in zip(*nearest, strict=True)])
    assert overlap > 0.9


@pytest.mark.parametrize("name", EXACT)
def test_odd_corpora_and_questions_are_answered(name: str) -> None:
    store = RetrieverSpec(name).build()
    store.index(corpus([]))
    assert list(ask(store, "anything").ids) == []
    store.index(corpus(["The boat is blue."]))
    assert [list(ask(store, text).ids) for text in ("boat", "", "東京 🛶 \u202e")] == [
        [0],
        [0],
        [0],
    ]
    store.index(corpus(["same", "other " * 20_000, "same", "Zoë 東京"]))
    same = ask(store, "same", 2)
    assert sorted(map(int, same.ids)) == [0, 2]
    assert len(ask(store, "same", 1).ids) == 1
    assert len(ask(store, "same", 50).ids) == 4


@pytest.mark.parametrize("name", EXACT)
def test_a_corpus_replaces_the_last_one_and_close_leaves_nothing(name: str) -> None:
    store: Any = RetrieverSpec(name).build()
    store.index(corpus(["a boat", "a cello", "a bee"]))
    store.index(corpus(["a bee"]))
    assert len(ask(store, "boat").ids) == 1
    assert len(collections(store)) == 1
    store.close()
    assert collections(store) == []
    assert list(ask(store, "boat").ids) == []


def collections(store: Any) -> list[str]:
    """What a store in this process holds of ours."""
    match type(store).__name__:
        case "Qdrant":
            return [c.name for c in store._client.get_collections().collections]
        case "Chroma":
            return [c.name for c in store._client.list_collections()]
        case "Lance":
            return list(store._database.list_tables().tables)
        case _:
            rows = store._database.execute("select table_name from duckdb_tables()").fetchall()
            return [name for (name,) in rows]


def test_lancedb_leaves_no_folder_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "harness", "run", "--dataset", "sample", "--limit", "8"]
    command += ["--retriever", "lancedb", "--out", str(tmp_path / "results")]
    subprocess.run(command, check=True, timeout=HANGS, env=environment)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("harness")] == []


def test_lancedb_uses_a_folder_of_the_user_and_leaves_the_tables_there(tmp_path: Path) -> None:
    import lancedb
    import pyarrow as pa

    database = lancedb.connect(tmp_path)
    database.create_table("mine", pa.table({"a": [1]}))
    store: Any = RetrieverSpec("lancedb", {"uri": str(tmp_path)}).build()
    store.index(corpus(["a boat", "a bee"]))
    assert list(ask(store, "boat", 1).ids) == [0]
    assert len(database.list_tables().tables) == 2
    store.close()
    assert database.list_tables().tables == ["mine"]


@pytest.mark.parametrize("name", ["qdrant", "chroma"])
def test_a_server_that_does_not_answer_is_said_in_one_line(name: str) -> None:
    with pytest.raises(RunError, match=r"no answer from http://127\.0\.0\.1:9") as caught:
        RetrieverSpec(name, {"url": "http://127.0.0.1:9"}).build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["qdrant", "chroma"])
def test_an_address_with_a_password_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="must not hold a user or a password"):
        RetrieverSpec(name, {"url": "http://me:sesame@127.0.0.1:9"}).build()


WORDS = ["boat", "cello", "bee", "marathon", "syrup", "winter", "teacher", "garden", "train", "tea"]
WORDS += ["visa"]
