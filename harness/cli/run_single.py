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
    from harness.scoring.protocols import Choices


@dataclass(frozen=True)
class RunOptions:
    """Options of a run: dataset, retriever, output folder, earlier runs and timeout."""

    dataset: str | None = setting(
        None,
        "name of a dataset (see `harness datasets`); repeatable",
        metavar="NAME",
        repeat=True,
        reference="[name](../datasets.md)",
    )
    retriever: str | None = setting(
        None,
        "name of a retriever (see `harness retrievers`), file.py:Class or module:Class; repeatable",
        metavar="NAME",
        repeat=True,
        kind="retriever",
        reference="[name](../retrievers.md), `file.py:Class` or `package.module:Class`",
    )
    out: str | None = setting(None, "folder for run folders (default: results)", metavar="FOLDER")
    claims: str | None = setting(
        None,
        "results reported by others, for the board of several runs",
        metavar="FILE.toml",
        kind="path",
        reference="of a list: a [registry of claims](claims.md), shown beside its board",
    )
    resume: bool = setting(False, "continue an interrupted run", in_file=False)
    overwrite: bool = setting(
        False,
        "repeat a finished run; the old folder is renamed to NAME.previous",
        in_file=False,
    )
    timeout: str | None = setting(
        None,
        "time limit of the run: 90 (seconds), 30m, 1.5h",
        metavar="TIME",
        kind="time",
    )


@dataclass(frozen=True)
class QuietOption:
    """An option of every command that a TOML file may set too."""

    quiet: bool = setting(False, "print errors only")


SETTINGS = (RunOptions, DatasetOptions, Settings, MatchingOptions, ScoringOptions)
"""The options of a run on the command line."""


def file_keys() -> dict[str, Setting]:
    """Returns the keys of a run in a TOML file, except `params`."""
    from harness.cli.config_file import keys_of

    return keys_of(*SETTINGS, QuietOption)


@dataclass(frozen=True)
class RunJob:
    """A run with valid options, and the values that they give; it can be sent to a process."""

    options: argparse.Namespace
    timeout: float | None
    settings: Settings
    choices: Choices

    @classmethod
    def create(cls, options: argparse.Namespace) -> RunJob:
        """Raises UsageError for missing and invalid options, before anything is opened."""
        for name in ("dataset", "retriever"):
            if not getattr(options, name):
                raise UsageError(f"--{name} is missing; see `harness {name}s`")
        timeout = None if options.timeout is None else _seconds(options.timeout)
        settings = replace(_settings(options), matching=matching_settings(options))
        return cls(options, timeout, settings, scoring_choices(options))

    def spec(self) -> RetrieverSpec:
        """Returns the retriever. Raises UsageError for a wrong name or parameter of it."""
        params = {**self.options.params, **parameters(self.options.param)}
        spec = retriever_spec(self.options, self.options.retriever, params)
        if not self.settings.isolate:  # isolated code is imported in its sandbox only
            spec.check()
        return spec


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


def check_names(job: RunJob) -> tuple[str, list[str] | None]:
    """Returns the names of the retriever and the plug-ins for the run.

    Raises UsageError for an unknown dataset, configuration of it, or retriever.
    """
    from harness.datasets.registry import choose_config, find

    view = view_arguments(job.options)
    _, variant, name = find(job.options.dataset)
    choose_config(variant, view["granularity"], view["text"], view["split"], name)
    if job.settings.isolate:
        return job.options.retriever, job.options.plugin
    spec = job.spec()
    return spec.name, [*spec.plugins]


def run_one(job: RunJob) -> tuple[Path, ScoreReport, RunRecord]:
    """Runs and scores, within the timeout; returns the folder, scores.json and run.json."""
    on_backend = job.settings.backend != PROCESSES
    if job.timeout is None and not on_backend:
        return _run_here(job)
    from harness.cli.timeout import run_in_process

    return run_in_process(job.timeout, _run_on_backend if on_backend else _run_here, job)


def _run_on_backend(job: RunJob) -> tuple[Path, ScoreReport, RunRecord]:
    # In a separate process: output of a cluster must not mix with that of the command.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return _run_here(job)


def _mode(options: argparse.Namespace) -> Mode:
    """Returns the mode for an earlier run; a nightly run replaces it without a copy."""
    from harness.runs.folder.run_state import Mode

    if options.resume:
        return Mode.RESUME
    if options.nightly:
        return Mode.OVERWRITE
    return Mode.REPLACE if options.overwrite else Mode.NEW


def _run_here(job: RunJob) -> tuple[Path, ScoreReport, RunRecord]:
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.folder.score_folder import score_run
    from harness.runs.run import run

    options = job.options
    spec = job.spec()  # reports a wrong name before a long preparation
    start = perf_counter()
    dataset = fitting_dataset(options)
    folder = run(
        dataset,
        spec,
        job.settings,
        out=Path(options.out or "results"),
        mode=_mode(options),
        quiet=options.quiet or options.json,
        prepare_seconds=perf_counter() - start,
    )
    scores = score_run(folder, dataset, job.choices)
    return folder, scores.report, RunFolder(folder).record
