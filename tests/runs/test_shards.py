"""A haystack in shards: whatever their number, the answers are those of one retriever over all."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from corpora import labelled, ranked
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.remote_store import VARIABLE, DatasetLocation
from harness.errors import UsageError
from harness.extensions.cluster.corpus_shards import corpus_over, split_corpus
from harness.extensions.cluster.shards import (
    Shard,
    ShardAnswer,
    add_statistics,
    can_be_cut,
    merge_answers,
)
from harness.retrievers.bm25 import BM25, METHODS
from harness.retrievers.bm25 import index as inverted
from harness.retrievers.bm25 import retriever as bm25
from harness.retrievers.contract import Corpus, Question, Result, Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.runs.blinding import BlindedCorpus
from harness.runs.run import run
from harness.runs.worker_state import RemoteCallError

WORDS = [f"w{n}" for n in range(8)]
ASKED = [Question("w0 w3 w3 w7"), Question("w1 w2"), Question("w5"), Question("nothing of it")]


def in_shards(
    dataset: Dataset, n: int, builds: Any, questions: Sequence[Question], k: int
) -> list[Result]:
    """What n shards find together, as on a cluster."""
    place = DatasetLocation.of(dataset)
    pieces = split_corpus(BlindedCorpus(dataset, 0, 0).corpus, n)
    shards = [Shard(builds, 0, 3, place, piece) for piece in pieces]
    statistics = add_statistics([_good(shard.statistics(questions)) for shard in shards])
    return merge_answers([_good(shard.search(questions, k, statistics)) for shard in shards], k)


def _good(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def whole(dataset: Dataset, retriever: Retriever, k: int) -> list[tuple[bytes, bytes]]:
    retriever.index(BlindedCorpus(dataset, 0, 0).corpus)
    return told(list(retriever.search(ASKED, k)))  # type: ignore[arg-type]


def told(results: Sequence[Result]) -> list[tuple[bytes, bytes]]:
    return [
        (np.int64(r.ids).tobytes(), np.asarray(r.scores, np.float64).tobytes()) for r in results
    ]


def words_of(folder: Path, documents: Sequence[Sequence[int]]) -> Dataset:
    records = [
        {"id": f"d{i}", "text": " ".join(WORDS[n] for n in words) or "--"}
        for i, words in enumerate(documents)
    ]
    return labelled(folder, records, [{"id": "q", "text": "w0"}], {"q": ["d0"]})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("on_disk", [False, True], ids=["in-memory", "on-disk"])
def test_bm25_in_shards_is_bm25_to_the_bit(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, method: str, on_disk: bool
) -> None:
    if on_disk:
        monkeypatch.setattr(inverted, "BLOCK", 40)
        monkeypatch.setattr(bm25, "PRUNED", 40)
    rng = np.random.default_rng(3)
    # Equal texts, so that many scores are equal; a word in one shard alone; a text without any.
    documents = [rng.integers(0, 7, rng.integers(0, 6)).tolist() for _ in range(400)]
    documents[250].append(7)
    dataset = words_of(tmp_path / "raw", documents)
    for k in (1, 10, 1000):
        expected = whole(dataset, BM25(method=method), k)
        for n in (1, 2, 7):
            found = in_shards(dataset, n, RetrieverSpec("bm25", {"method": method}), ASKED, k)
            assert told(found) == expected, (k, n)


@settings(max_examples=200)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4),
    st.integers(1, 12),
)
def test_merging_keeps_the_best_and_of_equal_ones_the_first(
    shards: list[list[int]], k: int
) -> None:
    rng = np.random.default_rng(0)
    places = rng.permutation(sum(map(len, shards)))
    everything, parts = [], []
    for scores in shards:
        own, places = np.sort(places[: len(scores)]), places[len(scores) :]
        order = np.lexsort((own, -np.array(scores, float)))
        parts.append(ShardAnswer(np.array([len(own)]), own[order], np.array(scores, float)[order]))
        everything += [*zip(np.negative(scores).tolist(), own.tolist(), strict=True)]
    (found,) = merge_answers(parts, k)
    assert [int(i) for i in found.ids] == [place for _, place in sorted(everything)[:k]]


def test_pieces_are_the_corpus_cut_and_nothing_is_shown_that_was_hidden(data: Path) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    corpus = BlindedCorpus(dataset, 0, 0).corpus
    pieces = split_corpus(corpus, 7)
    place = DatasetLocation.of(dataset)
    seen: dict[int, Any] = {}
    for piece in pieces:
        own = corpus_over(piece, place.documents(piece.low, piece.high))
        assert len(own) == len(piece.positions)
        seen |= dict(zip(piece.positions.tolist(), own, strict=True))
        assert len(pieces) == len({p.corpus.fingerprint() for p in pieces})
    assert [seen[i] for i in range(len(corpus))] == [*corpus]
    assert all(document.session is None for document in seen.values())


class Own:
    """Answers in ways of its own."""

    supports_sharding = True
    ranked_by = "score"

    def __init__(self, *answer: Any) -> None:
        self.answer = answer

    def index(self, corpus: Corpus) -> None:
        self.handles = corpus.handles

    def search(self, queries: Sequence[Question], k: int) -> list[Any]:
        ids, scores = self.answer
        if ids == "handles":
            return [Result(np.array(self.handles[:3]), scores) for _ in queries]
        return [Result(ids, scores) for _ in queries]


@pytest.mark.parametrize(
    "answer",
    [([0, 1, 0], [0.1, 0.5, 0.9]), ([2, 1, 0], [1, 1, 3]), ("handles", [3.0, 2.0, 1.0])],
)
def test_an_answer_in_shards_is_taken_as_one_of_a_process_is(
    tmp_path: Path, answer: tuple[Any, Any]
) -> None:
    dataset = words_of(tmp_path / "raw", [[0], [1], [2]])
    here = ranked(run(dataset, Own(*answer), out=tmp_path / "runs"))["q"]
    ids = dataset.documents.column("id").to_pylist()
    (found,) = in_shards(dataset, 1, Own(*answer), [Question("w0")], 100)
    rows = BlindedCorpus(dataset, 0, 0).rows[np.asarray(found.ids)]
    if answer[1] != [1, 1, 3]:
        assert [ids[row] for row in rows] == here
    else:  # equal scores keep the corpus' order
        assert [int(i) for i in found.ids] == [0, 1, 2]


@pytest.mark.parametrize("ids", [np.array([0.7, 1.2]), [0.7, 1.2], [7], ["d99"]])
def test_a_place_that_is_none_is_an_error_in_shards_too(tmp_path: Path, ids: Any) -> None:
    dataset = words_of(tmp_path / "raw", [[0], [1], [2]])
    with pytest.raises(RemoteCallError, match=r"(NotAnAnswerError|ValueError)"):
        in_shards(dataset, 1, Own(ids, [2.0, 1.0][: len(ids)]), ASKED, 10)


class Normed(BM25):
    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        raise NotImplementedError


class Cut(Normed):
    supports_sharding = True


class Longer(BM25):
    def index(self, corpus: Corpus) -> None:
        super().index(corpus)


def test_who_searches_in_another_way_is_not_cut_unless_it_says_so_itself() -> None:
    assert [can_be_cut(kind()) for kind in (BM25, Longer, Normed, Cut)] == [True, True, False, True]


class NoScores:
    supports_sharding = True

    def index(self, corpus: Corpus) -> None:
        self.size = len(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
        return [[0] for _ in queries]


class Fails(NoScores):
    def index(self, corpus: Corpus) -> None:
        raise RuntimeError("no room for vectors")


def test_what_a_shard_cannot_answer_is_an_error_that_says_why(tmp_path: Path) -> None:
    dataset = words_of(tmp_path / "raw", [[0], [1], [2]])
    with pytest.raises(Exception, match="a shard must return a score with each document"):
        in_shards(dataset, 2, NoScores(), ASKED, 10)
    with pytest.raises(Exception, match="no room for vectors"):
        in_shards(dataset, 2, Fails(), ASKED, 10)


def test_a_machine_without_the_dataset_takes_it_from_what_is_shared(
    tmp_path: Path, home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = data / "beir" / "scifact"
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "one"))
    dataset = open_dataset("beir/scifact", source=source)
    texts = dataset.documents.contents()
    place = DatasetLocation.of(dataset)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    place.put()
    dataset.folder.rename(tmp_path / "away")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "another"))
    low, high = 1000, 5183
    part = place.documents(low, high)
    assert part.contents() == texts[low:high]
    assert part.table["id"].null_count == len(part)
    assert not (tmp_path / "another").exists()  # nothing but those was copied
    assert place.open().fingerprint == dataset.fingerprint
    shutil.rmtree(tmp_path / "shared")
    assert place.open().documents.contents() == texts  # it has a copy of its own now
    shutil.rmtree(tmp_path / "another")
    for uri, said in (
        (str(tmp_path / "shared"), "nor is it in HARNESS_SHARED"),
        ("", "it is not there"),
        ("nothing://x", "HARNESS_SHARED=nothing://x: "),
        ("s3://me:secret@bucket/x?nonsense=1", "HARNESS_SHARED=s3://bucket/x: "),
        ("s3://me:se/secret@bucket/x", "HARNESS_SHARED=s3://bucket/x: "),
    ):
        monkeypatch.setenv(VARIABLE, uri)
        with pytest.raises(UsageError, match=said) as raised:
            place.open()
        assert "secret" not in str(raised.value)


def test_half_of_a_dataset_is_not_taken_for_a_whole(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "one"))
    dataset = words_of(tmp_path / "raw", [[0], [1], [2]])
    place = DatasetLocation.of(dataset)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    place.put()
    dataset.folder.rename(tmp_path / "away")
    (documents,) = (tmp_path / "shared").glob("datasets/*/documents.arrow")
    documents.write_bytes(documents.read_bytes()[:-100])
    for taken in (place.open, lambda: place.documents(0, 3)):
        with pytest.raises(UsageError, match="are not those of its manifest"):
            taken()
    assert not [*(tmp_path / "one" / "shared").glob("datasets/[!.]*")]


def test_a_dataset_that_was_prepared_anew_meanwhile_is_not_shared_for_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "one"))
    place = DatasetLocation.of(words_of(tmp_path / "raw", [[0], [1], [2]]))
    words_of(tmp_path / "raw", [[4], [5], [6]])
    monkeypatch.setenv(VARIABLE, str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    with pytest.raises(UsageError, match="was prepared again in the meantime"):
        place.put()


def test_a_name_of_words_alone_is_asked_as_one(tmp_path: Path) -> None:
    # A term called "documents" is no count of documents.
    records = [{"id": "a", "text": "documents terms"}, {"id": "b", "text": "terms"}]
    dataset = labelled(tmp_path / "raw", records, [{"id": "q", "text": "terms"}], {"q": ["b"]})
    asked = [Question("documents terms")]
    one = BM25()
    one.index(BlindedCorpus(dataset, 0, 0).corpus)
    with mock.patch.object(bm25, "PRUNED", 0):
        assert told(in_shards(dataset, 2, RetrieverSpec("bm25"), asked, 5)) == told(
            one.search(asked, 5)
        )
