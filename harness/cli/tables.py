"""What a person reads after a run: the main numbers and what to do next; with --full, all of it."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from harness.cli import summary_notes
from harness.cli.options import of_kinds
from harness.cli.output import print_json
from harness.dataset.manifest import IDS_ONLY
from harness.entry_points import provided
from harness.records.run import RunRecord
from harness.records.scores import Interval, MetricResult, ProtocolResult, ScoreReport
from harness.schema import Ability
from harness.scoring.grid import grid, terminal_width
from harness.scoring.returned import depth_message
from harness.scoring.scores import main_metrics, main_protocol
from harness.scoring.uncertainty import counted

Results = dict[str, MetricResult]

_COLUMNS = {
    "memory": ("recall@5", "recall@10", "hit@10", "recall_all@10", "ndcg@10", "mrr@10"),
    "trec": ("ndcg@10", "mrr@10", "map@100", "recall@10", "recall@100", "precision@10"),
}
_OTHERS = (
    *("hit", "recall_all", "ndcg_b2", "recall", "ndcg", "mrr"),
    *("success", "token_f1", "rouge_l", "bleu1"),
)


def print_scores(report: ScoreReport, record: RunRecord, folder: Path, columns: list[str]) -> None:
    """Prints the head, the table by ability, other protocols, abstention, updates, tokens, and
    warnings."""
    print(_head(report, record))
    main = main_protocol(report.protocols)
    if main is not None:
        print()
        print(_ability_table(main, columns))
    others = [_line(one) for one in report.protocols if one is not main]
    if any(others):
        print("\nalso scored as")
        print("\n".join(line for line in others if line))
    if report.semantic is not None:
        print(f"\n{provided('semantic_table')(report.semantic)}")
    extra = summary_notes.below(report, record)
    if extra:
        print()
        print("\n".join(f"{title:17} {text}" for title, text in extra))
    for note in [*report.warnings, *summary_notes.notes(record)]:
        print(f"note: {note}")
    if main is not None and main.overall:
        first = _columns(main.protocol, main.overall, columns)[0]
        print(f"\nsignature of {first}, all: {main.overall[first].signature}")
    print(f"files in {folder}: rankings.parquet, scores.json, scores.parquet, run.json")


def show(
    report: ScoreReport,
    record: RunRecord,
    folder: Path,
    columns: list[str],
    options: argparse.Namespace,
) -> None:
    """Prints what `--protocol`, `--full`, `--json` and `--quiet` leave of a scored run."""
    wanted = options.protocol
    shown = [one for one in report.protocols if not wanted or one.protocol in wanted]
    report = replace(report, protocols=shown)
    if not options.quiet:
        for note in _without_effect(report, record, options):
            print(f"note: {note}", file=sys.stderr)
    if options.json:
        from harness.cli.output_records import RunOutput

        print_json(RunOutput(folder=str(folder), run=record, scores=report))
    elif options.full:
        print_scores(report, record, folder, columns)
    elif not options.quiet:
        print_short(report, record, folder, columns)


def _without_effect(
    report: ScoreReport, record: RunRecord, options: argparse.Namespace
) -> Iterator[str]:
    """Options of which only the run could tell that they change nothing."""
    if (options.match_f1, options.match_semantic) != (None, None) and record.hits is None:
        yield "--match-f1 and --match-semantic changed nothing: documents were returned, not texts"
    if options.answers and not any(one.protocol == "answers" for one in report.protocols):
        yield "--answers scored nothing: the dataset has no reference answers"


def print_short(report: ScoreReport, record: RunRecord, folder: Path, columns: list[str]) -> None:
    """Prints the main numbers with intervals and random baseline, the weakest ability, and what is
    next."""
    print(_head(report, record, params=False))
    main = main_protocol(report.protocols)
    if main is not None and main.overall:
        print(f"\n{_main_table(main, columns)}")
    else:
        print("\nno query could be scored; see excluded.json")
    if report.semantic is not None:
        print(f"\n{provided('semantic_table')(report.semantic)}")
    for answers in (one for one in report.protocols if one.protocol == "answers"):
        print(" ".join(_line(answers).split()))
    for said in (summary_notes.hits(report), summary_notes.cost(record)):
        if said is not None:
            print(": ".join(said))
    for note in [*report.warnings, *summary_notes.notes(record)]:
        print(f"note: {note}")
    print("\nnext:")
    for line in _next(shlex.quote(_to_type(record, folder)), len(report.protocols)):
        print(line)
    print(f"in {folder}")


def _to_type(record: RunRecord, folder: Path) -> str:
    """The run's name, where commands find it by that; else its folder, and why."""
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
    print(f"note: {name} is the name of other runs too; this one is found by its folder")
    return str(folder)


def _next(run: str, protocols: int) -> list[str]:
    """Commands to type, and what for, where a line has the room."""
    more = f", and {counted(protocols - 1, 'other protocols')}" if protocols > 1 else ""
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
    """The main metrics over everything, and the first of them in the weakest ability."""
    results = protocol.overall
    main = main_metrics(results)
    asked = of_kinds(columns, (name.partition("@")[0] for name in main))
    shown = list(dict.fromkeys(name for name in (*asked, *main) if name in results))
    shown = shown[:8] or list(results)[:4]
    rows = [[m, "all", *_measured(results[m])] for m in shown]
    if (weakest := _weakest(protocol, shown[0])) is not None:
        name, result = weakest
        rows.append([shown[0], f"weakest: {name}", *_measured(result)])
    one = "ndcg@10" if "ndcg@10" in shown else shown[0]
    if (macro := results[one].macro_category) is not None:
        over = f"mean of {macro.groups} categories"
        rows.append([one, over, "-", _plain(macro.value), "-", "-"])
    text = grid(rows, ["metric", "over", "n", "value", "95%", "random"], keys=2)
    interval = results[shown[0]].interval
    if interval is not None and interval.approximate:
        text += f"\nintervals are approximate: {interval.approximate}"
    return (
        text
        + _answered_only(results, shown)
        + _tied(shown[0], results[shown[0]], 0.01)
        + _excluded(protocol)
    )


def _answered_only(results: Results, shown: Iterable[str]) -> str:
    """The means without the queries that failed, where some did."""
    found = {m: one for m in shown if (one := results[m].answered_only) is not None}
    if not found:
        return ""
    said = ", ".join(f"{m} {_plain(one.value)} ({one.n})" for m, one in found.items())
    return f"\nanswered only: {said}; above, failed queries count 0"


def _measured(result: MetricResult) -> list[str | int]:
    return [
        result.n,
        _plain(result.value),
        _range(result.interval),
        _plain(result.random_baseline),
    ]


def _weakest(protocol: ProtocolResult, metric: str) -> tuple[str, MetricResult] | None:
    """The ability with the lowest value of a metric; None where there are not two of them."""
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


def _head(report: ScoreReport, record: RunRecord, *, params: bool = True) -> str:
    d, q = report.dataset, report.queries
    given = record.retriever.params
    shown = ", ".join(f"{k}={v}" for k, v in given.items()) if params else ""
    system = record.retriever.name
    name = f"{record.name} ({system})" if record.name else system
    lines = [
        f"{name}{f' ({shown})' if shown else ''} on {d.name}, {d.granularity}, {d.text} text, "
        f"{d.split}",
        counted(q.asked, "queries")
        + (f" of {q.in_dataset}" if q.asked != q.in_dataset else "")
        + f", {q.failed} failed"
        + _silent(q.without_ranking, report.missing, own_run=record.measured is not None)
        + f"; {depth_message(report.returned, report.depth, requested=record.executed)}"
        + f"; data {d.fingerprint[:8]}"
        + (" (NOT the published files)" if d.published_files is False else ""),
    ]
    if empty := record.empty_haystacks:
        lines.append(
            f"in {empty.n} of {empty.total} haystacks all queries were answered with nothing"
        )
    if record.retriever.sees_gold_labels:
        lines.append("this retriever is shown the answer key")
    if d.text == IDS_ONLY:
        lines.append(
            "ids alone, no texts: what is no evidence is taken for another document of the "
            "haystack, and there is no random baseline and no prompt cost"
        )
    elif report.unknown_documents:
        lines.append(
            f"{report.unknown_documents} returned documents are not in the haystack of their query"
        )
    if d.excludes_own_document:
        lines.append("documents whose id equals the query's are left out, as BEIR does")
    return "\n".join(lines)


def _silent(n: int, missing: str, *, own_run: bool) -> str:
    """What is said of queries with no ranking: a run file cannot tell why it has none."""
    if not n:
        return ""
    how = "left out" if missing == "skip" else "counted 0"
    return f", {n} returned nothing" if own_run else f", {n} without a ranking ({how})"


def _ability_table(protocol: ProtocolResult, columns: list[str]) -> str:
    slices = protocol.slices
    if not slices:
        return "no query could be scored; see excluded.json"
    known = next(iter(slices.values())).metrics
    shown = _columns(protocol.protocol, known, columns)
    order = [str(a) for a in Ability] + ["answerable", "all"]
    names = [name for name in order if name in slices]
    if "answerable" in names and slices["answerable"].n == slices["all"].n:
        names.remove("answerable")
    if len(names) == 2:  # one ability: the same row twice
        names = ["all"]
    rows: list[list[str | int]] = []
    for name in names:
        of_slice = slices[name].metrics
        rows.append([name, slices[name].n, *(_value(of_slice.get(m)) for m in shown)])
    results = protocol.overall
    answered = [results[m].answered_only for m in shown]
    if some := next(filter(None, answered), None):
        rows.append(
            ["  answered only", some.n, *("-" if a is None else _plain(a.value) for a in answered)]
        )
    if any(results[m].interval for m in shown):
        rows.append(["  95% interval", "", *(_range(results[m].interval) for m in shown)])
    macros = [results[m].macro_haystack for m in shown]
    if some_macro := next(filter(None, macros), None):
        # Other than `all` where large haystacks and small ones differ.
        once = ["-" if one is None else _plain(one.value) for one in macros]
        rows.append(["  mean of haystacks", some_macro.groups, *once])
    macros = [results[m].macro_category for m in shown]
    if some_macro := next(filter(None, macros), None):
        once = ["-" if one is None else _plain(one.value) for one in macros]
        rows.append(["  mean of categories", some_macro.groups, *once])
    rows.append(["random", "", *(_plain(results[m].random_baseline) for m in shown)])
    bounds = [results[m].upper_bound for m in shown]
    if any(bound is not None and bound < 0.99995 for bound in bounds):
        inexact = any(results[m].upper_bound_method for m in shown)
        rows.append(["max (at most)" if inexact else "max", "", *map(_plain, bounds)])
    text = grid(rows, [protocol.name, "n", *shown], keys=2)
    if said := _how(results[shown[0]].interval):
        text += f"\n{said}"
    tied = next((m for m in shown if results[m].ties), None)
    if tied is not None:
        # Less is invisible at the precision of the table.
        text += _tied(tied, results[tied], 0.0005)
    return text + _excluded(protocol)


def _tied(metric: str, result: MetricResult, least: float) -> str:
    """How far another order of equal scores could move a number, where that is `least` or more."""
    ties = result.ties
    if ties is None or ties.best - ties.worst < least:
        return ""
    return (
        f"\nties could move {metric} from {ties.worst:.4f} to {ties.best:.4f} "
        f"(expected {ties.expected:.4f})"
    )


def _excluded(protocol: ProtocolResult) -> str:
    out = protocol.excluded.items()
    left = "; ".join(f"{n} {reason}" for reason, n in out if not reason.startswith("not asked"))
    return f"\nnot in this table: {left}" if left else ""


def _columns(protocol: str, known: Iterable[str], asked: list[str]) -> list[str]:
    """At most eight metrics to show: those asked for (`@5`: at this cut-off), then the protocol's
    headline ones; where the rankings are too short for those, its metrics at the deepest cut-off.
    """
    names = list(known)
    headline = _COLUMNS.get(protocol, ())
    kinds = dict.fromkeys(name.partition("@")[0] for name in headline or names)
    shown = [name for name in (*of_kinds(asked, kinds), *headline) if name in names]
    if sum(name in names for name in headline) < len(headline):
        ks = sorted({int(name.rpartition("@")[2]) for name in names if "@" in name}, reverse=True)
        k10 = sorted(ks, key=lambda k: (k != 10, -k))  # 10 first, then the deepest
        shown += [f"{kind}@{k}" for k in k10 for kind in kinds if f"{kind}@{k}" in names]
    return list(dict.fromkeys(shown or names))[:8]


def _range(interval: Interval | None) -> str:
    """`.457-.599`: low and high, short enough for a column."""
    return "-" if interval is None else summary_notes.ends(interval.low, interval.high, "-")


def _how(interval: Interval | None) -> str:
    """How the intervals were computed."""
    if interval is None:
        return ""
    from harness.statistics.intervals import METHOD_NAMES

    method = METHOD_NAMES[interval.method]
    said = f"intervals: {method} over {counted(interval.clusters, interval.cluster_by)}"
    if interval.cluster_by == "haystacks":
        said += ", as questions to one haystack are not independent"
    return said + (f"; approximate ({interval.approximate})" if interval.approximate else "")


def _value(result: MetricResult | None) -> str:
    return "-" if result is None else _plain(result.value)


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _line(protocol: ProtocolResult) -> str:
    """One line a protocol: its first metrics at k = 10 (or its largest) over everything scored."""
    results = protocol.overall
    ks = sorted({int(m.rpartition("@")[2]) for m in results if "@" in m})
    usable = [
        k
        for k in ks
        if any(one.value is not None for m, one in results.items() if m.endswith(f"@{k}"))
    ]
    if not usable:
        return ""
    k = 10 if 10 in usable else usable[-1]
    names = [f"{name}@{k}" for name in _OTHERS if f"{name}@{k}" in results][:4]
    values = "  ".join(f"{name} {_plain(results[name].value)}" for name in names)
    n = protocol.slices["all"].n
    return f"  {protocol.name:28} {protocol.level:14} n {n:<6} {values}"
