"""Runs a retriever over a dataset and writes a run folder with its rankings."""

from __future__ import annotations

import logging
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from harness.datasets.reader import Dataset
from harness.errors import RunError, WorkerDiedError
from harness.io.files import disk_errors
from harness.io.plugins import FAILURES, preserve_process_state
from harness.io.progress import progress
from harness.io.records import write_json_record
from harness.records.run import PhaseSeconds, RunStart
from harness.retrievers.calls import release
from harness.runs.executors import Execution, execution_of
from harness.runs.folder.checkpoint import Checkpoint, CheckpointWriter
from harness.runs.folder.run_folder import RunFolder, empty_haystacks, note_in
from harness.runs.folder.run_state import CHECKPOINT, Mode, RunStore, remove_empty
from harness.runs.request import RunRequest, Tested
from harness.runs.results import WorkResult
from harness.runs.settings import Settings
from harness.runs.usage import Budget, BudgetExceededError, RunUsage
from harness.runs.worker import Worker, WorkerOptions
from harness.runs.worker_state import close_quietly
from harness.runs.write_run import RunOutcome, write_errors, write_run

_log = logging.getLogger(__name__)


def run(
    dataset: Dataset,
    retriever: Tested,
    settings: Settings | None = None,
    *,
    out: str | Path = "results",
    mode: Mode = Mode.NEW,
    quiet: bool = True,
    prepare_seconds: float | None = None,
) -> Path:
    """Runs `retriever` over `dataset` and returns the run's folder below `out`.

    The folder is written completely or not at all; a checkpoint next to it holds the results so
    far. `mode` selects what happens to an earlier run of the same settings; a run resumed from its
    checkpoint gives the same rankings byte for byte. Objects have no stable identity, so a finished
    run of one is not returned, but kept next to the new one.

    Warns if all queries of a haystack returned nothing (as from an index that is not ready) without
    `allow_empty`. Raises UsageError for invalid settings, a folder that cannot be written, an
    interrupted run in Mode.NEW, a run that another process works on, and if `isolate` finds no
    sandbox; RunError if `strict` meets a failure, every query failed, the budget is spent or a
    worker process died.
    """
    settings, out = settings or Settings(), Path(out)
    request = RunRequest.create(dataset, retriever, settings, out)
    store = RunStore(out, request.run_id)
    if store.is_reusable(mode, is_named=request.is_named):
        _reuse(store, settings, quiet=quiet)
    else:
        remove_empty(out)
        with (
            disk_errors(out, "name another folder with --out"),
            Checkpoint.opened(store, request.plan, mode, quiet=quiet) as checkpoint,
        ):
            outcome = _execute(request, store, checkpoint, quiet, prepare_seconds)
            write_run(store, outcome)
    found = RunFolder(store.folder).record.empty_haystacks
    if not settings.allow_empty and (said := empty_haystacks(found)):
        warnings.warn(said, stacklevel=2)
    return store.folder


def _reuse(store: RunStore, settings: Settings, *, quiet: bool) -> None:
    """Records the names from the settings in a finished run; notes that it is finished."""
    if not quiet:
        failed = store.failed_queries()
        lacks = f" ({failed} queries failed, but it has no {CHECKPOINT})" if failed else ""
        _log.warning(
            f"note: {store.folder} is finished; --overwrite runs it again and keeps the old folder"
            f"{lacks}"
        )
    before = RunFolder(store.folder).record.name
    if settings.name and before and before != settings.name:
        _log.warning(
            f"note: renamed run {before!r} to {settings.name!r}, as all other settings are equal"
        )
    note_in(store.folder, submitted_by=settings.submitted_by, name=settings.name)


def _execute(
    request: RunRequest,
    store: RunStore,
    checkpoint: Checkpoint,
    quiet: bool,
    prepare_seconds: float | None,
) -> RunOutcome:
    """Runs the unanswered queries and closes the retriever.

    Raises RunError as `run`.
    """
    started, settings, about = perf_counter(), request.settings, request.about
    start = RunStart(
        dataset=request.dataset.name,
        granularity=request.dataset.manifest.granularity,
        system=about.name,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        name=settings.name or None,
    )
    write_json_record(store.start, start)
    resumed = len(checkpoint.answered)
    try:
        with preserve_process_state(), checkpoint.discard_mismatched():
            execution = _work(request, checkpoint, quiet)
    except (WorkerDiedError, BudgetExceededError) as error:
        how = "" if isinstance(error, WorkerDiedError) else ", with a higher --max-usd"
        raise type(error)(
            f"{error}; {len(checkpoint.answered)} of {request.plan.queries} queries are answered "
            f"and kept: --resume continues from there{how}"
        ) from None
    finally:
        _close(request, checkpoint)
    queries, before = checkpoint.results.last()
    if len(queries) and queries.failed.all():
        from harness.runs.first_error import first_error

        errors = store.temporary / "errors.jsonl"
        write_errors(request.dataset, queries.others, errors)
        raise RunError(
            f"all {len(queries)} queries failed; first error: {first_error(errors)}; all errors: "
            f"{errors}"
        )
    seconds = PhaseSeconds(prepare=prepare_seconds, run=perf_counter() - started)
    return RunOutcome(request, checkpoint, queries, before, execution, resumed, seconds)


def _work(request: RunRequest, checkpoint: Checkpoint, quiet: bool) -> Execution:
    """Runs the remaining items and adds each result to the checkpoint."""
    settings, resumed = request.settings, len(checkpoint.answered)
    rest = checkpoint.remaining(request.items)
    with execution_of(request) as execution:
        budget, at_once = Budget(settings.max_usd), (execution.workers, settings.concurrency)
        cut_off = sum(checkpoint.cut_off)
        usage = RunUsage(budget, settings.prices, checkpoint.done, rest, at_once, cut_off)
        worker = Worker(execution.location, execution.retriever, _options(request, execution))
        with (
            checkpoint.attempt(usage),
            CheckpointWriter(checkpoint.path) as writer,
            progress(request.plan.queries, "queries", "search", quiet=quiet, leave=True) as bar,
        ):
            bar.update(resumed)
            for result in checkpoint.done:
                result.queries = []  # are in its results

            def take(result: WorkResult) -> None:
                writer.add(result)
                checkpoint.add(result)
                bar.update(len(result.queries))
                spent = usage.add(result)
                bar.set_postfix_str(spent, refresh=result.indexed is not None)
                if settings.strict:
                    _stop_at_error(result, request.dataset)
                result.queries = []

            worker.on_progress = take
            for result in execution.executor.map(worker, rest):
                take(result)
    return execution


def _options(request: RunRequest, execution: Execution) -> WorkerOptions:
    settings = request.settings
    return WorkerOptions(
        k=request.plan.k,
        seed=settings.seed,
        exclude_self=request.dataset.manifest.exclude_self,
        batch_size=execution.batch_size or request.batch_size,
        system=request.system,
        require_cached_index=settings.require_cached_index,
        concurrency=settings.concurrency if execution.batch_size is None else 1,
        limits=settings.limits,
        run=f"{request.run_id} {settings.name}",
    )


def _close(request: RunRequest, checkpoint: Checkpoint) -> None:
    """Closes a retriever that was built here; an object of the calling program is only released."""
    if request.is_named:
        with preserve_process_state(), checkpoint.discard_mismatched():
            close_quietly(request.built)
    else:
        with suppress(*FAILURES):  # its next use shows the failure
            release(request.built)


def _stop_at_error(result: WorkResult, dataset: Dataset) -> None:
    for one in result.queries:
        if one.error is not None:
            from harness.runs.first_error import error_line

            line = error_line(one.error, dataset.query_ids[one.query])
            raise RunError(f"{line}\n{one.error.rstrip()}")
