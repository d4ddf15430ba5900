"""Judge answers with a model, and attribute errors to retrieval or reader.

Ask a model whether each answer is correct, and store its judgements next to the answers. No reader
is called again. Failed answers are wrong; undecided judgements are counted and excluded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import add_output, refuse
from harness.errors import UsageError
from harness.extensions.answers.commands.answer import (
    add_model_options,
    print_answers,
    request_options,
)

if TYPE_CHECKING:
    from harness.runs.folder.answers_folder import AnswersFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.add_argument(
        "answers",
        metavar="ANSWERS",
        nargs="+",
        help="folders that `harness answer` made, or a folder with several",
    )
    parser.add_argument(
        "--judge",
        metavar="NAME",
        help="judge: plain, longmemeval-official, or a template FILE.toml",
    )
    parser.add_argument(
        "--judge-source", metavar="PATH", help="clone of the official judge's repository"
    )
    parser.add_argument(
        "--repeat", type=int, metavar="N", help="judge each answer N times (default: 1)"
    )
    add_model_options(parser)
    human = parser.add_argument_group("human labels")
    human.add_argument(
        "--human-labels",
        metavar="PATH",
        help="import human labels (a folder of `harness label answers`, or a JSONL file), and "
        "measure the agreement of every judge with them",
    )
    parser.add_argument("--source", metavar="PATH", help="raw files of the dataset")
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Judges, scores and prints."""
    from harness.datasets.registry import home
    from harness.extensions.answers.answering.client import ModelClient
    from harness.extensions.answers.answering.judges import make_judge
    from harness.extensions.answers.answering.judging import judge_answers, score_folder
    from harness.runs.folder.answers_folder import answers_folders, dataset_of_all

    folders = answers_folders(options.answers)
    if options.human_labels:
        return _import_labels(options, folders)
    if not options.judge:
        raise UsageError("--judge is missing: plain, longmemeval-official, or a template's path")
    request = request_options(options)
    source = Path(options.judge_source) if options.judge_source else None
    dataset = dataset_of_all(folders, options.source)
    judge = make_judge(options.judge, dataset, request.model, source)
    repeat = 1 if options.repeat is None else options.repeat
    client = ModelClient(request, home(), "harness judge")  # one budget for all folders
    try:
        for folder in folders:
            judge_answers(folder, dataset, judge, client, repeat)
            score_folder(folder, dataset)
    finally:
        client.close()
    return print_answers(options, "judge", [folder.path for folder in folders])


def _import_labels(options: argparse.Namespace, folders: Sequence[AnswersFolder]) -> int:
    """Imports human labels."""
    from harness.extensions.answers.answering.judging import (
        read_human_labels,
        score_folder,
        write_human_labels,
    )
    from harness.io.plugins import provider
    from harness.runs.folder.answers_folder import dataset_of_all

    model_options = ["judge", "judge_source", "repeat", "model", "endpoint", "concurrency"]
    model_options += ["retries", "timeout", "max_usd", "prices"]
    refuse(options, "with --human-labels, which asks no model", *model_options)
    path = Path(options.human_labels).expanduser()
    if len(folders) > 1 and not path.is_dir():
        raise UsageError("a file of human labels is of one folder; name one at a time")
    dataset = dataset_of_all(folders, options.source)
    read = provider("human_labels") if path.is_dir() else read_human_labels
    found = [read(path, folder) for folder in folders]  # read all before writing any
    for folder, (labels, source) in zip(folders, found, strict=True):
        write_human_labels(folder, labels, source)
        score_folder(folder, dataset)
        if source.conflicts:
            print(
                f"note: {path}: {source.conflicts} answers are in conflict and excluded; `harness "
                f"label adjudicate {path}` resolves them",
                file=sys.stderr,
            )
    return print_answers(options, "judge", [folder.path for folder in folders])
