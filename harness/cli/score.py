"""Score a run file or a run folder.

Score rankings that carry the dataset's own ids: a TREC run file, JSONL, JSON, CSV or Parquet (.gz
too), or the folder of an earlier run; and rankings as other projects publish them (--format). With
--qrels instead of --dataset: trec_eval's metrics on any qrels file. With --expected: texts against
texts, where there are no ids. With --log: requests that a system logged.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import (
    DatasetOptions,
    MatchingOptions,
    ScoringOptions,
    add_results,
    fitting_dataset,
    matching,
    run_folder,
    scoring_choices,
    shown_first,
    view_arguments,
)
from harness.cli.output import add_output, print_json, refuse
from harness.cli.published import PublishedOptions, folder_of_published, form_of
from harness.cli.semantic import add_semantic, score_expected, threshold
from harness.cli.settings_options import add_options
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.dataset.reader import Dataset
    from harness.records.run import RunRecord
    from harness.scoring.protocols import Choices


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.add_argument("run", metavar="RUNFILE", help="a run file; a run folder, or a run's name")
    add_results(parser)
    parser.add_argument("--dataset", metavar="NAME", help="see `harness datasets`")
    parser.add_argument("--qrels", metavar="FILE", help="a qrels file instead of a dataset")
    add_log(parser)
    add_options(parser, PublishedOptions, DatasetOptions, MatchingOptions, ScoringOptions)
    add_semantic(parser)
    parser.add_argument("--name", metavar="SYSTEM", help="what to call the system (the file)")
    parser.add_argument("--k", type=int, help="how deep the system was asked to rank")
    parser.add_argument("--out", metavar="FOLDER", help="where run folders are kept (results)")
    parser.add_argument(
        "--strict", action="store_true", help="refuse unknown queries and repeated documents"
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Score and print."""
    from harness.runs.answering.folder import is_answers

    path = _found(options)
    _check(options, path)
    if path.is_dir() and is_answers(path):
        return _of_answers(options, path)
    if options.log:
        return _of_log(options, path)
    if options.expected:
        return score_expected(options, path)
    if options.qrels:
        return _by_qrels(options, path)
    choices, semantic = scoring_choices(options), threshold(options)
    folder, dataset = _of_run(options, path) if path.is_dir() else _of_file(options, path)
    _score(folder, dataset, choices, semantic, options)
    return 0


def _check(options: argparse.Namespace, path: Path) -> None:
    """Raises UsageError for options that exclude each other, or would change nothing."""
    if options.k is not None and options.k < 1:
        raise UsageError(f"--k must be 1 or more, not {options.k}")
    if options.qrels and options.dataset:
        raise UsageError("--qrels and --dataset exclude each other; name one")
    if not options.log and (options.log_config or options.lenient):
        raise UsageError("--log-config and --lenient are for a log; say --log too")
    if options.qrels:
        refuse(
            options, "with --qrels, which are scored as they are", *_OF_A_DATASET, results="results"
        )
    elif path.is_dir() and not (options.log or options.expected):
        own = ("name", "k", "out", "strict", "granularity", "text", "split", "as_of", "rebuild")
        refuse(
            options, "for a run, which says it itself", *own, "format", "ranking", "repeats", "cut"
        )
    if options.log and (options.qrels or options.expected):
        raise UsageError("--log goes with a --dataset alone, not with --qrels or --expected")
    if options.qrels and options.semantic is not None and not options.expected:
        raise UsageError("--semantic needs texts: a --dataset, or --expected; qrels have none")


def _of_run(options: argparse.Namespace, folder: Path) -> tuple[Path, Dataset]:
    """The folder of a run, its texts resolved again where that is asked for, and its dataset."""
    from harness.runs.folder.from_hits import resolve_again
    from harness.runs.folder.run_folder import dataset_of_run

    dataset = dataset_of_run(folder, name=options.dataset, **view_arguments(options))
    if (how := matching(options)) is not None:
        folder = resolve_again(folder, dataset, how)
    return folder, dataset


def _of_file(options: argparse.Namespace, path: Path) -> tuple[Path, Dataset]:
    """The run folder that is made of a file of rankings, and its dataset."""
    from harness.runs.folder.imported import import_rankings

    if not options.dataset:
        raise UsageError("--dataset (or --qrels) is missing; see `harness datasets`")
    form = form_of(options, path)
    if form is not None:
        return folder_of_published(options, path, form)
    refuse(options, "for a run file of a usual form", "repeats", "ranking", "cut")
    dataset = fitting_dataset(options)
    with _suggesting_log(options, path):
        folder = import_rankings(
            path,
            dataset,
            out=Path(options.out or "results"),
            name=options.name or path.name.partition(".")[0],
            k=options.k,
            strict=options.strict,
            matching=matching(options),
            unasked=options.missing == "zero",
        )
    return folder, dataset


def _found(options: argparse.Namespace) -> Path:
    """What is to be scored: a file or a folder, or the run of that name."""
    path = Path(options.run)
    if path.exists() or options.qrels or options.expected or options.log:
        if not path.exists():
            raise UsageError(f"{path}: no such file")
        return path
    return run_folder(options, options.run, "run file or run folder")


_OF_A_DATASET = (
    *("plugin", "granularity", "text", "split", "source", "rebuild", "match_f1", "match_semantic"),
    *("protocol", "ks", "answers", "name", "k", "out", "full"),
)


def _of_answers(options: argparse.Namespace, path: Path) -> int:
    """Score a folder of answers anew, with all that was judged of it."""
    from harness.cli.answer import score_and_print
    from harness.runs.answering.folder import AnswersFolder, dataset_of_answers

    rest: tuple[str, ...] = ("dataset", "metrics", "ties", "missing", "semantic", "strict")
    rest += tuple(name for name in _OF_A_DATASET if name != "source")
    refuse(options, "for a folder of answers", *rest)
    dataset = dataset_of_answers(AnswersFolder(path), options.source)
    return score_and_print(options, "answer", [path], dataset)


def _score(
    folder: Path,
    dataset: Dataset,
    choices: Choices,
    semantic: float | None,
    options: argparse.Namespace,
) -> RunRecord:
    """Score a run folder, and print; gives its run.json."""
    from harness.cli.tables import show
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.folder.scored import score_run

    scores = score_run(folder, dataset, choices, semantic=semantic)
    record = RunFolder(folder).record
    show(scores.report, record, folder, shown_first(choices), options)
    return record


@contextmanager
def _suggesting_log(options: argparse.Namespace, path: Path) -> Iterator[None]:
    """Where a file cannot be read as a run and is a log of requests, say so, and what to type."""
    from harness.online.logs.read import is_request_log

    try:
        yield
    except UsageError as error:
        if not is_request_log(path):
            raise
        command = ["harness", "score", options.run, "--log", "--dataset", options.dataset or "NAME"]
        raise UsageError(
            f"{error}; if it is a log of requests, type: {shlex.join(command)}"
        ) from None


def add_log(parser: argparse.ArgumentParser) -> None:
    """How a log of requests is read."""
    parser.add_argument(
        "--log", action="store_true", help="the file or folder is a log: JSON lines, OpenTelemetry"
    )
    parser.add_argument("--log-config", metavar="FILE.toml", help="which field of a line says what")
    parser.add_argument(
        "--repeats", metavar="RULE", help="of queries asked again: latest (default), first, refuse"
    )
    parser.add_argument("--lenient", action="store_true", help="count lines that cannot be read")


def _of_log(options: argparse.Namespace, path: Path) -> int:
    """Scores the log of a system."""
    from harness.online.logs.field_mapping import FieldMapping
    from harness.online.logs.import_log import LogImportOptions, import_log, log_lines
    from harness.online.logs.records import FeedbackSummary
    from harness.records.base import read_json_record
    from harness.records.run import ImportedLog

    if not options.dataset:
        raise UsageError("--dataset is missing, the labelled queries of the log")
    config = options.log_config
    how = LogImportOptions(
        FieldMapping.read(Path(config)) if config else FieldMapping(),
        options.repeats or "latest",
        options.lenient,
        options.missing == "zero",
    )
    choices, semantic = scoring_choices(options), threshold(options)
    dataset = fitting_dataset(options)
    folder = import_log(
        path,
        dataset,
        how,
        out=Path(options.out or "results"),
        name=options.name,
        k=options.k,
        strict=options.strict,
        matching=matching(options),
    )
    record = _score(folder, dataset, choices, semantic, options)
    if not (options.json or options.quiet):
        path = folder / "feedback.json"
        feedback = read_json_record(path, FeedbackSummary) if path.is_file() else None
        if isinstance(record.imported_from, ImportedLog):
            print("\n".join(log_lines(record.imported_from, record.queries.asked, feedback)))
    return 0


def _by_qrels(options: argparse.Namespace, path: Path) -> int:
    """trec_eval's table, from two files."""
    from harness.scoring.evaluate import evaluate
    from harness.scoring.ranks import Ties
    from harness.scoring.uncertainty import counted

    metrics = options.metrics or "ndcg@10,mrr@10,map,recall@1,recall@10,recall@100,precision@10"
    if options.ties is not None and options.ties not in list(Ties):
        raise UsageError(f"unknown tie rule {options.ties!r}; known: {', '.join(Ties)}")
    with _suggesting_log(options, path):
        result = evaluate(
            Path(options.qrels),
            path,
            metrics,
            ties=Ties(options.ties or "trec"),
            missing=options.missing or "zero",
        )
    found = result.n - result.missing_queries if options.missing != "skip" else result.n
    if not found:
        raise UsageError(f"{path}: none of its queries is judged in {options.qrels}")
    odd = []
    if result.unknown_queries:
        said = counted(result.unknown_queries, "queries")
        odd.append(f"{said} that nobody judged, ignored")
    if result.repeated_documents:
        said = counted(result.repeated_documents, "rows")
        odd.append(f"{said} with a document that stood in the ranking before")
    if odd and options.strict:
        raise UsageError(f"{path}: {'; '.join(odd)} (--strict)")
    for what in odd:
        print(f"warning: {path}: {what}", file=sys.stderr)
    if options.json:
        from harness.cli.output_records import ScoreQrelsOutput

        print_json(ScoreQrelsOutput(n=result.n, means=result.means))
    elif not options.quiet:
        how = "left out for want of" if options.missing == "skip" else "of them without"
        print(f"{result.n} queries, {result.missing_queries} {how} a ranking")
        for name, value in result.means.items():
            print(f"{name:16} {'-' if value is None else format(value, '.4f')}")
    return 0
