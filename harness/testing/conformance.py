"""Conformance checks that any retriever must pass before its scores are meaningful.

A check is a function that returns a message, or raises AnswerError or the retriever's error.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import comb
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.datasets.reader import Documents
from harness.datasets.registry import open_dataset
from harness.errors import HarnessError, UsageError
from harness.io.plugins import provider_or_none
from harness.retrievers import calls
from harness.retrievers.baselines import is_oracle
from harness.retrievers.contract import Corpus, Found, Question, Result, Retriever
from harness.retrievers.outputs import (
    NotAnAnswerError,
    WrongNumberError,
    hits_in_order,
    in_order,
    ranked_result,
)
from harness.retrievers.registry import RetrieverSpec
from harness.runs.blinding import BlindedCorpus
from harness.runs.usage import BudgetExceededError
from harness.scoring.matching.matcher import Matcher
from harness.testing.check_limits import CheckLimits, CheckMeter, MeteredSpec

PASSED, FAILED, NOTED = "pass", "FAIL", "note"


@dataclass(frozen=True)
class Outcome:
    """The result of a check: `state` is pass, FAIL or note (allowed, but worth knowing)."""

    name: str
    state: str
    message: str
    seconds: float


def check(spec: RetrieverSpec, limits: CheckLimits | None = None) -> Iterator[Outcome]:
    """Runs all checks on a retriever and yields each outcome.

    Stops after the first check if the results of `search` have no accepted form.
    Raises UsageError for retrievers that cannot be checked: unknown ones, those that return dataset
    ids, and the oracle; BudgetExceededError at a limit.
    """
    limits = limits or CheckLimits()
    metered = MeteredSpec(spec.name, spec.params, spec.plugins, spec, CheckMeter(limits))
    retriever: Any = metered.build()
    refused = f"retriever {spec.name!r} cannot be checked: it"
    if getattr(retriever, "returns_dataset_ids", False):
        raise UsageError(f"{refused} answers with a dataset's own ids, not those of a corpus")
    if is_oracle(retriever.unmetered):
        raise UsageError(f"{refused} is given the gold labels")
    if any(hasattr(retriever.unmetered, name) for name in ("report", "ready", "address")):
        planned = _planned(retriever)
        logging.getLogger(__name__).warning(
            f"note: the checks index {planned.documents:,} short documents in "
            f"{planned.haystacks} haystacks and ask {planned.questions} questions; --max-usd and "
            "--max-calls limit this"
        )
    try:
        for name, function in CHECKS.items():
            outcome, is_answer = _outcome(name, function, retriever, metered)
            yield outcome
            if function is finds_something and not is_answer:
                break  # all other checks would fail in the same way
    finally:
        calls.close(retriever)


def _planned(retriever: Any) -> CheckMeter:
    """Counts the calls of all checks, by making them to a retriever that finds nothing."""

    class Empty:
        batch_size = getattr(retriever, "batch_size", 1)
        thread_safe = retriever.thread_safe

        def index(self, corpus: Corpus) -> None:
            pass

        def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
            return [[] for _ in queries]

    if callable(getattr(retriever, "close", None)):
        Empty.close = lambda self: None  # type: ignore[attr-defined]
    meter = CheckMeter(CheckLimits())
    spec = MeteredSpec("empty", spec=Empty, meter=meter)
    empty = spec.build()
    for name, function in CHECKS.items():
        _outcome(name, function, empty, spec)
    return meter


def _outcome(
    name: str, function: Callable[[Any, RetrieverSpec], str], retriever: Any, spec: RetrieverSpec
) -> tuple[Outcome, bool]:
    """Runs a check; also returns whether the results of `search` had an accepted form."""
    start, is_answer = perf_counter(), True
    try:
        said = function(retriever, spec)
        state = NOTED if isinstance(said, Note) else PASSED
    except BudgetExceededError:
        raise
    except (AnswerError, HarnessError) as error:
        state, said = FAILED, str(error)
    except NotAnAnswerError as error:
        state, said, is_answer = FAILED, str(error), False
    except Exception as error:  # an error of the retriever
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(str(error).split())
        state = FAILED
        said = f"{type(error).__name__}: {message} ({place.filename}, line {place.lineno})"
    return Outcome(name, state, said, perf_counter() - start), is_answer


# -- Small corpora, and answers as positions --------------------

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
    """A message of a check that is worth knowing, but not a failure."""


class AnswerError(Exception):
    """Raised if a result violates the contract; the message explains how."""


def corpus(texts: Sequence[str], order: npt.NDArray[np.int64] | None = None) -> Corpus:
    """Builds a corpus of texts: dated a day apart, two per session, with alternating speakers.

    `order`: the row of each document in the file, if shuffled.
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
    """Returns the positions that `search` returns for each text, in the last indexed corpus.

    Hits are resolved as in a run; those without a document are excluded. Raises AnswerError, and
    all errors of the retriever.
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
    results = [ranked_result(one, retriever) for one in found]
    tells = any(result.hits for result in results)
    matcher = Matcher(notes.contents) if tells else None
    return [_positions(result, matcher, place, k) for result in results]


def _positions(result: Result, matcher: Matcher | None, place: dict[str, int], k: int) -> list[int]:
    if result.hits is not None:
        if len(result.hits) > k:
            raise AnswerError(f"asked for {k}, returned {len(result.hits)} hits")
        rows: list[int] = []
        for hit in hits_in_order(result.hits, result.ranked_by):
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
        positions = in_order(np.array(positions, np.int64), scores, result.ranked_by)[0].tolist()
    return positions


def _place(id_: str | int, place: dict[str, int]) -> int | None:
    if isinstance(id_, str):
        return place.get(id_)
    return int(id_) if 0 <= int(id_) < len(place) else None


# -- The checks ------------------------------------------------------------------------------------


def finds_something(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that it returns anything; relevance does not matter."""
    notes = index_texts(retriever, NOTES)
    found = ask(retriever, notes, QUESTIONS, 3)
    if not any(found):
        raise AnswerError("returned nothing for any of three easy questions")
    right, last = (
        sum(one[place:][:1] == [gold] for one, gold in zip(found, (0, 1, 7), strict=True))
        for place in (0, -1)
    )
    if last > 1 > right:
        raise AnswerError(
            f"0 of 3 easy questions answered at rank 1, and {last} at the last rank: are the "
            "scores distances? the higher must be better"
        )
    return f"{right} of 3 easy questions answered at rank 1"


def k_respected(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that it returns at most k results, also for k = 1 and k above the corpus size."""
    notes = index_texts(retriever, NOTES)
    counts = [max(map(len, ask(retriever, notes, QUESTIONS, k))) for k in (1, 3, 100)]
    return f"k = 1, 3, 100 gave at most {counts[0]}, {counts[1]}, {counts[2]}"


def index_replaces(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that a second `index` replaces the first, and that results do not depend on it."""
    first, second = corpus(NOTES), corpus(OTHERS)
    calls.index(retriever, first)
    ask(retriever, first, QUESTIONS, 8)
    calls.index(retriever, second)
    after = ask(retriever, second, QUESTIONS, 8)
    fresh = spec.build()
    try:
        calls.index(fresh, second)
        alone = ask(fresh, second, QUESTIONS, 8)
        again = ask(fresh, second, QUESTIONS, 8)
    finally:
        calls.close(fresh)
    if after != alone and alone == again:
        raise AnswerError("answers after another haystack differ from those of a fresh retriever")
    return "a second corpus is answered as by a fresh retriever"


def deterministic(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that results are equal when repeated, also after indexing again."""
    notes = index_texts(retriever, NOTES)
    first, again = ask(retriever, notes, QUESTIONS, 8), ask(retriever, notes, QUESTIONS, 8)
    calls.index(retriever, notes)
    if first != again or first != ask(retriever, notes, QUESTIONS, 8):
        return Note("not deterministic: the same question got different answers")
    return "the same answers three times"


def batches(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that a batch of questions gets the same results as single questions."""
    size = int(getattr(retriever, "batch_size", 1))
    if size == 1:
        return "takes one question at a time"
    notes = index_texts(retriever, NOTES)
    together = ask(retriever, notes, QUESTIONS, 8)
    alone = [ask(retriever, notes, [question], 8)[0] for question in QUESTIONS]
    if together != alone:
        return Note("questions asked together are answered differently from questions asked alone")
    return f"up to {size} at once, answered as if alone"


def unicode(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks scripts, emoji, combining marks, control and zero-width characters."""
    texts = [
        "Größe, naïve café, e\u0301te\u0301",
        "北京的天气很好。",
        "مرحبا بالعالم",
        "👩‍👩‍👧‍👦 went to the 🏖️",
        "tab\there, null\x00there, zero\u200bwidth",
        "quotes \" ' \\ and {braces} <tags> %s $1",
    ]
    notes = index_texts(retriever, texts)
    ask(retriever, notes, texts, 3)
    return f"{len(texts)} odd texts indexed and asked"


def empty_corpus(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that an empty haystack gives an empty result."""
    notes = index_texts(retriever, [])
    ask(retriever, notes, QUESTIONS[:1], 5)
    return "returned nothing"


def empty_query(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that questions that are empty, blank or only punctuation raise no error."""
    notes = index_texts(retriever, NOTES)
    ask(retriever, notes, ["", "   ", "?!"], 3)
    return "empty, blank and '?!' were answered"


def one_document(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks a haystack of one document."""
    notes = index_texts(retriever, NOTES[:1])
    found = ask(retriever, notes, QUESTIONS[:1], 5)[0]
    return "found" if found == [0] else "returned nothing"


def duplicate_texts(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that documents with equal texts are distinct documents."""
    notes = index_texts(retriever, [NOTES[0], NOTES[1], NOTES[0], NOTES[0]])
    found = set(ask(retriever, notes, [NOTES[0]], 4)[0])
    equal = found & {0, 2, 3}
    if len(equal) < 3:
        return Note(f"of three documents with the same text {len(equal)} were returned")
    return "three documents with the same text were all returned"


def long_documents(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks documents of 100 KB."""
    filler = " ".join(OTHERS) + " "
    long = filler * (100_000 // len(filler))
    notes = index_texts(retriever, [f"{long} {NOTES[0]}", long, NOTES[1]])
    ask(retriever, notes, QUESTIONS[:2], 3)
    return "two documents of 100 KB were taken in"


def thread_safe(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that concurrent searches equal sequential ones, if it allows them."""
    if not calls.is_concurrent(retriever):
        return "does not claim concurrent searches"
    notes = index_texts(retriever, NOTES)
    alone = [ask(retriever, notes, [question], 8) for question in QUESTIONS]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda q: ask(retriever, notes, [q], 8), QUESTIONS * 8))
    if found != alone * 8:
        raise AnswerError(
            "searches from four threads were answered differently from searches in one"
        )
    return "24 searches from four threads answered as in one"


def supports_sharding(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that three shards score as one index, if it sets `supports_sharding = True`."""
    no_claim = "does not claim to answer in shards"
    if not getattr(retriever, "supports_sharding", False):
        return no_claim
    check = provider_or_none("shards_check")
    if check is None:
        return "not checked: no installed package cuts a corpus into shards"
    one = getattr(retriever, "unmetered", retriever)
    wrong: str | None = check(one, getattr(spec, "spec", spec))
    if wrong is None:  # it inherits the claim, but overrides `search`
        return no_claim
    if wrong:
        raise AnswerError(wrong)
    return "three shards of a haystack of `sample` score as one"


def close_twice(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Checks that `close`, if present, can be called twice."""
    if not callable(getattr(retriever, "close", None)):
        return "has nothing to close"
    other = spec.build()
    calls.index(other, corpus(NOTES))
    calls.close(other)
    calls.close(other)
    return "closed, and closed again"


# -- Two checks for leaks --------------------------------------------------------------------------

_HAYSTACKS, _SIZE = 60, 5
_RARE = 1e-4
"""Maximum probability that an honest retriever fails by chance."""
_N_QUESTIONS = 24


def equal_texts(retriever: Any, spec: RetrieverSpec) -> str:
    """Checks that among equal texts the relevant one is found no more often than by chance.

    The relevant document is the first in the file; documents are shuffled and have random handles,
    as in a run. A retriever that beats chance at rank 1 reads something other than the texts.
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
    """Checks that handles and the order of undated documents do not affect results."""
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
    """Returns recall@10 of questions of `sample`, shown as in a run with this seed."""
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


CHECKS: dict[str, Callable[[Any, RetrieverSpec], str]] = {
    "finds something": finds_something,
    "respects k": k_respected,
    "index replaces, no state carried over": index_replaces,
    "deterministic": deterministic,
    "batches": batches,
    "unicode": unicode,
    "empty corpus": empty_corpus,
    "empty query": empty_query,
    "one document": one_document,
    "duplicate texts": duplicate_texts,
    "documents of 100 KB": long_documents,
    "concurrent searches": thread_safe,
    "answers in shards": supports_sharding,
    "close": close_twice,
    "leak: among equal texts at chance": equal_texts,
    "leak: other handles and order, same scores": same_scores,
}
