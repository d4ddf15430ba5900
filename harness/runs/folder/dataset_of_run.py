"""The dataset of a run folder, found again: the one with the content that the run was made on."""

from __future__ import annotations

from pathlib import Path

from harness.dataset.catalogue import find
from harness.dataset.prepare import open_dataset, open_prepared
from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.runs.folder.run_folder import RunFolder


def dataset_of_run(
    folder: Path,
    *,
    name: str | None = None,
    granularity: str = "",
    text: str = "",
    split: str = "",
    source: str | Path | None = None,
    rebuild: bool = False,
    quiet: bool = True,
) -> Dataset:
    """Open the dataset that a run folder names: prepared already, from `source`, or downloaded.

    Raises UsageError for what is no run folder, a `name` that is another dataset's, raw files that
    are not the published ones and not named, and content that is not what the run was made on.
    """
    made = RunFolder(folder).record["dataset"]
    known = made["name"]
    if name and find(name)[2] != known:
        raise UsageError(f"{folder}: was run on {known}, not on {name}")
    here = None if source else open_prepared(known, made["fingerprint"])
    if here is None and not source and not made["published_files"]:
        raise UsageError(
            f"{folder}: was run on files of {known} that are not the published ones, and "
            "they are not prepared here any more; name them with --source"
        )
    dataset = here or open_dataset(
        known,
        granularity=granularity or made["granularity"],
        text=text or made["text"],
        split=split or made["split"],
        source=source,
        rebuild=rebuild,
        quiet=quiet,
    )
    if dataset.fingerprint != made["fingerprint"]:
        raise UsageError(
            f"{folder}: was run on {known} {made['fingerprint'][:8]}, but the dataset "
            f"here is {dataset.fingerprint[:8]}; give the same raw files with --source"
        )
    return dataset
