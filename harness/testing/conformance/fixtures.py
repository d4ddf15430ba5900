"""A retriever on the test bench: small corpora, its answers as positions, and checks for leaks."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.datasets.documents import Documents
from harness.datasets.prepare import open_dataset
from harness.retrievers import calls
from harness.retrievers.contract import Corpus, Found, Question, Result, Retriever
from harness.retrievers.outputs import WrongNumberError, as_result
from harness.retrievers.registry import RetrieverSpec
from harness.runs.view import BlindedCorpus
from harness.scoring.matching.matcher import Matcher

NOTES = (
    "The ferry to the island leaves at seven every morning.",
    "My sister plays the cello in a small orchestra.",
    "We painted the kitchen yellow last spring.",
    "The dentist moved my appointment to Thursday.",
    "Our dog is afraid of thunder and hides below the table.",
    "I would like to learn how to bake bread with rye flour.",
    "The new neighbour comes from Lisbon and teaches chemistry.",
    "He broke his left arm when he fell off the ladder.",
)
OTHERS = (
    "The library closes early on the days before holidays.",
    "Grandmother's recipe needs four eggs and a pinch of salt.",
    "Their train was delayed by two hours because of the storm.",
)
QUESTIONS = (
    "When does the ferry leave?",
    "Who plays the cello?",
    "Which arm did he break?",
)
_DAY = 86_400


class Note(str):
    """What a check saw that is no failure and yet worth knowing."""


class AnswerError(Exception):
    """What a retriever returned is against the contract; the message says how."""


def corpus(texts: Sequence[str], order: npt.NDArray[np.int64] | None = None) -> Corpus:
    """Texts as a retriever is shown them: dated a day apart, two to a session, spoken in turn.

    `order`: the place of each shown document in the file, where it is not the same.
    """
    n = len(texts)
    rows = np.arange(n) if order is None else order
    columns = {
        "id": pa.nulls(n, pa.string()),
        "text": pa.array(texts, pa.string()),
        "title": pa.nulls(n, pa.string()),
        "timestamp": pa.nulls(n, pa.int64()),
        "session": pa.nulls(n, pa.string()),
        "speaker": pa.array([("user", "assistant")[i % 2] for i in range(n)], pa.string()),
        "position": pa.array([i % 2 for i in range(n)], pa.int64()),
    }
    numbers = np.random.default_rng(rows.tolist()).permutation(n)
    stamps = 1_700_000_000 + _DAY * np.arange(n, dtype=np.float64)
    sessions = np.arange(n) // 2
    return Corpus(Documents(pa.table(columns)), rows.astype(np.int32), numbers, stamps, sessions)


def index_texts(retriever: Retriever, texts: Sequence[str]) -> Corpus:
    """Indexes texts; returns the corpus."""
    notes = corpus(texts)
    calls.index(retriever, notes)
    return notes


def ask(retriever: Retriever, notes: Corpus, texts: Sequence[str], k: int) -> list[list[int]]:
    """Positions that `search` answers each text with, of the corpus that was indexed last.

    Texts of a system's own are resolved as in a run; those without a document are left out.
    Raises AnswerError, and whatever the retriever raises.
    """
    size = int(getattr(retriever, "batch_size", 1))
    found: list[Found] = []
    for start in range(0, len(texts), size):
        part = [Question(text, 1_800_000_000) for text in texts[start : start + size]]
        try:
            found += calls.search(retriever, part, k)
        except WrongNumberError as error:
            raise AnswerError(str(error)) from None
    place = {handle: i for i, handle in enumerate(notes.handles)}
    results = [as_result(one) for one in found]
    tells = any(result.hits for result in results)
    matcher = Matcher(notes.contents) if tells else None
    return [_positions(result, matcher, place, k) for result in results]


def _positions(result: Result, matcher: Matcher | None, place: dict[str, int], k: int) -> list[int]:
    if result.hits is not None:
        if len(result.hits) > k:
            raise AnswerError(f"asked for {k}, returned {len(result.hits)} hits")
        rows: list[int] = []
        for hit in result.hits:
            named = [_place(source, place) for source in hit.sources]
            known = [at for at in named if at is not None]
            if not known and matcher is not None:
                known = matcher.find([hit.text])[0].positions.tolist()
            rows += known
        return list(dict.fromkeys(rows))
    if len(result.ids) > k:
        raise AnswerError(f"asked for {k}, returned {len(result.ids)}")
    if result.scores is not None and len(result.scores) != len(result.ids):
        raise AnswerError(f"{len(result.ids)} ids, but {len(result.scores)} scores")
    positions = []
    for id_ in result.ids:
        at = _place(id_, place)
        if at is None:
            raise AnswerError(
                f"returned {id_!r}, which is not in the corpus of {len(place)} documents"
            )
        positions.append(at)
    if len(set(positions)) < len(positions):
        raise AnswerError("returned a document twice for one question")
    if result.scores is not None:
        scores = np.asarray(result.scores, float)
        if np.isnan(scores).any():
            raise AnswerError("a score is NaN")
        positions = [positions[i] for i in np.argsort(-scores, kind="stable")]
    return positions


def _place(id_: str | int, place: dict[str, int]) -> int | None:
    if isinstance(id_, str):
        return place.get(id_)
    return int(id_) if 0 <= int(id_) < len(place) else None


# -- Two checks for leaks --------------------------------------------------------------------------

_HAYSTACKS, _SIZE = 60, 5
_RARE = 1e-4
"""How seldom chance alone may fail an honest retriever."""
_N_QUESTIONS = 24


def equal_texts(retriever: Any, spec: RetrieverSpec) -> str:
    """Checks that among equal texts the relevant one is found no more often than by chance.

    The relevant document is the first in the file, and the documents come shuffled under random
    handles, as in a run. A retriever that is right at rank 1 more often than chance reads something
    else.
    """
    rng = np.random.default_rng(0)
    right = 0
    for _ in range(_HAYSTACKS):
        order = rng.permutation(_SIZE)
        shown = corpus(["The same words."] * _SIZE, order)
        calls.index(retriever, shown)
        found = ask(retriever, shown, ["Which words?"], _SIZE)[0]
        right += bool(found) and order[found[0]] == 0
    chance = 1 / _SIZE
    tail = sum(
        comb(_HAYSTACKS, i) * chance**i * (1 - chance) ** (_HAYSTACKS - i)
        for i in range(right, _HAYSTACKS + 1)
    )
    said = f"{right} of {_HAYSTACKS} right, where chance gives {_HAYSTACKS * chance:.0f}"
    if tail < _RARE:
        raise AnswerError(f"{said}: it reads something else than the texts")
    return said


def same_scores(retriever: Any, spec: RetrieverSpec) -> str:
    """Other handles, and another order of what is not dated, must not change what is found."""
    first, other, again = (_recall_at_10(retriever, seed) for seed in (1, 2, 2))
    apart, anyhow = (int((~np.isclose(a, again)).sum()) for a in (first, other))
    if apart > anyhow:
        raise AnswerError(
            f"recall@10 of {apart} of {_N_QUESTIONS} questions changed with the handles"
        )
    if anyhow:
        return Note(f"{anyhow} of {_N_QUESTIONS} questions change anyhow: it is not deterministic")
    return f"recall@10 of {_N_QUESTIONS} questions of `sample` is the same"


def _recall_at_10(retriever: Any, seed: int) -> npt.NDArray[np.float64]:
    """Of questions of `sample`, each haystack shown as in a run with this seed."""
    dataset = open_dataset("sample")
    judged = dataset.qrels()
    with_gold = np.unique(judged.query[(judged.grade >= 1) & (judged.document >= 0)])
    chosen = np.random.default_rng(0).permutation(with_gold)[:_N_QUESTIONS]
    values = np.zeros(len(chosen))
    for haystack in np.unique(dataset.query_haystack[chosen]).tolist():
        view = BlindedCorpus(dataset, haystack, seed)
        calls.index(retriever, view.corpus)
        mine = np.flatnonzero(dataset.query_haystack[chosen] == haystack)
        texts = [view.question(int(chosen[i])).text for i in mine]
        for i, found in zip(mine, ask(retriever, view.corpus, texts, 10), strict=True):
            relevant = (judged.query == chosen[i]) & (judged.grade >= 1)
            gold = set(judged.document[relevant].tolist())
            values[i] = len(gold & set(view.rows[found].tolist())) / len(gold)
    return values
