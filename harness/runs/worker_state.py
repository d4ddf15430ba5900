"""State of a worker: its retriever, the indexed haystack and its usage."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset
from harness.errors import CallTimeoutError, HarnessError, ResponseMismatchError, shorten
from harness.io.masking import redact, redact_in
from harness.io.plugins import FAILURES, describe_error
from harness.records.run import Params
from harness.retrievers.calls import await_result, close
from harness.retrievers.contract import Question, Retriever
from harness.retrievers.outputs import valid_text
from harness.retrievers.timing import Clock
from harness.runs.blinding import BlindedCorpus
from harness.runs.results import WorkResult
from harness.runs.usage import Counts, add_counts, counts_in, usage_delta

if TYPE_CHECKING:
    from harness.runs.timeouts import CallThread

_log = logging.getLogger(__name__)

T = TypeVar("T")
_LONGEST_TRACE = 40_000  # characters


class InlineCalls:
    """Makes calls in the current thread, without a time limit; see `CallThread`."""

    stuck = False

    def __call__(self, work: Callable[[], T], limit: float | None = None) -> T:
        """Calls `work` and returns its result."""
        return work()


class RemoteCallError(Exception):
    """Raised for an error of another process; `trace` is the traceback from there."""

    def __init__(self, trace: str, rate_limit: float | None = None) -> None:
        """`rate_limit`: seconds to wait, if a rate limit was exceeded (HTTP 429)."""
        super().__init__(trace)
        self.trace = trace
        if rate_limit is not None:
            self.status, self.headers = 429, {"Retry-After": rate_limit}


def trace() -> str:
    """Returns the traceback of the current exception as valid text, with secrets masked."""
    error = sys.exception()
    said = error.trace if isinstance(error, RemoteCallError) else traceback.format_exc()
    return shorten(redact(valid_text(said)), _LONGEST_TRACE)


def close_quietly(retriever: Retriever) -> None:
    """Closes a retriever. A failure is only logged, since all results are there; but raises
    ResponseMismatchError if responses may belong to other queries."""
    try:
        close(retriever)
    except ResponseMismatchError:
        raise
    except FAILURES as error:
        _log.warning(f"note: the retriever's close() failed: {describe_error(error)}")


def plain_report(report: Callable[[], Any]) -> Params:
    """Returns a system's report as JSON values without secrets, or the traceback of its failure."""
    import orjson

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        plain = orjson.loads(
            orjson.dumps(dict(await_result(report())), default=str, option=options)
        )
        return cast(Params, redact_in(plain))
    except FAILURES:
        return {"error": trace()}


SECONDS_A_REPORT = 1.0
"""Seconds between progress reports while a system has no new usage."""

SECONDS_A_STEP = 0.02
"""Seconds of work that a killed run loses at most, in addition to the current call."""

_SECONDS_TO_SAY = 2.0
"""Seconds that a retriever with a stuck call has to report its usage."""


class ProcessRetriever:
    """A retriever in a separate process; each new process counts its usage from 0.

    `process` is the number of the last process, `seconds` the time of its last call there.
    """

    process = 0
    name = ""
    seconds: float | None = None

    def close(self) -> None:
        """Ends the process."""


@dataclass
class WorkerState:
    """The state of a worker: what it builds once, and the haystack that is indexed."""

    dataset: Dataset
    retriever: Retriever
    call: InlineCalls | CallThread
    haystack: int | None = None
    index_error: str | None = None
    counted: Counts = field(default_factory=dict)  # last usage that its process reported
    counted_of: int = 0  # number of that process
    indexing: bool = False
    report_limit: float | None = None  # seconds
    timed_out: list[CallThread] = field(default_factory=list)  # threads of calls that timed out
    chain: int | None = None  # chain ingested up to the time of `haystack`
    blinded: BlindedCorpus = field(init=False)
    questions: dict[int, Question] = field(default_factory=dict)  # of the current item

    @property
    def stuck(self) -> bool:
        """Whether a call has not returned."""
        return self.call.stuck or any(one.stuck for one in self.timed_out)

    def add_report(self, result: WorkResult) -> None:
        """Adds the retriever's report to the result; waits briefly only if a call is stuck."""
        report = getattr(self.retriever, "report", None)
        if not callable(report):
            return
        asked = partial(plain_report, report)
        if not self.stuck:
            try:
                values = self.call(asked, self.report_limit)
            except CallTimeoutError as error:
                if isinstance(self.retriever, ProcessRetriever):
                    self.retriever.close()
                message = f"{name_of(self.retriever)}: report: {error} (--query-timeout)"
                _log.warning(f"warning: {message}; its usage is incomplete")
                values = {"error": message}
            self.add_values(values, result)
            return
        from harness.runs.timeouts import CallThread

        with suppress(CallTimeoutError):
            self.add_values(CallThread()(asked, _SECONDS_TO_SAY), result)

    def add_values(self, report: Params, result: WorkResult) -> None:
        """Adds a report to the result, and the usage since the previous result."""
        process, counts = number_of(self.retriever), counts_in(report)
        if self.counted_of != process:  # each process of an isolated one counts from 0
            self.counted_of, self.counted = process, {}
        rise = usage_delta(counts, self.counted)
        self.counted |= counts  # a failed report has no counts
        result.process, result.reported = process, report or None
        if self.indexing:
            result.ingestion_usage = add_counts([result.ingestion_usage or {}, rise])
        else:
            result.usage = add_counts([result.usage or {}, rise])


class IndexingProgress:
    """Reports the progress of indexing a haystack, and its cost so far."""

    def __init__(
        self, state: WorkerState, result: WorkResult, notify: Callable[[WorkResult], None] | None
    ) -> None:
        self._state, self._result, self._on_progress = state, result, notify
        self._n, self._reported_at = 0, monotonic()
        self._checked_at = self._reported_at
        self.stopped: HarnessError | None = None

    def taken_in(self, documents: int) -> None:
        """Counts ingested documents and reports progress. Raises what the callback raises."""
        self._n += documents
        now = monotonic()
        if self._on_progress is None or now - self._checked_at < SECONDS_A_STEP:
            return
        self._checked_at = now
        so_far = msgspec.structs.replace(
            self._result, queries=[], indexed=min(self._n, self._result.documents), complete=False
        )
        report = getattr(self._state.retriever, "report", None)
        # The process of an isolated retriever is indexing and cannot report.
        if callable(report) and not isinstance(self._state.retriever, ProcessRetriever):
            self._state.add_values(plain_report(report), so_far)
        if now - self._reported_at < SECONDS_A_REPORT and not has_usage(so_far):
            return
        self._reported_at = now
        try:
            self._on_progress(so_far)
        except HarnessError as error:
            self.stopped = error
            raise


def has_usage(result: WorkResult) -> bool:
    """Tests whether a result has any usage."""
    return any((result.ingestion_usage or {}).values()) or any((result.usage or {}).values())


_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def number_of(retriever: Retriever) -> int:
    """Returns a number of the retriever that is unique across processes and runs."""
    try:
        number = _numbers.setdefault(retriever, int.from_bytes(os.urandom(5)))
    except TypeError:  # no weak references, or not hashable
        number = os.getpid()
    # Each process of an isolated retriever counts from 0.
    return (retriever.process << 40) + number if isinstance(retriever, ProcessRetriever) else number


def name_of(retriever: Retriever) -> str:
    """Returns the name of the retriever in messages."""
    if isinstance(retriever, ProcessRetriever):
        return retriever.name.rpartition(":")[2]
    return type(retriever).__qualname__


def seconds_of(retriever: Retriever, clock: Clock) -> float:
    """Returns the seconds of a call; without start and transfer for an isolated retriever."""
    if isinstance(retriever, ProcessRetriever) and retriever.seconds is not None:
        return retriever.seconds
    return clock.seconds


def gold_of(state: WorkerState, query: int) -> npt.NDArray[np.int64]:
    """Returns positions of a query's gold documents: best grade first, then newest first."""
    judged = state.dataset.qrels()
    mine = (judged.query == query) & (judged.grade >= 1) & (judged.document >= 0)
    grade = dict(zip(judged.document[mine].tolist(), judged.grade[mine].tolist(), strict=True))
    positions = state.blinded.gold_positions(list(grade))
    grades = np.array([grade[row] for row in state.blinded.rows[positions].tolist()], np.int64)
    # Positions are in order of time.
    return positions[np.lexsort((-positions, -grades))]
