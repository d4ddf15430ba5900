"""harness judge: a judge says of answers whether they are right."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.answer import add_asking, shown, way_of
from harness.cli.options import Verbs
from harness.cli.output import add_output
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "judge",
        help="let a judge say which answers are right, and see where questions were lost",
        description=(
            "Puts every answer to a judge, and keeps its verdicts beside the answers. Another "
            "judge, or the same one again, asks no reader. Replies that are neither yes nor no "
            "are counted, and no verdict."
        ),
        allow_abbrev=False,
    )
    parser.add_argument(
        "answers", metavar="ANSWERS", nargs="+", help="folders that `harness answer` made"
    )
    parser.add_argument(
        "--judge", metavar="NAME", help="plain, longmemeval-official, or a template FILE.toml"
    )
    parser.add_argument(
        "--judge-source", metavar="PATH", help="a clone of the official judge's repository"
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="judge each answer N times (1)")
    add_asking(parser)
    parser.add_argument("--source", metavar="PATH", help="the raw files of the dataset")
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Judge, score, print."""
    from harness.runs.answering.folder import AnswersFolder, dataset_of_answers
    from harness.runs.answering.judges import judge
    from harness.runs.answering.judging import judge_answers, score_folder

    folders = [AnswersFolder(Path(path)) for path in options.answers]
    if not options.judge:
        raise UsageError("--judge is missing: plain, longmemeval-official, or a template's path")
    way = way_of(options)
    source = Path(options.judge_source) if options.judge_source else None
    datasets = {folder.record["dataset"]["fingerprint"] for folder in folders}
    if len(datasets) > 1:
        raise UsageError("these answers are of several datasets; judge those of one at a time")
    dataset = dataset_of_answers(folders[0], options.source)
    by = judge(options.judge, dataset, way.model, source)
    repeat = 1 if options.repeat is None else options.repeat
    for folder in folders:
        judge_answers(folder, dataset, by, way, repeat)
        score_folder(folder, dataset)
    return shown(options, "judge", [folder.path for folder in folders])
