"""Formats a comparison for a terminal, Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from harness.analysis.compare.behind import render_behind
from harness.analysis.compare.compare import WHY, ComparisonRow
from harness.analysis.compare.comparison import Cell, Comparison, Group, Pair, Table
from harness.io.terminal import count_of, grid, terminal_width
from harness.runs.folder.run_folder import read_scores
from harness.scoring.metrics.described import is_lower_better
from harness.scoring.score_columns import name_clusters
from harness.scoring.scores import main_metrics, main_protocol, unreached_message
from harness.stats.intervals import METHOD_NAMES, MeanInterval
from harness.stats.paired import Equivalence

FORMATS = {"terminal": "simple", "markdown": "pipe", "latex": "latex_booktabs", "csv": ""}
SHOWN = ("recall@10", "ndcg@10", "mrr@10")
"""Default metrics of a table, if the runs have them."""
WIDTH = 100
"""Maximum characters of a line, except in CSV and with `--full`."""


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
    comparison: Comparison,
    style: str,
    metrics: Sequence[str],
    level: str | None = None,
    *,
    full: bool = False,
) -> str:
    """Formats the comparison in one of FORMATS.

    `metrics` are those to show (none: SHOWN; in CSV all), `level` the one level to show. Without
    `full`, lines have at most `WIDTH` characters, and tables only means, differences and p.
    """
    if style == "csv":
        return _csv(comparison, metrics)
    width = None if full else min(WIDTH, terminal_width() or WIDTH)
    view = _View(style, metrics, full, width)
    parts = []
    if comparison.differences:
        apart = "\n".join(f"  {difference}" for difference in comparison.differences)
        parts.append(view.lines(f"These runs cannot be compared and are listed apart:\n{apart}"))
    for group in comparison.groups:
        parts.append(_head(group, view))
        tables = [table for table in group.tables if level in (None, table.level)]
        parts += [_table(group, table, view) for table in tables]
    text = "\n\n".join(parts)
    return _commented(text) if style == "latex" else text


@dataclass(frozen=True)
class _View:
    """The form of the output: `width` is the maximum characters of a line, None for no limit."""

    style: str
    metrics: Sequence[str]
    full: bool
    width: int | None

    def lines(self, text: str) -> str:
        """Wraps lines that are too long."""
        if self.width is None:
            return text
        return "\n".join(
            line if len(line) <= self.width else fill(line, self.width, subsequent_indent="  ")
            for line in text.splitlines()
        )

    def grid(self, rows: Sequence[Sequence[str]], header: Sequence[str], keys: int = 2) -> str:
        """Formats a table that fits the width."""
        # Without a limit, a table in a terminal is still split to fit it.
        return grid(rows, header, keys=keys, style=FORMATS[self.style], width=self.width)


def _commented(text: str) -> str:
    """LaTeX that compiles: everything but the tables is a comment."""
    lines, inside = [], False
    for line in text.splitlines():
        inside = inside or line.startswith("\\begin{tabular}")
        lines.append(line if inside or not line else f"% {line}")
        inside = inside and not line.startswith("\\end{tabular}")
    return "\n".join(lines)


def _head(group: Group, view: _View) -> str:
    metrics = view.metrics or SHOWN
    letters = [_letter(at) for at in range(len(group.runs))]
    lines = [f"{letter} = {run}" for letter, run in zip(letters, group.runs, strict=True)]
    lines += [
        f"{count_of(failed, 'queries')} of {letter} failed and count 0."
        for letter, failed in zip(letters, group.failed, strict=True)
        if failed
    ]
    lines += [
        f"{letter}: {message}"
        for letter, returned in zip(letters, group.returned, strict=True)
        if (message := unreached_message(returned, metrics))
    ]
    text = view.lines("\n".join(lines))
    if group.settings:
        style = "pipe" if view.style == "markdown" else "simple"
        rows = [[one.what, *one.short_values] for one in group.settings]
        text += f"\n\n{grid(rows, ['setting', *letters], width=view.width, style=style)}"
    return text


def _table(group: Group, table: Table, view: _View) -> str:
    cells = [cell for cell in table.cells if cell.metric in (view.metrics or SHOWN)]
    notes = [
        f"excluded: {metric}: {why}"
        for metric, why in table.left_out.items()
        if metric in (view.metrics or SHOWN)
    ]
    title = (
        f"protocol={table.protocol}  level={table.level}  average={table.average}  "
        f"clusters={count_of(table.clusters, table.cluster_by)}"
    )
    if not cells:
        return view.lines("\n".join([title, "None of these metrics is in all runs.", *notes]))
    letters = [_letter(at) for at in range(len(group.runs))]
    notes += [
        f"{count_of(n, 'queries')} of {letter} excluded: another run has no value for them."
        for letter, n in zip(letters, table.dropped, strict=False)
        if n
    ]
    below = view.lines("\n".join([foot(table, cells, full=view.full), *notes]))
    parts = [title, *_grids(cells, letters, view), below]
    parts.append(view.lines(render_behind(table.behind, letters, view.grid)))
    return "\n\n".join(filter(None, parts))


def _grids(cells: Sequence[Cell], letters: Sequence[str], view: _View) -> list[str]:
    """The table of means and differences; means and differences apart for three runs or more."""
    names = ["slice", "metric", "n"]
    means = [
        [cell.slice, cell.metric, str(cell.means[0].n), *(_mean(m, view.full) for m in cell.means)]
        for cell in cells
    ]
    asked = cells[0].pairs[0] if cells[0].pairs else None
    if asked is None:
        return [view.grid(means, [*names, *letters])]
    header = ["difference", "95% interval", "p", ""]
    header += ["detectable", "effect size", "wins/losses/ties"] if view.full else []
    header += [f"p ({name})" for name in asked.others]
    header += [f"within {asked.equivalence.margin:g}"] if asked.equivalence else []
    if len(letters) == 2:
        header[0] = f"{letters[1]} - {letters[0]}"
        rows = [
            [*mean, *_pair(cell.pairs[0], view.full)]
            for mean, cell in zip(means, cells, strict=True)
        ]
        return [view.grid(rows, [*names, *letters, *header])]
    rows = [
        [
            *([cell.slice, cell.metric] if at == 0 else ["", ""]),
            f"{letters[pair.b]} - {letters[pair.a]}",
            *_pair(pair, view.full),
        ]
        for cell in cells
        for at, pair in enumerate(cell.pairs)
    ]
    return [
        view.grid(means, [*names, *letters]),
        view.grid(rows, ["slice", "metric", "pair", *header], keys=3),
    ]


def _pair(pair: Pair, full: bool) -> list[str]:
    found = pair.found
    d = found.difference
    more = [
        _known(pair.detectable),
        _known(found.effect_size, 2),
        f"{found.wins}/{found.losses}/{found.ties}",
    ]
    return [
        f"{d.value:+.4f}",
        "-" if not d.low < d.high else f"[{d.low:+.4f}, {d.high:+.4f}]",
        _p(pair.p),
        "*" if pair.shown else "",
        *(more if full else []),
        *(_p(p) for p in pair.others.values()),
        *([_equivalent(pair.equivalence)] if pair.equivalence else []),
    ]


def _equivalent(found: Equivalence) -> str:
    if found.p < found.alpha:
        return f"shown (p {_p(found.p)})"
    if found.equivalent or found.here:
        return f"shown{'' if found.equivalent else ' here'} ({found.share:.1%} differ)"
    return "inconclusive" if found.note else f"not shown (p {_p(found.p)})"


def _p(value: float) -> str:
    return "<0.0001" if value < 0.0001 else _known(value)


def _known(value: float, digits: int = 4) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _mean(mean: MeanInterval, full: bool) -> str:
    if not full or mean.method == "none":
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


def render_split(rows: Sequence[ComparisonRow]) -> str:
    """Formats an unpaired comparison as text."""
    lines = [
        [
            row.slice,
            row.metric,
            f"{row.found.mean_b:.4f}",
            f"{row.found.mean_a:.4f}",
            f"{row.found.n_b} / {row.found.n_a}",
            f"{row.found.difference:+.4f}",
            "-" if math.isnan(row.found.low) else f"[{row.found.low:+.4f}, {row.found.high:+.4f}]",
            _p(row.p),
            _known(row.found.effect_size, 2),
        ]
        for row in rows
    ]
    head = ["slice", "metric", "A", "B", "n", "B - A", "95% interval", "p", "d"]
    methods = ", ".join(dict.fromkeys(row.found.method for row in rows))
    clustered = bool(rows) and rows[0].found.clusters_a < rows[0].found.n_a
    cluster_by = "haystacks" if clustered else "queries"
    approximate = [
        name_clusters(row.found.note, cluster_by) for row in rows if row.found.approximate
    ]
    notes = "; ".join(dict.fromkeys(approximate))
    text = [
        f"Unpaired comparison: {WHY}. A paired one of as many queries would have more power.",
        grid(lines, head, keys=2, width=WIDTH),
        f"Intervals and p: {methods} over {cluster_by}{f'; approximate: {notes}' if notes else ''}."
        "\np: corrected for all tests of this table (Holm).  d: Cohen's d.",
    ]
    return "\n\n".join(text)


# -- Notes below a table: methods, and how to read it ----------------------------------------------


def foot(table: Table, cells: Sequence[Cell], *, full: bool = True) -> str:
    """The notes below a table of these cells, one sentence in a line.

    `full`: with those on the columns that only `--full` shows.
    """
    if not cells[0].pairs:
        return "\n".join(_intervals("means", [one for cell in cells for one in cell.means], table))
    pairs = [pair for cell in cells for pair in cell.pairs]
    lines = _intervals("differences", [pair.found.difference for pair in pairs], table)
    if full:
        means = [mean for cell in cells for mean in cell.means]
        lines = list(dict.fromkeys([*_intervals("means", means, table), *lines]))
    how = f"{'t tests' if table.test == 't' else 'sign flips'} over {table.cluster_by}"
    if table.tests > 1:
        method = "Holm" if table.test == "t" else "max-T"
        how += f", corrected for all {table.tests} tests of this table ({method})"
    lines += [f"p: {how}.", f"*: significant (p <= {1 - pairs[0].found.difference.level:.2g})."]
    if lower := dict.fromkeys(cell.metric for cell in cells if is_lower_better(cell.metric)):
        lines.append(f"{', '.join(lower)}: lower is better.")
    lines += _what_each_answers(table, cells)
    if full:
        power = pairs[0].found.power.power
        lines.append(
            f'detectable: minimum detectable difference at {power:.0%} power ("-": not estimable).'
        )
        lines.append("effect size: Cohen's d_z.")
    if pairs[0].others or pairs[0].equivalence:
        lines.append("The p of additional tests are not corrected.")
    queries_in_haystacks = table.cluster_by == "haystacks" and table.average == "queries"
    if "wilcoxon" in pairs[0].others and queries_in_haystacks:
        lines.append("p (wilcoxon) treats queries as independent, which they are not here.")
    if pairs[0].equivalence:
        lines += _what_equivalence_is(table, pairs)
    if not full:
        lines.append(
            "--full adds the intervals of means, detectable differences, effect sizes and wins."
        )
    return "\n".join(lines)


def _what_equivalence_is(table: Table, pairs: Sequence[Pair]) -> list[str]:
    found = [pair.equivalence for pair in pairs if pair.equivalence]
    lines = ["within: two one-sided t tests show that the difference is smaller than the margin."]
    if any(one.equivalent and not one.p < one.alpha for one in found):
        lines.append(
            "shown (... differ): an upper bound of the share of queries that differ is below it."
        )
    if any(one.here and not one.equivalent for one in found):
        lines.append(
            f"shown here: for these {table.cluster_by} only, by the share of queries that differ."
        )
    notes = [one.note for one in found if not one.equivalent]
    return lines + [f"inconclusive: {note}." for note in _merged(notes, table.cluster_by)]


def _what_each_answers(table: Table, cells: Sequence[Cell]) -> list[str]:
    """Why an interval may exclude 0 without a significant difference, and what to do."""
    pairs = [pair for cell in cells for pair in cell.pairs]
    moved = [pair for pair in pairs if pair.found.wins or pair.found.losses]
    if not moved:
        return ["The runs have equal values for every query."]
    hopeless = all(pair.open for pair in moved)
    lines = []
    if hopeless:
        lines.append(
            f"No difference of any size can be significant: too few {table.cluster_by} differ "
            f"for {count_of(table.tests, 'tests')}."
        )
    elif not all(pair.shown for pair in pairs):
        lines.append("No star: not significant; this does not show that the systems are equal.")
    ends = [(pair.found.difference, pair.shown) for pair in pairs]
    if any((d.low > 0 or d.high < 0) and not shown for d, shown in ends):
        why = "only p is corrected for the number of tests"
        if table.tests == 1:
            method = METHOD_NAMES[pairs[0].found.difference.method]
            why = f"the interval is computed by {method}, p by {table.test}"
        lines.append(f"An interval may exclude 0 without a star: {why}.")
    if table.cluster_by == "haystacks" and (hopeless or not any(pair.shown for pair in pairs)):
        lines.append("More haystacks give more power.")
        if table.average == "queries":
            questions = count_of(max(cell.means[0].n for cell in cells), "questions")
            lines.append(
                f"`--cluster-by queries` tests {questions}, not "
                f"{count_of(table.clusters, table.cluster_by)}: valid for these haystacks only, if "
                "questions about one are independent."
            )
    return lines


def _intervals(what: str, every: Sequence[MeanInterval], table: Table) -> list[str]:
    """The methods of the intervals of means or differences, each once."""
    made = [one for one in every if one.method != "none"]
    lines = []
    if made:
        # Numbers, and effective numbers, differ between slices.
        methods = " or ".join(dict.fromkeys(METHOD_NAMES[one.method] for one in made))
        notes = _merged([one.note for one in made if one.approximate], table.cluster_by)
        approximate = f"; approximate: {'; '.join(notes[:3])}" if notes else ""
        lines.append(f"Intervals of {what}: {methods} over {table.cluster_by}{approximate}.")
    notes = [one.note for one in every if one.method == "none" and one.n]
    return [*lines, *(f"{note}." for note in _merged(notes, table.cluster_by))]


def _merged(notes: Sequence[str], cluster_by: str) -> list[str]:
    """Notes with the name of the units; of notes that differ in numbers only, the smallest."""
    least: dict[str, tuple[float, str]] = {}
    for note in dict.fromkeys(filter(None, notes)):
        numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", note)]
        text = min(numbers, default=0.0), name_clusters(note, cluster_by)
        kind = re.sub(r"\d+(?:\.\d+)?", "", note)
        least[kind] = min(least.get(kind, text), text)
    return [text for _, text in least.values()]
