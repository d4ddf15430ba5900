"""harness label generate, harness label check: a labelled set from documents, and its leaks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from harness.cli.options import Verbs
from harness.cli.output import add_output, print_json, refuse
from harness.errors import UsageError
from harness.extensions.answers.commands.answer import add_model_options, request_options


def add(verbs: Verbs) -> None:
    """Register both commands below `harness label`."""
    _add_generate(verbs)
    _add_check(verbs)


def add_verb(
    verbs: Verbs, name: str, call: Callable[[argparse.Namespace], int], about: str, more: str
) -> argparse.ArgumentParser:
    """Adds a command below `harness label`; `about` is its line of help, `more` its own help."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=about, description=more, allow_abbrev=False
    )
    parser.set_defaults(call=call)
    return parser


def _add_generate(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "generate",
        call_generate,
        "generate queries from documents, with templates or a language model",
        "Generate queries from documents, for review by people. Propose near-duplicates and other "
        "matching documents for judging, assign splits, and check for leaks. Exit status 1 for a "
        "leak.",
    )
    parser.add_argument(
        "documents",
        metavar="DOCS",
        help="folder of .md and .txt files (one document each), or documents.jsonl or .csv",
    )
    parser.add_argument(
        "--out", metavar="FOLDER", required=True, help="the labelling project to write"
    )
    parser.add_argument(
        "--template",
        action="append",
        default=[],
        metavar="TEXT",
        help='template of a query (default: "What do we know about {title}?"); also {speaker}, '
        "{session} and fields of the front matter; repeatable",
    )
    add_model_options(parser)
    parser.add_argument(
        "--queries",
        type=int,
        default=200,
        metavar="N",
        help="total number of queries, with earlier ones (default: 200)",
    )
    parser.add_argument(
        "--per-document",
        type=int,
        default=1,
        metavar="N",
        help="maximum number of queries per document (default: 1)",
    )
    parser.add_argument(
        "--split",
        default="",
        metavar="NAME=SHARE,...",
        help="splits, such as test=0.5,dev=0.2,train=0.3",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of all random choices (default: 0)"
    )
    _add_against(parser)
    add_output(parser)


def _add_check(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "check",
        call_check,
        "check a labelled set for leaks: quotes, splits, public benchmarks",
        "Check a labelling project or a labelled set for leaks. Exit status 1 for a leak.",
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        help="a labelling project, or a folder for --dataset labelled --source",
    )
    _add_against(parser)
    add_output(parser)


def _add_against(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="NAME",
        help="public dataset to search for the same texts, NAME=SOURCE to read local raw files; "
        "repeatable",
    )


def call_generate(options: argparse.Namespace) -> int:
    """Generates queries, and prints counts and leakage checks; status 1 for a leak."""
    from harness.datasets.registry import home
    from harness.extensions.labelling import render
    from harness.extensions.labelling.generate.generate import GenerateOptions, generate
    from harness.extensions.labelling.generate.templates import DEFAULT as TEMPLATE
    from harness.extensions.labelling.generate.templates import QueryTemplate
    from harness.extensions.labelling.generate.write_project import DEFAULT_SPLITS, parse_splits

    for name in ("queries", "per_document"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be 1 or more")
    if not options.model:
        asking = ("endpoint", "concurrency", "retries", "timeout", "max_usd", "prices")
        refuse(options, "without --model", *asking)
    elif options.template:
        raise UsageError("use either --template or --model, not both")
    client = None
    if options.model:
        from harness.extensions.answers.answering.client import ModelClient

        client = ModelClient(request_options(options), home(), "harness label generate")
    choices = GenerateOptions(
        [QueryTemplate.parse(text) for text in dict.fromkeys(options.template or [TEMPLATE])],
        parse_splits(options.split or DEFAULT_SPLITS),
        number=options.queries,
        each=options.per_document,
        seed=options.seed,
        client=client,
        against=options.against,
    )
    path, folder = Path(options.documents).expanduser(), Path(options.out).expanduser()
    try:
        found = generate(path, folder, choices, quiet=options.quiet)
    finally:
        if client is not None:
            client.close()
    if options.json:
        print_json(found)
    elif not options.quiet:
        print(f"{render.render_generated(found)}\n\n{render.render_checks(found.leakage)}")
        print(f"next: harness label open {found.folder}")
    return 1 if found.leakage.leaks else 0


def call_check(options: argparse.Namespace) -> int:
    """Checks for leaks, and prints them; status 1 for a leak."""
    from harness.extensions.labelling import render
    from harness.extensions.labelling.generate.leakage import check_folder
    from harness.extensions.labelling.reports import LeakageOutput

    folder = Path(options.folder).expanduser()
    found = check_folder(folder, options.against, quiet=options.quiet)
    if options.json:
        print_json(LeakageOutput(**structs.asdict(found)))
    elif not options.quiet:
        print(render.render_checks(found))
    return 1 if found.leaks else 0
