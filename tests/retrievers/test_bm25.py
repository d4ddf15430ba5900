"""BM25: the tokens of its regular expression, the bits of bm25s, and the same from disk."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import bm25s
import numpy as np
import pyarrow as pa
import pytest
from bm25s.stopwords import STOPWORDS_EN, STOPWORDS_EN_PLUS
from bm25s.tokenization import Tokenized
from hypothesis import example, given
from hypothesis import strategies as st
from notes import corpus

from harness.datasets.registry import open_dataset
from harness.retrievers.bm25 import BM25, METHODS, disk_index
from harness.retrievers.bm25 import index as inverted
from harness.retrievers.bm25 import retriever as bm25
from harness.retrievers.bm25.languages import ENGLISH_LONG
from harness.retrievers.bm25.tokenizer import (
    ENGLISH,
    OTHER_SCRIPT,
    Tokenizer,
    split_words,
    tokenize_column,
)
from harness.retrievers.contract import Question, Result
from harness.retrievers.outputs import top_k
from harness.runs.blinding import BlindedCorpus

SETTINGS: list[dict[str, Any]] = [
    {},
    {"k1": 0.9, "b": 0.4, "stemmer": "none", "stopwords": "none"},
    {"method": "robertson"},
    {"method": "atire", "b": 1.0},
    {"method": "bm25l"},
    {"method": "bm25+", "delta": 1.0},
]


@pytest.mark.slow
@given(st.lists(st.text() | st.from_regex(r"[a-zA-Z0-9_ .é²İß-]{0,20}"), max_size=6))
@example(["", "a", "a b", "ab", "ab", "-ab_1 C3", "straße İstanbul ½ x² don't"])
@example(["ab", "cd"])
def test_tokens_are_those_of_the_regular_expression(texts: list[str]) -> None:
    expected = [
        split_words(text)
        if OTHER_SCRIPT.search(text.lower())
        else re.findall(r"(?u)\b\w\w+\b", text.lower())
        for text in texts
    ]
    for kind in (pa.string(), pa.large_string()):
        tokens, counts = tokenize_column(pa.array(["before", *texts], kind)[1:])
        assert counts.tolist() == [len(words) for words in expected]
        assert tokens.to_pylist() == [word for words in expected for word in words]


def test_it_loads_no_other_retriever() -> None:
    script = (
        "import sys; from harness.retrievers.registry import RetrieverSpec;"
        "RetrieverSpec('bm25').build(); print(*sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    others = "embeddings embedder exact_search vector_file minilm http command hybrid wire memories"
    loaded = [name for name in said.stdout.split() if name.startswith("harness.")]
    assert not set(others.split()) & {name.rpartition(".")[2] for name in loaded}


def test_stop_words_are_those_of_bm25s() -> None:
    assert set(STOPWORDS_EN) == ENGLISH
    assert set(STOPWORDS_EN_PLUS) == ENGLISH_LONG


def test_terms_of_a_column_are_those_of_each_text() -> None:
    texts = ["The dogs ran", "running dog, Zürich", "", "the", "a DOG ran ran"]
    column, single = Tokenizer(), Tokenizer()
    terms, lengths = column.encode_column(pa.array(texts))
    parts = np.split(terms, np.cumsum(lengths)[:-1])
    named = [[column.stems[term] for term in part] for part in parts]
    assert named == [[single.stems[term] for term in single.terms(text)] for text in texts]
    assert named == [single.stem_text(text) for text in texts]
    assert [part.tolist() for part in single.encode(texts)] == [
        single.terms(t).tolist() for t in texts
    ]


documents = st.lists(st.lists(st.integers(0, 7), max_size=9), min_size=1, max_size=12)


@given(
    documents.filter(lambda all_: sum(map(len, all_)) > 0),
    st.lists(st.integers(0, 7), min_size=1, max_size=5),
    st.sampled_from(METHODS),
    st.sampled_from([(1.2, 0.75), (0.9, 0.4), (2.0, 0.0), (1.5, 1.0)]),
    st.integers(1, 15),
    st.sampled_from([0, 1 << 16]),
    st.sampled_from([2, 5, 1 << 18]),
)
def test_scores_are_those_of_bm25s_to_the_bit(
    documents: list[list[int]],
    asked: list[int],
    method: str,
    tuned: tuple[float, float],
    k: int,
    pruned: int,
    window: int,
) -> None:
    words = [f"w{n}" for n in range(8)]
    known = sorted({word for document in documents for word in document})
    ours = BM25(*tuned, method=method, stemmer="none", stopwords="none")
    ours.index(corpus([" ".join(words[n] for n in document) for document in documents]))
    theirs = bm25s.BM25(k1=tuned[0], b=tuned[1], delta=0.5, method=method)
    ids = [[known.index(n) for n in document] for document in documents]
    tokens = Tokenized(ids=ids, vocab={str(n): n for n in range(len(known))})
    theirs.index(tokens, create_empty_token=False, show_progress=False)
    numbers = [known.index(n) for n in asked if n in known]
    expected = theirs.get_scores_from_ids(numbers)
    top = top_k(expected, k, above=0.0)
    many_windows = mock.patch("harness.retrievers.bm25.maxscore.WINDOW", window)
    with mock.patch.object(bm25, "PRUNED", pruned), many_windows:
        for _ in range(2):  # nothing of a question is left for the next
            (found,) = ours.search([Question(" ".join(words[n] for n in asked))], k)
            assert np.asarray(found.ids).tolist() == top.tolist()
            assert np.asarray(found.scores).tobytes() == expected[top].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("chosen", SETTINGS)
def test_an_index_on_disk_answers_as_one_in_memory_to_the_byte(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]
) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    view = BlindedCorpus(dataset, 0, 0)
    questions = [view.question(row) for row in range(60)]

    def answers() -> list[tuple[bytes, bytes]]:
        retriever = BM25(**chosen)
        retriever.index(view.corpus)
        found: list[Result] = retriever.search(questions, 100)
        return [(np.int64(r.ids).tobytes(), np.float32(r.scores).tobytes()) for r in found]

    in_memory = answers()
    monkeypatch.setattr(bm25, "PRUNED", 0)
    assert answers() == in_memory
    monkeypatch.setattr("harness.retrievers.bm25.maxscore.WINDOW", 300)
    assert answers() == in_memory
    monkeypatch.setattr(inverted, "BLOCK", 700)
    monkeypatch.setattr(disk_index, "_MERGED", 20_000)
    monkeypatch.setattr("harness.retrievers.corpus._WINDOW", 1 << 20)
    assert answers() == in_memory
    assert len([*(home / "indexes").glob("bm25-*")]) == 1
    assert answers() == in_memory  # from the index that is kept


def test_settings_of_the_formula_share_one_index(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inverted, "BLOCK", 100)
    dataset = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    indexed = BlindedCorpus(dataset, 0, 0).corpus
    question = [Question("When did they paint?")]
    retriever = BM25()
    retriever.index(indexed)
    retriever.set_params(k1=2.0, method="atire")
    (retuned,) = retriever.search(question, 10)
    other = BM25(k1=2.0, method="atire")
    other.index(indexed)
    (fresh,) = other.search(question, 10)
    assert np.asarray(retuned.scores).tolist() == np.asarray(fresh.scores).tolist()
    assert len([*(home / "indexes").glob("bm25-*")]) == 1
    BM25(stemmer="none").index(indexed)
    assert len([*(home / "indexes").glob("bm25-*")]) == 2


def test_a_question_of_thousands_of_words_loses_no_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 3, (2000, 6))
    texts = corpus([" ".join(f"w{n}" for n in row) for row in drawn])
    retriever = BM25(stemmer="none")
    retriever.index(texts)
    question = [Question("w0 " * 8000 + "w1 w2 " * 3)]

    def answer(pruned: int) -> tuple[list[int], bytes]:
        monkeypatch.setattr(bm25, "PRUNED", pruned)
        (found,) = retriever.search(question, 10)
        return [int(i) for i in found.ids], np.float32(found.scores).tobytes()

    assert answer(0) == answer(1 << 16)
