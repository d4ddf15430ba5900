"""Formats a comparison for a terminal, Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

from harness.analysis.compare.behind import render_behind
from harness.analysis.compare.comparison import Cell, Comparison, Group, Pair, Table
from harness.io.terminal import count_of, grid
from harness.runs.folder.run_folder import read_scores
from harness.scoring.score_columns import name_clusters
from harness.scoring.scores import main_metrics, main_protocol, unreached_message
from harness.stats.intervals import METHOD_NAMES, MeanInterval
from harness.stats.paired import Equivalence

FORMATS = {"terminal": "simple", "markdown": "pipe", "latex": "latex_booktabs", "csv": ""}
SHOWN = ("recall@10", "ndcg@10", "mrr@10")
"""Default metrics of a table, if the runs have them."""


def shown_of(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
    """Default protocols, metrics and level of a comparison with this run.

    Tests that are not displayed would only make the correction stricter. Empty, and None: all.
    """
    main = main_protocol(read_scores(folder).protocols)
    if main is None or not main.overall:
        return (), (), None
    known = main.overall
    metrics = tuple(metric for metric in SHOWN if metric in known) or tuple(main_metrics(known))
    return (main.protocol,), metrics, main.level


def shown_of_answers(folder: Path, protocols: Sequence[str]) -> tuple[str, ...]:
    """The displayed metrics of answers of these protocols."""
    scored = read_scores(folder).protocols
    found = [main_metrics(one.overall) for one in scored if one.protocol in protocols]
    return tuple(dict.fromkeys(name for names in found for name in names))


def render(
    comparison: Comparison, style: str, metrics: Sequence[str], level: str | None = None
) -> str:
    """The comparison in one of FORMATS.

    `metrics` are those to show (none: SHOWN; in CSV all), `level` the one level to show.
    """
    if style == "csv":
        return _csv(comparison, metrics)
    parts = []
    if comparison.differences:
        parts.append("these runs do NOT compare, and are not ranked together:")
        parts += [f"  {difference}" for difference in comparison.differences]
    for group in comparison.groups:
        parts.append(_head(group, metrics or SHOWN))
        tables = [table for table in group.tables if level in (None, table.level)]
        parts += [_table(group, table, style, metrics) for table in tables]
    text = "\n\n".join(parts)
    return _commented(text) if style == "latex" else text


def _commented(text: str) -> str:
    """LaTeX that compiles: everything but the tables is a comment."""
    lines, inside = [], False
    for line in text.splitlines():
        inside = inside or line.startswith("\\begin{tabular}")
        lines.append(line if inside or not line else f"% {line}")
        inside = inside and not line.startswith("\\end{tabular}")
    return "\n".join(lines)


def _head(group: Group, metrics: Sequence[str]) -> str:
    lines = [f"{_letter(i)}  {run}" for i, run in enumerate(group.runs)]
    lines += [
        f"   {count_of(group.failed[i], 'queries')} of {run} failed and count 0"
        for i, run in enumerate(group.runs)
        if group.failed[i]
    ]
    lines += [
        f"   {_letter(i)}: {said}"
        for i, returned in enumerate(group.returned)
        if (said := unreached_message(returned, metrics))
    ]
    if group.settings:
        lines.append("what differs:")
        lines += [f"   {setting}" for setting in group.settings]
    return "\n".join(lines)


def _table(group: Group, table: Table, style: str, metrics: Sequence[str]) -> str:
    cells = [cell for cell in table.cells if cell.metric in (metrics or SHOWN)]
    left_out = "".join(
        f"\nexcluded: {metric}: {why}"
        for metric, why in table.left_out.items()
        if metric in (metrics or SHOWN)
    )
    if not cells:
        return f"{table.protocol}, {table.level}: none of the metrics to show{left_out}"
    pairs = len(cells[0].pairs)
    header = ["slice", "metric", "n", *(_letter(i) for i in range(len(group.runs)))]
    header += ["pair", "difference", "95% interval", "p", "", "detectable", "effect size"]
    header += ["wins/losses/ties"]
    asked = cells[0].pairs[0] if pairs else None
    header += [f"p ({name})" for name in asked.others] if asked else []
    if asked and asked.equivalence:
        header.append(f"within {asked.equivalence.margin:g}")
    width = len(header) - 3 - len(group.runs)
    rows = []
    for cell in cells:
        for i, pair in enumerate(cell.pairs or [None]):
            first = i == 0
            means = [_mean(cell, at) if first else "" for at in range(len(group.runs))]
            name = [cell.slice, cell.metric, str(cell.means[0].n)] if first else ["", "", ""]
            rows.append([*name, *means, *(_pair(pair) if pair else [""] * width)])
    drawn = grid(rows, header, keys=2, style=FORMATS[style])
    clusters = count_of(table.clusters, table.cluster_by)
    title = f"{table.protocol}, {table.level}; independent: {clusters}"
    if table.average == "haystacks":
        title += "; means over haystacks, each counted once (n: haystacks)"
    elif table.cluster_by == "haystacks":
        title += "; means over queries"
    below = foot(table, cells) + left_out
    for run, n in enumerate(table.dropped):
        if n:
            below += (
                f"\n{count_of(n, 'queries')} of {_letter(run)} in no mean here, as another run has "
                "no value there: everything is over the queries in common"
            )
    letters = [_letter(i) for i in range(len(group.runs))]
    behind = render_behind(table.behind, letters, FORMATS[style])
    return "\n\n".join(filter(None, (title, drawn, below, behind)))


def _pair(pair: Pair) -> list[str]:
    found = pair.found
    d = found.difference
    return [
        f"{_letter(pair.b)} - {_letter(pair.a)}",
        f"{d.value:+.4f}",
        "-" if not d.low < d.high else f"[{d.low:+.4f}, {d.high:+.4f}]",
        _p(pair.p),
        "*" if pair.shown else "",
        _known(pair.detectable),
        _known(found.effect_size, 2),
        f"{found.wins}/{found.losses}/{found.ties}",
        *(_p(p) for p in pair.others.values()),
        *([_equivalent(pair.equivalence)] if pair.equivalence else []),
    ]


def _equivalent(found: Equivalence) -> str:
    if found.p < found.alpha:
        return f"shown (p {_p(found.p)})"
    if found.equivalent or found.here:
        return f"shown{'' if found.equivalent else ' here'} ({found.share:.1%} differ)"
    return "cannot tell" if found.note else f"not shown (p {_p(found.p)})"


def _p(value: float) -> str:
    return "<0.0001" if value < 0.0001 else _known(value)


def _known(value: float, digits: int = 4) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _mean(cell: Cell, run: int) -> str:
    mean = cell.means[run]
    if mean.method == "none":
        return _known(mean.value)
    return f"{mean.value:.4f} [{mean.low:.4f}, {mean.high:.4f}]"


def _letter(i: int) -> str:
    return chr(ord("A") + i) if i < 26 else f"R{i}"


_CSV = (
    *("group", "protocol", "level", "slice", "metric", "n", "run_a", "run_b", "mean_a", "mean_b"),
    *("low_a", "high_a", "low_b", "high_b", "approximate"),
    *(
        "difference",
        "low",
        "high",
        "p_corrected",
        "p",
        "shown",
        "detectable",
        "wins",
        "losses",
        "ties",
        "effect_size",
        "p_t",
        "p_wilcoxon",
        "p_equivalence",
    ),
)


def _csv(comparison: Comparison, metrics: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    for number, group in enumerate(comparison.groups):
        for table in group.tables:
            for cell in table.cells:
                if not metrics or cell.metric in metrics:
                    for pair in cell.pairs:
                        about = (number, table.protocol, table.level, cell.slice, cell.metric)
                        means = (cell.means[pair.a], cell.means[pair.b])
                        approximate = name_clusters(pair.found.difference.note, table.cluster_by)
                        writer.writerow((*about, *_csv_pair(group, pair, means, approximate)))
    return out.getvalue().rstrip("\n")


def _csv_pair(
    group: Group, pair: Pair, means: tuple[MeanInterval, MeanInterval], approximate: str
) -> tuple[object, ...]:
    found = pair.found
    d = found.difference
    return (
        *(d.n, group.runs[pair.a], group.runs[pair.b], found.mean_a, found.mean_b),
        *(end for mean in means for end in (mean.low, mean.high)),
        approximate,
        *(d.value, d.low, d.high, pair.p, found.test.p, pair.shown, pair.detectable),
        *(found.wins, found.losses, found.ties, found.effect_size),
        *(pair.others.get("t"), pair.others.get("wilcoxon")),
        pair.equivalence.p if pair.equivalence else None,
    )


# -- Notes below a table: methods, and how to read it ----------------------------------------------


def foot(table: Table, cells: Sequence[Cell]) -> str:
    """The notes below a table of these cells, in lines."""
    lines = _intervals(table, cells)
    if cells[0].pairs:
        several = table.tests > 1
        how = "t tests" if table.test == "t" else "sign flips"
        how += (", Holm" if table.test == "t" else ", max-T") * several
        corrected = f", corrected for all {table.tests} tests of this table" * several
        power = cells[0].pairs[0].found.power.power
        lines.append(f"p: {how} over {table.cluster_by}{corrected}")
        lines.append(
            "*: a difference is shown; without a star none is, but there may be one. detectable: "
            f"the smallest difference that this test shows with {power:.0%} power (-: none, or not "
            "known). effect size: Cohen's d_z"
        )
        lines += _what_each_answers(table, cells)
        if cells[0].pairs[0].others or cells[0].pairs[0].equivalence:
            lines.append("the p of other tests are not corrected")
        queries_in_haystacks = table.cluster_by == "haystacks" and table.average == "queries"
        if "wilcoxon" in cells[0].pairs[0].others and queries_in_haystacks:
            lines.append("p (wilcoxon): treats queries as independent, which they are not here")
        if cells[0].pairs[0].equivalence:
            lines += _what_equivalence_is(table, [pair for cell in cells for pair in cell.pairs])
    return "\n".join(lines)


def _what_equivalence_is(table: Table, pairs: Sequence[Pair]) -> list[str]:
    found = [pair.equivalence for pair in pairs if pair.equivalence]
    lines = ["within: two one-sided t tests that the difference is below the margin"]
    if any(one.equivalent and not one.p < one.alpha for one in found):
        lines[0] += ", or an upper bound of the share of queries that differ"
    if any(one.here and not one.equivalent for one in found):
        lines[0] += f"; shown here: for these {table.cluster_by} only, by the share that differs"
    notes = [one.note for one in found if not one.equivalent]
    return lines + [f"   cannot tell: {note}" for note in _merged(notes, table.cluster_by)]


def _what_each_answers(table: Table, cells: Sequence[Cell]) -> list[str]:
    """Why an interval may exclude 0 without a shown difference, and what to do."""
    pairs = [pair for cell in cells for pair in cell.pairs]
    moved = [pair for pair in pairs if pair.found.wins or pair.found.losses]
    if not moved:
        return ["no difference to be shown: the runs tie on every query here"]
    hopeless = all(pair.open for pair in moved)
    lines = []
    if hopeless:
        lines.append(
            f"no difference of any size can be shown here: too few {table.cluster_by} differ "
            f"for {count_of(table.tests, 'tests')}"
        )
    ends = [(pair.found.difference, pair.shown) for pair in pairs]
    if any((d.low > 0 or d.high < 0) and not shown for d, shown in ends):
        why = "is for that difference alone, while p is corrected for all tests of this table"
        if table.tests == 1:
            why = f"is by {METHOD_NAMES[pairs[0].found.difference.method]}, p by {table.test}"
        lines.append(f"an interval that excludes 0 without a star: the interval {why}")
    if table.cluster_by == "haystacks" and (hopeless or not any(pair.shown for pair in pairs)):
        more = "for more power, use more haystacks"
        if table.average == "queries":
            questions = count_of(max(cell.means[0].n for cell in cells), "questions")
            clusters = count_of(table.clusters, table.cluster_by)
            more += (
                f". `--cluster-by queries` tests {questions} instead of {clusters}: valid only for "
                "these haystacks, and if questions about one of them are independent"
            )
        lines.append(more)
    return lines


def _intervals(table: Table, cells: Sequence[Cell]) -> list[str]:
    """The methods of intervals of means and differences, each once."""
    every = [mean for cell in cells for mean in cell.means]
    every += [pair.found.difference for cell in cells for pair in cell.pairs]
    made = [one for one in every if one.method != "none"]
    lines = []
    if made:
        # Numbers, and effective numbers, differ between slices.
        ways = dict.fromkeys(f"{METHOD_NAMES[one.method]} over {table.cluster_by}" for one in made)
        notes = _merged([one.note for one in made if one.approximate], table.cluster_by)
        approximate = f"; approximate where {'; '.join(notes[:3])}" if notes else ""
        lines.append(f"intervals: {'; '.join(ways)}{approximate}")
    without = _merged(
        [one.note for one in every if one.method == "none" and one.n], table.cluster_by
    )
    return [*lines, *without]


def _merged(notes: Sequence[str], cluster_by: str) -> list[str]:
    """Notes with the name of the units; of notes that differ in numbers only, the smallest."""
    least: dict[str, tuple[float, str]] = {}
    for note in dict.fromkeys(filter(None, notes)):
        numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", note)]
        said = min(numbers, default=0.0), name_clusters(note, cluster_by)
        kind = re.sub(r"\d+(?:\.\d+)?", "", note)
        least[kind] = min(least.get(kind, said), said)
    return [said for _, said in least.values()]
