"""What a worker holds: one retriever, the haystack that it was given, and what it has used."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from harness.datasets.reader import Dataset
from harness.errors import HarnessError
from harness.records.run import Params
from harness.retrievers.contract import Retriever
from harness.retrievers.timing import Clock
from harness.runs.guards import CallTimeoutError, InlineCalls, plain_report, report_counts
from harness.runs.results import WorkResult
from harness.runs.usage import Counts, counts_in, usage_delta
from harness.runs.view import BlindedCorpus

if TYPE_CHECKING:
    from harness.runs.timeouts import CallThread

T = TypeVar("T")

SECONDS_A_REPORT = 1.0
"""Between two reports of the system, beside the last."""

_SECONDS_TO_SAY = 2.0
"""In which a retriever that hangs may say what it has used."""


class ProcessRetriever:
    """A retriever in a process of its own, which counts anew in each.

    `process` is the number of the last one; `seconds` what its last call took in there.
    """

    process = 0
    name = ""
    seconds: float | None = None

    def close(self) -> None:
        """End the process."""


@dataclass
class Bench:
    """What a worker builds once in its process, and the haystack that is indexed now."""

    dataset: Dataset
    retriever: Retriever
    call: InlineCalls | CallThread
    haystack: int | None = None
    index_error: str | None = None
    counted: Counts = field(default_factory=dict)  # before this attempt of the run
    late: list[CallThread] = field(default_factory=list)  # of calls beside others
    number: int = field(default_factory=lambda: int.from_bytes(os.urandom(5)))
    chain: int | None = None  # of which haystack it was told, as of the time of this one
    view: BlindedCorpus = field(init=False)

    @property
    def stuck(self) -> bool:
        """Whether a call has not come back."""
        return self.call.stuck or any(one.stuck for one in self.late)

    def counts(self) -> Counts:
        """Return what the retriever counts by now; nothing of one that is stuck and does not
        say."""
        return self.told(partial(report_counts, self.retriever)) or {}

    def told(self, asked: Callable[[], T]) -> T | None:
        """Return what the retriever says of itself; None where it is stuck and does not say at
        once."""
        if not self.stuck:
            return self.call(asked)
        from harness.runs.timeouts import CallThread

        try:
            return CallThread()(asked, _SECONDS_TO_SAY)
        except CallTimeoutError:
            return None


class Watch:
    """Says now and then how much of a haystack is taken in, and what that has cost so far."""

    def __init__(
        self,
        bench: Bench,
        result: WorkResult,
        before: Counts,
        tell: Callable[[WorkResult], None] | None,
    ) -> None:
        self._bench, self._result, self._before, self._tell = bench, result, before, tell
        self._n, self._told = 0, monotonic()
        self.stopped: HarnessError | None = None

    def taken_in(self, documents: int) -> None:
        """Count so many more documents. Raises what who is told raises."""
        self._n += documents
        now = monotonic()
        if self._tell is None or now - self._told < SECONDS_A_REPORT:
            return
        self._told = now
        so_far = msgspec.structs.replace(
            self._result,
            queries=[],
            indexed=min(self._n, self._result.documents),
            complete=False,
        )
        report = getattr(self._bench.retriever, "report", None)
        # Of an isolated one the process is at its documents, and hears nothing.
        if callable(report) and not isinstance(self._bench.retriever, ProcessRetriever):
            said = plain_report(report)
            _put(said, self._bench, so_far)
            so_far.ingestion_usage = usage_delta(counts_in(said), self._before)
        try:
            self._tell(so_far)
        except HarnessError as error:
            self.stopped = error
            raise


_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def number_of(retriever: Retriever) -> int:
    """Return a number that no other retriever has, of another process or of an earlier run
    neither."""
    try:
        number = _numbers.setdefault(retriever, int.from_bytes(os.urandom(5)))
    except TypeError:  # it cannot be referred to weakly, or is not hashable
        number = os.getpid()
    # An isolated one begins anew in each process.
    return (retriever.process << 40) + number if isinstance(retriever, ProcessRetriever) else number


def account_of(bench: Bench) -> int:
    """Return whose counts these are: of an isolated one, which counts anew in each process, that
    one's."""
    isolated = isinstance(bench.retriever, ProcessRetriever)
    return number_of(bench.retriever) if isolated else bench.number


def name_of(retriever: Retriever) -> str:
    """Return what errors call it."""
    if isinstance(retriever, ProcessRetriever):
        return retriever.name.rpartition(":")[2]
    return type(retriever).__qualname__


def put_report(bench: Bench, result: WorkResult) -> None:
    """Put into the result what the retriever says of itself so far, where it says anything."""
    report = getattr(bench.retriever, "report", None)
    if callable(report) and (said := bench.told(partial(plain_report, report))) is not None:
        _put(said, bench, result)


def _put(said: Params, bench: Bench, result: WorkResult) -> None:
    result.reported = said or None
    result.usage = usage_delta(counts_in(said), bench.counted)


def seconds_of(retriever: Retriever, clock: Clock) -> float:
    """Return what a call took; of an isolated one without starting and sending."""
    if isinstance(retriever, ProcessRetriever) and retriever.seconds is not None:
        return retriever.seconds
    return clock.seconds
