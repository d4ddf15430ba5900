"""Score rankings: a run file or a run folder.

Score a file with the dataset's own ids (TREC, JSON lines, JSON, CSV or Parquet, also .gz), an
earlier run, or rankings in the format of another project (--format). With --qrels instead of
--dataset: compute trec_eval's metrics for any qrels file. With --expected: compare texts with
expected texts, without ids. With --log: score logged requests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import (
    DatasetOptions,
    MatchingOptions,
    ScoringOptions,
    add_options,
    add_results,
    fitting_dataset,
    headline_names,
    matching_settings,
    run_folder,
    scoring_choices,
    view_arguments,
)
from harness.cli.output import add_output, emit, refuse
from harness.cli.published import PublishedOptions, folder_of_published, form_of, import_options
from harness.errors import UsageError, require_regular
from harness.io import plugins
from harness.io.plugins import provider
from harness.io.records import Output

if TYPE_CHECKING:
    from harness.datasets.reader import Dataset
    from harness.records.run import RunRecord
    from harness.scoring.protocols import Choices


@cache
def score_sources() -> tuple[Any, ...]:
    """Returns what else can be scored, by name: modules of the group `harness.score_sources`.

    Each has five functions:

    - `add_arguments(parser)` adds its options to the command;
    - `asked_for(options)` tests whether one of its options is given;
    - `accepts(options, path)` tests whether it scores this file or folder, and raises UsageError
      for options that do not fit;
    - `score(options, path)` scores and prints, and returns the exit status;
    - `suggest(options, path)` describes a file that is not a run, and what to type, or "".

    Raises PluginError for a module that cannot be imported.
    """
    return tuple(plugins.load_all("harness.score_sources", "score source"))


class ScoreQrelsOutput(Output, tag="harness.score-qrels/1"):
    """harness score --qrels."""

    n: int
    means: dict[str, float | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument(
        "run", metavar="RUNFILE", help="a run file, a run folder or the name of a run"
    )
    add_results(parser)
    parser.add_argument(
        "--dataset", metavar="NAME", help="name of a dataset (see `harness datasets`)"
    )
    parser.add_argument("--qrels", metavar="FILE", help="qrels file to use instead of a dataset")
    for source in score_sources():
        source.add_arguments(parser)
    parser.add_argument(
        "--repeats",
        metavar="RULE",
        help="which record of a repeated query to score: latest (default), first or refuse",
    )
    add_options(parser, PublishedOptions, DatasetOptions, MatchingOptions, ScoringOptions)
    parser.add_argument(
        "--name", metavar="SYSTEM", help="name of the system (default: the file name)"
    )
    parser.add_argument(
        "--score-column",
        metavar="NAME",
        help="column of a CSV, Parquet or data-frame file with the scores",
    )
    parser.add_argument(
        "--k",
        type=int,
        help="number of documents that the system was asked for (default: longest ranking)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder for run folders (default: results)")
    parser.add_argument(
        "--strict", action="store_true", help="fail on unknown queries and repeated documents"
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Scores a run and prints the scores."""
    path = _found(options)
    if options.k is not None and options.k < 1:
        raise UsageError(f"--k must be 1 or more, not {options.k}")
    if options.qrels and options.dataset:
        raise UsageError("--qrels and --dataset exclude each other; name one")
    # Every source is called, since each may refuse its own options.
    accepting = [source for source in score_sources() if source.accepts(options, path)]
    if accepting:
        return int(accepting[0].score(options, path))
    _refuse_unused(options, path)
    if options.qrels:
        return _by_qrels(options, path)
    choices, semantic = scoring_choices(options), semantic_threshold(options)
    folder, dataset = _of_run(options, path) if path.is_dir() else _of_file(options, path)
    score_folder(folder, dataset, choices, semantic, options)
    return 0


def _refuse_unused(options: argparse.Namespace, path: Path) -> None:
    """Raises UsageError for options that would change nothing."""
    if options.qrels:
        refuse(
            options, "with --qrels, which are scored as they are", *OF_A_DATASET, results="results"
        )
        if getattr(options, "semantic", None) is not None:
            raise UsageError("--semantic needs texts: a --dataset, or --expected; qrels have none")
    elif path.is_dir():
        own = (
            *("name", "k", "out", "strict"),
            *("granularity", "text", "split", "as_of", "inject", "rebuild"),
        )
        refuse(
            options,
            "for a run, which says it itself",
            *own,
            "format",
            "ranking",
            "repeats",
            "cut",
            "score_column",
        )


def _of_run(options: argparse.Namespace, folder: Path) -> tuple[Path, Dataset]:
    """Returns the folder of a run, with its texts matched again if requested, and its dataset."""
    from harness.runs.folder.hits import copy_with_matching
    from harness.runs.folder.run_dataset import dataset_of_run

    dataset = dataset_of_run(folder, name=options.dataset, **view_arguments(options))
    if (how := matching_settings(options)) is not None:
        folder = copy_with_matching(folder, dataset, how)
    return folder, dataset


def _of_file(options: argparse.Namespace, path: Path) -> tuple[Path, Dataset]:
    """Returns the run folder made from a file of rankings, and its dataset."""
    from harness.runs.folder.imported import import_rankings

    if not options.dataset:
        raise UsageError("--dataset (or --qrels) is missing; see `harness datasets`")
    form = form_of(options, path)
    if form is not None:
        refuse(options, f"for a file of the form {form}", "score_column")
        return folder_of_published(options, path, form)
    refuse(options, "for a run file of a usual form", "repeats", "ranking", "cut")
    dataset = fitting_dataset(options)
    with _suggesting_source(options, path):
        folder = import_rankings(
            path,
            dataset,
            import_options(options, path),
            unasked=options.missing == "zero",
        )
    return folder, dataset


def semantic_threshold(options: argparse.Namespace) -> float | None:
    """Returns the cosine of `--semantic`; None if it is not given or no package adds it."""
    if getattr(options, "semantic", None) is None:
        return None
    value: float | None = provider("semantic_threshold")(options)
    return value


def _found(options: argparse.Namespace) -> Path:
    """Returns the file or folder to score, or the run of that name."""
    path = Path(options.run)
    expected = options.qrels or any(source.asked_for(options) for source in score_sources())
    if path.exists() or expected:
        if not path.exists():
            raise UsageError(f"{path}: no such file")
        require_regular(path)
        return path
    return run_folder(options, options.run, "run file or run folder")


OF_A_DATASET = (
    *("plugin", "granularity", "text", "split", "source", "rebuild", "match_f1", "match_semantic"),
    *("protocol", "ks", "answers", "name", "k", "out", "full"),
    *("as_of", "inject", "format", "ranking", "repeats", "cut"),
)


def score_folder(
    folder: Path,
    dataset: Dataset,
    choices: Choices,
    semantic: float | None,
    options: argparse.Namespace,
) -> RunRecord:
    """Scores a run folder and prints the scores; returns its run.json."""
    from harness.cli.run_summary import show
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.folder.score_folder import score_run

    scores = score_run(folder, dataset, choices, semantic=semantic)
    record = RunFolder(folder).record
    show(scores.report, record, folder, headline_names(choices), options)
    return record


@contextmanager
def _suggesting_source(options: argparse.Namespace, path: Path) -> Iterator[None]:
    """Adds to the error of a file that is not a run what it is, and the command for it."""
    try:
        yield
    except UsageError as error:
        found = (source.suggest(options, path) for source in score_sources())
        raise next((UsageError(f"{error}; {text}") for text in found if text), error) from None


def _by_qrels(options: argparse.Namespace, path: Path) -> int:
    """Prints trec_eval's metrics of a run file and a qrels file."""
    from harness.io.terminal import count_of
    from harness.runfiles.readers import read_rankings
    from harness.scoring.evaluate import evaluate
    from harness.scoring.ranks import Ties

    metrics = options.metrics or "ndcg@10,mrr@10,map,recall@1,recall@10,recall@100,precision@10"
    if options.ties is not None and options.ties not in list(Ties):
        raise UsageError(f"unknown tie rule {options.ties!r}; known: {', '.join(Ties)}")
    with _suggesting_source(options, path):
        column = options.score_column
        result = evaluate(
            Path(options.qrels),
            read_rankings(path, score_column=column) if column else path,
            metrics,
            ties=Ties(options.ties or "trec"),
            missing=options.missing or "zero",
        )
    found = result.n - result.missing_queries if options.missing != "skip" else result.n
    if not found:
        raise UsageError(f"{path}: none of its queries is judged in {options.qrels}")
    odd = []
    if result.unknown_queries:
        said = count_of(result.unknown_queries, "queries")
        odd.append(f"{said} without judgements, ignored")
    if result.repeated_documents:
        said = count_of(result.repeated_documents, "rows")
        odd.append(f"{said} with a document that is already in the ranking")
    if odd and options.strict:
        raise UsageError(f"{path}: {'; '.join(odd)} (--strict)")
    for what in odd:
        print(f"warning: {path}: {what}", file=sys.stderr)
    how = "excluded without" if options.missing == "skip" else "of them without"
    lines = [f"{result.n} queries, {result.missing_queries} {how} a ranking"]
    for name, value in result.means.items():
        lines.append(f"{name:16} {'-' if value is None else format(value, '.4f')}")
    return emit(options, ScoreQrelsOutput(n=result.n, means=result.means), "\n".join(lines))
