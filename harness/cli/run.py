"""harness run: a retriever over a dataset, scored."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from time import perf_counter

from harness.cli.options import (
    Verbs,
    add_output,
    add_scoring,
    add_view,
    parameters,
    scoring_choices,
    view_arguments,
)
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "run",
        help="run a retriever over a dataset and score it",
        description="Run a retriever over a dataset, score it by ability, leave a folder.",
        allow_abbrev=False,
    )
    parser.add_argument("--dataset", metavar="NAME", help="see `harness datasets`")
    parser.add_argument(
        "--retriever", metavar="NAME", help="see `harness retrievers`; file.py:Class; module:Class"
    )
    parser.add_argument(
        "--param", action="append", default=[], metavar="KEY=VALUE", help="for its constructor"
    )
    add_view(parser)
    parser.add_argument("--k", type=int, help="documents a query (default: the dataset's)")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="a seeded sample of N queries, stratified by ability"
    )
    parser.add_argument("--seed", type=int, help="of sampling, handles and seeded retrievers (0)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes, over haystacks (1)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="queries to a search call")
    add_scoring(parser)
    parser.add_argument("--out", metavar="FOLDER", help="where run folders are kept (results)")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--strict", action="store_true", help="stop at the first failed query")
    parser.add_argument("--config", metavar="FILE.toml", help="any of these options from a file")
    add_output(parser)
    parser.set_defaults(call=call, params={})


def call(options: argparse.Namespace) -> int:
    """Run, score, print. Status 1 when a query failed."""
    if options.config:
        from harness.cli.config import apply_config

        known = set(vars(options)) - {"call", "config", "param", "params", "json", "resume"}
        apply_config(options, options.config, known)
    for name in ("dataset", "retriever"):
        if not getattr(options, name):
            raise UsageError(f"--{name} is missing; see `harness {name}s`")
    if options.k is not None and options.k < 1:
        raise UsageError(f"--k must be 1 or more, not {options.k}")

    from harness.cli.tables import show
    from harness.dataset.prepare import open_dataset
    from harness.results.folder import RunFolder
    from harness.results.scored import score_run
    from harness.retrievers.registry import RetrieverSpec
    from harness.runs.runner import Settings, run
    from harness.scoring.protocols import fitting

    if options.quiet or options.json:
        os.environ.setdefault("TQDM_DISABLE", "1")  # for bars inside retrievers
    choices = scoring_choices(options)
    spec = RetrieverSpec(
        options.retriever,
        {**options.params, **parameters(options.param)},
        tuple(options.plugin or ()),
    )
    spec.check()  # a wrong name is said before a long preparation
    settings = Settings(
        k=options.k or 0,
        limit=options.limit,
        seed=options.seed or 0,
        workers=1 if options.workers is None else options.workers,
        batch_size=options.batch_size,
        strict=options.strict,
    )
    start = perf_counter()
    dataset = open_dataset(options.dataset, **view_arguments(options))
    fitting(dataset.keys, options.protocol or ())
    folder = run(
        dataset,
        spec,
        settings,
        out=Path(options.out or "results"),
        resume=options.resume,
        quiet=options.quiet or options.json,
        prepare_seconds=perf_counter() - start,
    )
    scores = score_run(folder, dataset, choices)
    record = RunFolder(folder).record
    show(scores.summary, record, folder, [str(metric) for metric in choices.metrics], options)
    failed = record["queries"]["failed"]
    if failed:
        print(
            f"harness: {failed} of {record['queries']['asked']} queries failed and are in no mean; "
            f"see {folder / 'errors.jsonl'}",
            file=sys.stderr,
        )
    return 1 if failed else 0
