"""harness label answers: a sample of answers for people to judge."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.label_work import add_work, check_work, work
from harness.cli.options import Verbs
from harness.cli.output import print_json
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command below `harness label`."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "answers",
        help="judge a sample of answers, to know how far a judge can be trusted",
        description=(
            "Draw questions at random, and judge what was answered to them, right or wrong: the "
            "same questions of every folder, without a word of whose answers they are. The same "
            "command goes on; a larger sample keeps every judgement. `harness judge ANSWERS "
            "--human-labels FOLDER` reads them."
        ),
        allow_abbrev=False,
    )
    parser.add_argument(
        "answers", metavar="ANSWERS", nargs="+", help="folders that `harness answer` made"
    )
    parser.add_argument(
        "--out", default="labels-of-answers", metavar="FOLDER", help="(labels-of-answers)"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="questions (100)")
    parser.add_argument("--seed", type=int, help="of the sample and of every order (0)")
    parser.add_argument("--source", metavar="PATH", help="the raw files of the dataset")
    add_work(parser, "first")
    parser.add_argument("--pool-only", action="store_true", help="draw the sample, and end")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Draw, then judge."""
    from harness.files import disk_errors
    from harness.labelling.answer_tasks import start_with_answers
    from harness.labelling.project import annotator_name
    from harness.labelling.reports import AnswersReport
    from harness.labelling.session import AnnotationSession
    from harness.labelling.start import exclusive
    from harness.runs.answering.folder import AnswersFolder, dataset_of_all

    who = annotator_name(check_work(options, pool_only=options.pool_only))
    if options.seed is not None and options.seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {options.seed}")
    folders = [AnswersFolder(Path(path).expanduser()) for path in options.answers]
    dataset = dataset_of_all(folders, options.source)
    folder = Path(options.out).expanduser()
    if folder.is_file():
        raise UsageError(f"--out {folder}: is a file; name a folder")
    with disk_errors(folder, "name another folder with --out"), exclusive(folder):
        project, new = start_with_answers(folder, folders, dataset, options.sample, options.seed)
    if options.json:
        report = AnswersReport(
            folder=str(folder),
            queries=len(project.queries),
            candidates=len(project.pool),
            added=new,
        )
        print_json(report)
    elif not options.quiet:
        about = f"{len(project.queries)} questions, {len(project.pool)} answers to judge"
        print(f"{folder}: {about}; it contains texts of the dataset", flush=True)
    return 0 if options.pool_only else work(AnnotationSession(folder, who), options)
