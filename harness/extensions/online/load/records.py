"""Records of load and lag measurements: the files, and the output of the commands."""

from __future__ import annotations

from harness.io.records import Output, OutputPart
from harness.records.run import DatasetRef, Machine, RetrieverRecord, Usage


class LagPercentiles(OutputPart):
    """Exact percentiles in seconds by nearest rank. None: a document that was never found."""

    p50: float | None
    p90: float | None
    max: float | None


class LatencyPercentiles(OutputPart):
    """Exact percentiles in seconds by nearest rank: the smallest value that p percent of the values
    do not exceed (numpy's `inverted_cdf`). `max` is the largest value."""

    p50: float
    p90: float
    p99: float
    max: float


class LoadLevel(OutputPart):
    """The requests of one number of clients.

    requests = answered + failed + timed_out + unanswered + unsent. `unanswered` were sent, and had
    no answer when the measurement ended; `unsent` were scheduled before it ended, and no client was
    free. `latency` is over answers, and over requests that timed out, were not answered or not sent
    with the time until then (`lower_bounds` counts these); `service` is over answers, from sending.
    """

    clients: int
    rate: float | None
    seconds: float
    requests: int
    answered: int
    failed: int
    timed_out: int
    unanswered: int
    unsent: int
    per_second: float
    latency: LatencyPercentiles | None
    service: LatencyPercentiles | None
    lower_bounds: int
    most_in_flight: int
    recall: float | None
    memory_bytes: int | None
    first_error: str | None = None

    @property
    def lost(self) -> int:
        """Number of requests without an answer or an error of the system."""
        return self.timed_out + self.unanswered + self.unsent


class LoadOutput(Output, tag="harness.load/1"):
    """harness load; `recall` of a level is recall@`recall_k` of the protocol memory/1."""

    retriever: RetrieverRecord
    dataset: DatasetRef
    machine: Machine
    started: str
    haystack: str
    documents: int
    queries: int
    k: int
    recall_k: int
    seed: int
    index_seconds: float | None
    index_cached: bool
    index_bytes: int | None
    memory_before: int | None
    memory_indexed: int | None
    levels: list[LoadLevel]
    usage: Usage | None
    stopped: str | None = None
    file: str = ""


class LagOutput(Output, tag="harness.lag/1"):
    """harness lag; `lag` is None if nothing was searched for, `write` if nothing was written.

    `mode`: `add` writes one session at a time, `index` all documents so far. `foreign` counts
    searches that returned a document that was not written, `dropped` searches for a document that
    was found before and not this time, `lost` the documents that were not found after the last
    write. `lags` are in the order of the writes.
    """

    retriever: RetrieverRecord
    dataset: DatasetRef
    machine: Machine
    started: str
    haystack: str
    mode: str
    concurrent: bool
    k: int
    polls_per_second: float
    give_up_seconds: float
    writes: int
    documents: int
    never_found: int
    write_errors: int
    searches: int
    search_errors: int
    foreign: int
    dropped: int
    lost: int
    lag: LagPercentiles | None
    write: LagPercentiles | None
    lags: list[float | None]
    first_error: str | None = None
    usage: Usage | None = None
    stopped: str | None = None
    file: str = ""
