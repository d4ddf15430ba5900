"""What a person reads after a run: the main numbers and what to do next; with --full, all of it."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.cli import lines
from harness.cli.options import of_kinds
from harness.cli.output import print_json
from harness.cli.semantic import semantic_table
from harness.dataset.manifest import IDS_ONLY
from harness.records.base import to_plain
from harness.records.run import RunRecord
from harness.schema import Ability
from harness.scoring.came import deep
from harness.scoring.grid import grid, terminal_width
from harness.scoring.scores import all_cells, main_block, main_metrics
from harness.scoring.uncertainty import counted

_COLUMNS = {
    "memory": ("recall@5", "recall@10", "hit@10", "recall_all@10", "ndcg@10", "mrr@10"),
    "trec": ("ndcg@10", "mrr@10", "map@100", "recall@10", "recall@100", "precision@10"),
}
_OTHERS = (
    *("hit", "recall_all", "ndcg_b2", "recall", "ndcg", "mrr"),
    *("success", "token_f1", "rouge_l", "bleu1"),
)


def print_scores(
    summary: dict[str, Any], record: RunRecord, folder: Path, columns: list[str]
) -> None:
    """The head, the table by ability, other protocols, abstention, updates, tokens, warnings."""
    print(_head(summary, record))
    blocks = summary["protocols"]
    main = main_block(blocks)
    if main is not None:
        print()
        print(_ability_table(main, columns))
    others = [_line(block) for block in blocks if block is not main]
    if any(others):
        print("\nalso scored as")
        print("\n".join(line for line in others if line))
    if "semantic" in summary:
        print()
        print(semantic_table(summary["semantic"]))
    extra = lines.below(summary, record)
    if extra:
        print()
        print("\n".join(f"{title:17} {text}" for title, text in extra))
    for note in [*summary["warnings"], *lines.notes(record)]:
        print(f"note: {note}")
    if main is not None and "all" in main["slices"]:
        cells = main["slices"]["all"]["metrics"]
        first = _columns(main["protocol"], cells, columns)[0]
        print(f"\nsignature of {first}, all: {cells[first]['signature']}")
    print(f"files in {folder}: rankings.parquet, scores.json, scores.parquet, run.json")


def show(
    summary: dict[str, Any],
    record: RunRecord,
    folder: Path,
    columns: list[str],
    options: argparse.Namespace,
) -> None:
    """Print what `--protocol`, `--full`, `--json` and `--quiet` leave of a scored run."""
    wanted = options.protocol
    blocks = [b for b in summary["protocols"] if not wanted or b["protocol"] in wanted]
    summary = {**summary, "protocols": blocks}
    if not options.quiet:
        for note in _without_effect(summary, record, options):
            print(f"note: {note}", file=sys.stderr)
    if options.json:
        print_json("run", {"folder": str(folder), "run": to_plain(record), "scores": summary})
    elif options.full:
        print_scores(summary, record, folder, columns)
    elif not options.quiet:
        print_short(summary, record, folder, columns)


def _without_effect(
    summary: dict[str, Any], record: RunRecord, options: argparse.Namespace
) -> Iterator[str]:
    """Options of which only the run could tell that they change nothing."""
    if (options.match_f1, options.match_semantic) != (None, None) and record.hits is None:
        yield "--match-f1 and --match-semantic changed nothing: documents were returned, not texts"
    if options.answers and not any(b["protocol"] == "answers" for b in summary["protocols"]):
        yield "--answers scored nothing: the dataset has no reference answers"


def print_short(
    summary: dict[str, Any], record: RunRecord, folder: Path, columns: list[str]
) -> None:
    """The main numbers with their intervals and chance, the weakest ability, and what is next."""
    print(_head(summary, record, params=False))
    block = main_block(summary["protocols"])
    cells = all_cells(block) if block else {}
    if cells:
        print(f"\n{_main_table(block, cells, columns)}")
    else:
        print("\nno query could be scored; see left_out.json")
    if "semantic" in summary:
        print(f"\n{semantic_table(summary['semantic'])}")
    for answers in (b for b in summary["protocols"] if b["protocol"] == "answers"):
        print(" ".join(_line(answers).split()))
    for said in (lines.hits(summary), lines.cost(record)):
        if said is not None:
            print(": ".join(said))
    for note in [*summary["warnings"], *lines.notes(record)]:
        print(f"note: {note}")
    print("\nnext:")
    for line in _next(shlex.quote(_to_type(record, folder)), len(summary["protocols"])):
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


def _main_table(block: dict[str, Any], cells: dict[str, Any], columns: list[str]) -> str:
    """The main metrics over everything, and the first of them in the weakest ability."""
    main = main_metrics(cells)
    asked = of_kinds(columns, (name.partition("@")[0] for name in main))
    shown = list(dict.fromkeys(name for name in (*asked, *main) if name in cells))
    shown = shown[:8] or list(cells)[:4]
    rows = [[m, "all", *_measured(cells[m])] for m in shown]
    if (weakest := _weakest(block, shown[0])) is not None:
        name, cell = weakest
        rows.append([shown[0], f"weakest: {name}", *_measured(cell)])
    one = "ndcg@10" if "ndcg@10" in shown else shown[0]
    if (each := cells[one].get("over_categories")) is not None:
        over = f"mean of {each['categories']} categories"
        rows.append([one, over, "-", _number(each), "-", "-"])
    text = grid(rows, ["metric", "over", "n", "value", "95%", "chance"], keys=2)
    interval = cells[shown[0]].get("interval") or {}
    rough = f"\nintervals are rough: {interval['rough']}" if "rough" in interval else ""
    return (
        text
        + _answered_only(cells, shown)
        + rough
        + _tied(shown[0], cells[shown[0]], 0.01)
        + _left_out(block)
    )


def _answered_only(cells: dict[str, Any], shown: Iterable[str]) -> str:
    """The means without the queries that failed, where some did."""
    found = {m: cells[m]["answered_only"] for m in shown if "answered_only" in cells[m]}
    if not found:
        return ""
    said = ", ".join(f"{m} {_number(one)} ({one['n']})" for m, one in found.items())
    return f"\nanswered only: {said}; above, failed queries count 0"


def _measured(cell: dict[str, Any]) -> list[Any]:
    return [cell["n"], _number(cell), _range(cell.get("interval")), _number(cell, "chance")]


def _weakest(block: dict[str, Any], metric: str) -> tuple[str, dict[str, Any]] | None:
    """The ability with the lowest value of a metric; None where there are not two of them."""
    found = {
        name: part["metrics"][metric]
        for name, part in block["slices"].items()
        if name in set(Ability) and part["metrics"].get(metric, {}).get("value") is not None
    }
    if len(found) < 2:
        return None
    return min(found.items(), key=lambda item: item[1]["value"])


def _head(summary: dict[str, Any], record: RunRecord, *, params: bool = True) -> str:
    d, q = summary["dataset"], summary["queries"]
    given = record.retriever.params
    shown = ", ".join(f"{k}={v}" for k, v in given.items()) if params else ""
    system = record.retriever.name
    name = f"{record.name} ({system})" if record.name else system
    lines = [
        f"{name}{f' ({shown})' if shown else ''} on {d['name']}, "
        f"{d['granularity']}, {d['text']} text, {d['split']}",
        counted(q["asked"], "queries")
        + (f" of {q['in_dataset']}" if q["asked"] != q["in_dataset"] else "")
        + f", {q['failed']} failed"
        + _silent(q["without_ranking"], summary["missing"], own_run=record.measured is not None)
        + f"; {deep(summary.get('came'), summary['depth'], executed=record.executed)}"
        + f"; data {d['fingerprint'][:8]}"
        + (" (NOT the published files)" if d["published_files"] is False else ""),
    ]
    if empty := record.empty_haystacks:
        lines.append(
            f"in {empty.n} of {empty.total} haystacks all queries were answered with nothing"
        )
    if record.retriever.sees_gold_labels:
        lines.append("this retriever is shown the answer key")
    if d["text"] == IDS_ONLY:
        lines.append(
            "ids alone, no texts: what is no evidence is taken for another document of the "
            "haystack, and there is no chance and no prompt cost"
        )
    elif unknown := summary["unknown_documents_in_run"]:
        lines.append(f"{unknown} returned documents are not in the haystack of their query")
    if d["own_document_left_out"]:
        lines.append("documents whose id equals the query's are left out, as BEIR does")
    return "\n".join(lines)


def _silent(n: int, missing: str, *, own_run: bool) -> str:
    """What is said of queries with no ranking: a run file cannot tell why it has none."""
    if not n:
        return ""
    how = "left out" if missing == "skip" else "counted 0"
    return f", {n} returned nothing" if own_run else f", {n} without a ranking ({how})"


def _ability_table(block: dict[str, Any], columns: list[str]) -> str:
    slices = block["slices"]
    if not slices:
        return "no query could be scored; see left_out.json"
    known = next(iter(slices.values()))["metrics"]
    shown = _columns(block["protocol"], known, columns)
    order = [str(a) for a in Ability] + ["answerable", "all"]
    names = [name for name in order if name in slices]
    if "answerable" in names and slices["answerable"]["n"] == slices["all"]["n"]:
        names.remove("answerable")
    if len(names) == 2:  # one ability: the same row twice
        names = ["all"]
    rows = []
    for name in names:
        cells = slices[name]["metrics"]
        rows.append([name, slices[name]["n"], *(_number(cells.get(m)) for m in shown)])
    cells = slices["all"]["metrics"]
    answered = {m: cells[m]["answered_only"] for m in shown if "answered_only" in cells[m]}
    if answered:
        n = next(iter(answered.values()))["n"]
        rows.append(["  answered only", n, *(_number(answered.get(m)) for m in shown)])
    if any("interval" in cells[m] for m in shown):
        rows.append(["  95% interval", "", *(_range(cells[m].get("interval")) for m in shown)])
    if any("over_haystacks" in cells[m] for m in shown):
        # Other than `all` where large haystacks and small ones differ.
        once = [_number(cells[m].get("over_haystacks")) for m in shown]
        haystacks = cells[shown[0]].get("interval", {}).get("units", "")
        rows.append(["  mean of haystacks", haystacks, *once])
    means = {m: cells[m]["over_categories"] for m in shown if "over_categories" in cells[m]}
    if means:
        n = next(iter(means.values()))["categories"]
        rows.append(["  mean of categories", n, *(_number(means.get(m)) for m in shown)])
    rows.append(["chance", "", *(_number(cells[m], "chance") for m in shown)])
    if any(cells[m].get("ceiling", 1) < 0.99995 for m in shown):
        name = "ceiling at most" if any("ceiling_is" in cells[m] for m in shown) else "ceiling"
        rows.append([name, "", *(_number(cells[m], "ceiling") for m in shown)])
    text = grid(rows, [f"{block['protocol']}/{block['version']}", "n", *shown], keys=2)
    if said := _how(cells[shown[0]].get("interval")):
        text += f"\n{said}"
    tied = next((m for m in shown if "ties" in cells[m]), None)
    if tied is not None:
        text += _tied(tied, cells[tied], 0.0005)  # less is invisible at the precision of the table
    return text + _left_out(block)


def _tied(metric: str, cell: dict[str, Any], least: float) -> str:
    """How far another order of equal scores could move a number, where that is `least` or more."""
    ties = cell.get("ties")
    if ties is None or ties["best"] - ties["worst"] < least:
        return ""
    return (
        f"\nties could move {metric} from {ties['worst']:.4f} to {ties['best']:.4f} "
        f"(expected {ties['expected']:.4f})"
    )


def _left_out(block: dict[str, Any]) -> str:
    out = block["left_out"].items()
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


def _range(interval: dict[str, Any] | None) -> str:
    """`.457-.599`: low and high, short enough for a column."""
    return "-" if interval is None else lines.ends(interval["low"], interval["high"], "-")


def _how(interval: dict[str, Any] | None) -> str:
    """How the intervals were made."""
    if interval is None:
        return ""
    from harness.statistics.intervals import METHOD_NAMES

    method = METHOD_NAMES[interval["method"]]
    said = f"intervals: {method} over {counted(interval['units'], interval['over'])}"
    if interval["over"] == "haystacks":
        said += ", as questions to one haystack are not independent"
    return said + (f"; rough ({interval['rough']})" if "rough" in interval else "")


def _number(cell: dict[str, Any] | None, part: str = "value") -> str:
    value = cell.get(part) if cell else None
    return "-" if value is None else f"{value:.4f}"


def _line(block: dict[str, Any]) -> str:
    """One line a protocol: its first metrics at k = 10 (or its largest) over everything scored."""
    if "all" not in block["slices"]:
        return ""
    cells = block["slices"]["all"]["metrics"]
    ks = sorted({int(m.rpartition("@")[2]) for m in cells if "@" in m})
    usable = [
        k
        for k in ks
        if any(c["value"] is not None for m, c in cells.items() if m.endswith(f"@{k}"))
    ]
    if not usable:
        return ""
    k = 10 if 10 in usable else usable[-1]
    names = [f"{name}@{k}" for name in _OTHERS if f"{name}@{k}" in cells][:4]
    values = "  ".join(f"{name} {_number(cells[name])}" for name in names)
    title = f"{block['protocol']}/{block['version']}"
    return f"  {title:28} {block['unit']:14} n {block['slices']['all']['n']:<6} {values}"
