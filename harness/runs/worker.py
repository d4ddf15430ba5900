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
from harness.runs.bench import (
    SECONDS_A_STEP,
    Bench,
    InlineCalls,
    ProcessRetriever,
    Watch,
    close_quietly,
    gold_of,
    name_of,
    number_of,
    seconds_of,
    trace,
    used_something,
)
from harness.runs.convert_output import to_query_result
from harness.runs.results import QueryResult, WorkItem, WorkResult
from harness.runs.settings import Limits
from harness.runs.usage import add_counts
from harness.runs.view import BlindedCorpus

if TYPE_CHECKING:
    from harness.runs.timeouts import CallThread


@dataclass(frozen=True)
class WorkerOptions:
    """Options of a worker's calls to its retriever.

    `batch_size` None: the retriever's own. `system` identifies the retriever in the index cache;
    see `ingest`. `concurrency`: number of concurrent `search` calls.
    """

    k: int
    seed: int = 0
    exclude_self: bool = False
    batch_size: int | None = None
    system: Mapping[str, object] | None = None
    require_cached_index: bool = False
    concurrency: int = 1
    limits: Limits = field(default_factory=Limits)


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
        self._bench: Bench | None = None
        self.begun: WorkResult | None = None
        self.tell: Callable[[WorkResult], None] | None = None
        """Callback for the progress of indexing a haystack; it may raise a HarnessError."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_bench": None, "begun": None, "tell": None}

    def __call__(self, item: WorkItem) -> Iterator[WorkResult]:
        """Indexes the item's haystack unless it is indexed already, then searches.

        Yields partial results at short intervals; an interrupted item keeps the rest in `begun`.
        """
        result = self.begun = WorkResult(item.number, item.haystack, [])
        bench = self._bench
        if bench is None or (bench.haystack != item.haystack and self._is_lost(bench, item)):
            bench = self._bench = self._built()
        if bench.haystack != item.haystack:
            self._index(bench, item, result)
        result.process = number_of(bench.retriever)
        if bench.index_error is not None:
            result.queries = [QueryResult(q, error=bench.index_error) for q in item.queries]
            yield result
            return
        if used_something(result):
            result = yield from self._part(result)
        size = self._options.batch_size or int(getattr(bench.retriever, "batch_size", 1))
        parts = [item.queries[at : at + size] for at in range(0, len(item.queries), size)]
        given = monotonic()
        for answers in self._searched(bench, parts):
            result.queries += answers
            now = monotonic()
            if now - given > SECONDS_A_STEP:
                bench.put_report(result)
                result = yield from self._part(result)
                given = now
        bench.put_report(result)
        self.begun = None
        yield result

    def _part(self, result: WorkResult) -> Generator[WorkResult, None, WorkResult]:
        """Yields the partial result of an item, and returns an empty one for the rest."""
        result.complete, self.begun = False, None
        yield result
        self.begun = WorkResult(result.item, result.haystack, [], process=result.process)
        return self.begun

    def whole(self, item: WorkItem) -> WorkResult:
        """Returns the results of an item at once."""
        first, *more = self(item)
        for part in more:
            first.queries += part.queries
            first.reported = part.reported or first.reported
            if part.usage is not None:
                first.usage = add_counts([first.usage or {}, part.usage])
        first.complete = True
        return first

    def interrupted(self) -> WorkResult | None:
        """Returns the partial result and the usage of an item that an exception interrupted."""
        begun, bench, self.begun = self.begun, self._bench, None
        if begun is None or bench is None:
            return None
        begun.complete = False
        bench.put_report(begun)
        return begun if begun.queries or used_something(begun) else None

    def _searched(self, bench: Bench, parts: Sequence[list[int]]) -> Iterator[list[QueryResult]]:
        """Yields the answers to each part; in order, unless several calls are made at once."""
        if self._options.concurrency == 1:
            yield from (self._search(bench, part) for part in parts)
            return
        from harness.runs.timeouts import side_by_side

        yield from side_by_side(partial(self._search, bench), parts, self._options.concurrency)

    def _built(self) -> Bench:
        """Builds the retriever in the thread that will make its calls."""
        caller, built = self._caller(), self.builds
        if isinstance(built, RetrieverSpec):
            built = caller(partial(built.build, self._options.seed))
        bench = Bench(self._place.open(), built, caller)
        if not isinstance(built, ProcessRetriever):  # it counts from 0 for each haystack
            bench.put_report(WorkResult(0, 0, []))  # earlier usage is not part of the run
        return bench

    def _caller(self) -> InlineCalls | CallThread:
        """Returns the caller: inline, or a separate thread if calls have time limits."""
        if not self._limits.in_time:
            return InlineCalls()
        from harness.runs.timeouts import CallThread

        return CallThread()

    def _is_lost(self, bench: Bench, item: WorkItem) -> bool:
        """Tests whether a call is stuck and the retriever can be rebuilt for this item."""
        follows = item.chain is not None and item.chain == bench.chain
        return bench.stuck and isinstance(self.builds, RetrieverSpec) and not follows

    def release(self) -> None:
        """Releases the resources that the retriever shares with other processes."""
        if self._bench is not None and calls.release(self._bench.retriever):
            self._bench.haystack = self._bench.chain = None

    def close(self) -> None:
        """Closes the retriever if this worker built it."""
        bench, self._bench = self._bench, None
        if bench is not None and isinstance(self.builds, RetrieverSpec) and not bench.stuck:
            bench.call(partial(close_quietly, bench.retriever))

    def _index(self, bench: Bench, item: WorkItem, result: WorkResult) -> None:
        goes_on = item.chain is not None and bench.chain == item.chain
        if goes_on and bench.index_error is not None:
            return  # it ingested an unknown part of the earlier documents
        before_it = bench.view.corpus if goes_on else None
        bench.haystack, bench.index_error, bench.chain = item.haystack, None, None
        bench.view = BlindedCorpus(bench.dataset, item.haystack, self._options.seed)
        result.documents = len(bench.view.rows) - len(before_it or ())
        take: Callable[..., bool] = partial(
            ingest, bench.retriever, bench.view.corpus, self._options.system
        )
        if item.chain is not None and calls.is_told(bench.retriever):
            take, bench.chain = partial(self._tell, bench, before_it), item.chain
        result.process, bench.indexing = number_of(bench.retriever), True
        watch = Watch(bench, result, self.tell)
        clock = Clock(watch.taken_in)
        try:
            self._wait_for_late(bench)
            with timed(clock):
                work = partial(take, require_cached=self._options.require_cached_index)
                result.cached = not bench.call(work, self._limits.index)
        except HarnessError:
            raise
        except CallTimeoutError as error:
            bench.index_error = self._late(bench, "index", error)
        except FAILURES:
            # The retriever is third-party code: its failure is a result of the run.
            bench.index_error = "index failed:\n" + trace()
        if watch.stopped is not None:  # the retriever swallowed the exception
            raise watch.stopped
        if not result.cached:  # else the earlier run has its time and cost
            result.index_seconds = seconds_of(bench.retriever, clock.stop())
            bench.put_report(result)
        bench.indexing = False

    def _wait_for_late(self, bench: Bench) -> None:
        """Waits for searches that timed out before the next haystack is indexed.

        Raises CallTimeoutError if one does not return.
        """
        for one in bench.late:
            one.wait()
        bench.late = [one for one in bench.late if one.stuck]
        if bench.late:
            raise CallTimeoutError("a call before it took too long, and has not come back")

    def _tell(self, bench: Bench, before: Corpus | None, *, require_cached: bool) -> bool:
        """Ingests the new documents into a memory; indexes of splits over time are not cached."""
        if require_cached:
            raise RunError(
                "--require-cached-index: a split as of the time of questions has no index"
            )
        calls.tell(bench.retriever, bench.view.corpus, before)
        return True

    def _search(self, bench: Bench, queries: list[int]) -> list[QueryResult]:
        retriever = bench.retriever
        questions = [bench.view.question(query) for query in queries]
        k = self._options.k + 1 if self._options.exclude_self else self._options.k
        if getattr(retriever, "sees_gold_labels", False):
            from harness.retrievers.baselines import Oracle

            if type(retriever) is Oracle:
                retriever.reveal([gold_of(bench, query) for query in queries])
        limit = self._limits.query and self._limits.query * len(queries)
        # Calls of a thread-safe retriever do not wait for each other.
        apart = self._limits.in_time and getattr(retriever, "thread_safe", False)
        clock = Clock()

        def ask() -> Sequence[Any]:
            call = self._caller() if apart else bench.call
            try:
                return call(partial(calls.search, retriever, questions, k), limit)
            except CallTimeoutError:
                if apart and not isinstance(call, InlineCalls):
                    bench.late.append(call)
                raise

        try:
            with timed(clock):
                found = retry(ask, self._limits.retries, _may_help)
        except HarnessError:
            raise
        except NotAnAnswerError as error:
            said = f"{name_of(retriever)}: {error}"  # no trace: it would show the harness only
            return [QueryResult(query, error=said) for query in queries]
        except FAILURES as error:
            if len(queries) > 1:
                # One bad question must not fail the others: ask one by one.
                return [answer for query in queries for answer in self._search(bench, [query])]
            late = isinstance(error, CallTimeoutError)
            said = self._late(bench, "search", error) if late else trace()
            return [QueryResult(queries[0], error=said)]
        # In a batch each question is charged its share.
        seconds = seconds_of(retriever, clock.stop()) / len(queries)
        return [
            to_query_result(bench, query, one, seconds, self._options.k, self._options.exclude_self)
            for query, one in zip(queries, found, strict=True)
        ]

    def _late(self, bench: Bench, called: str, error: BaseException) -> str:
        """Returns the message for a call that timed out; ends an isolated process."""
        if isinstance(bench.retriever, ProcessRetriever):
            bench.retriever.close()
        option = "--index-timeout" if called == "index" else "--query-timeout"
        return f"{name_of(bench.retriever)}: {called}: {error} ({option})"


def _may_help(error: Exception) -> bool:
    """Tests whether a retry may help: not after wrong output, wrong use or a timeout."""
    return not isinstance(
        error, HarnessError | NotAnAnswerError | WrongNumberError | CallTimeoutError
    )
