"""A night's summary as a person reads it: Markdown, or what a terminal shows below the table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.scoring.grid import grid
from harness.scoring.uncertainty import counted
from harness.verdicts.history import FELL, NOT_SHOWN, OPEN, OPEN_WORDS, ROSE, UNCHANGED

Run = Mapping[str, Any]


def render(found: Mapping[str, Any], style: str) -> str:
    """The summary; `style` is `markdown`, or `terminal`, where the table of runs is left out."""
    if style == "markdown":
        found = _escaped(found)
    parts = [*_parts(found, style)]
    if style == "terminal":
        return "\n\n".join(f"{title}\n{body}" if title else body for title, body in parts)
    head = f"# Nightly run of {_time(found['night'])}"
    return "\n\n".join([head, *(f"## {t}\n\n{b}" if t else b for t, b in parts)]) + "\n"


def headline(found: Mapping[str, Any]) -> str:
    """One line: how many runs went well, and what their numbers show since the last time."""
    runs = found["runs"]
    states = [run["state"] for run in runs]
    parts = [f"{states.count('ok')} of {len(runs)} runs ok"]
    parts += [f"{states.count(name)} {name}" for name in ("failed", "not run") if name in states]
    queries = sum(run["queries"]["failed"] for run in runs if run["state"] == "ok")
    if queries:
        parts.append(f"{counted(queries, 'queries')} failed")
    return "; ".join([*parts, *found["told"]])


def _parts(found: Mapping[str, Any], style: str) -> Iterator[tuple[str, str]]:
    """Title and body of everything that there is to say."""
    yield "", headline(found)
    if not found["complete"]:
        yield "", "The list was stopped before its end; with --resume it goes on."
    failed = [f"{_name(run)}: {run['why']}" for run in found["runs"] if run["state"] == "failed"]
    if failed:
        yield "Failed", _list(failed)
    for open, title in (
        (False, f"Dropped by more than {found['max_drop']}"),
        (True, f"Fell by more than {found['max_drop']}, and {OPEN_WORDS}"),
    ):
        mine = [f"{one['rule']}: {one['said']}" for one in found["drops"] if one["open"] == open]
        if mine:
            yield title, _list(mine)
    yield "Changes since the last time", _changed(found, style)
    if style == "markdown":
        yield "All runs", _runs(found)
    settings = [
        [run["dataset"], run["system"], *row.values()]
        for run in found["runs"]
        for row in run.get("changed", ())
    ]
    if settings:
        head = ["dataset", "system", "setting", "before", "now"]
        yield "Settings that changed", _table(settings, head, style)


def _changed(found: Mapping[str, Any], style: str) -> str:
    """A table of what is not unchanged, then a line for each other state."""
    rows = [
        [
            run["dataset"],
            run["system"],
            metric,
            cell["n"],
            _plain(cell["before"]),
            _plain(_sum(cell["before"], cell["difference"])),
            _signed(cell["difference"]),
            _span(cell["low"], cell["high"], _signed),
            "-" if cell["p_corrected"] is None else _p(cell["p_corrected"]),
            f"{cell['won']}/{cell['lost']}",
            f"**{cell['verdict']}**"
            if style == "markdown" and cell["verdict"] in (ROSE, FELL)
            else cell["verdict"],
        ]
        for run, metric, cell in _changes(found)
        if cell["verdict"] != UNCHANGED
    ]
    head = ["dataset", "system", "metric", "n", "before", "now", "change", "95% interval"]
    parts = [_table(rows, [*head, "p (Holm)", "won/lost", ""], style)] if rows else []
    parts.append(_list([*_states(found), *_notes(found)]))
    return "\n\n".join(part for part in parts if part) or "nothing was compared"


def _states(found: Mapping[str, Any]) -> Iterator[str]:
    """Runs that are in no row of the table of changes, and why."""
    same = [_name(r) for r in found["runs"] if r.get("change", {}).get("state") == "unchanged"]
    if same:
        yield f"unchanged, query for query: {', '.join(same)}"
    first = [_name(r) for r in found["runs"] if r.get("change", {}).get("state") == "first"]
    if first:
        yield f"the first time, nothing to compare with: {', '.join(first)}"
    for run in found["runs"]:
        if run.get("change", {}).get("state") == "not comparable":
            reasons = "; ".join(run["change"]["reasons"])
            since = run["change"].get("since")
            when = f" with {_time(since)}" if since else ""
            yield f"not comparable: {_name(run)}{when}: {reasons}"


def _notes(found: Mapping[str, Any]) -> Iterator[str]:
    """How to read the words of the table."""
    said = {cell["verdict"] for _, _, cell in _changes(found)}
    if NOT_SHOWN in said:
        yield f"{NOT_SHOWN}: the difference is within what chance does, which is not none"
    if OPEN in said:
        few = {
            f"{counted(run['change']['units'], run['change']['over'])} of {run['dataset']}"
            for run, _, cell in _changes(found)
            if cell["verdict"] == OPEN
        }
        yield (
            f"{OPEN_WORDS} (nor a rise): {', '.join(sorted(few))} are too few for any test beside "
            f'{found["tests"]["all queries"]} others; over = "queries" in [nightly] takes '
            "questions to one haystack for independent"
        )
    moved = [run for run, _, cell in _changes(found) if cell["verdict"] in (ROSE, FELL)]
    if moved and found["complete"]:
        kept = moved[0]["kept"]
        yield (
            f"more on {_name(moved[0])}, in the folder of this summary: "
            f"harness compare before/{kept} last/{kept} --over {found['tests']['over']} "
            "--queries 3"
        )
    since = {run["change"]["since"] for run in found["runs"] if "since" in run.get("change", {})}
    if since:
        days = " to ".join(dict.fromkeys(_time(at) for at in (min(since), max(since))))
        yield f"the last time: {days}"


def _runs(found: Mapping[str, Any]) -> str:
    metrics = list(
        dict.fromkeys(m for r in found["runs"] for m in r.get("metrics", {}).get("all", {}))
    )
    rows = []
    for run in found["runs"]:
        line = [run["dataset"], run["system"]]
        if run["state"] != "ok":
            rows.append([*line, f"**{run['state']}**", "", *("-" for _ in metrics), "-", "-"])
            continue
        queries, cells = run["queries"], run["metrics"].get("all", {})
        state = f"{queries['failed']} of {queries['asked']} failed" if queries["failed"] else "ok"
        shown = [_mean(cells[m]) if m in cells else "-" for m in metrics]
        now, before = run["times"], run["times_before"] or {}
        spent = [_spent(now[k], before.get(k)) for k in ("index_seconds", "search_ms")]
        n = max((cell["n"] for cell in cells.values()), default=0)
        rows.append([*line, state, n, *shown, *spent])
    head = ["dataset", "system", "state", "n", *metrics, "index s", "p50 ms"]
    ways = dict.fromkeys(_way(run) for run in found["runs"] if run.get("intervals"))
    note = (
        f"95% intervals: {'; '.join(ways)}. " if ways else ""
    ) + "Times: in brackets those of the last time; they are not tested."
    return f"{_table(rows, head, 'markdown')}\n\n{note}"


def _way(run: Run) -> str:
    """How the intervals of a run's means were made."""
    made = run["intervals"]
    rough = f" (approximate: {made['approximate']})" if made["approximate"] else ""
    return f"over {counted(made['clusters'], made['cluster_by'])} of {run['dataset']}{rough}"


def _changes(found: Mapping[str, Any]) -> list[tuple[Run, str, dict[str, Any]]]:
    """Run, metric and change of every main metric over all queries that was compared."""
    return [
        (run, metric, cell["change"])
        for run in found["runs"]
        for metric, cell in run.get("metrics", {}).get("all", {}).items()
        if "change" in cell
    ]


def _table(rows: Sequence[Sequence[Any]], head: Sequence[str], style: str) -> str:
    kind = "pipe" if style == "markdown" else "simple"
    return grid(rows, head, keys=2, style=kind)


def _escaped(value: Any) -> Any:
    """The values of a summary with texts that cannot end a row of a table, nor become markup."""
    if isinstance(value, Mapping):
        return {key: _escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    if isinstance(value, str):
        return re.sub(r"([\\`*<\[\]|])", r"\\\1", " ".join(value.split()))
    return value


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _name(run: Run) -> str:
    return f"{run['system']} on {run['dataset']}"


def _time(at: str) -> str:
    return f"{at[:16].replace('T', ' ')} UTC"


def _mean(cell: Mapping[str, Any]) -> str:
    span = "" if cell["low"] is None else f" [{_span(cell['low'], cell['high'], _plain)}]"
    return f"{_plain(cell['value'])}{span}"


def _spent(now: float | None, before: float | None) -> str:
    if now is None:
        return "-"
    return f"{now:.3g}" if before is None else f"{now:.3g} ({before:.3g})"


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _span(low: float | None, high: float | None, show: Any) -> str:
    return "-" if low is None or high is None else f"{show(low)} to {show(high)}"


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"
