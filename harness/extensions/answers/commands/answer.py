"""Let a reader model answer from what a run returned, and from baselines.

Asks a model every question with the results of a run as context, and with four baselines: no
context, the newest documents, random documents, and the evidence only. Or imports the answers that
a system gave itself, from a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import add_results, number, prices, run_folder
from harness.cli.output import add_output, print_json, refuse
from harness.errors import UsageError, suggest

if TYPE_CHECKING:
    from harness.datasets.reader import Dataset
    from harness.extensions.answers.answering.answer import AnswerJob, AnswerPlan
    from harness.extensions.answers.answering.client import RequestOptions
    from harness.records.answers import AnswersRecord, Baseline

_BASELINES: tuple[Baseline, ...] = ("none", "newest", "random", "evidence")
_READER_OPTIONS = (
    *("model", "endpoint", "reader", "reader_source", "k", "budget", "window", "baselines"),
    *("no_baselines", "repeat", "seed", "temperature", "concurrency", "retries", "timeout"),
    *("max_usd", "prices", "dry_run"),
)
_FILE_OPTIONS = ("dataset", "granularity", "name", "repeats", "strict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.epilog = "Replies are cached; run the same command to resume."
    parser.add_argument(
        "run", metavar="RUN", help="a run, or a file of answers (LongMemEval's, LoCoMo's, mem0's)"
    )
    parser.add_argument(
        "--reader",
        metavar="NAME",
        help="plain (default), longmemeval-official, locomo-official, or a template FILE.toml",
    )
    parser.add_argument(
        "--reader-source", metavar="PATH", help="clone of the official reader's repository"
    )
    parser.add_argument(
        "--k", type=int, metavar="N", help="number of results in the context (default: all)"
    )
    parser.add_argument("--budget", type=int, metavar="TOKENS", help="maximum tokens of context")
    parser.add_argument(
        "--window",
        type=int,
        metavar="TOKENS",
        help="tokens of the baseline `newest` (default: --budget, else 8000)",
    )
    parser.add_argument(
        "--baselines",
        metavar="NAME,...",
        help="baselines: none, newest, random, evidence (default: all)",
    )
    parser.add_argument("--no-baselines", action="store_true", help="use no baseline")
    parser.add_argument(
        "--repeat", type=int, metavar="N", help="ask each question N times (default: 1)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of random choices (default: 0)")
    parser.add_argument(
        "--temperature",
        type=number,
        metavar="T",
        help="sampling temperature (default: the reader's)",
    )
    add_model_options(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="print the number of calls and the highest cost"
    )
    parser.add_argument("--source", metavar="PATH", help="raw files of the dataset")
    file = parser.add_argument_group("importing a file of answers")
    file.add_argument(
        "--dataset", metavar="NAME", help="dataset of the answers; see `harness datasets`"
    )
    file.add_argument(
        "--granularity", metavar="G", help="what a document is (default: the first granularity)"
    )
    file.add_argument("--name", metavar="SYSTEM", help="name of the system (default: the file's)")
    file.add_argument(
        "--repeats",
        choices=("latest", "first", "refuse"),
        help="which of several answers to one question to use",
    )
    file.add_argument("--strict", action="store_true", help="fail on every anomaly")
    add_results(parser)
    parser.add_argument(
        "--out", metavar="FOLDER", help="folder for the answers (default: next to the runs)"
    )
    add_output(parser)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a model's endpoint."""
    parser.add_argument("--model", metavar="NAME", help="name of the model at the endpoint")
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="base URL of an OpenAI-compatible API (default: OPENAI_BASE_URL, else OpenAI's); the "
        "key is read from OPENAI_API_KEY",
    )
    parser.add_argument(
        "--concurrency", type=int, metavar="N", help="concurrent calls (default: 4)"
    )
    parser.add_argument(
        "--retries", type=int, metavar="N", help="retries of a failed call (default: 5)"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", help="time limit of a call in seconds (default: 120)"
    )
    parser.add_argument(
        "--max-usd",
        type=number,
        metavar="USD",
        help="stop before the cost can exceed this many US dollars",
    )
    parser.add_argument(
        "--prices",
        metavar="FILE.toml",
        help="file of prices in US dollars per million tokens, by model",
    )


def request_options(options: argparse.Namespace) -> RequestOptions:
    """Reads the options of a model's endpoint. Raises UsageError without a model."""
    from harness.cli.timeout import seconds
    from harness.extensions.answers.answering.client import RequestOptions

    if not options.model:
        raise UsageError("--model is missing: the name of the model at the endpoint")
    return RequestOptions(
        options.model,
        options.endpoint or "",
        4 if options.concurrency is None else options.concurrency,
        5 if options.retries is None else options.retries,
        120.0 if options.timeout is None else seconds(options.timeout),
        options.max_usd,
        prices(options.prices),
    )


def main(options: argparse.Namespace) -> int:
    """Asks or imports, scores and prints."""
    path = Path(options.run)
    if path.is_file():
        refuse(options, "for a file of answers", *_READER_OPTIONS)
        return _import(options, path)
    refuse(options, "for a run, which says it itself", *_FILE_OPTIONS)
    from harness.extensions.answers.answering.answer import AnswerJob, answer
    from harness.extensions.answers.answering.readers import make_reader
    from harness.runs.folder.run_dataset import dataset_of_run

    run = run_folder(options, options.run)
    dataset = dataset_of_run(run, source=options.source)
    out = Path(options.out) if options.out else run.parent
    if not options.model:
        return _import_own(options, run, dataset, out)
    request = request_options(options)
    source = Path(options.reader_source) if options.reader_source else None
    reader = make_reader(options.reader or "plain", dataset, request.model, source)
    job = AnswerJob(run, dataset, reader, request, _plan(options, dataset))
    if options.dry_run:
        return _print_estimate(options, job)
    return score_and_print(options, "answer", answer(job, out), dataset)


def _import_own(options: argparse.Namespace, run: Path, dataset: Dataset, out: Path) -> int:
    """Imports the answers that the system of the run gave itself."""
    from harness.extensions.answers.answering.import_answers import import_own_answers

    refuse(options, "without --model NAME (the system's own answers are used)", *_READER_OPTIONS)
    folder = import_own_answers(run, dataset, out)
    return score_and_print(options, "answer", [folder], dataset)


def _plan(options: argparse.Namespace, dataset: Dataset) -> AnswerPlan:
    from harness.extensions.answers.answering.answer import AnswerPlan
    from harness.extensions.answers.answering.context import ContextLimits

    if options.no_baselines and options.baselines:
        raise UsageError("--baselines and --no-baselines exclude each other; name one")
    names = [name for name in (options.baselines or "").split(",") if name]
    for name in names:
        if name not in _BASELINES:
            raise UsageError(f"unknown baseline {name!r}{suggest(name, [*_BASELINES])}")
    baselines = sorted({*_BASELINES} & {*names}, key=names.index)
    if not names and not options.no_baselines:
        dated = dataset.documents.lack("timestamp") < len(dataset.documents)
        baselines = [name for name in _BASELINES if dated or name != "newest"]
    return AnswerPlan(
        ContextLimits(options.k, options.budget, options.window),
        tuple(baselines),
        1 if options.repeat is None else options.repeat,
        options.seed or 0,
        options.temperature,
    )


def _print_estimate(options: argparse.Namespace, job: AnswerJob) -> int:
    """Prints the number of calls and an upper bound of their cost, without making them."""
    from harness.datasets.registry import home
    from harness.extensions.answers.answering.answer import mean_tokens
    from harness.extensions.answers.answering.client import ModelClient
    from harness.io.terminal import grid
    from harness.records.answers import ConditionEstimate

    client = ModelClient(job.options, home())
    estimates = []
    try:
        for asked in job.conditions():
            estimate = client.estimate(asked.calls)
            estimates.append(
                ConditionEstimate(
                    condition=asked.condition,
                    calls=estimate.calls,
                    new_calls=estimate.new_calls,
                    mean_context_tokens=mean_tokens(asked.contexts),
                    max_usd=estimate.max_usd,
                )
            )
    finally:
        client.close()
    if options.json:
        from harness.extensions.answers.command_output import AnswerPlanOutput

        print_json(AnswerPlanOutput(conditions=estimates))
    elif not options.quiet:
        rows = [
            [
                one.condition,
                one.calls,
                one.new_calls,
                f"{one.mean_context_tokens:,.0f}",
                "-" if one.max_usd is None else f"{one.max_usd:.4f}",
            ]
            for one in estimates
        ]
        print(grid(rows, ["", "calls", "new calls", "context tokens", "USD at most"]))
    return 0


def _import(options: argparse.Namespace, path: Path) -> int:
    """Imports a file of answers."""
    from harness.datasets.registry import open_dataset
    from harness.extensions.answers.answering.import_answers import import_answers

    if not options.dataset:
        raise UsageError(f"{path}: name its dataset with --dataset; see `harness datasets`")
    dataset = open_dataset(
        options.dataset,
        granularity=options.granularity or "",
        source=options.source,
        quiet=options.quiet,
    )
    folder = import_answers(
        path,
        dataset,
        out=Path(options.out or options.results),
        name=options.name or path.name.partition(".")[0],
        repeats=options.repeats or "latest",
        strict=options.strict,
    )
    return score_and_print(options, "answer", [folder], dataset)


def score_and_print(
    options: argparse.Namespace, command: str, folders: Sequence[Path], dataset: Dataset
) -> int:
    """Scores the folders, and prints their tables or their JSON."""
    from harness.extensions.answers.answering.judging import score_folder
    from harness.runs.folder.answers_folder import AnswersFolder

    for folder in folders:
        score_folder(AnswersFolder(folder), dataset)
    return print_answers(options, command, folders)


def print_answers(options: argparse.Namespace, command: str, folders: Sequence[Path]) -> int:
    """Prints the tables of scored folders of answers, or their JSON."""
    from collections import Counter

    from harness.extensions.answers.tables import (
        AnsweredTables,
        by_ability,
        error_attribution,
        interval_note,
        judged,
        overview,
        repeated,
    )
    from harness.io.terminal import grid

    answered = AnsweredTables.read(folders)
    if options.json:
        from harness.extensions.answers.command_output import (
            AnswerOutput,
            AnswersResult,
            JudgeOutput,
        )

        found = [
            AnswersResult(folder=str(one.folder), answers=one.record, scores=one.scores)
            for one in answered
        ]
        output = {"answer": AnswerOutput, "judge": JudgeOutput}[command]
        print_json(output(results=found))
        return 0
    if options.quiet:
        return 0
    parts = [_heading(answered[0].record), overview(answered), by_ability(answered)]
    parts += [error_attribution(answered), interval_note(answered)]
    parts += [judged(answered), repeated(answered)]
    print("\n\n".join(part for part in parts if part))
    reasons = sum((Counter(one.record.queries.reasons) for one in answered), Counter[str]())
    if failed := sum(one.record.queries.failed for one in answered):
        print(f"\n{failed} failed answers count 0; the rows `answered only` exclude them")
    if reasons:
        print(grid([[n, reason] for reason, n in reasons.most_common(5)], ["n", "reason"]))
    more = f" and {len(answered) - 1} more next to it" if len(answered) > 1 else ""
    print(f"\nin {answered[0].folder}{more}")
    return 0


def _heading(record: AnswersRecord) -> str:
    dataset, settings = record.dataset, record.settings
    source = f"reader={settings.reader}  model={settings.model}"
    if record.imported:
        source = f"answers of {record.imported.file}"
    elif settings.condition == "own":
        source = "the system's own answers"
    return (
        f"dataset={dataset.name}  granularity={dataset.granularity}  split={dataset.split}  "
        f"{source}"
    )
