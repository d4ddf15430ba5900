"""Runs a retriever over one item of work: some queries of one haystack. Errors become data."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from harness.datasets.reader import Dataset
from harness.errors import CallTimeoutError, HarnessError, RunError
from harness.io.plugins import FAILURES
from harness.retrievers import calls
from harness.retrievers.contract import Corpus, Retriever
from harness.retrievers.ingest import ingest
from harness.retrievers.outputs import NotAnAnswerError, WrongNumberError
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.retry import retry
from harness.retrievers.timing import Clock, timed
from harness.runs.blinding import BlindedCorpus
from harness.runs.convert_output import to_query_result
from harness.runs.results import QueryResult, WorkItem, WorkResult
from harness.runs.settings import Limits
from harness.runs.usage import add_counts
from harness.runs.worker_state import (
    SECONDS_A_STEP,
    IndexingProgress,
    InlineCalls,
    ProcessRetriever,
    WorkerState,
    close_quietly,
    gold_of,
    has_usage,
    name_of,
    number_of,
    seconds_of,
    trace,
)

if TYPE_CHECKING:
    from harness.runs.timeouts import CallThread

QUERY_TIMEOUT = "--query-timeout"
"""Ends the message of a query that timed out, in brackets."""


@dataclass(frozen=True)
class WorkerOptions:
    """Options of a worker's calls to its retriever.

    `batch_size`: queries in each `search` call, `concurrency`: concurrent calls. `system`
    identifies the retriever in the index cache; see `ingest`. `run` identifies the run.
    """

    k: int
    seed: int = 0
    exclude_self: bool = False
    batch_size: int = 1
    system: Mapping[str, object] | None = None
    require_cached_index: bool = False
    concurrency: int = 1
    limits: Limits = field(default_factory=Limits)
    run: str = ""


class Location(Protocol):
    """Location of the dataset for a worker; picklable if workers are in other processes."""

    def open(self) -> Dataset:
        """Opens the dataset."""
        ...


class Worker:
    """Holds one retriever and runs items with it; picklable, rebuilt in each process."""

    def __init__(
        self, place: Location, retriever: RetrieverSpec | Retriever, options: WorkerOptions
    ) -> None:
        self._place = place
        self.builds = retriever
        self._options = options
        self._limits = options.limits
        self._state: WorkerState | None = None
        self.unfinished: WorkResult | None = None
        self.on_progress: Callable[[WorkResult], None] | None = None
        """Callback for the progress of indexing a haystack; it may raise a HarnessError."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_state": None, "unfinished": None, "on_progress": None}

    def __call__(self, item: WorkItem) -> Iterator[WorkResult]:
        """Indexes the item's haystack unless it is indexed already, then searches.

        Yields partial results at short intervals; `unfinished` has the rest after an interruption.
        """
        result = self.unfinished = WorkResult(item.number, item.haystack, [])
        state = self._state
        if state is None or (state.haystack != item.haystack and self._is_lost(state, item)):
            state = self._state = self._built()
        if state.haystack != item.haystack:
            self._index(state, item, result)
        result.process = number_of(state.retriever)
        if state.index_error is not None:
            result.queries = [QueryResult(q, error=state.index_error) for q in item.queries]
            yield result
            return
        state.questions = state.blinded.questions(item.queries)
        if has_usage(result):
            result = yield from self._part(result)
        size = self._options.batch_size
        parts = [item.queries[at : at + size] for at in range(0, len(item.queries), size)]
        given = monotonic()
        for answers in self._searches(state, parts):
            result.queries += answers
            now = monotonic()
            if now - given > SECONDS_A_STEP:
                state.add_report(result)
                result = yield from self._part(result)
                given = now
        state.add_report(result)
        self.unfinished = None
        yield result

    def _part(self, result: WorkResult) -> Generator[WorkResult, None, WorkResult]:
        """Yields the partial result of an item, and returns an empty one for the rest."""
        result.complete, self.unfinished = False, None
        yield result
        self.unfinished = WorkResult(result.item, result.haystack, [], process=result.process)
        return self.unfinished

    def run_item(self, item: WorkItem) -> WorkResult:
        """Returns the results of an item at once."""
        first, *more = self(item)
        for part in more:
            first.queries += part.queries
            first.reported = part.reported or first.reported
            if part.usage is not None:
                first.usage = add_counts([first.usage or {}, part.usage])
        first.complete = True
        return first

    @property
    def index_error(self) -> str | None:
        """The error of indexing the current haystack; None if there was none."""
        return None if self._state is None else self._state.index_error

    def ask(self, query: int) -> QueryResult:
        """Searches the haystack that `run_item` indexed; never raises an error of the retriever.

        Several threads may call it at once if the retriever is thread_safe.
        """
        assert self._state is not None, "run_item builds the retriever"
        return self._search(self._state, [query])[0]

    def usage(self) -> WorkResult:
        """Returns a result without queries that has the usage since the previous result."""
        assert self._state is not None, "run_item builds the retriever"
        result = WorkResult(0, self._state.haystack or 0, [])
        self._state.add_report(result)
        return result

    def interrupted(self) -> WorkResult | None:
        """Returns the partial result and the usage of an item that an exception interrupted."""
        unfinished, state, self.unfinished = self.unfinished, self._state, None
        if unfinished is None or state is None:
            return None
        unfinished.complete = False
        state.add_report(unfinished)
        return unfinished if unfinished.queries or has_usage(unfinished) else None

    def _searches(
        self, state: WorkerState, parts: Sequence[list[int]]
    ) -> Iterator[list[QueryResult]]:
        """Yields the answers to each part; in order, unless several calls are made at once."""
        if self._options.concurrency == 1:
            yield from (self._search(state, part) for part in parts)
            return
        from harness.runs.timeouts import side_by_side

        yield from side_by_side(partial(self._search, state), parts, self._options.concurrency)

    def _built(self) -> WorkerState:
        """Builds the retriever in the thread that will make its calls."""
        caller, built = self._caller(), self.builds
        if isinstance(built, RetrieverSpec):
            built = caller(partial(built.build, self._options.seed))
        limit = self._limits.query or self._limits.index
        state = WorkerState(self._place.open(), built, caller, report_limit=limit)
        if not isinstance(built, ProcessRetriever):  # it counts from 0 for each haystack
            state.add_report(WorkResult(0, 0, []))  # earlier usage is not part of the run
        return state

    def _caller(self) -> InlineCalls | CallThread:
        """Returns the caller: inline, or a separate thread if calls have time limits."""
        if not self._limits.in_time:
            return InlineCalls()
        from harness.runs.timeouts import CallThread

        return CallThread()

    def _is_lost(self, state: WorkerState, item: WorkItem) -> bool:
        """Tests whether a call is stuck and the retriever can be rebuilt for this item."""
        follows = item.chain is not None and item.chain == state.chain
        return state.stuck and isinstance(self.builds, RetrieverSpec) and not follows

    def release(self) -> None:
        """Releases the resources that the retriever shares with other processes."""
        if self._state is not None and calls.release(self._state.retriever):
            self._state.haystack = self._state.chain = None

    def close(self) -> None:
        """Closes the retriever if this worker built it."""
        state, self._state = self._state, None
        if state is not None and isinstance(self.builds, RetrieverSpec) and not state.stuck:
            state.call(partial(close_quietly, state.retriever))

    def _index(self, state: WorkerState, item: WorkItem, result: WorkResult) -> None:
        continues = item.chain is not None and state.chain == item.chain
        if continues and state.index_error is not None:
            return  # it ingested an unknown part of the earlier documents
        earlier = state.blinded.corpus if continues else None
        state.haystack, state.index_error, state.chain = item.haystack, None, None
        state.blinded = BlindedCorpus(
            state.dataset, item.haystack, self._options.seed, self._options.run
        )
        result.documents = len(state.blinded.rows) - len(earlier or ())
        take: Callable[..., bool] = partial(
            ingest, state.retriever, state.blinded.corpus, self._options.system
        )
        if item.chain is not None and calls.is_streaming(state.retriever):
            take, state.chain = partial(self._stream, state, earlier), item.chain
        result.process, state.indexing = number_of(state.retriever), True
        watch = IndexingProgress(state, result, self.on_progress)
        clock = Clock(watch.taken_in)
        try:
            self._wait_for_timed_out(state)
            with timed(clock):
                work = partial(take, require_cached=self._options.require_cached_index)
                result.cached = not state.call(work, self._limits.index)
        except HarnessError:
            raise
        except CallTimeoutError as error:
            state.index_error = self._timeout_message(state, "index", error)
        except FAILURES:
            # The retriever is third-party code: its failure is a result of the run.
            state.index_error = "index failed:\n" + trace()
        if watch.stopped is not None:  # the retriever swallowed the exception
            raise watch.stopped
        if not result.cached:  # else the earlier run has its time and cost
            result.index_seconds = seconds_of(state.retriever, clock.stop())
            state.add_report(result)
        state.indexing = False

    def _wait_for_timed_out(self, state: WorkerState) -> None:
        """Waits for searches that timed out before the next haystack is indexed.

        Raises CallTimeoutError if one does not return.
        """
        for one in state.timed_out:
            one.wait()
        state.timed_out = [one for one in state.timed_out if one.stuck]
        if state.timed_out:
            raise CallTimeoutError("an earlier call timed out and is still running")

    def _stream(self, state: WorkerState, before: Corpus | None, *, require_cached: bool) -> bool:
        """Ingests the new documents into a memory; indexes of splits over time are not cached."""
        if require_cached:
            raise RunError(
                "--require-cached-index: a split as of the time of questions has no index"
            )
        calls.stream_corpus(state.retriever, state.blinded.corpus, before)
        return True

    def _search(self, state: WorkerState, queries: list[int]) -> list[QueryResult]:
        retriever = state.retriever
        # `ask` may be called with queries that are not in the item.
        questions = [
            state.questions.get(query) or state.blinded.question(query) for query in queries
        ]
        k = self._options.k + 1 if self._options.exclude_self else self._options.k
        if getattr(retriever, "sees_gold_labels", False):
            from harness.retrievers.baselines import Oracle

            if type(retriever) is Oracle:
                retriever.reveal([gold_of(state, query) for query in queries])
        limit = self._limits.query and self._limits.query * len(queries)
        # Calls of a thread-safe retriever do not wait for each other.
        apart = self._limits.in_time and calls.is_concurrent(retriever)
        clock = Clock()

        def ask() -> Sequence[Any]:
            call = self._caller() if apart else state.call
            try:
                return call(partial(calls.search, retriever, questions, k), limit)
            except CallTimeoutError:
                if apart and not isinstance(call, InlineCalls):
                    state.timed_out.append(call)
                raise

        try:
            with timed(clock):
                found = retry(ask, self._limits.retries, _may_help)
        except HarnessError:
            raise
        except NotAnAnswerError as error:
            message = f"{name_of(retriever)}: {error}"  # no trace: it would show the harness only
            return [QueryResult(query, error=message) for query in queries]
        except FAILURES as error:
            if len(queries) > 1:
                # One bad question must not fail the others: ask one by one.
                return [answer for query in queries for answer in self._search(state, [query])]
            late = isinstance(error, CallTimeoutError)
            message = self._timeout_message(state, "search", error) if late else trace()
            return [QueryResult(queries[0], error=message)]
        # In a batch each question is charged its share.
        seconds = seconds_of(retriever, clock.stop()) / len(queries)
        return [
            to_query_result(state, query, one, seconds, self._options.k, self._options.exclude_self)
            for query, one in zip(queries, found, strict=True)
        ]

    def _timeout_message(self, state: WorkerState, called: str, error: BaseException) -> str:
        """Returns the message for a call that timed out; ends an isolated process."""
        if isinstance(state.retriever, ProcessRetriever):
            state.retriever.close()
        option = "--index-timeout" if called == "index" else QUERY_TIMEOUT
        return f"{name_of(state.retriever)}: {called}: {error} ({option})"


def _may_help(error: Exception) -> bool:
    """Tests whether a retry may help: not after wrong output, wrong use or a timeout."""
    return not isinstance(
        error, HarnessError | NotAnAnswerError | WrongNumberError | CallTimeoutError
    )
