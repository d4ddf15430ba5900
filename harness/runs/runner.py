"""Runs a retriever over a dataset and leaves a folder with its rankings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.dataset.progress import progress
from harness.dataset.reader import Dataset
from harness.errors import RunError, UsageError
from harness.files import disk_errors, write_json
from harness.leftovers import discard
from harness.masking import values_of_others
from harness.retrievers.baselines import is_oracle
from harness.retrievers.calls import give_way
from harness.retrievers.contract import Retriever
from harness.retrievers.plugins import FAILURES, undisturbed
from harness.retrievers.registry import RetrieverSpec
from harness.runs.budget import Budget, BudgetExceededError
from harness.runs.crew import crew_of
from harness.runs.execute import Executor, WorkerDiedError
from harness.runs.folder.run_folder import (
    JOURNAL,
    RunFolder,
    empty_haystacks,
    folder_name,
    note_in,
)
from harness.runs.folder.tidy import drop_empty
from harness.runs.isolated import Isolation
from harness.runs.journal import (
    Journal,
    alone,
    begin_at_failures,
    begun,
    fresh,
    is_of_failures,
    journal_less,
    last_answers,
    refuse_to_lose,
    resumed,
)
from harness.runs.outcome import Outcome, Unit
from harness.runs.plan import Settings, choose_queries, units
from harness.runs.provenance import (
    isolated_record,
    repeat_command,
    retriever_record,
)
from harness.runs.record import write_errors, write_run
from harness.runs.reports import closed
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
    with undisturbed():
        built = builds.build(settings.seed) if isinstance(builds, TO_BUILD) else builds
    sees_answer_key = is_oracle(built)
    batch_size = batch_size_of(settings, built)
    check_fit(settings, built)
    if isinstance(builds, Isolation):
        about = isolated_record(builds.spec, builds.about)
    else:
        about = retriever_record(tested)
    if isinstance(revision := getattr(built, "revision", None), str):
        about["revision"] = revision
    queries = choose_queries(dataset, settings.limit, settings.seed)
    planned = units(dataset, queries, settings.seed)
    identity = {
        "dataset": dataset.fingerprint,
        "retriever": about,
        "k": k,
        # A sample of all is no sample.
        "limit": settings.limit if len(queries) < dataset.n_queries else None,
        "seed": settings.seed,
        "queries": len(queries),
    }
    if settings.isolate:
        identity["isolate"] = True
    if isinstance(tested, RetrieverSpec) and (others := values_of_others(tested.params)):
        identity["environment"] = others
    if settings.matching is not None:
        identity["matching"] = asdict(settings.matching)
    folder = out / folder_name(dataset, about["name"], identity)
    partial = out / f".{folder.name}.tmp"
    goes_on = resume and (partial / "plan.json").is_file()
    finished = (folder / "run.json").is_file()
    failed = _failed(folder) if resume and finished and not goes_on else 0
    at_failures = failed > 0 and (folder / JOURNAL).is_file()
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
                + (f" ({failed} queries failed, of which it has no {JOURNAL})" if failed else ""),
                file=sys.stderr,
            )
        note_in(folder, submitted_by=settings.submitted_by, name=settings.name)
        _warn_of_empty(folder, settings)
        return folder
    started = perf_counter()
    drop_empty(out)
    with disk_errors(out, "name another folder with --out"), alone(partial):
        if not resume and not overwrite:
            refuse_to_lose(partial)
        if at_failures:
            begin_at_failures(folder, partial, identity)
        done = resumed(partial, identity, quiet) if resume else fresh(partial, identity)
        write_json(partial / "begun.json", begun(dataset, about["name"], settings.name))
        n_resumed = len(_answered(done))
        rest = _left(planned, _answered(done))
        haystacks = {unit.haystack for unit in planned}
        try:
            with (
                undisturbed(),
                journal_less(partial),
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
                    settings.search_only,
                    settings.concurrency if crew.batch_size is None else 1,
                    settings.limits,
                )
                going = progress(len(queries), "queries", "search", quiet=quiet, stays=True)
                with Journal(partial / JOURNAL) as journal, going as bar:
                    bar.update(n_resumed)
                    budget = Budget(settings, done, rest, crew.workers)

                    def take(outcome: Outcome) -> None:
                        journal.add(outcome)
                        done.append(outcome)
                        bar.update(len(outcome.answers))
                        said = budget.add(outcome)
                        bar.set_postfix_str(said, refresh=outcome.taken_in is not None)
                        if settings.strict:
                            _stop_at_error(outcome, dataset)

                    worker.tell = take
                    for outcome in crew.executor.map(worker, rest):
                        take(outcome)
        except (WorkerDiedError, BudgetExceededError) as error:
            how = "" if isinstance(error, WorkerDiedError) else ", with a higher --max-usd"
            raise type(error)(
                f"{error}; {len(_answered(done))} of {len(queries)} queries are answered and kept: "
                f"--resume goes on from there{how}"
            ) from None
        finally:
            if named:
                with undisturbed(), journal_less(partial):
                    closed(built)
            else:  # what a program brought, it may use again
                with suppress(*FAILURES):  # whoever wants it next will say so
                    give_way(built)
        _stop_without_answer(done, dataset, partial)
        write_run(
            folder,
            dataset,
            done,
            record={
                "retriever": {
                    **about,
                    "ids": "dataset" if getattr(built, "own_ids", False) else "handles",
                    "sees_answer_key": sees_answer_key,
                },
                "settings": {
                    "k": k,
                    "limit": settings.limit,
                    "seed": settings.seed,
                    "workers": crew.workers,
                    **crew.about,
                    "batch_size": batch_size,
                    **({"concurrency": n} if (n := settings.concurrency) > 1 else {}),
                    **settings.limits.record(),
                    **({"prices": settings.prices} if settings.prices else {}),
                    "isolated_by": builds.sandbox.by if isinstance(builds, Isolation) else None,
                },
                "submitted_by": settings.submitted_by or None,
                **({"name": settings.name} if settings.name else {}),
                "repeat": repeat_command(dataset, tested, k, settings),
                "resumed_queries": n_resumed,
            },
            seconds={"prepare": prepare_seconds, "run": perf_counter() - started},
            matching=settings.matching,
            keep_previous=keep_previous and not is_of_failures(partial),
            journal=partial / JOURNAL,
        )
        discard(partial)
    _warn_of_empty(folder, settings)
    return folder


def _warn_of_empty(folder: Path, settings: Settings) -> None:
    if not settings.allow_empty and (said := empty_haystacks(RunFolder(folder).record)):
        warnings.warn(said, stacklevel=3)


def _answered(done: Sequence[Outcome]) -> set[int]:
    """Queries that were answered without a failure."""
    return {a.query for outcome in done for a in outcome.answers if a.error is None}


def _left(planned: Sequence[Unit], answered: set[int]) -> list[Unit]:
    """The units that are to be run, without the queries that are answered."""
    left = (replace(u, queries=[q for q in u.queries if q not in answered]) for u in planned)
    return [unit for unit in left if unit.queries]


def _failed(folder: Path) -> int:
    """Queries of a finished run that failed."""
    return int(RunFolder(folder).record["queries"]["failed"])


def _stop_at_error(outcome: Outcome, dataset: Dataset) -> None:
    for answer in outcome.answers:
        if answer.error is not None:
            name = dataset.query_ids[answer.query]
            raise RunError(f"query {name!r}: {_last_line(answer.error)}\n{answer.error.rstrip()}")


def _stop_without_answer(done: list[Outcome], dataset: Dataset, partial: Path) -> None:
    answers, _ = last_answers(done)
    first = answers[0].error
    if first is None or any(answer.error is None for answer in answers):
        return
    write_errors(dataset, answers, partial / "errors.jsonl")
    raise RunError(
        f"every one of the {len(answers)} queries failed, first with {_last_line(first)}; "
        f"the traces are in {partial / 'errors.jsonl'}"
    )


def _last_line(trace: str) -> str:
    """The line of a trace that names the error; a message may have further lines below it."""
    lines = trace.strip().splitlines()
    inside = max((i for i, line in enumerate(lines) if line.startswith("  File ")), default=-1)
    named = (line for line in lines[inside + 1 :] if line and not line.startswith(" "))
    return next(named, lines[-1])
