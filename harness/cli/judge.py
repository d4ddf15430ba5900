"""harness judge: a judge says of answers whether they are right."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.answer import add_asking, shown, way_of
from harness.cli.options import Verbs
from harness.cli.output import add_output, print_json, refuse
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
        "--sample", type=int, metavar="N", help="write N answers for people to judge, to --out"
    )
    people.add_argument("--out", metavar="FILE", help="where the sample is written")
    people.add_argument("--seed", type=int, metavar="N", help="of the sample (0)")
    people.add_argument(
        "--people", metavar="FILE", help="take in what people judged, and hold every judge to it"
    )
    parser.add_argument("--source", metavar="PATH", help="the raw files of the dataset")
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Judge, score, print."""
    from harness.dataset.prepare import home
    from harness.runs.answering.asking import Asker
    from harness.runs.answering.folder import AnswersFolder, dataset_of_answers
    from harness.runs.answering.judges import judge
    from harness.runs.answering.judging import judge_answers, score_folder

    folders = [AnswersFolder(Path(path)) for path in options.answers]
    if options.sample is not None or options.people:
        return _with_people(options, folders)
    refuse(options, "without --sample", "out", "seed")
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
    asker = Asker(way, home(), "harness judge")  # one limit for all of them
    try:
        for folder in folders:
            judge_answers(folder, dataset, by, asker, repeat)
            score_folder(folder, dataset)
    finally:
        asker.close()
    return shown(options, "judge", [folder.path for folder in folders])


def _with_people(options: argparse.Namespace, folders: Sequence[AnswersFolder]) -> int:
    """Write a sample for people, or take in what they judged."""
    from harness.runs.answering.folder import dataset_of_answers
    from harness.runs.answering.judging import score_folder
    from harness.runs.answering.people import sample_for_people, take_people

    asking: tuple[str, ...] = (
        "judge",
        "judge_source",
        "repeat",
        "model",
        "endpoint",
        "concurrency",
        "retries",
    )
    asking += ("timeout", "max_usd", "prices")
    refuse(options, "with --sample and --people, which ask no model", *asking)
    if options.sample is not None and options.people:
        raise UsageError("--sample writes a file and --people reads one; name one of them")
    if len(folders) != 1:
        raise UsageError("people judge the answers of one folder at a time")
    (folder,) = folders
    dataset = dataset_of_answers(folder, options.source)
    if options.people:
        refuse(options, "without --sample", "out", "seed")
        take_people(folder, Path(options.people))
        score_folder(folder, dataset)
        return shown(options, "judge", [folder.path])
    if not options.out:
        raise UsageError("--sample: say where it is written with --out FILE")
    n = sample_for_people(folder, dataset, options.sample, options.seed or 0, Path(options.out))
    if options.json:
        print_json("export", {"file": options.out})
    elif not options.quiet:
        print(f"{n} answers in {options.out}: write true or false in place of null at `right`")
        print("it holds texts of the dataset; `harness judge ANSWERS --people FILE` takes it in")
    return 0
