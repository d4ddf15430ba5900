"""Renders a night's summary as Markdown, or for a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from harness.extensions.site.history import (
    FELL,
    INCONCLUSIVE,
    INCONCLUSIVE_WORDS,
    NOT_SHOWN,
    ROSE,
    UNCHANGED,
    ShortMean,
)
from harness.extensions.site.nightly.summary import (
    FailedRun,
    JudgedChange,
    NightlySummary,
    NotRun,
    RunSummary,
    ScoredRunSummary,
)
from harness.io.records import convert, to_plain
from harness.io.terminal import count_of, digits, grid


def render(found: NightlySummary, style: str) -> str:
    """Renders the summary; `style` is `markdown`, or `terminal`, without the table of runs."""
    if style == "markdown":
        found = convert(_escaped(to_plain(found)), NightlySummary, "summary.json")
    parts = [*_parts(found, style)]
    if style == "terminal":
        return "\n\n".join(f"{title}\n{body}" if title else body for title, body in parts)
    head = f"# Nightly run of {_time(found.night)}"
    return "\n\n".join([head, *(f"## {t}\n\n{b}" if t else b for t, b in parts)]) + "\n"


def headline(found: NightlySummary) -> str:
    """Returns one line with the number of successful runs, and the changes since the last time."""
    scored = _scored(found)
    failed = sum(isinstance(run, FailedRun) for run in found.runs)
    missing = sum(isinstance(run, NotRun) for run in found.runs)
    parts = [f"{len(scored)} of {len(found.runs)} runs ok"]
    parts += [f"{n} {name}" for n, name in ((failed, "failed"), (missing, "not run")) if n]
    queries = sum(run.queries.failed for run in scored)
    if queries:
        parts.append(f"{count_of(queries, 'queries')} failed")
    return "; ".join([*parts, *found.messages])


def _scored(found: NightlySummary) -> list[ScoredRunSummary]:
    return [run for run in found.runs if isinstance(run, ScoredRunSummary)]


def _parts(found: NightlySummary, style: str) -> Iterator[tuple[str, str]]:
    """Yields title and body of every part."""
    yield "", headline(found)
    if not found.complete:
        yield "", "The list was stopped before its end; continue it with --resume."
    if found.failed:
        yield "Failed", _list([f"{_name(run)}: {run.reason}" for run in found.failed])
    for outcome, title in (
        ("fail", f"Dropped by more than {found.max_drop}"),
        ("inconclusive", "Inconclusive drops"),
    ):
        mine = [f"{one.rule}: {one.message}" for one in found.drops if one.outcome == outcome]
        if mine:
            yield title, _list(mine)
    yield "Changes since the previous run", _changed(found, style)
    if style == "markdown":
        yield "All runs", _runs(found)
    settings = [
        [run.dataset, run.system, row.setting, row.before, row.now]
        for run in _scored(found)
        for row in run.changed_settings
    ]
    if settings:
        head = ["dataset", "system", "setting", "before", "now"]
        yield "Settings that changed", _table(settings, head, style)


def _changed(found: NightlySummary, style: str) -> str:
    """Renders a table of changed metrics, then a line for each other state."""
    rows = [
        [
            run.dataset,
            run.system,
            metric,
            change.n,
            digits(change.before),
            digits(_sum(change.before, change.difference)),
            _signed(change.difference),
            _span(change.low, change.high, _signed),
            "-" if change.p_corrected is None else _p(change.p_corrected),
            f"{change.wins}/{change.losses}",
            f"**{change.verdict}**"
            if style == "markdown" and change.verdict in (ROSE, FELL)
            else change.verdict,
        ]
        for run, metric, change in _changes(found)
        if change.verdict != UNCHANGED
    ]
    head = ["dataset", "system", "metric", "n", "before", "now", "change", "95% interval"]
    parts = [_table(rows, [*head, "p (Holm)", "won/lost", ""], style)] if rows else []
    parts.append(_list([*_states(found), *_notes(found)]))
    return "\n\n".join(part for part in parts if part) or "nothing was compared"


def _states(found: NightlySummary) -> Iterator[str]:
    """Lists the runs without a row in the table of changes, and the reasons."""
    scored = _scored(found)
    for state, words in (
        ("unchanged", "unchanged, query for query"),
        ("first", "first run, nothing to compare with"),
    ):
        if names := [_name(run) for run in scored if run.change.state == state]:
            yield f"{words}: {', '.join(names)}"
    for run in scored:
        if run.change.state == "not comparable":
            when = f" with {_time(run.change.since)}" if run.change.since else ""
            yield f"not comparable: {_name(run)}{when}: {'; '.join(run.change.reasons)}"


def _notes(found: NightlySummary) -> Iterator[str]:
    """Explains the words of the table."""
    changes = _changes(found)
    outcomes = {change.verdict for *_, change in changes}
    if NOT_SHOWN in outcomes:
        yield f"{NOT_SHOWN}: not significant; this does not show that nothing changed"
    if INCONCLUSIVE in outcomes:
        few = {
            f"{count_of(run.change.clusters, run.change.cluster_by)} of {run.dataset}"
            for run, _, change in changes
            if change.verdict == INCONCLUSIVE
        }
        yield (
            f"{INCONCLUSIVE_WORDS} (nor a rise): {', '.join(sorted(few))} are too few to test "
            f"{found.tests.all_queries} metrics together; "
            'cluster_by = "queries" in [nightly] treats questions to one haystack as independent'
        )
    moved = [run for run, _, change in changes if change.verdict in (ROSE, FELL)]
    if moved and found.complete:
        stored = moved[0].stored_as
        yield (
            f"more on {_name(moved[0])}, in the folder of this summary: "
            f"harness compare before/{stored} last/{stored} --cluster-by {found.tests.cluster_by} "
            "--queries 3"
        )
    since = {run.change.since for run in _scored(found) if run.change.since}
    if since:
        days = " to ".join(dict.fromkeys(_time(at) for at in (min(since), max(since))))
        yield f"previous run: {days}"


def _runs(found: NightlySummary) -> str:
    scored = _scored(found)
    metrics = list(dict.fromkeys(m for run in scored for m in run.metrics.get("all", {})))
    rows: list[list[object]] = []
    for run in found.runs:
        line: list[object] = [run.dataset, run.system]
        if not isinstance(run, ScoredRunSummary):
            state = "failed" if isinstance(run, FailedRun) else "not run"
            rows.append([*line, f"**{state}**", "", *("-" for _ in metrics), "-", "-"])
            continue
        queries, means = run.queries, run.metrics.get("all", {})
        state = f"{queries.failed} of {queries.asked} failed" if queries.failed else "ok"
        shown = [_mean(means[m]) if m in means else "-" for m in metrics]
        now, before = run.times, run.previous_times
        spent = [
            _spent(now.index_seconds, before.index_seconds if before else None),
            _spent(now.search_ms, before.search_ms if before else None),
        ]
        n = max((mean.n for mean in means.values()), default=0)
        rows.append([*line, state, n, *shown, *spent])
    head = ["dataset", "system", "state", "n", *metrics, "index s", "p50 ms"]
    ways = dict.fromkeys(filter(None, map(_interval_note, scored)))
    note = (
        f"95% intervals: {'; '.join(ways)}. " if ways else ""
    ) + "Times: those of the previous run in brackets; they are not tested."
    return f"{_table(rows, head, 'markdown')}\n\n{note}"


def _interval_note(run: ScoredRunSummary) -> str:
    """Says how the intervals of a run's means were computed."""
    if (found := run.intervals) is None:
        return ""
    approximate = f" (approximate: {found.approximate})" if found.approximate else ""
    return f"over {count_of(found.clusters, found.cluster_by)} of {run.dataset}{approximate}"


def _changes(found: NightlySummary) -> list[tuple[ScoredRunSummary, str, JudgedChange]]:
    """Returns run, metric and change of every compared main metric over all queries."""
    return [
        (run, metric, mean.change)
        for run in _scored(found)
        for metric, mean in run.metrics.get("all", {}).items()
        if mean.change is not None
    ]


def _table(rows: Sequence[Sequence[object]], head: Sequence[str], style: str) -> str:
    kind = "pipe" if style == "markdown" else "simple"
    return grid(rows, head, keys=2, style=kind)


def _escaped(value: object) -> object:
    """Escapes the texts of a summary, so that they cannot end a table row or become markup."""
    if isinstance(value, dict):
        return {key: _escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    if isinstance(value, str):
        return re.sub(r"([\\`*<\[\]|])", r"\\\1", " ".join(value.split()))
    return value


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _name(run: RunSummary) -> str:
    return f"{run.system} on {run.dataset}"


def _time(at: str) -> str:
    return f"{at[:16].replace('T', ' ')} UTC"


def _mean(mean: ShortMean) -> str:
    span = "" if mean.low is None else f" [{_span(mean.low, mean.high, digits)}]"
    return f"{digits(mean.value)}{span}"


def _spent(now: float | None, before: float | None) -> str:
    if now is None:
        return "-"
    return f"{now:.3g}" if before is None else f"{now:.3g} ({before:.3g})"


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _span(low: float | None, high: float | None, show: Callable[[float], str]) -> str:
    return "-" if low is None or high is None else f"{show(low)} to {show(high)}"


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"
