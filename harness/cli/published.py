"""Options of rankings as other projects publish them, and the run folder that is made of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import fitting_dataset, load_plugins, matching
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.dataset.reader import Dataset
    from harness.runs.folder.published import Published


def add_published(parser: argparse.ArgumentParser) -> None:
    """How a published file is read."""
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="whose form the file has (recognised by its fields): longmemeval, mempalace, "
        "agent-memory-benchmarks, memory-core-eval, cogito, mem0, retrieved-texts, or a plug-in's",
    )
    parser.add_argument(
        "--ranking", metavar="FIELD", help="which of its rankings, where a record holds several"
    )
    parser.add_argument(
        "--cut", metavar="K", type=int, help="take the first K documents of each of its rankings"
    )


def form_of(options: argparse.Namespace, path: Path) -> str | None:
    """The form that is named, or that the file has; None for a run file of a usual form."""
    from harness.rankings.published.form import recognised, run_format

    load_plugins(options)
    if options.format:
        run_format(options.format)
        return str(options.format)
    return recognised(path)


def folder_of_published(options: argparse.Namespace, path: Path, form: str) -> tuple[Path, Dataset]:
    """The run folder of a published file, and its dataset at the granularity of its ids."""
    from harness.runs.folder.published import import_published, published

    file = published(
        path,
        form,
        ranking=options.ranking or "",
        granularity=options.granularity or "",
        repeats=options.repeats or "latest",
        unasked=options.missing == "zero",
        cut=options.cut,
    )
    dataset = _dataset(options, file)
    folder = import_published(
        file,
        dataset,
        out=Path(options.out or "results"),
        name=options.name or path.name.partition(".")[0],
        k=options.k,
        strict=options.strict,
        matching=matching(options),
    )
    return folder, dataset


def _dataset(options: argparse.Namespace, file: Published) -> Any:
    """The dataset at the first granularity of the file's that it has, and that its ids fit."""
    from harness.dataset.catalogue import find
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
        dataset = fitting_dataset(options)
        if unit == known[-1] or fits(file, dataset):
            break
    return dataset
