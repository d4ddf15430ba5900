"""List, prepare, verify, describe and export datasets.

Without a command: list all datasets and which of them are on this machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import DatasetArguments, add_inner, add_view, view_arguments
from harness.cli.output import PerformedCheck, add_output, emit, plain, refuse
from harness.errors import UsageError
from harness.io.records import Output, OutputPart

if TYPE_CHECKING:
    from harness.datasets.reader import Dataset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    add_output(parser)

    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, about, call in (
        (
            "prepare",
            "download a dataset, or read --source, and store it in the cache",
            call_prepare,
        ),
        ("verify", "check the cached data and the raw files against their checksums", call_verify),
        ("info", "print source, licence, counts and corrections", call_info),
        ("export", "write a dataset as BEIR, MTEB, TREC or JSONL files", call_export),
    ):
        one = add_inner(commands, name, about)
        one.add_argument("name", metavar="NAME", help="name of a dataset")
        add_view(one)
        add_output(one)
        if name == "export":
            one.add_argument(
                "--format",
                choices=("beir", "mteb", "trec", "jsonl"),
                required=True,
                help="format of the files",
            )
            one.add_argument("--out", metavar="FOLDER", required=True, help="folder to write")
        if name == "prepare":
            one.add_argument(
                "--name",
                dest="called",
                metavar="NAME",
                help="name for your own files, which become the dataset labelled/NAME",
            )
        one.set_defaults(call=call)


class ListedDataset(OutputPart):
    """A dataset that can be opened, and which of its configurations are prepared."""

    name: str
    about: str
    licence: str
    bytes: int | None
    granularities: list[str]
    splits: list[str]
    prepared: list[str]


class DatasetsOutput(Output, tag="harness.datasets/1"):
    """harness datasets."""

    datasets: list[ListedDataset]


class DatasetsInfoOutput(Output, tag="harness.datasets-info/1"):
    """harness datasets info, prepare: the manifest, or what is known before it is prepared."""

    dataset: dict[str, Any]


class DatasetsVerifyOutput(Output, tag="harness.datasets-verify/1"):
    """harness datasets verify."""

    findings: list[PerformedCheck]


class DatasetsExportOutput(Output, tag="harness.datasets-export/1"):
    """harness datasets export."""

    files: list[str]


def main(options: argparse.Namespace) -> int:
    """Lists every dataset with its prepared configurations."""
    from harness.datasets.registry import iter_configs, own_names, prepared_folders

    listed = dict(iter_configs())
    listed |= dict.fromkeys(own_names("labelled"), listed["labelled"])
    rows = [
        ListedDataset(
            name=name,
            about=variant.about,
            licence=variant.licence,
            bytes=variant.bytes or None,
            granularities=[*variant.granularities],
            splits=[*variant.splits],
            prepared=[folder.name for folder in prepared_folders(name)],
        )
        for name, variant in listed.items()
    ]
    return emit(options, DatasetsOutput(datasets=rows), lambda: _table(rows))


def _table(rows: list[ListedDataset]) -> str:
    from harness.cli.run_summary_lines import size
    from harness.io.terminal import grid

    table = [
        [row.name, _here(row.prepared), size(row.bytes), row.about, row.licence]
        for row in rows
        if not row.name.startswith(_FORUMS)
    ]
    headers = ["dataset", "prepared", "download", "description", "licence"]
    return (
        f"{grid(table, headers, one_line=True)}\n\n"
        f"also: {_FORUMS}FORUM (12: see --json)\n"
        "      ir/ID for any ir_datasets id\n"
        "      mteb/TASK for any retrieval task of texts\n"
        "your own files: --dataset labelled/NAME --source FOLDER\n"
        "licences and details: harness datasets info NAME"
    )


_FORUMS = "beir/cqadupstack/"


def _here(folders: list[str]) -> str:
    """Returns whether the published files are prepared, or others (their folders have an @)."""
    if any("@" not in folder for folder in folders):
        return "yes"
    return "other files" if folders else "-"


def call_prepare(options: argparse.Namespace) -> int:
    """Prepares one configuration of a dataset."""
    from harness.datasets.registry import open_dataset

    name = options.name
    if options.called:
        if name != "labelled":
            raise UsageError(f"--name is for your own files: `labelled`; {name} has its name")
        name = f"labelled/{options.called}"
    _print_info(open_dataset(name, **view_arguments(options)), options)
    return 0


def call_info(options: argparse.Namespace) -> int:
    """Describes a dataset: the prepared configuration, or what is known before preparation."""
    if not options.source:
        refuse(options, "without --source: to describe a dataset prepares nothing", "rebuild")
    from harness.datasets.registry import find, open_dataset

    arguments = view_arguments(options)
    _, variant, name = find(options.name)
    # Describing a dataset must not download it.
    dataset = (
        open_dataset(options.name, **arguments) if options.source else _prepared(options, arguments)
    )
    if dataset is not None:
        _print_info(dataset, options)
        return 0
    values = {
        "name": name,
        "about": variant.about,
        "licence": variant.licence,
        "granularities": list(variant.granularities),
        "texts": list(variant.texts),
        "splits": list(variant.splits),
        "files": [
            {key: value for key, value in asdict(file).items() if key != "name" and value}
            for file in variant.files
        ],
        "prepared": False,
    }
    _print_values(values, options)
    return 0


def _prepared(options: argparse.Namespace, arguments: DatasetArguments) -> Dataset | None:
    """Returns the prepared dataset that the options select; any configuration if they select none.

    A dataset that comes with its adapter needs no download, so it is prepared if it is not yet.
    """
    from harness.datasets.registry import find, open_dataset, open_folder, prepared_folders

    adapter, variant, name = find(options.name)
    if getattr(adapter, "shipped", None) is not None and not variant.files:
        return open_dataset(options.name, **arguments)
    parts = {name: arguments[name] for name in ("granularity", "text", "split")}
    wanted = {name: value for name, value in parts.items() if value}
    for folder in prepared_folders(name):
        dataset = open_folder(name, folder)
        if dataset is not None and all(
            getattr(dataset.manifest, part) == value for part, value in wanted.items()
        ):
            return dataset
    return None


def call_verify(options: argparse.Namespace) -> int:
    """Verifies a prepared dataset; returns 1 if something does not match."""
    refuse(options, "here: what is prepared is verified as it is", "rebuild", "source")
    from harness.datasets.verify import verify
    from harness.io.records import to_plain

    dataset = _prepared(options, view_arguments(options))
    if dataset is None:
        raise UsageError(
            f"{options.name} is not prepared here, so there is nothing to verify: "
            f"`harness datasets prepare {options.name}` first"
        )
    findings = verify(dataset)
    checks = [PerformedCheck(**to_plain(finding)) for finding in findings]
    lines = [f"{'ok ' if one.ok else 'BAD'} {one.what}: {one.message}" for one in findings]
    emit(options, DatasetsVerifyOutput(findings=checks), "\n".join(lines))
    return 0 if all(finding.ok for finding in findings) else 1


def call_export(options: argparse.Namespace) -> int:
    """Writes the dataset in another format."""
    from harness.datasets.export import export
    from harness.datasets.registry import open_dataset

    out = Path(options.out)
    if out.is_file():
        raise UsageError(f"--out {out}: is a file; name a folder")
    made = export(open_dataset(options.name, **view_arguments(options)), out, options.format)
    files = [str(path) for path in made]
    return emit(options, DatasetsExportOutput(files=files), "\n".join(files))


def _print_info(dataset: Any, options: argparse.Namespace) -> None:
    from harness.io.records import to_plain

    values = {**to_plain(dataset.manifest), "folder": str(dataset.folder)}
    del values["checksums"]
    _print_values(values, options)


def _print_values(values: Mapping[str, object], options: argparse.Namespace) -> None:
    lines = [line for key, value in values.items() for line in _described(key, value)]
    emit(options, DatasetsInfoOutput(dataset=plain(values)), "\n".join(lines))


def _described(key: str, value: Any) -> Iterator[str]:
    """Yields the lines of one value of a manifest."""
    if key == "repairs" and isinstance(value, list):
        yield "repaired or left out:" + ("" if value else " nothing")
        for repair in value:
            shown = "; ".join(repair["examples"][:3])
            more = " ..." if repair["count"] > 3 else ""
            yield f"  {repair['count']} x {repair['kind']}\n      {shown}{more}"
    elif key in ("raw", "files") and isinstance(value, list):
        yield f"{key}:"
        for file in value:
            yield "  " + ", ".join(f"{k} {v}" for k, v in file.items() if k != "modified_ns")
    elif isinstance(value, dict):
        yield f"{key}: " + ", ".join(f"{k} {v}" for k, v in value.items())
    elif isinstance(value, list):
        yield f"{key}: {', '.join(map(str, value)) or '-'}"
    elif value not in (None, ""):
        yield f"{key}: {'yes' if value is True else 'no' if value is False else value}"
