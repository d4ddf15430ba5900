"""Generates load: N clients in a closed loop, or requests at a fixed rate.

In a closed loop each client sends its next request after the answer to the last one, so a system
that stalls also receives fewer requests, and few of them show the stall (coordinated omission). At
a fixed rate request i is scheduled at i / rate, and its latency counts from that time, as in wrk2
(https://github.com/giltene/wrk2) and HdrHistogram.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.extensions.online.load.records import LatencyPercentiles
from harness.runs.results import QueryResult
from harness.runs.worker import QUERY_TIMEOUT


@dataclass(frozen=True)
class LoadPlan:
    """A level of load. `rate`: requests per second, None for a closed loop.

    `grace`: seconds to wait for requests that are in flight when the time is up.
    """

    clients: int
    seconds: float
    rate: float | None
    max_calls: int
    grace: float

    @property
    def scheduled(self) -> int:
        """The largest number of requests."""
        if self.rate is None:
            return self.max_calls
        return min(self.max_calls, math.ceil(self.rate * self.seconds))


@dataclass(frozen=True)
class LoadRequest:
    """A request: times in seconds since the level began, and the result (None: no answer)."""

    query: int
    scheduled: float
    sent: float
    ended: float
    result: QueryResult | None


@dataclass
class Traffic:
    """The requests of a level. `error` stopped it early, as does Ctrl-C (`interrupted`)."""

    plan: LoadPlan
    requests: list[LoadRequest] = field(default_factory=list)
    unsent: list[float] = field(default_factory=list)
    """Scheduled times of requests for which no client was free before the end."""
    elapsed: float = 0.0
    """Seconds until the last answer."""
    ended: float = 0.0
    most_in_flight: int = 0
    interrupted: bool = False
    error: HarnessError | None = None

    @property
    def stuck(self) -> bool:
        """Whether a call has not returned: the retriever cannot be used any more."""
        return any(one.result is None for one in self.requests)


class LoadGenerator:
    """Sends the requests of one level; for a single use."""

    def __init__(
        self,
        plan: LoadPlan,
        queries: Sequence[int],
        ask: Callable[[int], QueryResult],
        settle: Callable[[QueryResult], None],
    ) -> None:
        """`queries` are sent in turn by `ask`; `settle` gets each result before the client's next
        request, and may raise a HarnessError, which ends the level."""
        self._plan, self._queries, self._ask, self._settle = plan, queries, ask, settle
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._taken = 0
        self._sent: set[int] = set()
        self._in_flight: dict[int, LoadRequest] = {}
        self._traffic = Traffic(plan)

    def run(self) -> Traffic:
        """Sends requests until the time is up, all were sent, or an interruption."""
        self._began = perf_counter()
        threads = [
            threading.Thread(target=self._client, name=f"harness-load-{i}", daemon=True)
            for i in range(self._plan.clients)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(0.0, self._plan.seconds + self._plan.grace - self._now()))
        except KeyboardInterrupt:
            self._traffic.interrupted = True
        self._stop.set()
        return self._finished()

    def _now(self) -> float:
        return perf_counter() - self._began

    def _client(self) -> None:
        while (taken := self._next()) is not None:
            number, scheduled = taken
            if self._stop.wait(scheduled - self._now()):
                return
            query = self._queries[number % len(self._queries)]
            self._send(number, query, scheduled)

    def _next(self) -> tuple[int, float] | None:
        """Returns the number of the next request and its scheduled time; None at the end."""
        with self._lock:
            now, number, plan = self._now(), self._taken, self._plan
            if self._stop.is_set() or now >= plan.seconds or number >= plan.scheduled:
                return None
            self._taken += 1
            return number, now if plan.rate is None else number / plan.rate

    def _send(self, number: int, query: int, scheduled: float) -> None:
        sent = self._now()
        if self._plan.rate is None:
            scheduled = sent
        with self._lock:
            self._sent.add(number)
            self._in_flight[number] = LoadRequest(query, scheduled, sent, sent, None)
            self._traffic.most_in_flight = max(self._traffic.most_in_flight, len(self._in_flight))
        try:
            result = self._ask(query)
            ended = self._now()
            with self._lock:
                if self._in_flight.pop(number, None) is not None:
                    self._traffic.requests.append(
                        LoadRequest(query, scheduled, sent, ended, result)
                    )
            self._settle(result)
        except HarnessError as error:
            with self._lock:
                self._traffic.error = self._traffic.error or error
                self._in_flight.pop(number, None)
            self._stop.set()

    def _finished(self) -> Traffic:
        """Returns the requests; those in flight count as unanswered, and late answers do not."""
        with self._lock:
            traffic, now = self._traffic, self._now()
            waiting = [*self._in_flight.values()]
            self._in_flight.clear()
            traffic.requests += [
                LoadRequest(one.query, one.scheduled, one.sent, now, None) for one in waiting
            ]
            traffic.ended = now
            traffic.elapsed = max((one.ended for one in traffic.requests), default=now)
            if self._plan.rate is not None:
                due = (i / self._plan.rate for i in range(self._plan.scheduled))
                traffic.unsent = [
                    when for i, when in enumerate(due) if i not in self._sent and when < now
                ]
            return traffic


def timed_out(request: LoadRequest) -> bool:
    """Tests whether the query timeout ended a request."""
    error = None if request.result is None else request.result.error
    return error is not None and error.endswith(f"({QUERY_TIMEOUT})")


def latencies(traffic: Traffic) -> tuple[npt.NDArray[np.float64], int]:
    """Returns the latencies in seconds from the scheduled times, and how many are lower bounds.

    Requests that failed are not included: an error may be quicker than any answer.
    """
    kept = [one for one in traffic.requests if not failed(one)]
    waited = [one.ended - one.scheduled for one in kept]
    waited += [traffic.ended - scheduled for scheduled in traffic.unsent]
    bounds = sum(one.result is None or timed_out(one) for one in kept) + len(traffic.unsent)
    return np.array(waited), bounds


def service_times(traffic: Traffic) -> npt.NDArray[np.float64]:
    """Returns the seconds from sending to the answer, of the requests that were answered."""
    answered = [one for one in traffic.requests if one.result and one.result.error is None]
    return np.array([one.ended - one.sent for one in answered])


def failed(request: LoadRequest) -> bool:
    """Tests whether the system raised an error, other than the query timeout."""
    result = request.result
    return result is not None and result.error is not None and not timed_out(request)


def percentiles(seconds: npt.NDArray[np.float64]) -> LatencyPercentiles | None:
    """Returns exact percentiles by nearest rank; None for no values."""
    if not len(seconds):
        return None
    p50, p90, p99 = np.percentile(seconds, [50, 90, 99], method="inverted_cdf").tolist()
    return LatencyPercentiles(p50=p50, p90=p90, p99=p99, max=float(seconds.max()))
