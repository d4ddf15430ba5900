"""One run, as its options say: checked before anything long, run, scored, within its time."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from harness.cli.options import (
    fitting_dataset,
    matching,
    parameters,
    retriever_spec,
    scoring_choices,
    view_arguments,
)
from harness.cli.timeout import in_time, seconds
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.records.run import RunRecord
    from harness.records.scores import ScoreReport
    from harness.retrievers.registry import RetrieverSpec
    from harness.runs.folder.store import Mode
    from harness.runs.settings import Settings
    from harness.runs.usage import Prices


def check(options: argparse.Namespace) -> None:
    """Raises UsageError for what is missing or cannot be, before anything is opened."""
    for name in ("dataset", "retriever"):
        if not getattr(options, name):
            raise UsageError(f"--{name} is missing; see `harness {name}s`")
    if options.k is not None and options.k < 1:
        raise UsageError(f"--k must be 1 or more, not {options.k}")
    for name in ("timeout", "query_timeout", "index_timeout"):
        _seconds(getattr(options, name), name.replace("_", "-"))
    prices(options.prices)
    _backend(options)


def prices(given: str | Mapping[str, object] | None) -> Prices:
    """Prices of a file that an option names, or as they stand in a config."""
    from harness.files import read_toml
    from harness.runs.usage import checked_prices

    if not isinstance(given, str):
        return checked_prices(given or {}, "[prices]")
    table = read_toml(Path(given), "--prices")
    return checked_prices(table.get("prices", table), f"--prices {given}")


def _seconds(given: str | None, option: str = "") -> float | None:
    return None if given is None else seconds(given, option)


def _backend(options: argparse.Namespace) -> Settings:
    """Returns settings that say where a run takes place. Raises UsageError for what cannot be."""
    from harness.runs.settings import Settings

    return Settings(
        isolate=options.isolate,
        backend=options.backend or "processes",
        ray_options=parameters(options.ray_options or [], "--ray-options"),
    )


def known(options: argparse.Namespace) -> tuple[str, list[str] | None]:
    """The retriever and the plug-ins as the run names them.

    Raises UsageError for a dataset, a view of it, or a retriever that there is not.
    """
    from harness.dataset.prepare import choose_config
    from harness.dataset.registry import find

    view = view_arguments(options)
    _, variant, name = find(options.dataset)
    choose_config(variant, view["granularity"], view["text"], view["split"], name)
    if not options.isolate:  # whose code is imported in its sandbox alone
        spec = _spec(options)
        spec.check()
        options.retriever, options.plugin = spec.name, [*spec.plugins]
    scoring_choices(options)
    return options.retriever, options.plugin


def _spec(options: argparse.Namespace) -> RetrieverSpec:
    params = {**options.params, **parameters(options.param)}
    return retriever_spec(options, options.retriever, params)


def run_one(options: argparse.Namespace) -> tuple[Path, ScoreReport, RunRecord]:
    """Run and score, within the timeout; gives the folder, scores.json and run.json."""
    if options.published:
        from harness.cli.published import run_published

        return run_published(options)
    if options.backend == "ray":
        return in_time(options, _run_on_cluster, apart=True)
    return in_time(options, _run_here)


def _run_on_cluster(
    options: argparse.Namespace,
) -> tuple[Path, ScoreReport, RunRecord]:
    # In a process of its own: what Ray prints of deaths is not to stand in what the command prints.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return _run_here(options)


def _mode(options: argparse.Namespace) -> Mode:
    """Returns what is to become of an earlier run; a night's takes its place without a copy."""
    from harness.runs.folder.store import Mode

    if options.resume:
        return Mode.RESUME
    if options.nightly:
        return Mode.OVERWRITE
    return Mode.REPLACE if options.overwrite else Mode.NEW


def _run_here(options: argparse.Namespace) -> tuple[Path, ScoreReport, RunRecord]:
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.folder.scored import score_run
    from harness.runs.run import run

    choices = scoring_choices(options)
    spec = _spec(options)
    if not options.isolate:  # whose code is imported in its sandbox alone
        spec.check()  # a wrong name is said before a long preparation
    settings = replace(
        _backend(options),
        k=options.k or 0,
        limit=options.limit,
        seed=options.seed or 0,
        workers=options.workers,
        batch_size=options.batch_size,
        strict=options.strict,
        submitted_by=options.submitted_by or "",
        name=options.name or "",
        matching=matching(options),
        require_cached_index=options.require_cached_index,
        concurrency=1 if options.concurrency is None else options.concurrency,
        query_timeout=_seconds(options.query_timeout),
        index_timeout=_seconds(options.index_timeout),
        retries=options.retries or 0,
        prices=prices(options.prices),
        max_usd=options.max_usd,
        allow_empty=True,  # the command says it, and ends with status 1
    )
    start = perf_counter()
    dataset = fitting_dataset(options)
    folder = run(
        dataset,
        spec,
        settings,
        out=Path(options.out or "results"),
        mode=_mode(options),
        quiet=options.quiet or options.json,
        prepare_seconds=perf_counter() - start,
    )
    scores = score_run(folder, dataset, choices)
    return folder, scores.report, RunFolder(folder).record
