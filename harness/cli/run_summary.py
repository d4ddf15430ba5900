"""What a person reads after a run: the main numbers, and what to do next."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from harness.cli.options import only_kinds
from harness.cli.output import print_json
from harness.cli.run_summary_lines import (
    cost,
    excluded_line,
    head,
    hits,
    interval_range,
    notes,
    protocol_line,
    semantic,
    ties_line,
)
from harness.io.records import Output
from harness.io.terminal import count_of, digits, grid, terminal_width
from harness.records.run import RunRecord
from harness.records.scores import MetricResult, ProtocolResult, ScoreReport
from harness.schema import Ability
from harness.scoring.scores import main_metrics, main_protocol

Results = dict[str, MetricResult]


class RunOutput(Output, tag="harness.run/1"):
    """harness run, harness score: run.json and scores.json of one run; `reused`: it was finished
    before harness run began; null for harness score."""

    folder: str
    run: RunRecord
    scores: ScoreReport
    reused: bool | None = None


def show(
    report: ScoreReport,
    record: RunRecord,
    folder: Path,
    columns: list[str],
    options: argparse.Namespace,
    *,
    reused: bool | None = None,
) -> None:
    """Prints what `--protocol`, `--full`, `--json` and `--quiet` select of a scored run; for a
    reused one its date first."""
    wanted = options.protocol
    shown = [one for one in report.protocols if not wanted or one.protocol in wanted]
    report = replace(report, protocols=shown)
    if not options.quiet:
        for note in _without_effect(report, record, options):
            print(f"note: {note}", file=sys.stderr)
    if reused and not (options.json or options.quiet):
        print(f"reused run of {record.finished[:16].replace('T', ' ')} UTC")
    if options.json:
        print_json(RunOutput(folder=str(folder), run=record, scores=report, reused=reused))
    elif options.full:
        from harness.cli.full_tables import print_scores

        print_scores(report, record, folder, columns)
    elif not options.quiet:
        print_short(report, record, folder, columns)


def _without_effect(
    report: ScoreReport, record: RunRecord, options: argparse.Namespace
) -> Iterator[str]:
    """Yields notes on options that had no effect on this run."""
    if (options.match_f1, options.match_semantic) != (None, None) and record.hits is None:
        yield "--match-f1 and --match-semantic changed nothing: documents were returned, not texts"
    if options.answers and not any(one.protocol == "answers" for one in report.protocols):
        yield "--answers scored nothing: the dataset has no reference answers"


def print_short(report: ScoreReport, record: RunRecord, folder: Path, columns: list[str]) -> None:
    """Prints the main numbers with intervals and random baseline, the weakest ability, and next
    steps."""
    print(head(report, record, params=False))
    main = main_protocol(report.protocols)
    if main is not None and main.overall:
        print(f"\n{_main_table(main, columns)}")
    else:
        print("\nno query could be scored; see excluded.json")
    if report.semantic is not None:
        print(f"\n{semantic(report.semantic)}")
    for other in (one for one in report.protocols if one.protocol in ("answers", "scope")):
        print(" ".join(protocol_line(other).split()))
    for said in (hits(report), cost(record)):
        if said is not None:
            print(": ".join(said))
    for note in [*report.warnings, *notes(record)]:
        print(f"note: {note}")
    print("\nnext:")
    for line in _next(shlex.quote(_to_type(record, folder)), len(report.protocols)):
        print(line)
    print(f"in {folder}")


def _to_type(record: RunRecord, folder: Path) -> str:
    """Returns the run's name if commands find it by that; else its folder, with a note."""
    name = record.name
    if name is None or folder.parent != Path("results"):
        return str(folder)
    from harness.errors import UsageError
    from harness.runs.folder.listing import find_run

    try:
        if find_run(name, folder.parent) == folder:
            return str(name)
    except UsageError:
        pass
    print(f"note: {name} is also the name of other runs; use the folder for this one")
    return str(folder)


def _next(run: str, protocols: int) -> list[str]:
    """Returns commands to type next, with their purpose if the line is wide enough."""
    more = f", and {count_of(protocols - 1, 'other protocols')}" if protocols > 1 else ""
    steps = {
        f"harness report {run}": "every question, as a page",
        f"harness compare OTHER {run}": "is it better than another run? `harness runs` lists them",
        f"harness score {run} --full": f"every ability and metric{more}",
    }
    longest = max(map(len, steps))
    found = [f"  {command:{longest}}  {what}" for command, what in steps.items()]
    width = terminal_width()
    fits = width is None or max(map(len, found)) <= width
    return found if fits else [f"  {command}" for command in steps]


def _main_table(protocol: ProtocolResult, columns: list[str]) -> str:
    """Formats the main metrics over all queries, and the first of them in the weakest ability."""
    results = protocol.overall
    main = main_metrics(results)
    asked = only_kinds(columns, (name.partition("@")[0] for name in main))
    shown = list(dict.fromkeys(name for name in (*asked, *main) if name in results))
    shown = shown[:8] or list(results)[:4]
    rows = [[m, "all", *_measured(results[m])] for m in shown]
    if (weakest := _weakest(protocol, shown[0])) is not None:
        name, result = weakest
        rows.append([shown[0], f"weakest: {name}", *_measured(result)])
    one = "ndcg@10" if "ndcg@10" in shown else shown[0]
    if (macro := results[one].macro_category) is not None:
        over = f"mean of {macro.groups} categories"
        rows.append([one, over, "-", digits(macro.value), "-", "-"])
    text = grid(rows, ["metric", "over", "n", "value", "95%", "random"], keys=2)
    interval = results[shown[0]].interval
    if interval is not None and interval.approximate:
        text += f"\nintervals are approximate: {interval.approximate}"
    return (
        text
        + _worse_than_random(shown[0], results[shown[0]])
        + _answered_only(results, shown)
        + ties_line(shown[0], results[shown[0]], 0.01)
        + excluded_line(protocol)
    )


def _worse_than_random(metric: str, result: MetricResult) -> str:
    """Warns if the whole interval is below the random baseline, as with distances as scores,
    unless failed queries explain it."""
    interval, random = result.interval, result.random_baseline
    if interval is None or random is None or interval.high >= random or result.answered_only:
        return ""
    return (
        f"\n{metric} is significantly worse than a random order: if the scores are distances, "
        "return their negatives, as higher scores must be better"
    )


def _answered_only(results: Results, shown: Iterable[str]) -> str:
    """Formats the means without failed queries, if there are any."""
    found = {m: one for m in shown if (one := results[m].answered_only) is not None}
    if not found:
        return ""
    said = ", ".join(f"{m} {digits(one.value)} ({one.n})" for m, one in found.items())
    return f"\nanswered only: {said}; above, failed queries count as 0"


def _measured(result: MetricResult) -> list[str | int]:
    return [
        result.n,
        digits(result.value),
        interval_range(result.interval),
        digits(result.random_baseline),
    ]


def _weakest(protocol: ProtocolResult, metric: str) -> tuple[str, MetricResult] | None:
    """Returns the ability with the lowest value of a metric; None for fewer than two abilities."""
    found = {
        name: (result.value, result)
        for name, part in protocol.slices.items()
        if name in set(Ability)
        and (result := part.metrics.get(metric)) is not None
        and result.value is not None
    }
    if len(found) < 2:
        return None
    name, (_, result) = min(found.items(), key=lambda item: item[1][0])
    return name, result
