"""Runs a retriever over a dataset and leaves a folder with its rankings."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.dataset.reader import Dataset
from harness.errors import RunError, UsageError
from harness.files import read_json, write_json
from harness.results.folder import folder_name
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import FunctionRetriever, RetrieverSpec
from harness.run.execute import Executor, InProcess, Processes
from harness.run.journal import Journal, finished
from harness.run.plan import choose_queries, units
from harness.run.provenance import retriever_record
from harness.run.record import write_run
from harness.run.worker import Outcome, Worker


@dataclass(frozen=True)
class Settings:
    """What a run may be asked for. `k` 0: the dataset's default depth."""

    k: int = 0
    limit: int | None = None
    seed: int = 0
    workers: int = 1
    batch_size: int | None = None
    strict: bool = False


def run(
    dataset: Dataset,
    retriever: str | RetrieverSpec | Retriever | Callable[..., Any],
    settings: Settings | None = None,
    *,
    out: Path = Path("results"),
    resume: bool = False,
    quiet: bool = True,
    executor: Executor | None = None,
    prepare_seconds: float | None = None,
) -> Path:
    """Run `retriever` over `dataset`; returns the run's folder below `out`.

    The folder appears whole or not at all. What is done is kept beside it while the run goes on;
    with `resume` an interrupted run of the same settings goes on from there, and its rankings are
    the same bytes as those of a run that was not interrupted.

    Raises UsageError for settings that cannot be, RunError when `strict` meets a failure or when
    every query failed.
    """
    settings = settings or Settings()
    k = settings.k or dataset.manifest.k
    if k < 1:
        raise UsageError(f"k must be 1 or more, not {k}")
    if settings.workers < 1:
        raise UsageError(f"--workers must be 1 or more, not {settings.workers}")
    under_test = _under_test(retriever)
    built = under_test
    if isinstance(under_test, RetrieverSpec):
        built = under_test.build(settings.seed)
    about = retriever_record(under_test)
    queries = choose_queries(dataset, settings.limit, settings.seed)
    planned = units(dataset, queries)
    identity = {
        "dataset": dataset.fingerprint,
        "retriever": about,
        "k": k,
        "limit": settings.limit,
        "seed": settings.seed,
        "queries": len(queries),
    }
    folder = out / folder_name(dataset, about["name"], identity)
    partial = out / f".{folder.name}.partial"
    done = _resumed(partial, identity) if resume else _fresh(partial, identity)
    worker = Worker(
        dataset.folder,
        # In this process the retriever that was built above serves; others build their own.
        under_test if settings.workers > 1 else built,
        k,
        settings.seed,
        dataset.manifest.exclude_self,
        settings.batch_size,
    )
    if executor is None:
        executor = Processes(settings.workers) if settings.workers > 1 else InProcess()
    started = perf_counter()
    known = {outcome.unit for outcome in done}
    rest = [unit for unit in planned if unit.number not in known]
    with Journal(partial / "journal.jsonl") as journal, _progress(len(queries), quiet) as bar:
        bar.update(sum(len(outcome.answers) for outcome in done))
        for outcome in executor.map(worker, rest):
            journal.add(outcome)
            done.append(outcome)
            bar.update(len(outcome.answers))
            if settings.strict:
                _stop_at_error(outcome, dataset)
    done.sort(key=lambda outcome: outcome.unit)
    write_run(
        folder,
        dataset,
        done,
        record={
            "retriever": {
                **about,
                "ids": "dataset" if getattr(built, "own_ids", False) else "handles",
                "sees_answer_key": bool(getattr(built, "sees_answer_key", False)),
            },
            "settings": {
                "k": k,
                "limit": settings.limit,
                "seed": settings.seed,
                "workers": settings.workers,
                "batch_size": settings.batch_size or int(getattr(built, "batch_size", 1)),
            },
        },
        seconds={
            "prepare": prepare_seconds,
            "run": perf_counter() - started,
            "resumed_units": len(known),
        },
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


def _fresh(partial: Path, identity: dict[str, Any]) -> list[Outcome]:
    if partial.exists():
        shutil.rmtree(partial)
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"{partial.parent}: cannot be written ({error.strerror})") from None
    write_json(partial / "plan.json", identity)
    return []


def _resumed(partial: Path, identity: dict[str, Any]) -> list[Outcome]:
    plan = partial / "plan.json"
    if not plan.is_file():
        return _fresh(partial, identity)
    if read_json(plan) != identity:
        raise UsageError(f"{partial}: belongs to a run with other settings; remove it")
    return finished(partial / "journal.jsonl")


def _progress(total: int, quiet: bool) -> Any:
    from tqdm import tqdm

    hidden = quiet or not sys.stderr.isatty()
    return tqdm(total=total, unit="query", desc="run", disable=hidden, smoothing=0.1)


def _stop_at_error(outcome: Outcome, dataset: Dataset) -> None:
    for answer in outcome.answers:
        if answer.error is not None:
            last = answer.error.strip().splitlines()[-1]
            raise RunError(f"query {dataset.query_ids[answer.query]!r}: {last}\n{answer.error}")
