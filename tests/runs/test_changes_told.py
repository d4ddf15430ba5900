"""Memories that are told what was corrected, and what is to be forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import Message, Reply, serving

from harness.datasets.registry import open_dataset
from harness.retrievers.registry import RetrieverSpec
from harness.runs.blinding import BlindedCorpus
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

SYSTEMS = """
def words(text):
    return {word.strip("?.,!").lower() for word in text.split()}

class Plain:
    def reset(self):
        self.known = {}
    def add(self, documents):
        self.known |= {d.id: words(d.content) for d in documents}
    def search(self, queries, k):
        return [self.best(words(q.text), k) for q in queries]
    def best(self, asked, k):
        scores = {id_: len(asked & words) for id_, words in self.known.items()}
        return sorted(scores.items(), key=lambda one: -one[1])[:k]

class Minds(Plain):
    "Lets go of what no longer holds."
    def update(self, old, new):
        assert new.id in self.known and new.id != old
        del self.known[old]
    async def delete(self, handle):
        del self.known[handle]

class ReadsChanges(Plain):
    reset = add = None
    def index(self, corpus):
        self.known = {}
        Plain.add(self, corpus)
        for change in corpus.changes:
            self.known.pop(change.document)
"""


@pytest.fixture
def systems(tmp_path: Path) -> str:
    path = tmp_path / "systems.py"
    path.write_text(SYSTEMS)
    return str(path)


def returned(
    spec: RetrieverSpec, out: Path, split: str, **settings: Any
) -> dict[str, float | None]:
    """What no longer holds, and is returned nevertheless: shares of the questions."""
    dataset = open_dataset("changes", split=split)
    folder = run(dataset, spec, Settings(k=10, **settings), out=out)
    assert RunFolder(folder).record.queries.failed == 0
    changes = score_run(folder, dataset).report.changes
    assert changes is not None
    return {**changes.values, "n_after_update": changes.n_after_update}


@pytest.mark.slow
@pytest.mark.extensions
@pytest.mark.parametrize("split", ["test", "test-as-of"])
def test_who_is_told_returns_nothing_of_what_no_longer_holds_and_the_rest_as_before(
    systems: str, tmp_path: Path, split: str
) -> None:
    plain = returned(RetrieverSpec(f"{systems}:Plain"), tmp_path, split)
    assert min(plain["outdated_returned@10"], plain["forgotten_returned@10"]) > 0.3
    for name, settings in (("Minds", {}), ("Minds", {"workers": 2}), ("ReadsChanges", {})):
        minds = returned(RetrieverSpec(f"{systems}:{name}"), tmp_path / f"{name}{settings}", split)
        assert minds["outdated_returned@10"] == minds["forgotten_returned@10"] == 0
        assert minds["n_after_update"] == plain["n_after_update"] > 20
    if split == "test":  # else a process for every question
        isolated = RetrieverSpec(f"{systems}:ReadsChanges")
        assert returned(isolated, tmp_path / "isolated", split, isolate=True) == minds


def test_as_of_its_time_a_question_finds_what_held_then(systems: str, tmp_path: Path) -> None:
    """Told of all changes at once, a memory has let go of what was asked for before them."""
    spec = RetrieverSpec(f"{systems}:Minds")

    def recall(split: str) -> float:
        dataset = open_dataset("changes", split=split)
        folder = run(dataset, spec, Settings(k=10), out=tmp_path / split)
        memory = score_run(folder, dataset).report.protocols[0]
        assert memory.protocol == "memory"
        return float(memory.slices["all"].metrics["recall@10"].value)

    assert recall("test-as-of") > recall("test") + 0.1


@pytest.mark.parametrize("wants", [True, False])
def test_services_are_told_in_time_order_where_they_want_to_know(
    tmp_path: Path, wants: bool
) -> None:
    def answer(message: Message) -> Reply:
        results = [{"hits": []} for _ in message.get("queries", ())]
        return 200, {
            "concurrent_haystacks": True,
            "results": results,
            **({"changes": True} if wants else {}),
        }

    with serving(answer) as (url, told):
        spec = RetrieverSpec("http", {"url": url, "documents": 7})
        returned(spec, tmp_path, "test", allow_empty=True)
    dataset = open_dataset("changes")
    expected = sum(len(dataset.changes(h)) for h in range(len(dataset.haystack_ids)))
    changes = [message for message in told if message["type"] in ("update", "delete")]
    assert len(changes) == (expected if wants else 0)
    sent: set[str] = set()
    for message in told:
        if message["type"] == "index":
            sent |= {document["id"] for document in message["documents"]}
        elif message["type"] in ("update", "delete"):
            other = message.get("replacement") or message.get("requested_in")
            assert {message["document"], other or message["document"]} <= sent
    lasts = [message["last"] for message in told if message["type"] == "index"]
    assert sum(lasts) == len(dataset.haystack_ids)


def test_what_is_to_be_forgotten_is_part_of_what_is_taken_in() -> None:
    dataset = open_dataset("changes")
    for haystack in range(2):
        corpus = BlindedCorpus(dataset, haystack, 0).corpus
        assert corpus.changes
        known, key = {*corpus.handles}, corpus.key
        assert all({one.document, one.by or one.document} <= known for one in corpus.changes)
        assert [c.timestamp for c in corpus.changes] == sorted(c.timestamp for c in corpus.changes)
        corpus = BlindedCorpus(dataset, haystack, 0).corpus
        corpus.changes = ()
        assert corpus.key != key


def test_a_question_as_of_its_time_is_told_of_no_later_change() -> None:
    dataset = open_dataset("changes", split="test-as-of")
    asked = dataset.query_table["timestamp"].to_pylist()
    seen = 0
    for query, haystack in enumerate(dataset.query_haystack.tolist()):
        changes = BlindedCorpus(dataset, haystack, 0).corpus.changes
        seen += len(changes)
        assert all(change.timestamp <= asked[query] for change in changes)
        stamps = dataset.haystack_timestamps(haystack).to_numpy(zero_copy_only=False)
        assert np.nanmax(np.asarray(stamps, float)) <= asked[query]
    assert seen > 0
