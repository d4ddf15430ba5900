"""harness judge: a judge says of answers whether they are right."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.answer import add_asking, shown, way_of
from harness.cli.options import Verbs
from harness.cli.output import add_output, refuse
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.runs.answering.folder import AnswersFolder


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
    people = parser.add_argument_group("people")
    people.add_argument(
        "--people",
        metavar="PATH",
        help="take in what people judged (a folder of `harness label answers`, or a file of "
        "lines), and hold every judge to it",
    )
    parser.add_argument("--source", metavar="PATH", help="the raw files of the dataset")
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Judge, score, print."""
    from harness.dataset.prepare import home
    from harness.runs.answering.asking import Asker
    from harness.runs.answering.folder import AnswersFolder, dataset_of_all
    from harness.runs.answering.judges import judge
    from harness.runs.answering.judging import judge_answers, score_folder

    folders = [AnswersFolder(Path(path)) for path in options.answers]
    if options.people:
        return _with_people(options, folders)
    if not options.judge:
        raise UsageError("--judge is missing: plain, longmemeval-official, or a template's path")
    way = way_of(options)
    source = Path(options.judge_source) if options.judge_source else None
    dataset = dataset_of_all(folders, options.source)
    by = judge(options.judge, dataset, way.model, source)
    repeat = 1 if options.repeat is None else options.repeat
    asker = Asker(way, home(), "harness judge")  # one limit for all of them
    try:
        for folder in folders:
            judge_answers(folder, dataset, by, asker, repeat)
            score_folder(folder, dataset)
    finally:
        asker.close()
    return shown(options, "judge", [folder.path for folder in folders])


def _with_people(options: argparse.Namespace, folders: Sequence[AnswersFolder]) -> int:
    """Take in what people judged."""
    from harness.labelling.answer_tasks import read_verdicts
    from harness.records.base import to_plain
    from harness.runs.answering.folder import dataset_of_all
    from harness.runs.answering.judging import score_folder
    from harness.runs.answering.people import keep, read_people

    asking = ["judge", "judge_source", "repeat", "model", "endpoint", "concurrency", "retries"]
    asking += ["timeout", "max_usd", "prices"]
    refuse(options, "with --people, which asks no model", *asking)
    path = Path(options.people).expanduser()
    if len(folders) > 1 and not path.is_dir():
        raise UsageError("a file of people's judgements is of one folder; name one at a time")
    dataset = dataset_of_all(folders, options.source)
    if path.is_dir():
        labels = [read_verdicts(path, folder) for folder in folders]
        found = [(verdicts, to_plain(source)) for verdicts, source in labels]
    else:
        found = [read_people(path, folder) for folder in folders]
    for folder, (verdicts, given) in zip(folders, found, strict=True):
        keep(folder, verdicts, given)
        score_folder(folder, dataset)
        if conflicts := given.get("in_conflict"):
            print(
                f"note: {path}: {conflicts} answers are in conflict and excluded; `harness label "
                f"adjudicate {path}` resolves them",
                file=sys.stderr,
            )
    return shown(options, "judge", [folder.path for folder in folders])
