"""Datasets x systems from one TOML file: every pair is a run, whose failure ends no other.

Options at the top are for all. Each `[[datasets]]` and `[[retrievers]]` table has options of
`harness run` too, and goes over them; `only = ["locomo"]` keeps a retriever to some datasets, and
`name = "mine"` is what the history calls one. `[nightly]` says where the history is kept. A
`[[published]]` table takes in what a project published, and stands on the same board.
"""

from __future__ import annotations

import argparse
import copy
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.config_file import apply_table
from harness.cli.options import headline_names, only_kinds, scoring_choices
from harness.cli.output import print_json, refuse
from harness.cli.published import of_config, run_published
from harness.cli.run_single import RunJob, check_names, file_keys, run_one
from harness.cli.timeout import run_in_process
from harness.errors import HarnessError, PluginError, RunError, TimedOutError, UsageError
from harness.io.plugins import provider, provider_or_none
from harness.io.records import Output, OutputPart
from harness.records.run import RunRecord
from harness.records.scores import ScoreReport
from harness.runs.folder.run_folder import empty_haystacks

if TYPE_CHECKING:
    from harness.records.scores import MetricResult


class SuiteRun(OutputPart):
    """A run of a suite: `failure` is its error, `empty` describes haystacks without any result.

    `record` is its run.json, `report` its scores.json; `reused`: it was finished before.
    """

    dataset: str
    retriever: str
    folder: str | None = None
    report: ScoreReport | None = None
    record: RunRecord | None = None
    reused: bool = False
    failure: str = ""
    empty: str = ""


class RunListOutput(Output, tag="harness.run-list/1"):
    """harness run of several runs; `night` is summary.json of a nightly suite."""

    runs: list[SuiteRun]
    night: Any


def run_pairs(options: argparse.Namespace) -> int:
    """Runs every pair of the datasets and retrievers that the command names."""
    _refuse_options_of_one_run(options)
    runs: list[argparse.Namespace] = []
    for dataset in options.dataset or [""]:
        for retriever in options.retriever or [""]:
            one = copy.copy(options)
            one.dataset, one.retriever = dataset, retriever
            one.series = (dataset, Path(retriever).name)
            if one.series in [other.series for other in runs]:
                raise UsageError(f"{retriever} on {dataset} is named twice; name each once")
            runs.append(one)
    return _run_list(options, runs, None)


def run_file(options: argparse.Namespace, file: Path, values: dict[str, object]) -> int:
    """Runs the suite of a TOML file. Raises UsageError for an invalid one."""
    _refuse_options_of_one_run(options)
    out = options.out or values.get("out") or "results"
    nightly, table = provider_or_none("nightly"), values.pop("nightly", {})
    if nightly is None and table:
        raise UsageError(f"--config {file}: [nightly]: no installed package keeps a history")
    plan = nightly.read_plan(file, table, str(out)) if nightly else None
    if plan is not None and options.overwrite:
        raise UsageError(
            "--overwrite: a list with a history always runs again and keeps the previous "
            "results; omit it, or set history = false in [nightly]"
        )
    return _run_list(options, expand(options, file, values), plan)


def _refuse_options_of_one_run(options: argparse.Namespace) -> None:
    refuse(options, "for a list, in a --config of which each [[retrievers]] has a name", "name")
    refuse(options, "for a list, which is shown a line a run", "full")


def expand(
    options: argparse.Namespace, file: Path, values: dict[str, Any]
) -> list[argparse.Namespace]:
    """Returns the options of every run in the file, datasets outermost; the command line wins.

    `series` of each are its names in the history. Raises UsageError for anything invalid, before
    anything is run.
    """
    keys = file_keys()
    published = values.pop("published", [])
    systems = {"datasets", "retrievers", "dataset", "retriever"}
    for_all = {key: value for key, value in values.items() if key not in systems}
    from_elsewhere = of_config(options, file, published, for_all, keys)
    if from_elsewhere and not systems & set(values):
        return from_elsewhere
    datasets, retrievers = (
        _tables(file, values.pop(n, None), n) for n in ("datasets", "retrievers")
    )
    _refuse_unheard(file, values, datasets, retrievers)
    for kind, tables in (("dataset", datasets), ("retriever", retrievers)):
        if getattr(options, kind) and any(kind in table for table in tables):
            raise UsageError(
                f"--{kind} would go over the [[{kind}s]] of {file}, whose names stand in tables "
                f"and in the history: leave it out, or name a config without [[{kind}s]]"
            )
    names = {str(table.get("dataset")) for table in datasets}
    called = [
        _called(file, tables, options, values, kind)
        for tables, kind in ((datasets, "dataset"), (retrievers, "retriever"))
    ]
    runs: list[argparse.Namespace] = []
    taken: set[tuple[str, str]] = set()
    for dataset, first in zip(datasets, called[0], strict=True):
        for table, second in zip(retrievers, called[1], strict=True):
            only = table.get("only", [])
            if not isinstance(only, list) or set(only) - names:
                raise UsageError(
                    f"--config {file}: only = {only!r} must list datasets of this file: "
                    f"{', '.join(sorted(names))}"
                )
            if only and dataset.get("dataset") not in only:
                continue
            one = copy.copy(options)
            # The first value stays: the command line's, then that of the most specific table.
            for part in (table, dataset, values):
                own = {key: value for key, value in part.items() if key not in ("only", "name")}
                apply_table(one, file, own, keys)
            one.series = (first, second)
            one.name = table.get("name")
            if one.series in taken:
                raise UsageError(
                    f"--config {file}: {second} on {first} is in the list twice; give each a "
                    "different name: name = ..."
                )
            taken.add(one.series)
            runs.append(one)
    if any(table.get("only") == [] for table in retrievers):
        raise UsageError(
            f"--config {file}: only = [] names no dataset; leave it, or the table, out"
        )
    return [*runs, *from_elsewhere]


def _refuse_unheard(
    file: Path,
    values: dict[str, object],
    datasets: list[dict[str, object]],
    retrievers: list[dict[str, object]],
) -> None:
    """Raises UsageError for a key that would have no effect in its place."""

    def refuse(key: str, where: str, why: str) -> None:
        raise UsageError(f"--config {file}: {key} {where} {why}")

    for key in ("name", "only"):
        if key in values:
            refuse(key, "at the top", "is of one [[retrievers]] table; write it there")
    for kind, mine, others in (
        ("dataset", datasets, retrievers),
        ("retriever", retrievers, datasets),
    ):
        if isinstance(values.get(kind), str) and all(kind in table for table in mine):
            refuse(kind, "at the top", f"is used by none: every [[{kind}s]] table has its own")
        if any(kind in table for table in others) and any(kind in table for table in mine):
            other = "retrievers" if kind == "dataset" else "datasets"
            refuse(kind, f"in [[{other}]]", f"would go over the [[{kind}s]]; write it there alone")
    if any("only" in table for table in datasets):
        refuse(
            "only", "in [[datasets]]", "keeps a retriever to datasets; write it in [[retrievers]]"
        )


def _called(
    file: Path,
    tables: list[dict[str, object]],
    options: argparse.Namespace,
    values: dict[str, object],
    kind: str,
) -> list[str]:
    """Returns the name of each table's dataset or retriever, for tables and the history."""
    from harness.runs.run_labels import labels

    for table in tables:
        name = table.get("name", "x")
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"--config {file}: name must be a text, not {name!r}")
    given = [getattr(options, kind) or t.get(kind) or values.get(kind) or "" for t in tables]
    bases = [Path(str(one)).name if kind == "retriever" else str(one) for one in given]
    return labels(tables, bases)


def _tables(file: Path, found: object, name: str) -> list[dict[str, object]]:
    """Returns the tables `[[name]]`; a single empty one if the file has none."""
    if found is None:
        return [{}]
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise UsageError(f"--config {file}: {name} must be tables: [[{name}]]")
    if not found:
        raise UsageError(f"--config {file}: {name} lists nothing")
    return found


def run_all(
    runs: list[argparse.Namespace],
    night: Any = None,
) -> list[SuiteRun]:
    """Runs one after the other, a line each on stderr; a failure does not end the rest.

    Each run is added to `night` as soon as it is done.
    """
    done = []
    for number, options in enumerate(runs, 1):
        dataset, system = options.series
        title = f"[{number}/{len(runs)}] {system} on {dataset}"
        if not options.quiet:
            print(title, file=sys.stderr, flush=True)
        started = datetime.now(UTC)
        try:
            folder, report, record = _run(options)
            if night is not None and not options.published:
                if options.resume and night.is_of_another_night(folder, record):
                    options = copy.copy(options)
                    options.resume = False  # a run that an earlier list measured is measured again
                    folder, report, record = _run(options)
                _tell(night, options, folder, report)
        except Exception as error:  # the other runs continue
            why = str(error).splitlines()[0] if isinstance(error, HarnessError) else repr(error)
            if not isinstance(error, HarnessError):
                traceback.print_exc()
            print(f"harness: {title}: {error}", file=sys.stderr, flush=True)
            if night is not None and not options.published:
                night.add_failure(options.series, error)
            done.append(SuiteRun(dataset=dataset, retriever=system, failure=why))
            continue
        empty = "" if options.allow_empty else empty_haystacks(record.empty_haystacks)
        if empty:
            print(f"harness: {title}: {empty}", file=sys.stderr, flush=True)
        done.append(
            SuiteRun(
                dataset=dataset,
                retriever=system,
                folder=str(folder),
                report=report,
                record=record,
                reused=datetime.fromisoformat(record.finished) < started,
                empty=empty,
            )
        )
    return done


def _run(options: argparse.Namespace) -> tuple[Path, ScoreReport, RunRecord]:
    return run_published(options) if options.published else run_one(RunJob.create(options))


def _tell(night: Any, options: argparse.Namespace, folder: Path, report: ScoreReport) -> None:
    """Adds a run to the history, under the protocol that the table shows."""
    from harness.scoring.scores import main_protocol

    main = main_protocol(report.protocols)
    if main is None:
        raise RunError(f"{folder}: no protocol fits the dataset, so nothing was scored")
    asked = [str(metric) for metric in scoring_choices(options).metrics]
    night.add_run(options.series, folder, (main.protocol, main.level), asked)


def status(done: list[SuiteRun]) -> int:
    """Returns 1 if a run failed, some of its queries did, or a haystack had no results."""
    return int(any(one.record is None or one.record.queries.failed or one.empty for one in done))


def table(done: list[SuiteRun], asked: Sequence[str] = ()) -> str:
    """Formats a line per run: leading metrics over all queries, then `asked` ones, and times.

    Of `asked`, `@5` is every leading metric at that cut-off.
    """
    from harness.io.terminal import grid
    from harness.scoring.scores import MAIN, main_metrics, main_protocol

    mains = [main_protocol(one.report.protocols) if one.report else None for one in done]
    found = [main.overall if main else {} for main in mains]
    more = only_kinds(asked, (name.partition("@")[0] for name in MAIN))
    metrics = (
        list(dict.fromkeys(m for results in found for m in main_metrics(results, more))) or MAIN
    )
    lines = []
    for one, results in zip(done, found, strict=True):
        line: list[Any] = [one.dataset, one.retriever]
        if one.report is None or one.record is None:
            lines.append([*line, "failed", "", *("-" for _ in metrics), "-", "-"])
            continue
        values = [results[m].value if m in results else None for m in metrics]
        measured = one.record.measured
        index, search = (measured.index, measured.search_ms) if measured else (None, None)
        lines.append(
            [
                *line,
                one.report.dataset.granularity,
                max((result.n for result in results.values()), default=0),
                *("-" if value is None else f"{value:.4f}" for value in values),
                "-" if index is None else f"{index.seconds:.1f}",
                "-" if search is None else f"{search.p50:.1f}",
            ]
        )
    headers = ["dataset", "system", "level", "n", *metrics, "index s", "p50 ms"]
    return grid(lines, headers, keys=2) + "".join(_answered_only(done, found, metrics))


def _answered_only(
    done: Sequence[SuiteRun], found: Sequence[Mapping[str, MetricResult]], metrics: Sequence[str]
) -> Iterator[str]:
    """Yields a line for each run with failed queries: its means over the others."""
    for one, results in zip(done, found, strict=True):
        values = {
            m: answered
            for m in metrics
            if m in results and (answered := results[m].answered_only) is not None
        }
        if values and one.record is not None:
            said = ", ".join(
                f"{m} {'-' if v.value is None else format(v.value, '.4f')} ({v.n})"
                for m, v in values.items()
            )
            failed = one.record.queries.failed
            yield (
                f"\n{one.retriever} on {one.dataset}: {failed} queries failed and count as 0; "
                f"answered only: {said}"
            )


def _run_list(options: argparse.Namespace, runs: list[argparse.Namespace], plan: Any) -> int:
    """Runs a suite, writes its boards, and prints its table and changes since the last time."""
    from harness.cli.leaderboard import claims_of, say_broken
    from harness.reports.board import write_board

    nightly: Any = provider_or_none("nightly")
    claims = claims_of(next((run.claims for run in runs if run.claims), None))
    for job in [RunJob.create(run) for run in runs if not run.published]:
        run, limit = job.options, job.timeout and min(job.timeout, 60.0)
        try:
            # Importing code can hang too; the run itself then times out.
            with suppress(TimedOutError):
                run.retriever, run.plugin = (
                    run_in_process(limit, check_names, job) if limit else check_names(job)
                )
        except PluginError as error:  # fails its own runs only; an unknown name ends the suite
            dataset, system = run.series
            print(f"harness: {system} on {dataset} will fail: {error}", file=sys.stderr)
    found = None
    if plan is None:
        done = run_all(runs)
    else:
        done, found = _night(plan, runs, options)
    left_out = 0
    for out in dict.fromkeys(Path(one.folder).parent for one in done if one.folder):
        left_out |= say_broken(write_board(out, out / "leaderboard.json", claims)[1])
        if not options.quiet:
            print(f"board in {out / 'leaderboard.json'}", file=sys.stderr)
    if options.json:
        print_json(RunListOutput(runs=done, night=found))
    elif not options.quiet:
        print(table(done, headline_names(scoring_choices(options))))
        if found is None:
            for failed in (one for one in done if one.failure):
                print(f"failed: {failed.retriever} on {failed.dataset}: {failed.failure}")
        else:
            print(f"\n{nightly.render(found, 'terminal')}")
    elif found is not None and found.drops:
        print(f"harness: {nightly.headline(found)}", file=sys.stderr)
    dropped = 0
    if found and plan:
        dropped = int(nightly.status(found, allow_inconclusive=plan.allow_inconclusive))
    return status(done) or dropped or left_out


def _night(
    plan: Any, runs: list[argparse.Namespace], options: argparse.Namespace
) -> tuple[list[SuiteRun], Any]:
    """Runs a suite with its history. After Ctrl-C, its summary has the runs done so far."""
    for run in runs:
        run.nightly = True  # measured again every night; the history has earlier results
    with provider("nightly").open_nightly_run(
        plan, [run.series for run in runs if not run.published], resume=options.resume
    ) as night:
        if night.note and not options.quiet:
            print(f"note: {night.note}", file=sys.stderr)
        try:
            done = run_all(runs, night)
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
