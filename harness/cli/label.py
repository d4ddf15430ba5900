"""harness label: judge a set of one's own, alone or together, until it is a dataset."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import label_answers, label_generate
from harness.cli.label_work import add_work, check_work, work
from harness.cli.options import Verbs, load_plugins, number, parameters, retriever_spec
from harness.cli.output import add_output, print_json
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.labelling.pool import System
    from harness.labelling.start import ProjectUpdate

_PARAMETERS = re.compile(r":(?=[A-Za-z_]\w*=)")
_NEXT = re.compile(r",(?=[A-Za-z_]\w*=)")


def add(verbs: Verbs) -> None:
    """Register the command and its own commands."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "label",
        help="label a set of your own: pool systems, judge, agree, export",
        description=(
            "Pool the top k of several systems, judge the candidates in a browser, "
            "alone or together, and export a dataset for `--dataset labelled`."
        ),
        allow_abbrev=False,
    )
    subverbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_start(subverbs)
    _add_open(subverbs)
    _add_adjudicate(subverbs)
    _add_status(subverbs)
    _add_export(subverbs)
    _add_import(subverbs)
    label_generate.add(subverbs)
    label_answers.add(subverbs)


def _add_start(verbs: Verbs) -> None:
    parser: argparse.ArgumentParser = verbs.add_parser(
        "start",
        help="pool systems for queries, and judge; again, to go on or to add more",
        description=(
            "Pool the top k of several systems and judge them. The same command goes on; with more "
            "documents, queries or systems, or a larger k, it adds to the pool and keeps every "
            "judgement."
        ),
        allow_abbrev=False,
    )
    parser.add_argument(
        "documents", metavar="DOCS", help="documents.jsonl or .csv, or a folder of .txt and .md"
    )
    parser.add_argument(
        "queries", metavar="QUERIES", help=".jsonl, .csv or .tsv, or .txt with one query a line"
    )
    parser.add_argument(
        "--retriever",
        action="append",
        default=[],
        metavar="NAME[:KEY=VALUE,...]",
        help="repeatable: bm25, bm25:k1=0.9,b=0.4, mine.py:Mine; see `harness retrievers`",
    )
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE.py", help="registers retrievers"
    )
    parser.add_argument("--k", type=int, metavar="K", help="documents of each system (10)")
    parser.add_argument("--out", default="labels", metavar="FOLDER", help="the project (labels)")
    parser.add_argument("--seed", type=int, help="of every order and of seeded retrievers (0)")
    parser.add_argument(
        "--overlap",
        type=number,
        metavar="SHARE",
        help="share of the queries that every annotator judges (1); the others are judged once",
    )
    parser.add_argument(
        "--relevance-level",
        type=int,
        metavar="GRADE",
        help="the lowest grade that counts as evidence: 1 (related), 2 or 3 (1)",
    )
    add_work(parser, "first")
    parser.add_argument("--pool-only", action="store_true", help="make the pool, and end")
    parser.set_defaults(call=call_start)


def _add_open(verbs: Verbs) -> None:
    parser: argparse.ArgumentParser = verbs.add_parser(
        "open",
        help="judge on, or as another annotator",
        description=(
            "Judge the candidates of a project. Each annotator has an order of their own and sees "
            "no judgement of another."
        ),
        allow_abbrev=False,
    )
    _add_folder(parser)
    add_work(parser, "first")
    parser.set_defaults(call=call_open)


def _add_adjudicate(verbs: Verbs) -> None:
    parser: argparse.ArgumentParser = verbs.add_parser(
        "adjudicate",
        help="resolve conflicts between annotators",
        description="Resolve conflicts, with the judgements of all annotators side by side.",
        allow_abbrev=False,
    )
    _add_folder(parser)
    add_work(parser, "adjudicator")
    parser.set_defaults(call=call_adjudicate)


def _add_status(verbs: Verbs) -> None:
    parser: argparse.ArgumentParser = verbs.add_parser(
        "status",
        help="who judged what, agreement, scores so far",
        description=(
            "Who judged what, how far they agree, what the pooled systems score so far, how much "
            "of their top k is judged, and how many queries a wanted half-width needs."
        ),
        allow_abbrev=False,
    )
    _add_folder(parser)
    parser.add_argument(
        "--half-width",
        type=number,
        default=0.05,
        metavar="WIDTH",
        help="wanted half-width of the 95%% interval (0.05)",
    )
    parser.add_argument("--metric", metavar="NAME", help="(ndcg@10, or at the depth of the pool)")
    add_output(parser)
    parser.set_defaults(call=call_status)


def _add_export(verbs: Verbs) -> None:
    parser: argparse.ArgumentParser = verbs.add_parser(
        "export",
        help="write the dataset that `--dataset labelled` reads, or tasks for Label Studio",
        description="Write the judgements as a dataset, with a README of how they were made; or "
        "what is to be judged as tasks for Label Studio.",
        allow_abbrev=False,
    )
    _add_folder(parser)
    parser.add_argument("--out", metavar="FOLDER", help="(named as the format, in the project)")
    parser.add_argument(
        "--format",
        default="dataset",
        choices=("dataset", "label-studio"),
        help="dataset, or tasks and a labelling interface for Label Studio (dataset)",
    )
    parser.add_argument(
        "--annotations",
        action="store_true",
        help="with --format label-studio: also the annotations so far, which annotators would see",
    )
    parser.add_argument(
        "--conflicts",
        default="refuse",
        choices=("refuse", "lower", "higher"),
        help="what open ones become; metrics under lower and higher are bounds (refuse)",
    )
    parser.add_argument("--unfinished", action="store_true", help="also export unfinished queries")
    add_output(parser)
    parser.set_defaults(call=call_export)


def _add_import(verbs: Verbs) -> None:
    parser: argparse.ArgumentParser = verbs.add_parser(
        "import",
        help="add the annotations of a JSON export of Label Studio",
        description="Add the annotations of a JSON export of Label Studio to a project.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="what Label Studio exported as JSON")
    _add_folder(parser)
    parser.add_argument("--annotator", metavar="NAME", help="whose they are (by e-mail address)")
    add_output(parser)
    parser.set_defaults(call=call_import)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", default="labels", metavar="FOLDER", help="the project (labels)"
    )


def call_start(options: argparse.Namespace) -> int:
    """Pool, then judge."""
    from harness.files import disk_errors
    from harness.labelling.project import annotator_name
    from harness.labelling.start import StartOptions, start

    annotator_name(check_work(options, pool_only=options.pool_only))
    systems = [system(text, options) for text in options.retriever]
    names = [one.name for one in systems]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"--retriever {twice} is given twice; a system is pooled once")
    load_plugins(options)
    folder = Path(options.out).expanduser()
    if folder.is_file():
        raise UsageError(f"--out {folder}: is a file; name a folder")
    choices = StartOptions(
        options.k, options.seed, options.overlap, relevance_level=options.relevance_level
    )
    with disk_errors(folder, "name another folder with --out"):
        update = start(
            folder,
            Path(options.documents).expanduser(),
            Path(options.queries).expanduser(),
            systems,
            choices,
            quiet=options.quiet,
        )
    for warning in update.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    _print_update(folder, update, options)
    return 0 if options.pool_only else call_open(argparse.Namespace(**vars(options), folder=folder))


def _print_update(folder: Path, update: ProjectUpdate, options: argparse.Namespace) -> None:
    """Prints the size of a project, and what is new in it."""
    from harness.labelling.reports import StartReport

    project, added = update.project, update.added
    if options.json:
        report = StartReport(
            folder=str(folder),
            new=update.new,
            queries=len(project.queries),
            candidates=len(project.pool),
            depth=project.settings.depth,
            systems=project.systems,
            added=added,
        )
        print_json(report)
    if options.json or options.quiet:
        return
    size = (
        f"{len(project.queries)} queries, {len(project.pool)} candidates from the top "
        f"{project.settings.depth} of {', '.join(project.systems)}"
    )
    if update.new:
        print(f"{folder}: {size}", flush=True)
        return
    counts = [
        f"{n} {words}"
        for words in ("documents", "queries", "systems", "candidates")
        if (n := getattr(added, words))
    ]
    print(f"{folder} continues: {size}; added {', '.join(counts) or 'nothing'}", flush=True)
    if added.candidates:
        print("queries with new candidates are open until these are judged", flush=True)


def call_open(options: argparse.Namespace) -> int:
    """Judge."""
    from harness.labelling.session import AnnotationSession

    return work(AnnotationSession(Path(options.folder).expanduser(), check_work(options)), options)


def call_adjudicate(options: argparse.Namespace) -> int:
    """Resolve conflicts."""
    from harness.labelling.adjudication import Adjudication

    return work(Adjudication(Path(options.folder).expanduser(), check_work(options)), options)


def call_status(options: argparse.Namespace) -> int:
    """Say how far it is."""
    from harness.labelling.render import render_status
    from harness.labelling.status import status

    folder = Path(options.folder).expanduser()
    report = status(folder, half_width=options.half_width, metric=options.metric)
    if options.json:
        print_json(report)
    elif not options.quiet:
        print(render_status(report))
    return 0


def call_export(options: argparse.Namespace) -> int:
    """Write the dataset, or the tasks."""
    if options.format == "label-studio":
        return _export_tasks(options)
    if options.annotations:
        raise UsageError("--annotations needs --format label-studio")
    from harness.files import disk_errors
    from harness.labelling.export import export
    from harness.labelling.render import count_lines, split_option
    from harness.labelling.reports import ExportReport

    folder = Path(options.folder).expanduser()
    out = Path(options.out).expanduser() if options.out else folder / "dataset"
    with disk_errors(out.parent, "name another folder with --out"):
        made = export(folder, out, conflicts=options.conflicts, unfinished=options.unfinished)
    counts = made.counts
    if options.json:
        print_json(ExportReport(folder=str(out), counts=counts))
    if options.json or options.quiet:
        return 0
    print(f"{out}: {counts.queries} queries, {counts.judgements} judgements")
    shown = ("unanswerable", "without_relevant", "unfinished", "excluded", "unjudged_proposals")
    for line in count_lines(counts, shown):
        print(f"  {line}")
    option = split_option(made.splits)
    print(f"next: harness run --dataset labelled --source {out} --retriever bm25{option}")
    return 0


def _export_tasks(options: argparse.Namespace) -> int:
    from harness.files import disk_errors
    from harness.labelling.label_studio import export_tasks
    from harness.labelling.reports import TasksReport

    if options.unfinished or options.conflicts != "refuse":
        raise UsageError("--unfinished and --conflicts are of the dataset; leave them out")
    folder = Path(options.folder).expanduser()
    out = Path(options.out).expanduser() if options.out else folder / "label-studio"
    with disk_errors(out.parent, "name another folder with --out"):
        n = export_tasks(folder, out, annotations=options.annotations)
    if options.json:
        print_json(TasksReport(folder=str(out), tasks=n))
    elif not options.quiet:
        print(f"{out}: {n} tasks, config.xml; afterwards: harness label import FILE {folder}")
    return 0


def call_import(options: argparse.Namespace) -> int:
    """Add annotations."""
    from harness.labelling.label_studio import import_tasks
    from harness.labelling.reports import ImportReport

    folder = Path(options.folder).expanduser()
    made = import_tasks(Path(options.file).expanduser(), folder, options.annotator)
    if options.json:
        report = ImportReport(folder=str(folder), added=made.added, cancelled=made.cancelled)
        print_json(report)
    elif not options.quiet:
        counts = ", ".join(f"{n} of {name}" for name, n in made.added.items())
        cancelled = f"; {made.cancelled} cancelled ones left out" if made.cancelled else ""
        print(f"{folder}: new annotations: {counts or 'none'}{cancelled}")
    return 0


def system(text: str, options: argparse.Namespace) -> System:
    """`bm25`, `bm25:k1=0.9,b=0.4`, `mine.py:Mine:boost=2`. Raises UsageError for none of these.

    The name ends at the first colon that a parameter follows; a comma that no parameter follows
    belongs to a value (`hybrid:retrievers=bm25,tfidf,k0=30`).
    """
    from harness.labelling.pool import System

    name, *rest = _PARAMETERS.split(text.strip(), maxsplit=1)
    if not name:
        raise UsageError(f"--retriever {text!r}: names no retriever; NAME or NAME:key=value")
    params = parameters(_NEXT.split(rest[0])) if rest else {}
    spec = retriever_spec(options, name, params)
    return System.create(spec.name, spec.params, spec.plugins)
