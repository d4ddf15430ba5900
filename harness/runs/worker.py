"""Runs a retriever over one unit of work: some queries of one haystack. Errors become data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.dataset.shared import Place
from harness.errors import HarnessError
from harness.retrievers import calls
from harness.retrievers.answers import (
    NotAnAnswerError,
    WrongNumberError,
    as_result,
    in_order,
    padding,
    scores_of,
)
from harness.retrievers.baselines import Oracle
from harness.retrievers.clock import Clock, running
from harness.retrievers.contract import Hit, Result, Retriever
from harness.retrievers.ingested import take_in
from harness.retrievers.patience import patiently
from harness.retrievers.registry import RetrieverSpec
from harness.runs.isolated import Isolated, Isolation, Reply
from harness.runs.limits import Here, InThread, LateError, Limits
from harness.runs.money import Counts, counted, rose
from harness.runs.outcome import Answer, Outcome, Unit
from harness.runs.reports import FAILURES, closed, counts, reported, trace, well_formed
from harness.runs.view import View

_SECONDS_A_PART = 0.02
"""Of answers, which a killed run loses at worst, beside those that are not there yet."""

_SECONDS_A_REPORT = 1.0
"""Between two reports of the system, beside the last."""

TO_BUILD = (RetrieverSpec, Isolation)
"""What each process builds a retriever of its own from."""


class Worker:
    """Holds one retriever and runs units with it; picklable, built afresh in each process."""

    def __init__(
        self,
        place: Place,
        retriever: RetrieverSpec | Isolation | Retriever,
        k: int,
        seed: int,
        exclude_self: bool,
        batch_size: int | None,
        system: Mapping[str, Any] | None = None,
        search_only: bool = False,
        concurrency: int = 1,
        limits: Limits | None = None,
    ) -> None:
        """`system` is what tells the retriever from others; see `take_in`. `concurrency`: how many
        calls of `search` at once."""
        self._place = place
        self._limits = limits or Limits()
        self._system, self._search_only = system, search_only
        self._concurrency = concurrency
        self.builds = retriever
        self._k = k
        self._seed = seed
        self._exclude_self = exclude_self
        self._batch_size = batch_size
        self._bench: _Bench | None = None
        self.begun: Outcome | None = None
        self.tell: Callable[[Outcome], None] | None = None
        """Who is told how far a haystack is taken in, now and then; it may raise a HarnessError."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bench": None, "begun": None, "tell": None}

    def __call__(self, unit: Unit) -> Iterator[Outcome]:
        """Index the unit's haystack unless it is indexed already, then search.

        What is answered is given as soon as that is worth it; `begun` is what is not given yet.
        """
        outcome = self.begun = Outcome(unit.number, unit.haystack, [])
        bench = self._bench
        if bench is None or (bench.haystack != unit.haystack and self._is_lost(bench)):
            bench = self._bench = self._built()
        if bench.haystack != unit.haystack:
            self._index(bench, unit.haystack, outcome)
        outcome.process = _number(bench.retriever)
        if bench.index_error is not None:
            outcome.answers = [Answer(q, error=bench.index_error) for q in unit.queries]
            yield outcome
            return
        size = self._batch_size or int(getattr(bench.retriever, "batch_size", 1))
        parts = [unit.queries[at : at + size] for at in range(0, len(unit.queries), size)]
        given = told = monotonic()
        for answers in self._searched(bench, parts):
            outcome.answers += answers
            now = monotonic()
            if now - given > _SECONDS_A_PART:
                outcome.last = False
                if now - told > _SECONDS_A_REPORT:
                    _report(bench, outcome)
                    told = now
                self.begun = None
                yield outcome
                outcome = self.begun = Outcome(
                    unit.number, unit.haystack, [], process=outcome.process
                )
                given = now
        _report(bench, outcome)
        self.begun = None
        yield outcome

    def whole(self, unit: Unit) -> Outcome:
        """What came of a unit, at once."""
        first, *more = self(unit)
        for part in more:
            first.answers += part.answers
            first.reported, first.used = part.reported, part.used
        first.last = True
        return first

    def _searched(self, bench: _Bench, parts: Sequence[list[int]]) -> Iterator[list[Answer]]:
        """The answers to each part, in their order, so many at once as were asked for."""
        if self._concurrency == 1:
            yield from (self._search(bench, part) for part in parts)
            return
        with ThreadPoolExecutor(self._concurrency) as threads:
            yield from threads.map(partial(self._search, bench), parts)

    def _built(self) -> _Bench:
        """What units are run with, built where its calls will be made."""
        caller, spec = InThread() if self._limits.in_time else Here(), self.builds
        built = caller(partial(spec.build, self._seed)) if isinstance(spec, TO_BUILD) else spec
        bench = _Bench(self._place.open(), built, caller)
        if not isinstance(built, Isolated):  # which counts anew for each haystack
            bench.counted = caller(partial(counts, built))
        return bench

    def _is_lost(self, bench: _Bench) -> bool:
        """Whether a call has not come back, and another retriever can be built for what follows."""
        return bench.call.stuck and isinstance(self.builds, TO_BUILD)

    def give_way(self) -> None:
        """Let other processes use what the retriever shares with them."""
        if self._bench is not None and calls.give_way(self._bench.retriever):
            self._bench.haystack = None

    def close(self) -> None:
        """Tell a retriever that was built here that no more will be asked."""
        bench, self._bench = self._bench, None
        if bench is not None and isinstance(self.builds, TO_BUILD) and not bench.call.stuck:
            bench.call(partial(closed, bench.retriever))

    def _index(self, bench: _Bench, haystack: int, outcome: Outcome) -> None:
        bench.haystack, bench.index_error = haystack, None
        bench.view = View(bench.dataset, haystack, self._seed)
        outcome.documents = len(bench.view.rows)
        isolated = isinstance(bench.retriever, Isolated)  # starts with a process that counts anew
        before: Counts = {}
        if not isolated and not bench.call.stuck:
            before = bench.call(partial(counts, bench.retriever))
        take = partial(take_in, bench.retriever, bench.view.corpus, self._system)
        outcome.process = _number(bench.retriever)
        watch = _Watch(bench, outcome, before, self.tell)
        clock = Clock(watch.taken_in)
        try:
            with running(clock):
                work = partial(take, only_kept=self._search_only)
                outcome.kept = not bench.call(work, self._limits.index)
        except HarnessError:
            raise
        except LateError as error:
            bench.index_error = self._late(bench, "index", error)
        except FAILURES:
            # The retriever is somebody else's code: its failure is a result of the run.
            bench.index_error = "index failed:\n" + trace()
        if watch.stopped is not None:  # and somebody went on nevertheless
            raise watch.stopped
        if outcome.kept:  # who paid for it has its time and cost
            return
        outcome.index_seconds = _seconds(bench.retriever, clock.stop())
        after = {} if bench.call.stuck else bench.call(partial(counts, bench.retriever))
        if after:
            outcome.ingested = rose(after, before)

    def _search(self, bench: _Bench, queries: list[int]) -> list[Answer]:
        retriever = bench.retriever
        questions = [bench.view.question(query) for query in queries]
        k = self._k + 1 if self._exclude_self else self._k
        if type(retriever) is Oracle:
            retriever.reveal([_gold(bench, query) for query in queries])
        limit = self._limits.query and self._limits.query * len(queries)
        # Calls of one that bears several at once do not wait for each other.
        apart = limit is not None and getattr(retriever, "concurrent", False)
        clock = Clock()

        def ask() -> Sequence[Any]:
            call = InThread() if apart else bench.call
            return call(partial(calls.search, retriever, questions, k), limit)

        try:
            with running(clock):
                found = patiently(ask, self._limits.retries, _may_help)
        except HarnessError:
            raise
        except NotAnAnswerError as error:
            said = f"{_name(retriever)}: {error}"  # no trace: ours would be in it alone
            return [Answer(query, error=said) for query in queries]
        except FAILURES as error:
            if len(queries) > 1:
                # One bad question must not cost the others: ask one by one.
                return [answer for query in queries for answer in self._search(bench, [query])]
            late = isinstance(error, LateError)
            said = self._late(bench, "search", error) if late else trace()
            return [Answer(queries[0], error=said)]
        # In a batch each question is charged its share.
        seconds = _seconds(retriever, clock.stop()) / len(queries)
        own_ids = bool(getattr(retriever, "own_ids", False))
        return [
            self._answer(bench, query, result, own_ids, seconds)
            for query, result in zip(queries, found, strict=True)
        ]

    def _late(self, bench: _Bench, called: str, error: BaseException) -> str:
        """What is said of a call that took too long; an isolated process is ended for it."""
        if isinstance(bench.retriever, Isolated):
            bench.retriever.close()
        option = "--index-timeout" if called == "index" else "--query-timeout"
        return f"{_name(bench.retriever)}: {called}: {error} ({option})"

    def _answer(
        self, bench: _Bench, query: int, found: Any, own_ids: bool, seconds: float
    ) -> Answer:
        try:
            result = found.result() if isinstance(found, Reply) else as_result(found)
            if result.hits is not None:
                return self._with_hits(bench, query, result, own_ids, seconds)
            positions = bench.view.positions(result.ids, own_ids=own_ids)
            scores = scores_of(result.scores, len(positions))
            answer = Answer(query, seconds=seconds, abstained=bool(result.abstain))
            answer.confidence = _confidence(result)
            answer.padded = 0 if isinstance(found, Reply) else padding(found)
        except NotAnAnswerError as error:
            said = f"{_name(bench.retriever)}: {error}"
            return Answer(query, error=said, seconds=seconds)
        except FAILURES:  # a result may run the retriever's code: a generator, an array of its own
            return Answer(query, error=trace(), seconds=seconds)
        positions, scores, answer.reordered, answer.repeated = in_order(positions, scores)
        asked = self._k + 1 if self._exclude_self else self._k
        answer.cut = max(0, len(positions) - asked)
        rows = bench.view.rows[positions]
        if self._exclude_self:
            other = rows != bench.dataset.rows_with_query_id[query]
            rows, scores = rows[other], None if scores is None else scores[other]
        answer.rows = np.ascontiguousarray(rows[: self._k])
        answer.scores = None if scores is None else np.ascontiguousarray(scores[: self._k])
        return answer

    def _with_hits(
        self, bench: _Bench, query: int, result: Result, own_ids: bool, seconds: float
    ) -> Answer:
        """The answer of a system that returns texts; documents are looked for after the run."""
        hits = list(result.hits or ())
        answer = Answer(query, seconds=seconds, abstained=bool(result.abstain))
        answer.confidence = _confidence(result)
        given = [hit.score for hit in hits]
        if all(score is not None for score in given):
            scores = scores_of([float(score or 0.0) for score in given], len(hits))
            if scores is not None and (scores[1:] > scores[:-1]).any():
                order = np.argsort(-scores, kind="stable")
                hits, answer.reordered = [hits[i] for i in order], True
        answer.cut = max(0, len(hits) - self._k)
        own = bench.dataset.rows_with_query_id[query] if self._exclude_self else None
        answer.hits = [_hit(bench.view, hit, own_ids, own) for hit in hits[: self._k]]
        return answer


@dataclass
class _Bench:
    """What a worker builds once in its process, and the haystack that is indexed now."""

    dataset: Dataset
    retriever: Retriever
    call: Here | InThread
    haystack: int | None = None
    index_error: str | None = None
    counted: Counts = field(default_factory=dict)  # before this run
    view: View = field(init=False)


class _Watch:
    """Says now and then how much of a haystack is taken in, and what that has cost so far."""

    def __init__(
        self,
        bench: _Bench,
        outcome: Outcome,
        before: Counts,
        tell: Callable[[Outcome], None] | None,
    ) -> None:
        self._bench, self._outcome, self._before, self._tell = bench, outcome, before, tell
        self._n, self._told = 0, monotonic()
        self.stopped: HarnessError | None = None

    def taken_in(self, documents: int) -> None:
        """So many more documents. Raises what who is told raises."""
        self._n += documents
        now = monotonic()
        if self._tell is None or now - self._told < _SECONDS_A_REPORT:
            return
        self._told = now
        so_far = replace(
            self._outcome, answers=[], taken_in=min(self._n, self._outcome.documents), last=False
        )
        report = getattr(self._bench.retriever, "report", None)
        # Of an isolated one the process is at its documents, and hears nothing.
        if callable(report) and not isinstance(self._bench.retriever, Isolated):
            said = reported(report)
            _put(said, self._bench, so_far)
            so_far.ingested = rose(counted(said), self._before)
        try:
            self._tell(so_far)
        except HarnessError as error:
            self.stopped = error
            raise


_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def _number(retriever: Retriever) -> int:
    """A number that no other retriever has, of another process or of an earlier run neither."""
    try:
        number = _numbers.setdefault(retriever, int.from_bytes(os.urandom(5)))
    except TypeError:  # it cannot be referred to weakly, or is not hashable
        number = os.getpid()
    # An isolated one begins anew in each process.
    return (retriever.process << 40) + number if isinstance(retriever, Isolated) else number


def _name(retriever: Retriever) -> str:
    """What errors call it."""
    if isinstance(retriever, Isolated):
        return retriever.name.rpartition(":")[2]
    return type(retriever).__qualname__


def _report(bench: _Bench, outcome: Outcome) -> None:
    """Put into the outcome what the retriever says of itself so far, where it says anything."""
    report = getattr(bench.retriever, "report", None)
    if callable(report) and not bench.call.stuck:
        _put(bench.call(partial(reported, report)), bench, outcome)


def _put(said: dict[str, Any], bench: _Bench, outcome: Outcome) -> None:
    outcome.reported = said or None
    outcome.used = rose(counted(said), bench.counted)


def _may_help(error: Exception) -> bool:
    """Whether to ask again may help: not where the answer or the request is wrong, nor late."""
    return not isinstance(error, HarnessError | NotAnAnswerError | WrongNumberError | LateError)


def _gold(bench: _Bench, query: int) -> npt.NDArray[np.int64]:
    """Positions of a query's gold documents: best grade first, and of those the newest."""
    judged = bench.dataset.judgements()
    mine = (judged.query == query) & (judged.grade >= 1) & (judged.document >= 0)
    grade = dict(zip(judged.document[mine].tolist(), judged.grade[mine].tolist(), strict=True))
    positions = bench.view.gold_positions(list(grade))
    grades = np.array([grade[row] for row in bench.view.rows[positions].tolist()], np.int64)
    # Positions rise with time.
    return positions[np.lexsort((-positions, -grades))]


def _hit(view: View, hit: Hit, own_ids: bool, own: int | None) -> dict[str, Any]:
    """A hit for the journal: its sources as rows of the document table; the query's own is gone."""
    positions, unknown = view.known(hit.sources, own_ids=own_ids)
    rows = [row for row in view.rows[positions].tolist() if row != own]
    if not isinstance(hit.text, str):
        raise TypeError(f"the text of a hit must be a text, not {type(hit.text).__name__}")
    score = None if hit.score is None else float(hit.score)
    return {"text": well_formed(hit.text), "rows": rows, "unknown": unknown, "score": score}


def _seconds(retriever: Retriever, clock: Clock) -> float:
    """What a call took; of an isolated one without starting and sending."""
    if isinstance(retriever, Isolated) and retriever.seconds is not None:
        return retriever.seconds
    return clock.seconds


def _confidence(result: Result) -> float | None:
    if result.confidence is None:
        return None
    confidence = float(result.confidence)
    if not np.isfinite(confidence):
        raise ValueError(f"the confidence is {confidence}")
    return confidence
