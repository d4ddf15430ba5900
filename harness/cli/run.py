"""harness run: a retriever over a dataset, scored."""

from __future__ import annotations

import argparse
import copy
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import (
    Verbs,
    add_matching,
    add_scoring,
    add_view,
    number,
    scoring_choices,
    shown_first,
)
from harness.cli.output import add_output, print_json, refuse
from harness.cli.run_single import check, known, run_one
from harness.cli.timeout import in_time
from harness.errors import PluginError, TimedOutError, UsageError

if TYPE_CHECKING:
    from harness.cli.suite import Done
    from harness.testing.nightly.plan import Plan
    from harness.testing.nightly.summary import NightlySummary


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "run",
        help="run a retriever over a dataset and score it",
        description="Run a retriever over a dataset, score it by ability, leave a folder.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--dataset",
        action="append",
        metavar="NAME",
        help="see `harness datasets`; of several, and of several retrievers, every pair is run",
    )
    parser.add_argument(
        "--retriever",
        action="append",
        metavar="NAME",
        help="see `harness retrievers`; file.py:Class; module:Class; mine, for mine.py here",
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
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes, over haystacks (1); on ray also shards of one large haystack",
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help="processes (of this machine; default) or ray (a cluster)",
    )
    parser.add_argument(
        "--ray-options",
        action="append",
        metavar="KEY=VALUE",
        help="what Ray is to give each worker: num_cpus=2, num_gpus=1, memory=8e9, ...",
    )
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="each haystack in a process of its own, without the dataset's files in reach (Linux)",
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help="concurrent search calls in each process; the retriever must be thread_safe (1)",
    )
    parser.add_argument(
        "--query-timeout", metavar="TIME", help="a question that takes longer failed: 30 (seconds)"
    )
    parser.add_argument(
        "--index-timeout", metavar="TIME", help="a haystack whose indexing takes longer failed: 20m"
    )
    parser.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="ask again, after pauses, where search fails (0); rate limits are always waited for",
    )
    parser.add_argument(
        "--prices",
        metavar="FILE.toml",
        help="US dollars a million tokens, by model; see the reference of --config",
    )
    parser.add_argument(
        "--max-usd", type=number, metavar="USD", help="stop before more than this is spent"
    )
    parser.add_argument("--batch-size", type=int, metavar="N", help="queries to a search call")
    add_matching(parser)
    add_scoring(parser)
    parser.add_argument("--out", metavar="FOLDER", help="where run folders are kept (results)")
    parser.add_argument("--name", metavar="NAME", help="what the run is called in tables")
    parser.add_argument("--submitted-by", metavar="NAME", help="who submits it to a leaderboard")
    parser.add_argument(
        "--claims", metavar="FILE.toml", help="what others say of their systems, for a list's board"
    )
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument(
        "--require-cached-index",
        action="store_true",
        help="use cached indexes only; fail if one is missing",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="run a finished run again, and keep the old folder beside it (else it is shown)",
    )
    parser.add_argument(
        "--timeout", metavar="TIME", help="end a run that takes longer: 90 (seconds), 30m, 1.5h"
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first failed query")
    parser.add_argument(
        "--allow-empty",
        action="store_true",
        help="a haystack of which all queries are answered with nothing is no failure",
    )
    parser.add_argument(
        "--config",
        nargs="?",
        const="",
        metavar="FILE.toml",
        help="any of these options; lists of runs; a file, or the name of a config that comes with "
        "the harness (--config alone lists those)",
    )
    add_output(parser)
    parser.set_defaults(call=call, params={}, nightly=False, published=False)


def call(options: argparse.Namespace) -> int:
    """Run, score, print. Status 1 when a query failed, or a haystack came out empty."""
    if options.config == "":
        return _shipped_configs()
    if options.resume and options.overwrite:
        raise UsageError(
            "--overwrite starts again and --resume continues an interrupted run, also one of "
            "--overwrite; give one of them"
        )
    several = max(len(options.dataset or ()), len(options.retriever or ())) > 1
    if several and options.config:
        raise UsageError(
            "several --dataset or --retriever are a list of runs, and so may a config be: write "
            "them into it, as [[datasets]] and [[retrievers]]"
        )
    if several:
        _refuse_for_a_list(options)
        return _list(options)
    options.dataset, options.retriever = (
        given[0] if given else None for given in (options.dataset, options.retriever)
    )
    if options.config:
        from harness.cli.bundled import config_file
        from harness.cli.config import apply_config
        from harness.cli.suite import expand, is_suite, nightly

        options.config = str(config_file(options.config, options.quiet))
        fixed = {
            "call",
            "config",
            "param",
            "params",
            "json",
            "full",
            "resume",
            "overwrite",
            "nightly",
        }
        fixed |= {"published"}
        keys = {name for name in vars(options) if not name.startswith("_")} - fixed
        if is_suite(options.config):
            _refuse_for_a_list(options)
            plan = nightly(options, options.config)
            if plan is not None and options.overwrite:
                raise UsageError(
                    "--overwrite: a list with a history always runs again, and keeps what "
                    "it needs of the last time; leave it out, or set history = false in [nightly]"
                )
            return _suite(options, expand(options, options.config, keys), plan)
        apply_config(options, options.config, keys)
    check(options)
    refuse(options, "for one run, which has no board", "claims")

    from harness.cli.tables import show
    from harness.runs.folder.run_folder import empty_haystacks

    folder, report, record = run_one(options)
    show(report, record, folder, shown_first(scoring_choices(options)), options)
    failed = record.queries.failed
    if failed:
        print(
            f"harness: {failed} of {record.queries.asked} queries failed and count 0; "
            f"see {folder / 'errors.jsonl'}; --resume tries them again",
            file=sys.stderr,
        )
    empty = "" if options.allow_empty else empty_haystacks(record.empty_haystacks)
    if empty:
        print(f"harness: {empty}", file=sys.stderr)
    lost = record.hits.unmeasurable_queries if record.hits else 0
    if lost and lost == record.queries.asked:
        print(
            "harness: not one text was resolved to a document, so nothing is measured",
            file=sys.stderr,
        )
        return 1
    return 1 if failed or empty else 0


def _shipped_configs() -> int:
    """The list, and status 2: `--config $NAME` with NAME unset must not end a script well."""
    from harness.cli.bundled import files, table

    configs = {path.stem: path for path in files("configs").values()}
    print(table(configs, "config"), flush=True)
    print("harness: --config needs a name or a file; nothing was run", file=sys.stderr)
    return 2


def _refuse_for_a_list(options: argparse.Namespace) -> None:
    refuse(options, "for a list, in a --config of which each [[retrievers]] has a name", "name")
    refuse(options, "for a list, which is shown a line a run", "full")


def _list(options: argparse.Namespace) -> int:
    """Every pair of the datasets and retrievers that the command names."""
    runs: list[argparse.Namespace] = []
    for dataset in options.dataset or [""]:
        for retriever in options.retriever or [""]:
            one = copy.copy(options)
            one.dataset, one.retriever = dataset, retriever
            one.series = (dataset, Path(retriever).name)
            if one.series in [other.series for other in runs]:
                raise UsageError(f"{retriever} on {dataset} is named twice; name each once")
            runs.append(one)
    return _suite(options, runs, None)


def _suite(options: argparse.Namespace, runs: list[argparse.Namespace], plan: Plan | None) -> int:
    """All runs of a list, what changed since the last time, and their board."""
    from harness.cli.leaderboard import claims_of, say_broken
    from harness.cli.suite import run_all, status, table
    from harness.pages.board import write_board
    from harness.testing.nightly.render import headline, render
    from harness.testing.nightly.summary import status as dropped

    claims = claims_of(next((run.claims for run in runs if run.claims), None))
    of_systems = [run for run in runs if not run.published]
    for run in of_systems:
        check(run)
    for run in of_systems:
        try:
            # Code that is imported can hang too; whether it does is then seen when it is run.
            with suppress(TimedOutError):
                run.retriever, run.plugin = in_time(run, known, 60.0)
        except PluginError as error:  # which fails its own runs only; an unknown name ends the list
            dataset, system = run.series
            print(f"harness: {system} on {dataset} will fail: {error}", file=sys.stderr)
    found = None
    if plan is None:
        done = run_all(runs, run_one)
    else:
        done, found = _night(plan, runs, options)
    left_out = 0
    for out in dict.fromkeys(one.folder.parent for one in done if one.folder is not None):
        left_out |= say_broken(write_board(out, out / "leaderboard.json", claims)[1])
        if not options.quiet:
            print(f"board in {out / 'leaderboard.json'}", file=sys.stderr)
    if options.json:
        from harness.testing.nightly.summary import RunListOutput, SuiteRun

        rows = [SuiteRun(**{**vars(one), "folder": one.folder and str(one.folder)}) for one in done]
        print_json(RunListOutput(runs=rows, night=found))
    elif not options.quiet:
        print(table(done, shown_first(scoring_choices(options))))
        if found is None:
            for failed in (one for one in done if one.failure):
                print(f"failed: {failed.retriever} on {failed.dataset}: {failed.failure}")
        else:
            print(f"\n{render(found, 'terminal')}")
    elif found is not None and found.drops:
        print(f"harness: {headline(found)}", file=sys.stderr)
    return status(done) or (dropped(found) if found else 0) or left_out


def _night(
    plan: Plan, runs: list[argparse.Namespace], options: argparse.Namespace
) -> tuple[list[Done], NightlySummary]:
    """Run a list with its history. What Ctrl-C leaves is in the summary too."""
    from harness.cli.suite import run_all
    from harness.testing.nightly.nightly_run import open_nightly_run

    for run in runs:
        run.nightly = True  # measured anew every night; what it was stands in the history
    with open_nightly_run(
        plan, [run.series for run in runs if not run.published], resume=options.resume
    ) as night:
        if night.note and not options.quiet:
            print(f"note: {night.note}", file=sys.stderr)
        try:
            done = run_all(runs, run_one, night)
        except KeyboardInterrupt:
            night.end(stopped=True)
            raise
        found = night.end()
    if options.quiet:
        return done, found
    print(
        f"summary in {plan.folder / 'summary.md'}, history in {plan.folder / 'history.jsonl'}",
        file=sys.stderr,
    )
    return done, found
