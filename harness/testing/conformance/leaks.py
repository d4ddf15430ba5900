"""Does a retriever see more than it is shown? Two checks on many haystacks."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.dataset.prepare import open_dataset
from harness.retrievers.registry import RetrieverSpec
from harness.runs.view import View
from harness.testing.conformance.bench import AnswerError, Note, ask, corpus

HAYSTACKS, SIZE = 60, 5
RARE = 1e-4
"""How seldom chance alone may fail an honest retriever."""
QUESTIONS = 24


def equal_texts(retriever: Any, spec: RetrieverSpec) -> str:
    """Where every document has the same text, nothing but the answer key can tell the gold.

    The gold stands first in the file, and the documents come shuffled under random handles, as in a
    run. A retriever that is right at rank 1 more often than chance reads something else.
    """
    rng = np.random.default_rng(0)
    right = 0
    for _ in range(HAYSTACKS):
        order = rng.permutation(SIZE)
        shown = corpus(["The same words."] * SIZE, order)
        retriever.index(shown)
        found = ask(retriever, shown, ["Which words?"], SIZE)[0]
        right += bool(found) and order[found[0]] == 0
    chance = 1 / SIZE
    tail = sum(
        comb(HAYSTACKS, i) * chance**i * (1 - chance) ** (HAYSTACKS - i)
        for i in range(right, HAYSTACKS + 1)
    )
    said = f"{right} of {HAYSTACKS} right, where chance gives {HAYSTACKS * chance:.0f}"
    if tail < RARE:
        raise AnswerError(f"{said}: it reads something else than the texts")
    return said


def same_scores(retriever: Any, spec: RetrieverSpec) -> str:
    """Other handles, and another order of what is not dated, must not change what is found."""
    first, other, again = (_recall_at_10(retriever, seed) for seed in (1, 2, 2))
    apart, anyhow = (int((~np.isclose(a, again)).sum()) for a in (first, other))
    if apart > anyhow:
        raise AnswerError(f"recall@10 of {apart} of {QUESTIONS} questions changed with the handles")
    if anyhow:
        return Note(f"{anyhow} of {QUESTIONS} questions change anyhow: it is not deterministic")
    return f"recall@10 of {QUESTIONS} questions of `sample` is the same"


def _recall_at_10(retriever: Any, seed: int) -> npt.NDArray[np.float64]:
    """Of questions of `sample`, each haystack shown as in a run with this seed."""
    dataset = open_dataset("sample")
    judged = dataset.judgements()
    with_gold = np.unique(judged.query[(judged.grade >= 1) & (judged.document >= 0)])
    chosen = np.random.default_rng(0).permutation(with_gold)[:QUESTIONS]
    values = np.zeros(len(chosen))
    for haystack in np.unique(dataset.query_haystack[chosen]).tolist():
        view = View(dataset, haystack, seed)
        retriever.index(view.corpus)
        mine = np.flatnonzero(dataset.query_haystack[chosen] == haystack)
        texts = [view.question(int(chosen[i])).text for i in mine]
        for i, found in zip(mine, ask(retriever, view.corpus, texts, 10), strict=True):
            relevant = (judged.query == chosen[i]) & (judged.grade >= 1)
            gold = set(judged.document[relevant].tolist())
            values[i] = len(gold & set(view.rows[found].tolist())) / len(gold)
    return values
