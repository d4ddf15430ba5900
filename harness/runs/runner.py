"""Runs a retriever over a dataset and leaves a folder with its rankings."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.dataset.progress import progress
from harness.dataset.reader import Dataset
from harness.errors import RunError, UsageError
from harness.files import disk_errors, read_json, write_json
from harness.retrievers.baselines import is_oracle
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import FunctionRetriever, RetrieverSpec
from harness.runs.execute import Executor, InProcess, Processes
from harness.runs.folder.run_folder import folder_name, note_in
from harness.runs.isolated import Isolation, isolation
from harness.runs.journal import Journal, finished
from harness.runs.plan import Settings, choose_queries, units
from harness.runs.provenance import (
    isolated_record,
    named_files,
    repeat_command,
    retriever_record,
)
from harness.runs.record import write_errors, write_run
from harness.runs.worker import TO_BUILD, Outcome, Worker, close


def run(
    dataset: Dataset,
    retriever: str | RetrieverSpec | Retriever | Callable[..., Any],
    settings: Settings | None = None,
    *,
    out: str | Path = "results",
    resume: bool = False,
    again: bool = True,
    keep: bool = True,
    quiet: bool = True,
    executor: Executor | None = None,
    prepare_seconds: float | None = None,
) -> Path:
    """Run `retriever` over `dataset`; returns the run's folder below `out`.

    The folder appears whole or not at all. What is done is kept beside it while the run goes on;
    with `resume` an interrupted run of the same settings goes on from there, and its rankings are
    the same bytes as those of a run that was not interrupted; a finished one is left as it is.
    Without `resume`, a finished run of the same settings is run `again`, and the old one kept in
    NAME.earlier beside it (unless not `keep`: then it is replaced, but for files that are not its
    own). Without `again` what was stopped is not begun anew, and a finished one is left as it is,
    if the retriever was given by name: of an object nobody can tell whether it is the same.

    Raises UsageError for settings that cannot be, a folder that cannot be written and one that
    another process is running in, and where `isolate` finds no sandbox; RunError when `strict`
    meets a failure, when every query failed or when a worker process died.
    """
    if not isinstance(dataset, Dataset):
        raise UsageError(f"run takes an opened dataset: open_dataset({dataset!r}), or like it")
    if isinstance(retriever, type):
        name = retriever.__name__
        raise UsageError(f"run takes a retriever that is built, {name}(), or a name, not a class")
    settings, out = settings or Settings(), Path(out)
    k = settings.k or dataset.manifest.k
    under_test = _under_test(retriever)
    named = isinstance(under_test, RetrieverSpec)
    builds: RetrieverSpec | Isolation | Retriever = under_test
    if settings.isolate:
        builds = _isolation(under_test, dataset, out, settings.seed)
    built = builds.build(settings.seed) if isinstance(builds, TO_BUILD) else builds
    sees_answer_key = is_oracle(built)
    batch_size = _batch_size(settings, built)
    if isinstance(builds, Isolation):
        about = isolated_record(builds.spec, builds.about)
    else:
        about = retriever_record(under_test)
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
    if settings.matching is not None:
        identity["matching"] = asdict(settings.matching)
    folder = out / folder_name(dataset, about["name"], identity)
    partial = out / f".{folder.name}.partial"
    goes_on = resume and (partial / "plan.json").is_file()
    if (folder / "run.json").is_file() and not goes_on and (resume or (named and not again)):
        if not quiet:
            print(
                f"note: {folder} is finished already, and kept; --again runs it anew, and keeps "
                "the old one beside it",
                file=sys.stderr,
            )
        note_in(folder, by=settings.by, name=settings.name)
        return folder
    worker = Worker(
        dataset.folder,
        # In this process the retriever that was built above serves; others build their own.
        builds if settings.workers > 1 else built,
        k,
        settings.seed,
        dataset.manifest.exclude_self,
        batch_size,
    )
    if executor is None:
        executor = Processes(settings.workers) if settings.workers > 1 else InProcess()
    started = perf_counter()
    with disk_errors(out, "name another folder with --out"), _alone(partial):
        if not resume and not again:
            _refuse_to_lose(partial)
        done = _resumed(partial, identity, quiet) if resume else _fresh(partial, identity)
        write_json(partial / "begun.json", _begun(dataset, about["name"], settings))
        resumed = sum(len(outcome.answers) for outcome in done)
        known = {outcome.unit for outcome in done}
        rest = [unit for unit in planned if unit.number not in known]
        going = progress(len(queries), "queries", "search", quiet=quiet, stays=True)
        with Journal(partial / "journal.jsonl") as journal, going as bar:
            bar.update(resumed)
            try:
                for outcome in executor.map(worker, rest):
                    journal.add(outcome)
                    done.append(outcome)
                    bar.update(len(outcome.answers))
                    if settings.strict:
                        _stop_at_error(outcome, dataset)
            finally:
                if named:  # what a program brought, it may use again
                    close(built)
        done.sort(key=lambda outcome: outcome.unit)
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
                    "workers": settings.workers,
                    "batch_size": batch_size,
                    "isolated_by": builds.sandbox.by if isinstance(builds, Isolation) else None,
                },
                "by": settings.by or None,
                **({"name": settings.name} if settings.name else {}),
                "repeat": repeat_command(dataset, under_test, k, settings),
                "resumed_queries": resumed,
            },
            seconds={"prepare": prepare_seconds, "run": perf_counter() - started},
            matching=settings.matching,
            keep=keep,
        )
        shutil.rmtree(partial)
    return folder


def _under_test(
    retriever: str | RetrieverSpec | Retriever | Callable[..., Any],
) -> RetrieverSpec | Retriever:
    if isinstance(retriever, str):
        return RetrieverSpec(retriever)
    if isinstance(retriever, RetrieverSpec | Retriever):
        return retriever
    return FunctionRetriever(retriever, {})


def _isolation(
    retriever: RetrieverSpec | Retriever, dataset: Dataset, out: Path, seed: int
) -> Isolation:
    if not isinstance(retriever, RetrieverSpec):
        raise UsageError(
            "a retriever that was built or loaded here cannot be isolated any more: name it as "
            "file.py:Class"
        )
    return isolation(retriever, named_files(retriever), dataset, out, seed)


def _batch_size(settings: Settings, retriever: Any) -> int:
    """The chosen one, else the retriever's own, else 1."""
    size = settings.batch_size
    if size is None:
        size = getattr(retriever, "batch_size", 1)
    if not isinstance(size, int) or size < 1:
        raise UsageError(f"the batch size must be a whole number of 1 or more, not {size!r}")
    return size


@contextmanager
def _alone(partial: Path) -> Iterator[None]:
    """Hold the folder of what is done against a second process with the same settings."""
    from filelock import FileLock, Timeout

    partial.mkdir(parents=True, exist_ok=True)
    try:
        # Who only looks whether a run goes on holds the lock for a moment.
        with FileLock(partial / "lock", timeout=0.5):
            yield
    except Timeout:
        raise UsageError(
            f"{partial}: another process is at this very run; wait for it, or name another --out"
        ) from None


def _refuse_to_lose(partial: Path) -> None:
    """Raises UsageError where a run was stopped that had answers."""
    answers = [a for outcome in finished(partial / "journal.jsonl") for a in outcome.answers]
    if answered := sum(answer.error is None for answer in answers):
        queries = read_json(partial / "plan.json")["queries"]
        raise UsageError(
            f"this run was stopped at {answered} of {queries} queries: --resume goes on from "
            "there, --again begins anew"
        )


def _fresh(partial: Path, identity: dict[str, Any]) -> list[Outcome]:
    (partial / "journal.jsonl").unlink(missing_ok=True)
    write_json(partial / "plan.json", identity)
    return []


def _resumed(partial: Path, identity: dict[str, Any], quiet: bool) -> list[Outcome]:
    """What is finished; units with a failed query are run again."""
    plan = partial / "plan.json"
    if not plan.is_file():
        if not quiet:
            print(
                "note: there is no interrupted run with these settings; it starts", file=sys.stderr
            )
        return _fresh(partial, identity)
    if read_json(plan) != identity:
        raise UsageError(f"{partial}: belongs to a run with other settings; remove it")
    last = {outcome.unit: outcome for outcome in finished(partial / "journal.jsonl")}
    return [o for o in last.values() if all(answer.error is None for answer in o.answers)]


def _begun(dataset: Dataset, system: str, settings: Settings) -> dict[str, Any]:
    """What lists of runs say of one that is not finished."""
    return {
        "dataset": dataset.name,
        "granularity": dataset.manifest.granularity,
        "system": system,
        "name": settings.name or None,
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _stop_at_error(outcome: Outcome, dataset: Dataset) -> None:
    for answer in outcome.answers:
        if answer.error is not None:
            name = dataset.query_ids[answer.query]
            raise RunError(f"query {name!r}: {_last_line(answer.error)}\n{answer.error.rstrip()}")


def _stop_without_answer(done: list[Outcome], dataset: Dataset, partial: Path) -> None:
    answers = [answer for outcome in done for answer in outcome.answers]
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
