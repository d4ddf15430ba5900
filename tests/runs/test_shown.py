"""What a retriever is shown holds nothing of the answer key: no id, no category, no order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import READERS, ByHandle, BySession, cell, gold_first, labelled, ranked

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.retrievers.contract import Corpus, Question
from harness.runs.blinding import BlindedCorpus
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.schema import Ability
from harness.scoring.protocols import Choices


class Keeps:
    """Keeps whatever it is given."""

    def __init__(self) -> None:
        self.corpora: list[Corpus] = []
        self.questions: list[Question] = []

    def index(self, corpus: Corpus) -> None:
        self.corpora.append(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
        self.questions += queries
        return [[] for _ in queries]


def _public(thing: Any, depth: int = 4) -> Iterator[tuple[str, Any]]:
    """(name of the attribute, plain value) of everything that can be reached without a `_`."""
    if thing is None or isinstance(thing, str | int | float):
        yield "", thing
    elif isinstance(thing, list | tuple | np.ndarray | Corpus) and depth:
        for item in thing:
            yield from _public(item, depth - 1)
    if not isinstance(thing, str | int | float | list | tuple | np.ndarray) and depth:
        for name in dir(thing):
            if not name.startswith("_") and not callable(value := getattr(thing, name)):
                yield from ((name + (n and "." + n), v) for n, v in _public(value, depth - 1))


def _seen(dataset: Dataset, out: Path) -> set[tuple[str, Any]]:
    keeps = Keeps()
    run(dataset, keeps, Settings(k=1), out=out)
    shown = [*keeps.corpora, *(q for q in keeps.questions)]
    return {pair for thing in shown for pair in _public(thing)}


@pytest.mark.parametrize(
    ("name", "file", "granularity"),
    [
        ("locomo", "locomo/locomo10.json", "turn"),
        ("locomo", "locomo/locomo10.json", "session"),
        ("longmemeval", "longmemeval/longmemeval_s_sample.json", "turn"),
        ("longmemeval", "longmemeval/longmemeval_s_sample.json", "session"),
    ],
)
def test_nothing_that_a_retriever_is_given_names_what_the_dataset_names(
    home: Path, data: Path, tmp_path: Path, name: str, file: str, granularity: str
) -> None:
    dataset = open_dataset(name, granularity=granularity, source=data / file)
    seen = _seen(dataset, tmp_path)
    texts = {value for place, value in seen if place.endswith(("text", "content", "contents"))}
    others = {str(value) for _, value in seen} - {str(text) for text in texts}
    queries = [dataset.query(row) for row in range(dataset.n_queries)]
    table = dataset.documents.table
    speakers = {s for s in table["speaker"].to_pylist() if s}
    secrets = {
        *table["id"].to_pylist(),
        *(s for s in table["session"].to_pylist() if s),
        *dataset.haystack_ids,
        *(query.id for query in queries),
        *(query.category for query in queries if query.category),
        *map(str, Ability),
        # An answer that is a short number is also a position, and some are a speaker's name.
        *(answer for query in queries for answer in query.answers if not answer.isdecimal()),
    } - speakers
    assert len(secrets) > 100
    assert len(texts) > 50
    assert not secrets & others
    # Ids of other shapes: `answer_...` of LongMemEval, D1:2 of LoCoMo.
    ids = [id_ for id_ in table["id"].to_pylist() if len(id_) > 6]
    assert not [id_ for id_ in ids for text in texts if id_ in str(text)]
    namespaces = {value for place, value in seen if place == "namespace"}
    assert all(re.fullmatch("h[0-9a-f]{31}", value) for value in namespaces)
    plain = {value for value in others if not value.lstrip("-").isdecimal()} - namespaces
    assert all(v[:1] in "ds" and v[1:].isdecimal() for v in plain - speakers - {"None", ""})


def test_a_corpus_does_not_even_hold_the_ids_behind_its_private_names(
    home: Path, data: Path
) -> None:
    dataset = open_dataset("longmemeval", source=data / "longmemeval" / "longmemeval_s_sample.json")
    corpus = BlindedCorpus(dataset, 0, 0).corpus
    columns = corpus._documents.table
    assert columns["id"].null_count == columns["session"].null_count == len(columns)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("common", [{}, {"timestamp": 1700000000}, {"session": "s"}])
def test_readers_of_handles_and_order_score_at_chance_where_nothing_is_dated_apart(
    home: Path, tmp_path: Path, reader: type, common: dict[str, Any]
) -> None:
    dataset = gold_first(tmp_path / "files", haystacks=80, size=20, **common)
    values = []
    for seed in range(3):
        folder = run(dataset, reader(), Settings(k=5, seed=seed), out=tmp_path / "out")
        found = ranked(folder)
        values.append(np.mean([f"gold-{query[1:]}-0" in top for query, top in found.items()]))
    # Chance is 5 of 20; four standard errors of 240 draws.
    assert np.mean(values) == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 240) ** 0.5)
    assert len(set(values)) > 1  # another seed is another order


@pytest.mark.slow
@pytest.mark.parametrize("reader", [ByHandle, pytest.param(BySession, marks=pytest.mark.slow)])
def test_readers_of_handles_score_at_chance_on_locomo(
    home: Path, data: Path, tmp_path: Path, reader: type
) -> None:
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    values, chance = [], 0.0
    for seed in range(3):
        folder = run(dataset, reader(), Settings(k=50, seed=seed), out=tmp_path)
        score_run(folder, dataset, Choices(["memory"], [50]))
        values.append(cell(folder, "recall@50").value)
        chance = cell(folder, "recall@50").random_baseline
    assert chance == pytest.approx(0.0862, abs=0.0001)
    # One order serves all the questions of a conversation, so there are 10 draws a seed.
    assert np.mean(values) == pytest.approx(chance, abs=0.014)


def test_dated_documents_come_in_the_order_of_time_and_position_alone(
    home: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    documents = [
        {"id": f"d{i}", "text": f"t{i}", "session": f"s{i % 7}", "position": i // 7}
        | {"timestamp": 1700000000 + 3600 * (i % 7)}
        for i in range(70)
    ]
    expected = [d["text"] for d in sorted(documents, key=lambda d: (d["timestamp"], d["position"]))]
    for attempt in range(3):
        shuffled = [documents[i] for i in rng.permutation(len(documents))]
        queries = [{"id": "q", "text": "when?"}]
        gold = {"q": [shuffled[0]["id"]]}
        dataset = labelled(tmp_path / str(attempt), shuffled, queries, gold)
        for seed in range(2):
            assert BlindedCorpus(dataset, 0, seed).corpus.contents == expected


def test_documents_of_the_same_moment_keep_their_session_and_sessions_are_shuffled(
    home: Path, tmp_path: Path
) -> None:
    documents = [
        {"id": f"{s}{i}", "text": f"{s}{i}", "session": s, "position": i, "timestamp": 1700000000}
        for s in "abcdef"
        for i in range(3)
    ]
    dataset = labelled(tmp_path, documents, [{"id": "q", "text": "?"}], {"q": ["a0"]})
    firsts = set()
    for seed in range(12):
        contents = BlindedCorpus(dataset, 0, seed).corpus.contents
        sessions = [contents[i : i + 3] for i in range(0, 18, 3)]
        assert sorted(sessions) == [[f"{s}{i}" for i in range(3)] for s in "abcdef"]
        firsts.add(contents[0])
    assert len(firsts) > 3


def test_a_document_without_a_session_is_shown_none(home: Path, tmp_path: Path) -> None:
    documents = [{"id": "a", "text": "a", "session": "x"}, {"id": "b", "text": "b"}]
    dataset = labelled(tmp_path, documents, [{"id": "q", "text": "?"}], {"q": ["a"]})
    shown = {d.text: d.session for d in BlindedCorpus(dataset, 0, 0).corpus}
    assert shown == {"a": "s0", "b": None}


def test_the_order_of_the_questions_tells_nothing_of_what_they_ask(
    home: Path, data: Path, tmp_path: Path
) -> None:
    """LoCoMo's file puts the adversarial questions of a conversation last."""
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    keeps = Keeps()
    run(dataset, keeps, Settings(k=1), out=tmp_path)
    texts = dataset.query_table["text"].to_pylist()
    row_of = {text: row for row, text in enumerate(texts)}
    rows = np.array([row_of[question.text] for question in keeps.questions])
    assert len(rows) == 1986
    without = dataset.abilities[rows] == "abstention"
    haystack = dataset.query_haystack[rows]
    place = np.empty(len(rows))
    for one in range(10):
        place[haystack == one] = np.linspace(0, 1, (haystack == one).sum())
    # The place of a question among its conversation's, from 0 to 1: in the file 0.89.
    assert place[without].mean() == pytest.approx(0.5, abs=0.05)


def test_the_order_of_the_haystacks_tells_nothing_of_what_they_are_asked(
    home: Path, tmp_path: Path
) -> None:
    """LongMemEval's file is grouped by type."""
    dataset = gold_first(tmp_path / "files", haystacks=200, size=2)
    keeps = Keeps()
    run(dataset, keeps, Settings(k=1), out=tmp_path)
    places = [int(question.text.split()[1]) for question in keeps.questions]
    assert sorted(places) == list(range(200))
    assert abs(np.corrcoef(places, range(200))[0, 1]) < 0.2


@pytest.mark.slow
def test_another_seed_changes_handles_and_nothing_that_is_dated(
    home: Path, data: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    one, two = (BlindedCorpus(dataset, 0, seed).corpus for seed in (1, 2))
    assert one.contents == two.contents
    assert one.timestamps == two.timestamps
    assert one.handles != two.handles
    assert sorted(one.handles) == sorted(two.handles)
    rankings = []
    for seed in (1, 2):
        folder = run(dataset, "bm25", Settings(k=10, seed=seed), out=tmp_path)
        rankings.append((folder / "rankings.parquet").read_bytes())
    assert rankings[0] == rankings[1]


def test_positions_count_from_either_end_and_no_further(home: Path, tmp_path: Path) -> None:
    dataset = gold_first(tmp_path, haystacks=1, size=3)
    corpus = BlindedCorpus(dataset, 0, 0).corpus
    assert corpus[-1] == corpus[2] == list(corpus)[2]
    assert len(corpus) == 3
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            corpus[beyond]


@pytest.mark.slow
def test_a_corpus_in_blocks_is_the_same_corpus_whatever_fits_into_a_window(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    corpus = BlindedCorpus(dataset, 0, 0).corpus
    for window in (1 << 28, 5_000, 1):
        monkeypatch.setattr("harness.retrievers.corpus._WINDOW", window)
        blocks = [*corpus.blocks(50)]
        assert max(map(len, blocks)) <= 50
        assert [document for block in blocks for document in block] == [*corpus]
        for column in ("handles", "contents", "timestamps"):
            whole = [value for block in blocks for value in getattr(block, column)]
            assert whole == getattr(corpus, column)
        assert {block.fingerprint() for block in blocks} == {None}
    assert list(corpus.blocks(len(corpus))) == [corpus]


def test_the_fingerprint_of_a_corpus_is_of_its_documents_and_their_order(
    home: Path, data: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    same = [BlindedCorpus(dataset, 0, seed).corpus.fingerprint() for seed in (0, 1)]
    assert (
        same[0] == same[1] != BlindedCorpus(dataset, 1, 0).corpus.fingerprint()
    )  # dated: one order
    undated = gold_first(tmp_path / "files", haystacks=1, size=20)
    assert len({BlindedCorpus(undated, 0, seed).corpus.fingerprint() for seed in range(3)}) == 3
