"""Measures write-to-read lag: the time from a write until a search finds a written document."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from random import Random
from time import perf_counter, sleep
from typing import Any, TypeVar

import numpy as np

from harness.errors import CallTimeoutError, HarnessError, RunError
from harness.extensions.online.load.records import LagPercentiles
from harness.io.plugins import FAILURES
from harness.retrievers import calls
from harness.retrievers.contract import Question
from harness.retrievers.outputs import hits_in_order, in_order, ranked_result, scores_of
from harness.runs.blinding import BlindedCorpus
from harness.runs.timeouts import CallThread
from harness.runs.usage import BudgetExceededError
from harness.runs.worker_state import trace
from harness.schema import Document

T = TypeVar("T")


class LagLimitError(RunError):
    """Raised when the calls or the seconds of a measurement are used up."""


@dataclass(frozen=True)
class LagPlan:
    """Limits and rates. `give_up`: seconds after a write within which its document must be found.

    `concurrent`: the retriever may be searched while it adds documents. `seconds` and `max_calls`
    are limits of the whole measurement; a call that hangs is abandoned when the time is up.
    """

    writes: int
    k: int
    polls_per_second: float
    give_up: float
    concurrent: bool
    seconds: float
    max_calls: int
    seed: int = 0


@dataclass
class LagResult:
    """What was measured: a lag in seconds for each write (None: not found), and counts."""

    mode: str
    lags: list[float | None] = field(default_factory=list)
    write_seconds: list[float] = field(default_factory=list)
    documents: int = 0
    write_errors: int = 0
    searches: int = 0
    search_errors: int = 0
    foreign: int = 0
    dropped: int = 0
    lost: int = 0
    first_error: str | None = None
    stuck: bool = False
    """Whether a call has not returned: the retriever cannot be used any more."""
    error: HarnessError | KeyboardInterrupt | None = None
    """What ended the measurement early: a limit, the budget or Ctrl-C."""


class LagMeasurement:
    """Writes the documents of a haystack, and searches for one document of each write.

    The query is the document's own text: of a write, the longest text that no other document of the
    haystack has. It is found if it is among the first k results, or if the text of one contains it.
    """

    def __init__(
        self,
        retriever: Any,
        blinded: BlindedCorpus,
        plan: LagPlan,
        thread: CallThread,
        settle: Callable[[], None],
    ) -> None:
        """`thread` makes the calls; `settle` is called after each, and may raise a HarnessError,
        which ends the measurement."""
        self._retriever, self._blinded, self._plan = retriever, blinded, plan
        self._thread, self._settle = thread, settle
        self._calls = 0
        self._corpus = blinded.corpus
        self._adds = calls.is_streaming(retriever)
        self.result = LagResult("add" if self._adds else "index")
        self._written: set[str] = set()
        self._found: list[Document] = []
        self._random = Random(plan.seed)
        self._handles = self._corpus.handles

    def run(self) -> LagResult:
        """Measures all writes, then searches for every document again, within the limits."""
        self._end = perf_counter() + self._plan.seconds
        try:
            if self._adds:
                self._call("reset", lambda: calls.reset(self._retriever, self._corpus))
            copies = Counter(self._corpus.contents)
            for documents, write in self._writes():
                self._written |= {document.id for document in documents}
                alone = [one for one in documents if copies[one.content] == 1 and one.content]
                probe = max(alone, key=lambda one: len(one.content), default=None)
                self._measure(probe, write)
                self.result.documents += len(documents)
            self.result.lost = sum(not self._finds(document) for document in self._found)
        except (HarnessError, KeyboardInterrupt) as error:
            self.result.error = error
        return self.result

    def _call(self, name: str, work: Callable[[], T]) -> T:
        """Makes a call of the retriever. Raises LagLimitError at a limit."""
        self._count_call()
        try:
            return self._thread(work, self._end - perf_counter())
        except CallTimeoutError:
            raise self._hanging(name) from None

    def _count_call(self) -> None:
        """Counts a call that is about to be made. Raises LagLimitError if none may be made."""
        plan = self._plan
        if self._calls >= plan.max_calls:
            raise LagLimitError(f"--max-calls {plan.max_calls}: all calls were made")
        if perf_counter() >= self._end:
            raise LagLimitError(f"--seconds {plan.seconds:g}: the time is up")
        self._calls += 1

    def _hanging(self, name: str) -> LagLimitError:
        self.result.stuck = True
        limit = f"--seconds {self._plan.seconds:g}"
        return LagLimitError(f"{limit}: a call of {name} had not returned when the time was up")

    def _writes(self) -> list[tuple[list[Document], Callable[[], object]]]:
        """Returns the documents of each write and its call.

        A retriever with `add` gets one session, another all documents so far, as `index` replaces
        what was indexed before.
        """
        sessions = self._corpus.sessions()[: self._plan.writes]
        if self._adds:
            return [(one, lambda one=one: self._add(one)) for one in sessions]  # type: ignore[misc]
        ends = [*accumulate(map(len, sessions))]
        return [
            (
                [self._corpus[i] for i in range(end - len(one), end)],
                lambda end=end: calls.index(self._retriever, next(self._corpus.blocks(end))),  # type: ignore[misc]
            )
            for end, one in zip(ends, sessions, strict=True)
        ]

    def _add(self, documents: Sequence[Document]) -> None:
        calls.await_result(self._retriever.add(documents))

    def _measure(self, probe: Document | None, write: Callable[[], object]) -> None:
        """Writes, and polls until the document is found or the time is up."""
        writing, began = _Write(write), perf_counter()
        name = "add" if self._adds else "index"
        if self._adds and self._plan.concurrent:
            self._count_call()
            threading.Thread(target=writing, name="harness-write", daemon=True).start()
        else:
            self._call(name, writing)
        lag = None
        poll = began
        while probe is not None and writing.error is None and lag is None:
            if self._finds(probe):
                lag = perf_counter() - began
            if self._found and not self._finds(self._random.choice(self._found)):
                self.result.dropped += 1
            if writing.ended is not None and perf_counter() - writing.ended > self._plan.give_up:
                break
            poll = max(poll + 1 / self._plan.polls_per_second, perf_counter())
            if lag is None:
                sleep(max(0.0, poll - perf_counter()))
        if not writing.done.wait(max(0.0, self._end - perf_counter())):
            raise self._hanging(name)
        self._settle()
        if writing.error is not None:
            self.result.write_errors += 1
            self.result.first_error = self.result.first_error or writing.error
            return
        self.result.write_seconds.append(writing.ended - began if writing.ended else 0.0)
        if probe is not None:
            self.result.lags.append(lag)
        if probe is not None and lag is not None:
            self._found.append(probe)

    def _finds(self, document: Document) -> bool:
        """Searches for a document by its text; counts errors and foreign documents."""
        question = Question(document.content, document.timestamp, document.user_id)
        search = partial(calls.search, self._retriever, [question], self._plan.k)
        self.result.searches += 1
        try:
            (given,) = self._call("search", search)
            self._settle()
            result = ranked_result(given, self._retriever)
            if result.hits is None:
                found = self._known(result.ids, strict=True)
                order, _, _ = in_order(
                    np.array(found, np.int64),
                    scores_of(result.scores, len(found)),
                    result.ranked_by,
                )
                found, texts = order[: self._plan.k].tolist(), []
            else:
                hits = hits_in_order(result.hits, result.ranked_by)[: self._plan.k]
                found = [one for hit in hits for one in self._known(hit.sources, strict=False)]
                texts = [hit.text for hit in hits if not hit.sources]
        except (LagLimitError, BudgetExceededError):
            raise
        except FAILURES:
            self.result.search_errors += 1
            self.result.first_error = self.result.first_error or trace()
            return False
        handles = [self._handles[position] for position in found]
        self.result.foreign += not self._written.issuperset(handles)
        return document.id in handles or any(document.content in text for text in texts)

    def _known(self, ids: Any, *, strict: bool) -> list[int]:
        """Returns positions of ids; with `strict`, ids of no document are foreign."""
        named = bool(getattr(self._retriever, "returns_dataset_ids", False))
        try:
            if strict:
                positions: list[int] = self._blinded.positions(
                    ids, returns_dataset_ids=named
                ).tolist()
                return positions
            return self._blinded.known(ids, returns_dataset_ids=named)[0]
        except ValueError:
            self.result.foreign += 1
            return []


class _Write:
    """A write, in this thread or another; `ended` is the time of its return."""

    def __init__(self, write: Callable[[], object]) -> None:
        self._write, self.done = write, threading.Event()
        self.ended: float | None = None
        self.error: str | None = None

    def __call__(self) -> None:
        try:
            self._write()
        except FAILURES:
            self.error = trace()
        finally:
            self.ended = perf_counter()
            self.done.set()


def lag_percentiles(lags: Sequence[float | None]) -> LagPercentiles | None:
    """Returns percentiles over all writes; a document that was not found counts as infinite."""
    if not lags:
        return None
    values = np.array([np.inf if lag is None else lag for lag in lags])
    p50, p90, most = np.percentile(values, [50, 90, 100], method="inverted_cdf").tolist()
    return LagPercentiles(p50=_finite(p50), p90=_finite(p90), max=_finite(most))


def _finite(seconds: float) -> float | None:
    return seconds if np.isfinite(seconds) else None
