"""Options of rankings as other projects publish them, and the run folder that is made of them."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.cli.config_file import apply_table, keys_of
from harness.cli.options import fitting_dataset, load_plugins, matching_settings, scoring_choices
from harness.errors import UsageError
from harness.records.settings import Setting, setting

if TYPE_CHECKING:
    from harness.datasets.reader import Dataset
    from harness.records.run import RunRecord
    from harness.records.scores import ScoreReport
    from harness.runs.folder.imported import ImportOptions
    from harness.runs.folder.published import Published


@dataclass(frozen=True)
class PublishedOptions:
    """Options for reading a published file."""

    format: str | None = setting(
        None,
        "format of the file (default: recognised by its fields): longmemeval, mempalace, "
        "agent-memory-benchmarks, memory-core-eval, cogito, mem0, retrieved-texts, or a plug-in's",
        metavar="NAME",
        reference="format of the file (default: recognised by its fields)",
    )
    ranking: str | None = setting(
        None,
        "field of the ranking to score, if a record has several",
        metavar="FIELD",
        reference="field of the ranking to score, if a record has several",
    )
    cut: int | None = setting(
        None,
        "truncate every ranking to K documents",
        metavar="K",
        reference="truncate every ranking to this many documents",
    )


@dataclass(frozen=True)
class PublishedTable:
    """Keys that only a `[[published]]` table has."""

    file: str | None = setting(None, kind="path")
    url: str | None = setting(None)
    sha256: str | None = setting(None)
    repeats: str | None = setting(None, choices=("latest", "first", "refuse"))
    version: str | None = setting(None)
    command: str | None = setting(None)


def form_of(options: argparse.Namespace, path: Path) -> str | None:
    """Returns the format that is given or recognised; None for a usual run file."""
    from harness.runfiles.run_formats import recognised, run_format

    load_plugins(options)
    if options.format:
        run_format(options.format)
    return options.format or recognised(path)


def folder_of_published(options: argparse.Namespace, path: Path, form: str) -> tuple[Path, Dataset]:
    """Makes the run folder of a published file; opens the dataset at the ids' granularity."""
    from harness.runs.folder.published import import_published, open_published

    file = open_published(
        path,
        form,
        ranking=options.ranking or "",
        granularity=options.granularity or "",
        repeats=options.repeats or "latest",
        unasked=options.missing == "zero",
        cut=options.cut,
    )
    dataset = _dataset(file, options)
    return import_published(file, dataset, import_options(options, path)), dataset


def import_options(options: argparse.Namespace, path: Path) -> ImportOptions:
    """Returns `ImportOptions` for a file of rankings, from the command line."""
    from harness.runs.folder.imported import ImportOptions

    return ImportOptions(
        out=Path(options.out or "results"),
        name=options.name or path.name.partition(".")[0],
        k=options.k,
        strict=options.strict,
        matching=matching_settings(options),
        score_column=getattr(options, "score_column", None) or "",
    )


def _dataset(file: Published, options: argparse.Namespace) -> Dataset:
    """Opens the dataset at the first of the file's granularities that it has and the ids fit."""
    from harness.datasets.registry import find
    from harness.runs.folder.published import fits

    _, variant, name = find(options.dataset)
    wanted = [options.granularity] if options.granularity else file.granularities
    known = [unit for unit in wanted if unit in variant.granularities]
    if not known:
        raise UsageError(
            f"{file.path}: its rankings are of {' or '.join(wanted)}s, and {name} has "
            f"{', '.join(variant.granularities)}"
        )
    for unit in known:
        options.granularity = unit
        dataset: Dataset = fitting_dataset(options)
        if unit == known[-1] or fits(file, dataset):
            break
    return dataset


# -- [[published]] of a config --------------------------------------------------------------------

_OF_ONE = keys_of(PublishedTable, PublishedOptions)
"""Keys that only a table sets; on the command line they belong to the runs."""


_SHARED = (
    *("dataset", "granularity", "text", "split", "source", "plugin", "missing", "name"),
    "submitted_by",
)
"""Keys of a run that a table may have too."""


def of_config(
    options: argparse.Namespace,
    file: Path,
    tables: object,
    values: dict[str, object],
    keys: Mapping[str, Setting],
) -> list[argparse.Namespace]:
    """Returns the options of every `[[published]]` table of a config; `values` are its top keys.

    Raises UsageError for keys that are unknown or missing, before anything is fetched.
    """
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise UsageError(f"--config {file}: published must be tables: [[published]]")
    found = []
    for table in tables:
        one = copy.copy(options)
        for key in (*_OF_ONE, "dataset"):
            setattr(one, key, None)
        apply_table(one, file, table, {**_OF_ONE, **{name: keys[name] for name in _SHARED}})
        apply_table(one, file, values, keys)
        if not one.dataset or not (one.file or one.url):
            raise UsageError(f"--config {file}: [[published]] needs a dataset, and a file or a url")
        if one.url and not one.sha256:
            raise UsageError(f"--config {file}: {one.url}: give the sha256 of what it must be")
        one.sha256 = one.sha256 and one.sha256.lower()
        one.k, one.published = None, True
        one.series = (one.dataset, one.name or Path(one.file or one.url).name.partition(".")[0])
        found.append(one)
    return found


def run_published(
    options: argparse.Namespace,
) -> tuple[Path, ScoreReport, RunRecord]:
    """Imports and scores a published file; returns the folder, scores.json and run.json."""
    from msgspec.structs import replace

    from harness.io.checksums import rewrite_with_checksums
    from harness.records.run import PublishedFile
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.folder.score_folder import score_run

    choices = scoring_choices(options)
    path = _at_hand(options)
    form = form_of(options, path)
    if form is None:
        raise UsageError(f"{path}: of no form that is known; say which with format = ...")
    folder, dataset = folder_of_published(options, path, form)
    scores = score_run(folder, dataset, choices)
    record = RunFolder(folder).record
    source = record.imported_from
    if options.url and isinstance(source, PublishedFile):
        source = replace(source, url=options.url)
    record = replace(
        record,
        retriever=replace(record.retriever, version=options.version),
        imported_from=source,
        submitted_by=options.submitted_by or record.submitted_by,
        command=options.command or record.command,
    )
    rewrite_with_checksums(folder / "run.json", record)
    return folder, scores.report, record


def _at_hand(options: argparse.Namespace) -> Path:
    """Returns the published file: local, or fetched into the cache. Raises UsageError, RunError."""
    from filelock import FileLock

    from harness.datasets.adapter import RemoteFile, downloads_folder
    from harness.datasets.download import fetch
    from harness.datasets.registry import home
    from harness.io.files import digest

    path = Path(options.file) if options.file else None
    if path is not None and (path.is_file() or not options.url):
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
        if options.sha256 and digest(path) != options.sha256:
            raise UsageError(f"{path}: is not the file of sha256 {options.sha256[:12]}...")
        return path
    name = f"{options.sha256[:12]}/{urlsplit(options.url).path.rpartition('/')[2]}"
    folder = downloads_folder(home(), "published")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        return fetch(RemoteFile(name, options.url, sha256=options.sha256), folder, quiet=True)
