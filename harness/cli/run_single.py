"""One run, as its options say: checked before anything long, run, scored, within its time."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness.cli.options import (
    DatasetOptions,
    MatchingOptions,
    ScoringOptions,
    fitting_dataset,
    matching_settings,
    parameters,
    prices,
    retriever_spec,
    scoring_choices,
    view_arguments,
)
from harness.errors import UsageError
from harness.records.settings import Setting, setting, settings_of
from harness.runs.settings import PROCESSES, Settings

if TYPE_CHECKING:
    from harness.records.run import RunRecord
    from harness.records.scores import ScoreReport
    from harness.retrievers.registry import RetrieverSpec
    from harness.runs.folder.run_state import Mode


@dataclass(frozen=True)
class RunOptions:
    """Options of a run: dataset, retriever, output folder, earlier runs and timeout."""

    dataset: str | None = setting(
        None,
        "see `harness datasets`; of several, and of several retrievers, every pair is run",
        metavar="NAME",
        repeat=True,
        reference="[name](../datasets.md)",
    )
    retriever: str | None = setting(
        None,
        "see `harness retrievers`; file.py:Class; module:Class; mine, for mine.py here",
        metavar="NAME",
        repeat=True,
        kind="retriever",
        reference="[name](../retrievers.md), `file.py:Class` or `package.module:Class`",
    )
    out: str | None = setting(None, "where run folders are kept (results)", metavar="FOLDER")
    claims: str | None = setting(
        None,
        "what others say of their systems, for a list's board",
        metavar="FILE.toml",
        kind="path",
        reference="of a list: a [registry of claims](claims.md), shown beside its board",
    )
    resume: bool = setting(False, "go on with an interrupted run", in_file=False)
    overwrite: bool = setting(
        False,
        "run a finished run again, and keep the old folder beside it (else it is shown)",
        in_file=False,
    )
    timeout: str | None = setting(
        None,
        "end a run that takes longer: 90 (seconds), 30m, 1.5h",
        metavar="TIME",
        kind="time",
    )


@dataclass(frozen=True)
class QuietOption:
    """An option of every command that a TOML file may set too."""

    quiet: bool = setting(False, "no progress bars, no tables")


SETTINGS = (RunOptions, DatasetOptions, Settings, MatchingOptions, ScoringOptions)
"""The options of a run on the command line."""


def file_keys() -> dict[str, Setting]:
    """Returns the keys of a run in a TOML file, except `params`."""
    from harness.cli.config_file import keys_of

    return keys_of(*SETTINGS, QuietOption)


def check(options: argparse.Namespace) -> None:
    """Raises UsageError for missing and invalid options, before anything is opened."""
    for name in ("dataset", "retriever"):
        if not getattr(options, name):
            raise UsageError(f"--{name} is missing; see `harness {name}s`")
    if options.timeout is not None:
        _seconds(options.timeout)
    _settings(options)
    matching_settings(options)


def _seconds(text: str, option: str = "timeout") -> float:
    from harness.cli.timeout import seconds

    return seconds(text, option)


def _settings(options: argparse.Namespace) -> Settings:
    """Returns the settings of a run. Raises UsageError for invalid ones."""
    values: dict[str, Any] = {"allow_empty": True}  # the command reports it, with status 1
    for name, one in settings_of(Settings).items():
        given = getattr(options, name)
        if given is None or name in values:
            continue
        if one.kind == "time":
            given = _seconds(given, name.replace("_", "-"))
        elif one.kind == "pairs":
            given = parameters(given, one.option)
        elif one.kind == "prices":
            given = prices(given)
        values[name] = given
    return Settings(**values)


def check_names(options: argparse.Namespace) -> tuple[str, list[str] | None]:
    """Returns the names of the retriever and the plug-ins for the run.

    Raises UsageError for an unknown dataset, configuration of it, or retriever.
    """
    from harness.datasets.registry import choose_config, find

    view = view_arguments(options)
    _, variant, name = find(options.dataset)
    choose_config(variant, view["granularity"], view["text"], view["split"], name)
    if not options.isolate:  # isolated code is imported in its sandbox only
        spec = _spec(options)
        spec.check()
        options.retriever, options.plugin = spec.name, [*spec.plugins]
    scoring_choices(options)
    return options.retriever, options.plugin


def _spec(options: argparse.Namespace) -> RetrieverSpec:
    params = {**options.params, **parameters(options.param)}
    return retriever_spec(options, options.retriever, params)


def run_one(options: argparse.Namespace) -> tuple[Path, ScoreReport, RunRecord]:
    """Runs and scores, within the timeout; returns the folder, scores.json and run.json."""
    if options.published:
        from harness.cli.published import run_published

        return run_published(options)
    work = _run_here if options.backend in (None, PROCESSES) else _run_on_backend
    if options.timeout is None and work is _run_here:
        return work(options)
    from harness.cli.timeout import in_time

    return in_time(options, work, apart=True)


def _run_on_backend(options: argparse.Namespace) -> tuple[Path, ScoreReport, RunRecord]:
    # In a separate process: output of a cluster must not mix with that of the command.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return _run_here(options)


def _mode(options: argparse.Namespace) -> Mode:
    """Returns the mode for an earlier run; a nightly run replaces it without a copy."""
    from harness.runs.folder.run_state import Mode

    if options.resume:
        return Mode.RESUME
    if options.nightly:
        return Mode.OVERWRITE
    return Mode.REPLACE if options.overwrite else Mode.NEW


def _run_here(options: argparse.Namespace) -> tuple[Path, ScoreReport, RunRecord]:
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.folder.score_folder import score_run
    from harness.runs.run import run

    choices = scoring_choices(options)
    spec = _spec(options)
    if not options.isolate:  # isolated code is imported in its sandbox only
        spec.check()  # reports a wrong name before a long preparation
    settings = replace(_settings(options), matching=matching_settings(options))
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
