"""The checks, one function each: it returns what was seen, or raises AnswerError or what it met."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.io.plugins import provided_or_none
from harness.retrievers import calls
from harness.retrievers.baselines import is_oracle
from harness.retrievers.contract import Retriever
from harness.retrievers.outputs import NotAnAnswerError
from harness.retrievers.registry import RetrieverSpec
from harness.testing.conformance.fixtures import (
    NOTES,
    OTHERS,
    QUESTIONS,
    AnswerError,
    Note,
    ask,
    corpus,
    equal_texts,
    index_texts,
    same_scores,
)

PASSED, FAILED, NOTED = "pass", "FAIL", "note"


@dataclass(frozen=True)
class Outcome:
    """The result of one check: `state` is pass, FAIL or note (worth knowing, and allowed)."""

    name: str
    state: str
    message: str
    seconds: float


def check(spec: RetrieverSpec) -> Iterator[Outcome]:
    """Run every check on a retriever; each outcome as soon as it is there.

    Where `search` answers easy questions with what is no answer at all, nothing else is tried.
    Raises UsageError for retrievers that cannot be checked: unknown ones, those that answer with a
    dataset's own ids, and those that are shown the answer key.
    """
    retriever: Any = spec.build()
    for trait, reason in (
        (
            getattr(retriever, "returns_dataset_ids", False),
            "it answers with a dataset's own ids, so it has no corpus to be checked on",
        ),
        (is_oracle(retriever), "it is shown the answer key"),
    ):
        if trait:
            raise UsageError(f"retriever {spec.name!r} cannot be checked: {reason}")
    try:
        for name, function in CHECKS.items():
            outcome, is_answer = _outcome(name, function, retriever, spec)
            yield outcome
            if function is finds_something and not is_answer:
                break  # every other check would say the same
    finally:
        calls.close(retriever)


def _outcome(
    name: str, function: Callable[[Any, RetrieverSpec], str], retriever: Any, spec: RetrieverSpec
) -> tuple[Outcome, bool]:
    """Runs a check; also returns whether `search` returned answers at all."""
    start, is_answer = perf_counter(), True
    try:
        said = function(retriever, spec)
        state = NOTED if isinstance(said, Note) else PASSED
    except (AnswerError, HarnessError) as error:
        state, said = FAILED, str(error)
    except NotAnAnswerError as error:
        state, said, is_answer = FAILED, str(error), False
    except Exception as error:  # the plug-in's own: it is what the author wants to read
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(str(error).split())
        state = FAILED
        said = f"{type(error).__name__}: {message} ({place.filename}, line {place.lineno})"
    return Outcome(name, state, said, perf_counter() - start), is_answer


# -- The checks ------------------------------------------------------------------------------------


def finds_something(retriever: Retriever, spec: RetrieverSpec) -> str:
    """It answers at all; which notes it finds is not judged."""
    notes = index_texts(retriever, NOTES)
    found = ask(retriever, notes, QUESTIONS, 3)
    if not any(found):
        raise AnswerError("returned nothing for any of three easy questions")
    right = sum(bool(set(f[:1]) & {g}) for f, g in zip(found, (0, 1, 7), strict=True))
    return f"{right} of 3 easy questions answered at rank 1"


def k_respected(retriever: Retriever, spec: RetrieverSpec) -> str:
    """At most k results, also where k is 1 and where it is more than there are documents."""
    notes = index_texts(retriever, NOTES)
    counts = [max(map(len, ask(retriever, notes, QUESTIONS, k))) for k in (1, 3, 100)]
    return f"k = 1, 3, 100 gave at most {counts[0]}, {counts[1]}, {counts[2]}"


def index_replaces(retriever: Retriever, spec: RetrieverSpec) -> str:
    """A second `index` leaves nothing of the first, and answers do not depend on the past."""
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
    """The same questions twice, and after indexing again, give the same answers."""
    notes = index_texts(retriever, NOTES)
    first, again = ask(retriever, notes, QUESTIONS, 8), ask(retriever, notes, QUESTIONS, 8)
    calls.index(retriever, notes)
    if first != again or first != ask(retriever, notes, QUESTIONS, 8):
        return Note("not deterministic: the same question got different answers")
    return "the same answers three times"


def batches(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Questions asked together are answered as if asked alone."""
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
    """Any text is taken: scripts, emoji, combining marks, control and zero-width characters."""
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
    """A haystack without documents is answered with nothing."""
    notes = index_texts(retriever, [])
    ask(retriever, notes, QUESTIONS[:1], 5)
    return "answered with nothing"


def empty_query(retriever: Retriever, spec: RetrieverSpec) -> str:
    """An empty question, one of spaces, and one of marks are answered somehow."""
    notes = index_texts(retriever, NOTES)
    ask(retriever, notes, ["", "   ", "?!"], 3)
    return "empty, blank and '?!' were answered"


def one_document(retriever: Retriever, spec: RetrieverSpec) -> str:
    """A haystack of one document."""
    notes = index_texts(retriever, NOTES[:1])
    found = ask(retriever, notes, QUESTIONS[:1], 5)[0]
    return "found" if found == [0] else "answered with nothing"


def duplicate_texts(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Documents of the same text are different documents."""
    notes = index_texts(retriever, [NOTES[0], NOTES[1], NOTES[0], NOTES[0]])
    found = set(ask(retriever, notes, [NOTES[0]], 4)[0])
    equal = found & {0, 2, 3}
    if len(equal) < 3:
        return Note(f"of three documents with the same text {len(equal)} were returned")
    return "three documents with the same text were all returned"


def long_documents(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Documents of 100 KB."""
    filler = " ".join(OTHERS) + " "
    long = filler * (100_000 // len(filler))
    notes = index_texts(retriever, [f"{long} {NOTES[0]}", long, NOTES[1]])
    ask(retriever, notes, QUESTIONS[:2], 3)
    return "two documents of 100 KB were taken in"


def thread_safe(retriever: Retriever, spec: RetrieverSpec) -> str:
    """Where it claims `thread_safe = True`: searches from several threads answer as one by one."""
    if not getattr(retriever, "thread_safe", False):
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
    """Where it claims `supports_sharding = True`: three shards score as one retriever over all."""
    no_claim = "does not claim to answer in shards"
    if not getattr(retriever, "supports_sharding", False):
        return no_claim
    check = provided_or_none("shards_check")
    if check is None:
        return "not checked: no installed package cuts a corpus into shards"
    wrong: str | None = check(retriever, spec)
    if wrong is None:  # it inherits the claim, and has a `search` of its own
        return no_claim
    if wrong:
        raise AnswerError(wrong)
    return "three shards of a haystack of `sample` score as one"


def close_twice(retriever: Retriever, spec: RetrieverSpec) -> str:
    """`close`, where there is one, can be called, and called again."""
    if not callable(getattr(retriever, "close", None)):
        return "has nothing to close"
    other = spec.build()
    calls.index(other, corpus(NOTES))
    calls.close(other)
    calls.close(other)
    return "closed, and closed again"


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
