"""Label your own dataset: pool, judge, adjudicate, export.

Pool the top k of several systems, judge the candidates in a browser, alone or with others, and
export a dataset for `--dataset labelled`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import (
    Verbs,
    load_plugins,
    number,
    parameters,
    retriever_spec,
)
from harness.cli.output import add_output, print_json, refuse
from harness.cli.serving import check_port, serve_on_free_port, until_ctrl_c
from harness.errors import UsageError
from harness.extensions.labelling.commands import label_generate
from harness.extensions.labelling.commands.label_generate import add_verb

if TYPE_CHECKING:
    from harness.extensions.labelling.project import PooledSystem
    from harness.extensions.labelling.session import JudgingSession
    from harness.extensions.labelling.start import ProjectUpdate

PORT = 8766
_PORTS = 20  # ports to try if none is given
_PARAMETERS = re.compile(r":(?=[A-Za-z_]\w*=)")
_NEXT = re.compile(r",(?=[A-Za-z_]\w*=)")
_REMEDY = "name another folder with --out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    subverbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_start(subverbs)
    _add_judging(subverbs)
    _add_status(subverbs)
    _add_export(subverbs)
    _add_import(subverbs)
    label_generate.add(subverbs)
    _add_answers(subverbs)


def _add_start(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "start",
        call_start,
        "pool the results of systems and judge them",
        "Pool the top k of several systems and judge them in a browser. Repeat the command to "
        "continue; more documents, queries or systems, or a larger k, extend the pool and keep "
        "every judgement.",
    )
    add = parser.add_argument
    add("documents", metavar="DOCS", help="documents.jsonl or .csv, or a folder of .txt and .md")
    add("queries", metavar="QUERIES", help=".jsonl, .csv or .tsv, or .txt with one query a line")
    add(
        "--retriever",
        action="append",
        default=[],
        metavar="NAME[:KEY=VALUE,...]",
        help="system to pool: bm25, bm25:k1=0.9,b=0.4, mine.py:Mine; repeatable",
    )
    add(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE.py",
        help="file that registers retrievers",
    )
    add("--k", type=int, metavar="K", help="documents to pool per system (default: 10)")
    add("--out", default="labels", metavar="FOLDER", help="the project (default: labels)")
    add("--seed", type=int, help="seed of every order and of retrievers (default: 0)")
    add(
        "--overlap",
        type=number,
        metavar="SHARE",
        help="share of queries that every annotator judges (default: 1); others are judged once",
    )
    add(
        "--relevance-level",
        type=int,
        metavar="GRADE",
        help="lowest grade that counts as evidence: 1 (related), 2 (partial answer, default) or 3",
    )
    _add_page(parser, "first")
    add("--pool-only", action="store_true", help="create the pool and exit")


def _add_judging(verbs: Verbs) -> None:
    open_ = add_verb(
        verbs,
        "open",
        call_open,
        "continue judging, also as another annotator",
        "Judge the candidates of a project. Each annotator has a separate order and does not see "
        "the judgements of others.",
    )
    adjudicate = add_verb(
        verbs,
        "adjudicate",
        call_adjudicate,
        "resolve conflicts between annotators",
        "Resolve conflicts, with the judgements of all annotators side by side.",
    )
    for parser, annotator in ((open_, "first"), (adjudicate, "adjudicator")):
        _add_folder(parser)
        _add_page(parser, annotator)


def _add_status(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "status",
        call_status,
        "print progress, agreement and scores so far",
        "Print the progress of annotators, their agreement, scores of the pooled systems so far, "
        "the judged share of their top k, and the number of queries for a wanted half-width.",
    )
    _add_folder(parser)
    parser.add_argument(
        "--half-width",
        type=number,
        default=0.05,
        metavar="WIDTH",
        help="wanted half-width of the 95%% interval (default: 0.05)",
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="metric (default: ndcg@10, or at the depth of the pool)"
    )
    add_output(parser)


def _add_export(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "export",
        call_export,
        "write a dataset for `--dataset labelled`, or tasks for Label Studio",
        "Write the judgements as a dataset, with a README on how they were made; or write the "
        "candidates as tasks for Label Studio.",
    )
    _add_folder(parser)
    add = parser.add_argument
    add(
        "--out",
        metavar="FOLDER",
        help="folder to write (default: the name of the format, in the project)",
    )
    add(
        "--format",
        default="dataset",
        choices=("dataset", "label-studio"),
        help="a dataset (default), or tasks and a labelling interface for Label Studio",
    )
    add(
        "--conflicts",
        default="refuse",
        choices=("refuse", "lower", "higher"),
        help="grade of unresolved conflicts: refuse to export (default), the lower, the higher",
    )
    add(
        "--unfinished",
        action="store_true",
        help="also export unfinished queries; those without judgements are marked unreviewed",
    )
    add_output(parser)


def _add_import(verbs: Verbs) -> None:
    about = "add the annotations of a JSON export of Label Studio"
    parser = add_verb(verbs, "import", call_import, about, f"A{about[1:]} to a project.")
    parser.add_argument("file", metavar="FILE", help="JSON export of Label Studio")
    _add_folder(parser)
    parser.add_argument(
        "--annotator",
        metavar="NAME",
        help="annotator of all annotations (default: their e-mail addresses)",
    )
    add_output(parser)


def _add_answers(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "answers",
        call_answers,
        "judge a sample of answers by hand, to validate a model judge",
        "Draw a random sample of questions, the same for every folder, and judge each answer as "
        "right or wrong, without seeing which system it is from. Repeat the command to continue; a "
        "larger sample keeps every judgement. `harness judge ANSWERS --human-labels FOLDER` reads "
        "the judgements.",
    )
    add = parser.add_argument
    add("answers", metavar="ANSWERS", nargs="+", help="folders of answers, or one with several")
    add("--out", default="labels-of-answers", metavar="FOLDER", help="(labels-of-answers)")
    add("--sample", type=int, metavar="N", help="questions (100)")
    add("--seed", type=int, help="of the sample and of every order (0)")
    add("--source", metavar="PATH", help="the raw files of the dataset")
    _add_page(parser, "first")
    add("--pool-only", action="store_true", help="draw the sample and exit")


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        default="labels",
        metavar="FOLDER",
        help="the project (default: labels)",
    )


def _add_page(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of the page; `name` is the default annotator."""
    parser.add_argument("--annotator", metavar="NAME", help=f"your name (default: {name})")
    parser.add_argument(
        "--port", type=int, help=f"port of the page (default: {PORT}, or the next free one)"
    )
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    add_output(parser)
    parser.set_defaults(who=name, pool_only=False)


# -- Judging ---------------------------------------------------------------------------------------


def call_start(options: argparse.Namespace) -> int:
    """Pools, then judges."""
    from harness.extensions.labelling.start import StartOptions, start
    from harness.io.files import disk_errors

    _annotator(options)
    systems = [system(text, options) for text in options.retriever]
    names = [one.name for one in systems]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"--retriever {twice} is given twice; remove one")
    load_plugins(options)
    folder = Path(options.out).expanduser()
    choices = StartOptions(options.k, options.seed, options.overlap, options.relevance_level)
    documents, queries = (Path(path).expanduser() for path in (options.documents, options.queries))
    with disk_errors(folder, _REMEDY):
        update = start(folder, documents, queries, systems, choices, quiet=options.quiet)
    for warning in update.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    _print_update(folder, update, options)
    return 0 if options.pool_only else call_open(argparse.Namespace(**vars(options), folder=folder))


def _print_update(folder: Path, update: ProjectUpdate, options: argparse.Namespace) -> None:
    """Prints the size of a project, and what is new in it."""
    from harness.extensions.labelling.reports import StartReport

    project, added, depth = update.project, update.added, update.project.settings.depth
    if options.json:
        report = StartReport(
            folder=str(folder),
            new=update.new,
            queries=len(project.queries),
            candidates=len(project.pool),
            depth=depth,
            systems=project.systems,
            added=added,
        )
        print_json(report)
    if options.json or options.quiet:
        return
    size = (
        f"{len(project.queries)} queries, {len(project.pool)} candidates from the top {depth} of "
        f"{', '.join(project.systems)}"
    )
    if update.new:
        print(f"{folder}: {size}", flush=True)
        return
    names = ("documents", "queries", "systems", "candidates")
    counts = [f"{n} {name}" for name in names if (n := getattr(added, name))]
    print(f"{folder} continues: {size}; added {', '.join(counts) or 'nothing'}", flush=True)
    if added.candidates:
        print("queries with new candidates are unfinished until these are judged", flush=True)


def call_open(options: argparse.Namespace) -> int:
    """Judge."""
    from harness.extensions.labelling.session import AnnotationSession

    return _serve(AnnotationSession, options)


def call_adjudicate(options: argparse.Namespace) -> int:
    """Resolve conflicts."""
    from harness.extensions.labelling.adjudication import Adjudication

    return _serve(Adjudication, options)


def call_answers(options: argparse.Namespace) -> int:
    """Draws the sample, then judges."""
    from harness.extensions.labelling.answer_tasks import start_with_answers
    from harness.extensions.labelling.reports import AnswersReport
    from harness.extensions.labelling.start import exclusive
    from harness.io.files import disk_errors
    from harness.runs.folder.answers_folder import answers_folders, dataset_of_all

    _annotator(options)
    if options.seed is not None and options.seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {options.seed}")
    folders = answers_folders(options.answers)
    dataset = dataset_of_all(folders, options.source)
    folder = Path(options.out).expanduser()
    with disk_errors(folder, _REMEDY), exclusive(folder):
        project, new = start_with_answers(folder, folders, dataset, options.sample, options.seed)
    queries, candidates = len(project.queries), len(project.pool)
    if options.json:
        report = AnswersReport(
            folder=str(folder), queries=queries, candidates=candidates, added=new
        )
        print_json(report)
    elif not options.quiet:
        about = f"{queries} questions, {candidates} answers to judge"
        print(f"{folder}: {about}; it contains texts of the dataset", flush=True)
    return 0 if options.pool_only else call_open(argparse.Namespace(**vars(options), folder=folder))


def _annotator(options: argparse.Namespace) -> str:
    """Returns the annotator's name. Raises UsageError for an invalid name or port, and for an
    option that has no effect with `--pool-only`."""
    from harness.extensions.labelling.project import annotator_name

    if options.pool_only:
        refuse(options, "with --pool-only, which serves no page", "port", "no_open", "annotator")
    check_port(options.port)
    return annotator_name(options.who if options.annotator is None else options.annotator)


def _serve(kind: Callable[[Path, str], JudgingSession], options: argparse.Namespace) -> int:
    """Serves the page of a kind of session until it is stopped."""
    from harness.extensions.labelling.page import server
    from harness.extensions.labelling.reports import PageAddress

    who = _annotator(options)
    session = kind(Path(options.folder).expanduser(), who)
    ports = range(PORT, PORT + _PORTS) if options.port is None else [options.port]
    with until_ctrl_c(options), serve_on_free_port(partial(server, session), *ports) as serving:
        address = f"http://127.0.0.1:{serving.server_port}/"
        if options.json:
            print_json(PageAddress(address=address, annotator=who))
        elif not options.quiet:
            print(f"{address} (annotator {who}; Ctrl-C ends it)", flush=True)
        if not options.no_open and _has_display():
            import webbrowser

            webbrowser.open(address)
        serving.serve_forever()
    return 0


def _has_display() -> bool:
    """Returns whether a browser window can open; a text browser would occupy the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def system(text: str, options: argparse.Namespace) -> PooledSystem:
    """Parses `bm25`, `bm25:k1=0.9,b=0.4`, `mine.py:Mine:boost=2`. Raises UsageError otherwise.

    The name ends at the first colon before a parameter; a comma that is not before a parameter
    belongs to a value (`hybrid:retrievers=bm25,tfidf,k0=30`).
    """
    from harness.extensions.labelling.pool import pooled_system

    name, *rest = _PARAMETERS.split(text.strip(), maxsplit=1)
    if not name:
        raise UsageError(f"--retriever {text!r}: has no name; write NAME or NAME:key=value")
    params = parameters(_NEXT.split(rest[0])) if rest else {}
    spec = retriever_spec(options, name, params)
    return pooled_system(spec.name, spec.params, spec.plugins)


# -- Status, export and import ---------------------------------------------------------------------


def call_status(options: argparse.Namespace) -> int:
    """Print the status."""
    from harness.extensions.labelling.render import render_status
    from harness.extensions.labelling.status import status

    folder = Path(options.folder).expanduser()
    report = status(folder, half_width=options.half_width, metric=options.metric)
    if options.json:
        print_json(report)
    elif not options.quiet:
        print(render_status(report))
    return 0


def call_export(options: argparse.Namespace) -> int:
    """Write the dataset, or the tasks."""
    from harness.extensions.labelling.export import export
    from harness.extensions.labelling.render import count_lines, split_option
    from harness.extensions.labelling.reports import ExportReport
    from harness.io.files import disk_errors

    folder = Path(options.folder).expanduser()
    out = Path(options.out).expanduser() if options.out else folder / options.format
    if options.format == "label-studio":
        return _export_tasks(folder, out, options)
    with disk_errors(out.parent, _REMEDY):
        made = export(folder, out, conflicts=options.conflicts, unfinished=options.unfinished)
    counts = made.counts
    if options.json:
        print_json(ExportReport(folder=str(out), counts=counts))
    if options.json or options.quiet:
        return 0
    print(f"{out}: {counts.queries} queries, {counts.judgements} judgements")
    names = "unreviewed", "unanswerable", "without_relevant", "unfinished", "excluded", "rejected"
    for line in count_lines(counts, names):
        print(f"  {line}")
    run = f"harness run --dataset labelled --source {out} --retriever bm25"
    run += split_option(made.splits)
    if counts.unfinished or counts.excluded:
        run = f"harness label open {folder} to finish judging, or {run}"
    print(f"next: {run}")
    return 0


def _export_tasks(folder: Path, out: Path, options: argparse.Namespace) -> int:
    from harness.extensions.labelling.label_studio import export_tasks
    from harness.extensions.labelling.reports import TasksReport
    from harness.io.files import disk_errors

    if options.unfinished or options.conflicts != "refuse":
        raise UsageError("--unfinished and --conflicts need --format dataset; remove them")
    with disk_errors(out.parent, _REMEDY):
        n = export_tasks(folder, out)
    if options.json:
        print_json(TasksReport(folder=str(out), tasks=n))
    elif not options.quiet:
        print(f"{out}: {n} tasks, config.xml; next: harness label import FILE {folder}")
    return 0


def call_import(options: argparse.Namespace) -> int:
    """Add annotations."""
    from harness.extensions.labelling.label_studio import import_tasks

    folder = Path(options.folder).expanduser()
    made = import_tasks(Path(options.file).expanduser(), folder, options.annotator)
    if options.json:
        print_json(made)
    elif not options.quiet:
        counts = ", ".join(f"{n} of {name}" for name, n in made.added.items())
        cancelled = f"; {made.cancelled} cancelled ones excluded" if made.cancelled else ""
        print(f"{folder}: new annotations: {counts or 'none'}{cancelled}")
    return 0
