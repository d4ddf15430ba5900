"""Measure throughput and latency with several clients at once.

Index the haystack with the most queries, then send its queries from N clients, each in a closed
loop or together at a fixed rate. Print throughput, latency, errors, recall and memory for each N.
Stop with Ctrl-C: what was measured is printed and stored.
"""

from __future__ import annotations

import argparse
import sys
from time import time
from typing import TYPE_CHECKING

from harness.cli.options import number
from harness.cli.output import emit
from harness.errors import HarnessError, RunError, UsageError
from harness.extensions.online.load.records import LoadLevel, LoadOutput
from harness.extensions.online.load.session import (
    ResultFile,
    add_system,
    at_least,
    endless_usage,
    is_concurrent,
    request_of,
)

if TYPE_CHECKING:
    from harness.runs.request import RunRequest
    from harness.runs.results import QueryResult, WorkResult

_GRACE = 60.0
"""Seconds to wait for answers when the time is up, unless --query-timeout gives a limit."""

_CALLS = 10_000
"""Default limit of calls for each number of clients."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_system(parser, "results/load", "query_timeout", "index_timeout", "prices", "max_usd")
    parser.add_argument(
        "--clients",
        default="1,4,16",
        metavar="N,N,...",
        help="numbers of concurrent clients, measured in turn (default: 1,4,16)",
    )
    parser.add_argument(
        "--seconds",
        type=number,
        default=30.0,
        metavar="S",
        help="seconds for each number of clients (default: 30)",
    )
    parser.add_argument(
        "--rate",
        type=number,
        metavar="R",
        help="requests per second of all clients, at scheduled times (default: closed loop)",
    )
    parser.add_argument(
        "--max-calls",
        type=int,
        metavar="N",
        help=f"stop after N search calls in total (default: {_CALLS:,} per number of clients)",
    )


def main(options: argparse.Namespace) -> int:
    """Measures each number of clients. Returns 1 if one got no answer at all."""
    clients = _clients(options.clients)
    at_least("--seconds", options.seconds, 0)
    if options.rate is not None:
        at_least("--rate", options.rate, 0)
    if options.max_calls is not None:
        at_least("--max-calls", options.max_calls, len(clients) + 1)
    request = request_of(options)
    if max(clients) > 1 and not is_concurrent(request):
        print(
            f"note: one client only: {request.about.name} is neither thread_safe nor asynchronous",
            file=sys.stderr,
        )
        clients = [1]
    file = ResultFile.create(options, request)
    measurement = LoadMeasurement(request, clients, options)
    error: BaseException | None = None
    try:
        measurement.run()
    except (HarnessError, KeyboardInterrupt) as raised:
        if not measurement.levels:
            raise
        error = raised
    output = measurement.output(file, error)
    file.write(output)
    emit(options, output, lambda: _text(output))
    if error is not None:
        raise error
    return 0 if all(level.answered for level in output.levels) else 1


def _clients(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1 or max(found) > 1000:
        raise UsageError(f"--clients takes numbers from 1 to 1000, as 1,4,16, not {text!r}")
    return found


class LoadMeasurement:
    """Indexes a haystack and measures it under load; `levels` are the results so far."""

    def __init__(
        self, request: RunRequest, clients: list[int], options: argparse.Namespace
    ) -> None:
        import numpy as np

        from harness.extensions.online.load.measure import busiest_haystack

        self._request, self._clients, self._options = request, clients, options
        self._dataset = request.dataset
        self._haystack = busiest_haystack(self._dataset)
        mine = np.flatnonzero(self._dataset.query_haystack == self._haystack)
        self._queries = np.random.default_rng(request.settings.seed).permutation(mine).tolist()
        self.levels: list[LoadLevel] = []
        self._indexed: WorkResult | None = None
        self._index_bytes: int | None = None
        self._memory: list[int | None] = []
        self._counts: list[dict[str, float]] = []
        self._usage = endless_usage(request.settings, self._haystack, max(clients))

    @property
    def recall_k(self) -> int:
        """The cut-off of recall."""
        return min(10, self._request.plan.k)

    def run(self) -> None:
        """Measures all levels. Raises RunError for a failed index, a spent budget, a stuck call."""
        from harness.io.plugins import preserve_process_state
        from harness.runs.executors import local_processes
        from harness.runs.worker import Worker, WorkerOptions
        from harness.runs.worker_state import close_quietly

        request = self._request
        with preserve_process_state(), local_processes(request) as execution:
            made = WorkerOptions(
                request.plan.k,
                request.settings.seed,
                self._dataset.manifest.exclude_self,
                system=request.system,
                limits=request.settings.limits,
            )
            self._worker = Worker(execution.location, execution.retriever, made)
            try:
                self._index()
                for n in self._clients:
                    self._level(n)
            finally:
                if not any(level.unanswered for level in self.levels):
                    self._worker.close()
                    close_quietly(request.built)

    def _index(self) -> None:
        """Indexes the haystack and sends one query, so that no level includes a first call."""
        from harness.extensions.online.load.measure import memory
        from harness.retrievers.index_cache import cached_indexes
        from harness.runs.results import WorkItem

        self._memory.append(memory())
        began = time()
        self._worker.on_progress = self._count
        result = self._worker.run_item(WorkItem(0, self._haystack, self._queries[:1]))
        if (failure := self._worker.index_error) is not None:
            raise RunError(f"{self._request.about.name}: {failure.strip().splitlines()[-1]}")
        self._indexed = result
        sizes = [one.bytes for one in cached_indexes() if one.used >= began]
        self._index_bytes = sum(sizes) if sizes else None
        self._memory.append(memory())
        self._count(result)

    def _count(self, result: WorkResult) -> None:
        self._counts += [used for used in (result.ingestion_usage, result.usage) if used]
        self._usage.add(result)

    def _level(self, n: int) -> None:
        import threading

        from harness.extensions.online.load.generator import LoadPlan
        from harness.extensions.online.load.measure import measure_level

        options, lock = self._options, threading.Lock()
        spent = 1 + sum(level.requests - level.unsent for level in self.levels)
        left = len(self._clients) - len(self.levels)
        calls = _CALLS if options.max_calls is None else (options.max_calls - spent) // left
        grace = self._request.settings.query_timeout
        plan = LoadPlan(n, options.seconds, options.rate, calls, _GRACE if grace is None else grace)
        reports = callable(getattr(self._request.built, "report", None))

        def settle(result: QueryResult) -> None:
            if reports:
                with lock:
                    part = self._worker.usage()
                    part.queries = [result]
                    self._count(part)

        level, traffic = measure_level(
            self._dataset, plan, self._queries, self._worker.ask, settle, self.recall_k
        )
        self.levels.append(level)
        if traffic.interrupted:
            raise KeyboardInterrupt
        if traffic.error is not None:
            raise traffic.error
        if traffic.stuck:
            raise RunError(
                f"{self._request.about.name}: {level.unanswered} calls did not return within "
                f"{plan.grace:g} s of the end; nothing further was measured"
            )

    def output(self, file: ResultFile, error: BaseException | None) -> LoadOutput:
        """Returns the results so far; `error` stopped the measurement."""
        from harness.runs.folder.run_folder import dataset_ref
        from harness.runs.provenance import machine
        from harness.runs.usage import add_counts, usage_record

        request, indexed = self._request, self._indexed
        assert indexed is not None, "there are levels"
        stopped = "Ctrl-C" if isinstance(error, KeyboardInterrupt) else str(error)
        return LoadOutput(
            retriever=request.about,
            dataset=dataset_ref(self._dataset),
            machine=machine(),
            started=file.started,
            haystack=self._dataset.haystack_ids[self._haystack],
            documents=int(self._dataset.haystack_sizes[self._haystack]),
            queries=len(self._queries),
            k=request.plan.k,
            recall_k=self.recall_k,
            seed=request.settings.seed,
            index_seconds=indexed.index_seconds,
            index_cached=indexed.cached,
            index_bytes=self._index_bytes,
            memory_before=self._memory[0],
            memory_indexed=self._memory[1],
            levels=self.levels,
            usage=usage_record(add_counts(self._counts), request.settings.prices),
            stopped=None if error is None else stopped,
            file=str(file.path),
        )


def _text(output: LoadOutput) -> str:
    from harness.io.terminal import digits, grid
    from harness.runs.usage import format_usd

    first = output.levels[0]
    how = "closed loop" if first.rate is None else f"fixed rate of {first.rate:g} per s"
    rows = []
    for level in output.levels:
        waited = level.latency
        times = (waited.p50, waited.p90, waited.p99, waited.max) if waited else ()
        rows.append(
            [
                level.clients,
                level.answered,
                f"{level.per_second:.1f}",
                *(f"{1000 * value:.1f}" for value in times),
                *[None] * (4 - len(times)),
                level.failed,
                level.lost,
                "-" if level.recall is None else digits(level.recall),
            ]
        )
    recall = f"recall@{output.recall_k}"
    heads = ["clients", "answers", "per s", "p50", "p90", "p99", "max", "failed", "no answer"]
    index = "cached" if output.index_seconds is None else f"{output.index_seconds:.2f} s"
    memory = (output.memory_before, output.memory_indexed, output.levels[-1].memory_bytes)
    lines = [
        f"{output.retriever.name} on {output.dataset.name}  haystack={output.haystack}  "
        f"documents={output.documents:,}  queries={output.queries:,}  k={output.k}",
        f"{how}, latency in ms; index: {index}, {_megabytes(output.index_bytes)}; "
        f"memory: {' -> '.join(map(_megabytes, memory))}",
        "",
        grid(rows, [*heads, recall]),
        "",
    ]
    for level in output.levels:
        if level.lower_bounds:
            lines.append(
                f"note: {level.clients} clients: percentiles are lower bounds: {level.timed_out} "
                f"timed out, {level.unanswered} were cut off, {level.unsent} not sent in time"
            )
        if level.first_error:
            last = level.first_error.strip().splitlines()[-1]
            lines.append(f"note: {level.clients} clients: first error: {last:.200}")
    if output.usage and output.usage.usd is not None:
        lines.append(f"cost: {format_usd(output.usage.usd)} USD, indexing included")
    return "\n".join([*lines, f"written to {output.file}"])


def _megabytes(size: int | None) -> str:
    return "- MB" if size is None else f"{size / 1e6:.{0 if size >= 1e7 else 1}f} MB"
