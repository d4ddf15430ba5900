"""Measure write-to-read lag: how soon a new document is found.

Write the sessions of a haystack one by one, and search for a document of each until it is found.
Count errors, lost documents, and documents that were not written. At a limit of time, calls or
cost, and after Ctrl-C, what was measured is printed and stored.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from harness.cli.options import number
from harness.cli.output import emit
from harness.extensions.online.load.records import LagOutput
from harness.extensions.online.load.session import (
    ResultFile,
    add_system,
    at_least,
    endless_usage,
    is_concurrent,
    request_of,
)

if TYPE_CHECKING:
    from harness.extensions.online.load.records import LagPercentiles
    from harness.extensions.online.load.write_lag import LagPlan, LagResult
    from harness.runs.request import RunRequest
    from harness.runs.usage import Counts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    add_system(parser, "results/lag", "prices", "max_usd")
    parser.add_argument(
        "--writes", type=int, default=50, metavar="N", help="number of sessions to write (50)"
    )
    parser.add_argument(
        "--polls",
        type=number,
        default=20.0,
        metavar="R",
        help="searches per second for a written document (20)",
    )
    parser.add_argument(
        "--give-up",
        type=number,
        default=30.0,
        metavar="S",
        help="seconds after a write until its document counts as never found (30)",
    )
    parser.add_argument(
        "--seconds",
        type=number,
        default=600.0,
        metavar="S",
        help="stop after S seconds in total, even if a call hangs (600)",
    )
    parser.add_argument(
        "--max-calls",
        type=int,
        default=10_000,
        metavar="N",
        help="stop after N writes and searches in total (10,000)",
    )


def main(options: argparse.Namespace) -> int:
    """Measures the lag. Returns 1 for errors, lost and foreign documents, and if none is found."""
    from harness.extensions.online.load.measure import busiest_haystack
    from harness.extensions.online.load.write_lag import LagPlan
    from harness.io.plugins import preserve_process_state

    at_least("--writes", options.writes, 1)
    at_least("--polls", options.polls, 0)
    at_least("--give-up", options.give_up, 0)
    at_least("--seconds", options.seconds, 0)
    at_least("--max-calls", options.max_calls, 1)
    request = request_of(options)
    file = ResultFile.create(options, request)
    plan = LagPlan(
        writes=options.writes,
        k=options.k or min(10, request.plan.k),
        polls_per_second=options.polls,
        give_up=options.give_up,
        concurrent=is_concurrent(request),
        seconds=options.seconds,
        max_calls=options.max_calls,
        seed=request.settings.seed,
    )
    haystack = busiest_haystack(request.dataset)
    with preserve_process_state():
        result, used = _measure(request, plan, haystack)
    output = _output(request, plan, result, used, file, request.dataset.haystack_ids[haystack])
    file.write(output)
    emit(options, output, lambda: _text(output))
    if output.first_error and not options.json:
        print(f"note: first error: {output.first_error.splitlines()[-1]:.200}", file=sys.stderr)
    if result.error is not None:
        raise result.error
    wrong = result.write_errors + result.search_errors + result.foreign + result.lost
    return 1 if wrong or all(lag is None for lag in result.lags) else 0


def _measure(request: RunRequest, plan: LagPlan, haystack: int) -> tuple[LagResult, Counts]:
    """Measures a haystack in a thread that can be abandoned; returns what the system used."""
    from harness.extensions.online.load.write_lag import LagMeasurement
    from harness.retrievers.registry import RetrieverSpec
    from harness.runs.blinding import BlindedCorpus
    from harness.runs.results import QueryResult, WorkResult
    from harness.runs.timeouts import CallThread
    from harness.runs.usage import add_counts
    from harness.runs.worker_state import WorkerState, close_quietly

    settings, thread, built = request.settings, CallThread(), request.built
    if isinstance(request.retriever, RetrieverSpec):
        built = thread(partial(request.retriever.build, settings.seed))
    state = WorkerState(request.dataset, built, thread)
    state.add_report(WorkResult(0, haystack, []))  # earlier usage is not part of the measurement
    usage = endless_usage(settings, haystack, 1)
    used: Counts = {}

    def reported() -> WorkResult:
        part = WorkResult(0, haystack, [QueryResult(0)])
        state.add_report(part)
        used.update(add_counts([used, part.usage or {}]))
        return part

    def settle() -> None:
        if settings.max_usd is not None:
            usage.add(reported())

    blinded = BlindedCorpus(request.dataset, haystack, settings.seed)
    result = LagMeasurement(built, blinded, plan, thread, settle).run()
    if not result.stuck:
        reported()
        thread(partial(close_quietly, built))
        close_quietly(request.built)
    return result, used


def _output(
    request: RunRequest,
    plan: LagPlan,
    result: LagResult,
    used: Counts,
    file: ResultFile,
    haystack: str,
) -> LagOutput:
    from harness.extensions.online.load.write_lag import lag_percentiles
    from harness.runs.folder.run_folder import dataset_ref
    from harness.runs.provenance import machine
    from harness.runs.usage import usage_record

    return LagOutput(
        retriever=request.about,
        dataset=dataset_ref(request.dataset),
        machine=machine(),
        started=file.started,
        haystack=haystack,
        mode=result.mode,
        concurrent=plan.concurrent and result.mode == "add",
        k=plan.k,
        polls_per_second=plan.polls_per_second,
        give_up_seconds=plan.give_up,
        writes=len(result.write_seconds) + result.write_errors,
        documents=result.documents,
        never_found=sum(lag is None for lag in result.lags),
        write_errors=result.write_errors,
        searches=result.searches,
        search_errors=result.search_errors,
        foreign=result.foreign,
        dropped=result.dropped,
        lost=result.lost,
        lag=lag_percentiles(result.lags),
        write=lag_percentiles(result.write_seconds),
        lags=result.lags,
        first_error=result.first_error,
        usage=usage_record(used, request.settings.prices),
        stopped=None if result.error is None else str(result.error) or "Ctrl-C",
        file=str(file.path),
    )


def _text(output: LagOutput) -> str:
    from harness.io.terminal import grid
    from harness.runs.usage import format_usd

    never = f"> {output.give_up_seconds:g} s"
    rows = [
        ["document found", *_milliseconds(output.lag, never)],
        ["write returned", *_milliseconds(output.write, "-")],
    ]
    cost = output.usage.usd if output.usage else None
    return "\n".join(
        [
            f"{output.retriever.name} on {output.dataset.name}  haystack={output.haystack}  "
            f"mode={output.mode}  writes={output.writes}  documents={output.documents}  "
            f"k={output.k}",
            "",
            grid(rows, ["ms from the call of the write", "p50", "p90", "max"]),
            "",
            f"never found={output.never_found}  lost={output.lost}  dropped={output.dropped}  "
            f"not written={output.foreign}  write errors={output.write_errors}  "
            f"search errors={output.search_errors}",
            f"searches={output.searches}  polls per s={output.polls_per_second:g}  "
            f"during writes={'yes' if output.concurrent else 'no'}",
            *([f"cost: {format_usd(cost)} USD"] if cost is not None else []),
            f"written to {output.file}",
        ]
    )


def _milliseconds(found: LagPercentiles | None, never: str) -> list[str]:
    values = (found.p50, found.p90, found.max) if found else (None,) * 3
    return [never if value is None else f"{1000 * value:.1f}" for value in values]
