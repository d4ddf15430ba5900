"""Runs a retriever over a dataset and leaves a folder with its rankings."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from harness.dataset.progress import progress
from harness.dataset.reader import Dataset
from harness.errors import RunError, UsageError
from harness.files import disk_errors
from harness.leftovers import discard
from harness.masking import values_of_others
from harness.records.base import write_json_record
from harness.records.run import (
    Measured,
    PhaseSeconds,
    QueryCounts,
    RunPlan,
    RunRecord,
    RunSettings,
    RunStart,
)
from harness.retrievers.baselines import is_oracle
from harness.retrievers.calls import release
from harness.retrievers.contract import Retriever
from harness.retrievers.plugins import FAILURES, preserve_process_state
from harness.retrievers.registry import RetrieverSpec
from harness.runs.budget import BudgetExceededError
from harness.runs.checkpoint import Checkpoint, CheckpointWriter, last_results
from harness.runs.crew import crew_of
from harness.runs.execute import Executor, WorkerDiedError
from harness.runs.folder.from_hits import matching_record
from harness.runs.folder.run_folder import (
    CHECKPOINT,
    CHECKPOINT_SUFFIX,
    STARTED,
    RunFolder,
    dataset_ref,
    empty_haystacks,
    folder_name,
    note_in,
)
from harness.runs.folder.tidy import drop_empty
from harness.runs.git import git_state
from harness.runs.guards import close_quietly
from harness.runs.isolated import Isolation
from harness.runs.plan import Settings, choose_queries, work_items
from harness.runs.provenance import (
    isolated_record,
    machine,
    repeat_command,
    retriever_record,
    versions,
)
from harness.runs.record import write_errors, write_run
from harness.runs.results import WorkItem, WorkResult
from harness.runs.run_usage import RunUsage
from harness.runs.under_test import batch_size_of, check_fit, in_sandbox, system_of, under_test
from harness.runs.worker import TO_BUILD, Worker


def run(
    dataset: Dataset,
    retriever: str | RetrieverSpec | Retriever | Callable[..., Any],
    settings: Settings | None = None,
    *,
    out: str | Path = "results",
    resume: bool = False,
    overwrite: bool = True,
    keep_previous: bool = True,
    quiet: bool = True,
    executor: Executor | None = None,
    prepare_seconds: float | None = None,
) -> Path:
    """Run `retriever` over `dataset`; returns the run's folder below `out`.

    The folder appears whole or not at all; a checkpoint beside it records the results meanwhile.
    With `resume` an interrupted run of the same settings continues from its checkpoint, and gives
    the same rankings byte for byte; a finished run is returned unchanged. Otherwise, with
    `overwrite`, a finished run of the same settings is run again, and the old folder moves to
    NAME.previous (unless `keep_previous` is false: then it is replaced, but for the user's files in
    it). If `overwrite` is false, an interrupted run is not discarded, and a finished run is
    returned unchanged when the retriever was given by name. Objects have no stable identity, so
    they are always run again.

    Warns where all queries of a haystack were answered with nothing, as by an index that is not
    ready, unless that is allowed.
    Raises UsageError for settings that cannot be, a folder that cannot be written and one that
    another process is running in, and where `isolate` finds no sandbox; RunError when `strict`
    meets a failure, when every query failed or when a worker process died.
    """
    if not isinstance(dataset, Dataset):
        raise UsageError(f"run takes an opened dataset: open_dataset({dataset!r}), or like it")
    if isinstance(retriever, type):
        name = retriever.__name__
        raise UsageError(f"run takes a retriever that is built, {name}(), or a name, not a class")
    if dataset.manifest.ids_only:
        raise UsageError(
            f"{dataset.name} has ids alone, and nothing to search in: score rankings on it "
            "(`harness score FILE --dataset ...`), or run on the dataset with the texts"
        )
    settings, out = settings or Settings(), Path(out)
    k = settings.k or dataset.manifest.k
    tested = under_test(retriever)
    named = isinstance(tested, RetrieverSpec)
    builds: RetrieverSpec | Isolation | Retriever = tested
    if settings.isolate:
        builds = in_sandbox(tested, dataset, out, settings.seed)
    with preserve_process_state():
        built = builds.build(settings.seed) if isinstance(builds, TO_BUILD) else builds
    sees_gold_labels = is_oracle(built)
    batch_size = batch_size_of(settings, built)
    check_fit(settings, built)
    if isinstance(builds, Isolation):
        about = isolated_record(builds.spec, builds.described)
    else:
        about = retriever_record(tested)
    if isinstance(revision := getattr(built, "revision", None), str):
        about = replace(about, revision=revision)
    queries = choose_queries(dataset, settings.limit, settings.seed)
    planned = work_items(dataset, queries, settings.seed)
    plan = RunPlan(
        dataset=dataset.fingerprint,
        retriever=about,
        k=k,
        # A sample of all is no sample.
        limit=settings.limit if len(queries) < dataset.n_queries else None,
        seed=settings.seed,
        queries=len(queries),
        isolate=settings.isolate,
        environment=values_of_others(tested.params) if isinstance(tested, RetrieverSpec) else {},
        matching=matching_record(settings.matching) if settings.matching else None,
    )
    folder = out / folder_name(dataset, about.name, plan)
    checkpoint = Checkpoint(out / f".{folder.name}{CHECKPOINT_SUFFIX}")
    goes_on = resume and checkpoint.exists
    finished = (folder / "run.json").is_file()
    failed = _failed(folder) if resume and finished and not goes_on else 0
    at_failures = failed > 0 and (folder / CHECKPOINT).is_file()
    if at_failures and not quiet:
        print(
            f"note: {folder} is finished but for {failed} queries that failed: trying those again",
            file=sys.stderr,
        )
    if finished and not goes_on and not at_failures and (resume or (named and not overwrite)):
        if not quiet:
            print(
                f"note: {folder} is finished already; --overwrite runs it again, and keeps the old "
                "one beside it"
                + (
                    f" ({failed} queries failed, of which it has no {CHECKPOINT})" if failed else ""
                ),
                file=sys.stderr,
            )
        note_in(folder, submitted_by=settings.submitted_by, name=settings.name)
        _warn_of_empty(folder, settings)
        return folder
    started = perf_counter()
    drop_empty(out)
    with disk_errors(out, "name another folder with --out"), checkpoint.lock():
        if not resume and not overwrite:
            checkpoint.require_empty()
        if at_failures:
            checkpoint.reopen_failed(folder, plan)
        done = checkpoint.load(plan, quiet=quiet) if resume else checkpoint.create(plan)
        start = RunStart(
            dataset=dataset.name,
            granularity=dataset.manifest.granularity,
            system=about.name,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            name=settings.name or None,
        )
        write_json_record(checkpoint.folder / STARTED, start)
        n_resumed = len(_answered(done))
        rest = _left(planned, _answered(done))
        haystacks = {item.haystack for item in planned}
        try:
            with (
                preserve_process_state(),
                checkpoint.discard_mismatched(),
                crew_of(settings, builds, built, dataset, haystacks, batch_size, executor) as crew,
            ):
                worker = Worker(
                    crew.place,
                    crew.retriever,
                    k,
                    settings.seed,
                    dataset.manifest.exclude_self,
                    crew.batch_size or batch_size,
                    system_of(about, built, named=named),
                    settings.require_cached_index,
                    settings.concurrency if crew.batch_size is None else 1,
                    settings.limits,
                )
                progress_bar = progress(len(queries), "queries", "search", quiet=quiet, leave=True)
                with CheckpointWriter(checkpoint.results) as writer, progress_bar as bar:
                    bar.update(n_resumed)
                    usage = RunUsage(settings, done, rest, crew.workers)

                    def take(result: WorkResult) -> None:
                        writer.add(result)
                        done.append(result)
                        bar.update(len(result.queries))
                        spent = usage.add(result)
                        bar.set_postfix_str(spent, refresh=result.indexed is not None)
                        if settings.strict:
                            _stop_at_error(result, dataset)

                    worker.tell = take
                    for result in crew.executor.map(worker, rest):
                        take(result)
        except (WorkerDiedError, BudgetExceededError) as error:
            how = "" if isinstance(error, WorkerDiedError) else ", with a higher --max-usd"
            raise type(error)(
                f"{error}; {len(_answered(done))} of {len(queries)} queries are answered and kept: "
                f"--resume goes on from there{how}"
            ) from None
        finally:
            if named:
                with preserve_process_state(), checkpoint.discard_mismatched():
                    close_quietly(built)
            else:  # what a program brought, it may use again
                with suppress(*FAILURES):  # whoever wants it next will say so
                    release(built)
        _stop_without_answer(done, dataset, checkpoint.folder)
        record = RunRecord(
            run_version=1,
            finished="",
            dataset=dataset_ref(dataset),
            retriever=replace(
                about,
                ids="dataset" if getattr(built, "returns_dataset_ids", False) else "handles",
                sees_gold_labels=sees_gold_labels,
            ),
            settings=RunSettings(
                k=k,
                limit=settings.limit,
                seed=settings.seed,
                workers=crew.workers,
                batch_size=batch_size,
                concurrency=settings.concurrency if settings.concurrency > 1 else None,
                query_timeout=settings.query_timeout,
                index_timeout=settings.index_timeout,
                retries=settings.retries or None,
                prices={model: dict(prices) for model, prices in settings.prices.items()},
                sandbox=builds.sandbox.by if isinstance(builds, Isolation) else None,
                cluster=crew.cluster,
            ),
            queries=QueryCounts(asked=len(queries), answered=0, failed=0, abstained=0),
            name=settings.name or None,
            submitted_by=settings.submitted_by or None,
            command=repeat_command(dataset, tested, k, settings),
            resumed_queries=n_resumed,
            measured=Measured(
                seconds=PhaseSeconds(prepare=prepare_seconds, run=perf_counter() - started)
            ),
            versions=versions(),
            machine=machine(),
            git=git_state(),
        )
        write_run(
            folder,
            dataset,
            done,
            record,
            settings.matching,
            keep_previous=keep_previous and not checkpoint.is_retry,
            checkpoint=checkpoint.results,
        )
        discard(checkpoint.folder)
    _warn_of_empty(folder, settings)
    return folder


def _warn_of_empty(folder: Path, settings: Settings) -> None:
    if not settings.allow_empty and (
        said := empty_haystacks(RunFolder(folder).record.empty_haystacks)
    ):
        warnings.warn(said, stacklevel=3)


def _answered(done: Sequence[WorkResult]) -> set[int]:
    """Returns the queries that were answered without a failure."""
    return {one.query for result in done for one in result.queries if one.error is None}


def _left(planned: Sequence[WorkItem], answered: set[int]) -> list[WorkItem]:
    """Returns the items that are to be run, without the queries that are answered."""
    left = (
        dataclasses.replace(item, queries=[q for q in item.queries if q not in answered])
        for item in planned
    )
    return [item for item in left if item.queries]


def _failed(folder: Path) -> int:
    """Queries of a finished run that failed."""
    return RunFolder(folder).record.queries.failed


def _stop_at_error(result: WorkResult, dataset: Dataset) -> None:
    for one in result.queries:
        if one.error is not None:
            name = dataset.query_ids[one.query]
            raise RunError(f"query {name!r}: {_last_line(one.error)}\n{one.error.rstrip()}")


def _stop_without_answer(done: list[WorkResult], dataset: Dataset, folder: Path) -> None:
    queries, _ = last_results(done)
    first = queries[0].error
    if first is None or any(one.error is None for one in queries):
        return
    write_errors(dataset, queries, folder / "errors.jsonl")
    raise RunError(
        f"every one of the {len(queries)} queries failed, first with {_last_line(first)}; "
        f"the traces are in {folder / 'errors.jsonl'}"
    )


def _last_line(trace: str) -> str:
    """The line of a trace that names the error; a message may have further lines below it."""
    lines = trace.strip().splitlines()
    inside = max((i for i, line in enumerate(lines) if line.startswith("  File ")), default=-1)
    named = (line for line in lines[inside + 1 :] if line and not line.startswith(" "))
    return next(named, lines[-1])
