"""harness answer: a reader model answers every question from what a run returned."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import Verbs, add_results, number, run_folder
from harness.cli.output import add_output, print_json, refuse
from harness.errors import UsageError, near

if TYPE_CHECKING:
    from harness.runs.answering.asking import Way

_CONTROLS = ("none", "newest", "random", "evidence")
_OF_A_READER = (
    *("model", "endpoint", "reader", "reader_source", "k", "budget", "window", "controls"),
    *("no_controls", "repeat", "seed", "temperature", "concurrency", "retries", "timeout"),
    *("max_usd", "prices", "dry_run"),
)
_OF_A_FILE = ("dataset", "granularity", "name", "repeats", "strict")


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "answer",
        help="let a reader model answer from what a run returned, beside controls",
        description=(
            "Shows a model what a run returned for each question, and keeps its answers. Beside "
            "the run the same is asked with nothing, the newest, a random selection, and the "
            "evidence alone. Or takes in the answers that a system gave itself, from a file."
        ),
        epilog="What was answered once is kept and never paid again: the same command goes on.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "run", metavar="RUN", help="a run, or a file of answers (LongMemEval's, LoCoMo's, mem0's)"
    )
    parser.add_argument(
        "--reader",
        metavar="NAME",
        help="plain (default), longmemeval-official, locomo-official, or a template FILE.toml",
    )
    parser.add_argument(
        "--reader-source", metavar="PATH", help="a clone of the official reader's repository"
    )
    parser.add_argument("--k", type=int, metavar="N", help="show the first N (all that came)")
    parser.add_argument(
        "--budget", type=int, metavar="TOKENS", help="show what fits, the same for every system"
    )
    parser.add_argument(
        "--window", type=int, metavar="TOKENS", help="of the control `newest` (--budget, or 8000)"
    )
    parser.add_argument(
        "--controls", metavar="NAME,...", help="none, newest, random, evidence (all of them)"
    )
    parser.add_argument("--no-controls", action="store_true", help="ask about the run alone")
    parser.add_argument("--repeat", type=int, metavar="N", help="ask each question N times (1)")
    parser.add_argument("--seed", type=int, metavar="N", help="of random choices (0)")
    parser.add_argument("--temperature", type=number, metavar="T", help="(the reader's own)")
    add_asking(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be asked and what it may cost"
    )
    parser.add_argument("--source", metavar="PATH", help="the raw files of the dataset")
    file = parser.add_argument_group("of a file of answers")
    file.add_argument("--dataset", metavar="NAME", help="what it is over; see `harness datasets`")
    file.add_argument("--granularity", metavar="G", help="what a document is (the first there is)")
    file.add_argument("--name", metavar="SYSTEM", help="what to call the system (the file)")
    file.add_argument("--repeats", choices=("latest", "first", "refuse"), help="of doubled answers")
    file.add_argument("--strict", action="store_true", help="refuse whatever is odd")
    add_results(parser)
    parser.add_argument("--out", metavar="FOLDER", help="where answers are kept (beside the runs)")
    add_output(parser)
    parser.set_defaults(call=call)


def add_asking(parser: argparse.ArgumentParser) -> None:
    """Which model is asked, and how."""
    parser.add_argument("--model", metavar="NAME", help="the model, as the endpoint calls it")
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="an OpenAI-compatible base address (OPENAI_BASE_URL, else OpenAI's); the key is "
        "OPENAI_API_KEY of the environment",
    )
    parser.add_argument("--concurrency", type=int, metavar="N", help="calls at once (4)")
    parser.add_argument("--retries", type=int, metavar="N", help="of a call that failed (5)")
    parser.add_argument("--timeout", metavar="TIME", help="of one call (120)")
    parser.add_argument(
        "--max-usd", type=number, metavar="USD", help="stop before more than this can be spent"
    )
    parser.add_argument(
        "--prices", metavar="FILE.toml", help="US dollars a million tokens, by model"
    )


def way_of(options: argparse.Namespace) -> Way:
    """How the endpoint is asked. Raises UsageError without a model."""
    from harness.cli.one_run import prices
    from harness.cli.timed import seconds
    from harness.runs.answering.asking import Way

    if not options.model:
        raise UsageError("--model is missing: the model as the endpoint calls it")
    return Way(
        options.model,
        options.endpoint or "",
        4 if options.concurrency is None else options.concurrency,
        5 if options.retries is None else options.retries,
        120.0 if options.timeout is None else seconds(options.timeout),
        options.max_usd,
        prices(options.prices),
    )


def call(options: argparse.Namespace) -> int:
    """Ask, or take in; score; print."""
    path = Path(options.run)
    if path.is_file():
        refuse(options, "for a file of answers", *_OF_A_READER)
        return _given(options, path)
    refuse(options, "for a run, which says it itself", *_OF_A_FILE)
    from harness.runs.answering.answer import answer
    from harness.runs.answering.readers import reader
    from harness.runs.folder.run_folder import dataset_of_run

    run = run_folder(options, options.run)
    dataset = dataset_of_run(run, source=options.source)
    if not options.model:
        return _own(options, run, dataset)
    way = way_of(options)
    source = Path(options.reader_source) if options.reader_source else None
    by = reader(options.reader or "plain", dataset, way.model, source)
    plan = _plan(options, dataset)
    if options.dry_run:
        return _dry(options, run, dataset, by, way, plan)
    out = Path(options.out) if options.out else run.parent
    folders = answer(run, dataset, by, way, plan, out)
    return scored(options, "answer", folders, dataset)


def _own(options: argparse.Namespace, run: Path, dataset: Any) -> int:
    """The answers that the system of the run gave itself."""
    from harness.runs.answering.given import take_own

    refuse(options, "without --model, for the answers that a system gave itself", *_OF_A_READER)
    out = Path(options.out) if options.out else run.parent
    return scored(options, "answer", [take_own(run, dataset, out)], dataset)


def _plan(options: argparse.Namespace, dataset: Any) -> Any:
    from harness.runs.answering.answer import Plan
    from harness.runs.answering.shown import Limits

    if options.no_controls and options.controls:
        raise UsageError("--controls and --no-controls exclude each other; name one")
    wanted = [one for one in (options.controls or "").split(",") if one]
    for one in wanted:
        if one not in _CONTROLS:
            raise UsageError(f"unknown control {one!r}{near(one, [*_CONTROLS])}")
    if not wanted and not options.no_controls:
        dated = dataset.documents.lack("timestamp") < len(dataset.documents)
        wanted = [one for one in _CONTROLS if dated or one != "newest"]
    limits = Limits(options.k, options.budget, options.window)
    return Plan(
        limits,
        tuple(dict.fromkeys(wanted)),
        1 if options.repeat is None else options.repeat,
        options.seed or 0,
        options.temperature,
    )


def _dry(options: argparse.Namespace, run: Path, dataset: Any, by: Any, way: Any, plan: Any) -> int:
    """What would be asked, and what it can cost at the most."""
    from harness.dataset.prepare import home
    from harness.runs.answering.answer import arms
    from harness.runs.answering.asking import Asker
    from harness.scoring.grid import grid

    asker = Asker(way, home())
    try:
        rows = []
        for arm in arms(run, dataset, by, way, plan):
            different, new, most = asker.plan(arm.calls)
            shown = sum(context.tokens for context in arm.contexts) / max(1, len(arm.contexts))
            rows.append([arm.name, different, new, shown, most if asker.priced else None])
    finally:
        asker.close()
    if options.json:
        names = ("arm", "calls", "to_pay", "tokens_shown", "usd_at_most")
        print_json("answer-plan", {"arms": [dict(zip(names, row, strict=True)) for row in rows]})
    elif not options.quiet:
        cells = [
            [name, calls, new, f"{shown:,.0f}", "-" if most is None else f"{most:.4f}"]
            for name, calls, new, shown, most in rows
        ]
        print(grid(cells, ["", "calls", "to be paid", "tokens shown", "USD at most"]))
    return 0


def _given(options: argparse.Namespace, path: Path) -> int:
    from harness.dataset.prepare import open_dataset
    from harness.runs.answering.given import take_given

    if not options.dataset:
        raise UsageError(f"{path}: say what it is over with --dataset; see `harness datasets`")
    dataset = open_dataset(
        options.dataset,
        granularity=options.granularity or "",
        source=options.source,
        quiet=options.quiet,
    )
    folder = take_given(
        path,
        dataset,
        out=Path(options.out or options.results),
        name=options.name or path.name.partition(".")[0],
        repeats=options.repeats or "latest",
        strict=options.strict,
    )
    return scored(options, "answer", [folder], dataset)


def scored(options: argparse.Namespace, kind: str, folders: Sequence[Path], dataset: Any) -> int:
    """Score the folders, and print their tables or their JSON."""
    from harness.runs.answering.folder import AnswersFolder
    from harness.runs.answering.judging import score_folder

    for folder in folders:
        score_folder(AnswersFolder(folder), dataset)
    return shown(options, kind, folders)


def shown(options: argparse.Namespace, kind: str, folders: Sequence[Path]) -> int:
    """Print the tables of scored folders of answers, or their JSON."""
    from harness.verdicts.answered.tables import (
        Answered,
        by_ability,
        judged,
        losses,
        overview,
        repeated,
    )

    answered = Answered.read(folders)
    if options.json:
        found = [
            {"folder": str(one.folder), "answers": dict(one.record), "scores": one.scores}
            for one in answered
        ]
        print_json(kind, {"answered": found})
        return 0
    if options.quiet:
        return 0
    parts = [_head(answered[0]), overview(answered), by_ability(answered), losses(answered)]
    parts += [judged(answered), repeated(answered)]
    print("\n\n".join(part for part in parts if part))
    failed = sum(one.record["queries"]["failed"] for one in answered)
    if failed:
        print(f"\n{failed} answers did not come, and are left out of every mean")
    print(f"\nin {', '.join(str(one.folder) for one in answered[:1])}", end="")
    print(f" and {len(answered) - 1} beside it" if len(answered) > 1 else "")
    return 0


def _head(one: Any) -> str:
    of = one.record["dataset"]
    settings = one.record["settings"]
    who = f"{settings['reader']} asked {settings['model']}"
    if one.record.get("given"):
        who = f"answers of {one.record['given']['file']}"
    elif settings["arm"] == "own":
        who = "the system's own answers"
    return f"{of['name']}, {of['granularity']}, {of['split']}: {who}"
