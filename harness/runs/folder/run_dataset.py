"""Opens the dataset that the folder of a run or of answers was made from."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

from harness.datasets.reader import Dataset
from harness.datasets.registry import find, open_dataset, open_prepared
from harness.errors import UsageError
from harness.records.run import DatasetRef
from harness.runs.folder.run_folder import RunFolder


class DatasetView(TypedDict, total=False):
    """Arguments of `open_dataset` that override those of a record."""

    granularity: str
    text: str
    split: str
    source: str | Path | None
    rebuild: bool
    quiet: bool


def dataset_of_run(
    folder: Path, *, name: str | None = None, **view: Unpack[DatasetView]
) -> Dataset:
    """Opens the dataset that a run folder names; raises as `dataset_of_record`, and UsageError if
    the folder is not a run's."""
    return dataset_of_record(folder, RunFolder(folder).record.dataset, name=name, **view)


def dataset_of_record(
    folder: Path, made: DatasetRef, *, name: str | None = None, **view: Unpack[DatasetView]
) -> Dataset:
    """Opens the dataset that a folder was `made` from: prepared, from `source`, or downloaded.

    Its content is the one that the folder was made from.

    Raises UsageError for the `name` of another dataset, unpublished raw files without `source`, and
    content other than the folder was made from.
    """
    known = made.name
    if name and find(name)[2] != known:
        raise UsageError(f"{folder}: was run on {known}, not on {name}")
    source = view.get("source")
    here = None if source else open_prepared(known, made.fingerprint)
    if here is None and not source and not made.published_files:
        local = "changed" if made.published_files is False else "local"
        raise UsageError(
            f"{folder}: was run on {local} files of {known}, which are no longer prepared here; "
            "name them with --source"
        )
    as_made: DatasetView = {
        **view,
        "granularity": view.get("granularity") or made.granularity,
        "text": view.get("text") or made.text,
        "split": view.get("split") or made.split,
    }
    dataset = here or open_dataset(known, **as_made)
    if dataset.fingerprint != made.fingerprint:
        raise UsageError(
            f"{folder}: was run on {known} {made.fingerprint[:8]}, but the dataset "
            f"here is {dataset.fingerprint[:8]}; give the same raw files with --source"
        )
    return dataset
