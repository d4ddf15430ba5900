"""The pictures of a report as files, from the same object that the page draws (matplotlib)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.pages.records import ReportData
from harness.records.base import to_tree

COLOURS = ("#0a5fbf", "#a84300")
_QUIET = "#575e68"
_DPI = 200

Axes = Any
Draw = Callable[[Axes, dict[str, Any]], None]


def write_plots(report: ReportData, folder: Path) -> list[Path]:
    """Write each picture as SVG and PNG; those of which there is nothing to show are left out.

    Raises OSError for a folder that cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    data = to_tree(report)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    # The same data give the same bytes: no dates, and ids of SVG by a fixed salt.
    style: dict[str, Any] = {"svg.hashsalt": "harness", "svg.fonttype": "none", "font.size": 11}
    style |= {"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True}
    with plt.rc_context(style):  # type: ignore[arg-type,unused-ignore]
        for name, draw in _pictures(data).items():
            figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
            draw(axes, data)
            figure.suptitle(_heading(report), fontsize=10, color=_QUIET, x=0.01, ha="left")
            for kind in ("svg", "png"):
                path = folder / f"{name}.{kind}"
                dated = {"Date": None} if kind == "svg" else {"Software": None}
                figure.savefig(path, dpi=_DPI, metadata=dated)
                written.append(path)
            plt.close(figure)
    return written


def _pictures(data: Mapping[str, Any]) -> dict[str, Draw]:
    found: dict[str, Draw] = {}
    if data["protocols"] and data["protocols"][data["main"]]["slices"]:
        found["abilities"] = abilities
    if data["by_k"]:
        found["metrics-by-k"] = depth
    if any(one["slices"] for one in data["by_tokens"]):
        found["recall-by-tokens"] = tokens
    if any(data["risk"]):
        found["risk-coverage"] = risk
    if data["latency"]:
        found["latency"] = latency
    return found


def _heading(report: ReportData) -> str:
    dataset = report.dataset
    return (
        f"{report.title}: {dataset.granularity}, {dataset.text} text, {dataset.split}, "
        f"data {dataset.fingerprint[:8]}, {report.asked:,} queries"
    )


def _names(data: Mapping[str, Any]) -> list[str]:
    runs = data["runs"]
    if len(runs) == 1:
        return [runs[0]["system"]]
    return [f"{letter}: {run['system']}" for letter, run in zip("AB", runs, strict=True)]


def abilities(axes: Axes, data: Mapping[str, Any]) -> None:
    """Means by slice with intervals, random baseline and upper bound."""
    block = data["protocols"][data["main"]]
    metric, names = block["lead"], [part["name"] for part in block["slices"]]
    runs = len(block["results"])
    for run, label in enumerate(_names(data)):
        places = [i + (run - (runs - 1) / 2) * 0.28 for i in range(len(names))]
        cells = [block["results"][run][name][metric] for name in names]
        for place, cell in zip(places, cells, strict=True):
            if cell["interval"]:
                ends = [cell["interval"]["low"], cell["interval"]["high"]]
                axes.plot(ends, [place] * 2, color=COLOURS[run], lw=4, alpha=0.45)
        known = [
            (c["value"], p) for c, p in zip(cells, places, strict=True) if c["value"] is not None
        ]
        axes.plot(*zip(*known, strict=True), "o", color=COLOURS[run], label=label, ms=7)
    for part, style in (("random_baseline", ":"), ("upper_bound", "-")):
        for i, name in enumerate(names):
            value = block["results"][0][name][metric].get(part)
            if value is not None:
                named = part.replace("_", " ") if i == 0 else None
                axes.plot(
                    [value] * 2, [i - 0.35, i + 0.35], style, color=_QUIET, lw=1.5, label=named
                )
    ns = [f"{part['name']}\nn {part['n']:,}" for part in block["slices"]]
    axes.set_yticks(range(len(names)), ns)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.01)
    axes.set_xlabel(f"{metric}, {block['protocol']}, with 95% intervals")
    axes.grid(axis="x", color="#e4e6ea")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _band(
    axes: Axes, xs: Sequence[float], series: Mapping[str, Any], colour: str, **line: Any
) -> None:
    if series["low"]:
        axes.fill_between(xs, series["low"], series["high"], color=colour, alpha=0.15, lw=0)
    axes.plot(xs, series["value"], color=colour, lw=2, **line)


def depth(axes: Axes, data: Mapping[str, Any]) -> None:
    """Recall and precision against k."""
    for run, label in enumerate(_names(data)):
        one = data["by_k"][run]
        part = one["slices"]["all"]
        for family, dash in (("recall", "-"), ("precision", "--")):
            series = part["families"][family]
            _band(axes, one["ks"], series, COLOURS[run], ls=dash, label=f"{family}, {label}")
        random = part["families"]["recall"]["random_baseline"]
        if run == 0 and random is not None:
            axes.plot(one["ks"], random, ":", color=_QUIET, label="recall of a random order")
    if data["by_k"][0]["ks"][-1] > 100:
        _log(axes)
    axes.set_xlabel(f"k, {data['by_k_of']}, n {data['by_k'][0]['slices']['all']['n']:,}")
    _unit(axes)


def tokens(axes: Axes, data: Mapping[str, Any]) -> None:
    """Recall within a budget of tokens."""
    for run, label in enumerate(_names(data)):
        one = data["by_tokens"][run]
        name = next(iter(one["slices"]))
        part = one["slices"][name]
        _band(axes, one["budgets"], part["recall"], COLOURS[run], marker="o", ms=4, label=label)
    _log(axes)
    axes.set_xlabel(f"tokens of retrieved text ({data['tokenizer']})")
    axes.set_ylabel(f"recall, {name}, n {part['n']:,}")
    _unit(axes)


def risk(axes: Axes, data: Mapping[str, Any]) -> None:
    """Share of wrong answers among the surest."""
    for run, label in enumerate(_names(data)):
        one = data["risk"][run]
        if one is None:
            continue
        axes.plot(
            one["coverage"],
            one["risk"],
            color=COLOURS[run],
            lw=2,
            label=f"{label}, AURC {one['aurc']:.3f}",
        )
        axes.axhline(one["overall"], color=COLOURS[run], ls=":", lw=1)
        axes.plot(one["coverage"], one["best"], color=COLOURS[run], lw=0.8, alpha=0.7)
        axes.set_xlabel(f"coverage, n {one['n']:,}; thin: the best order, dotted: a guess")
        axes.set_ylabel(f"risk: {one['wrong_definition']}")
    _unit(axes)


def latency(axes: Axes, data: Mapping[str, Any]) -> None:
    """Time of a query, on a log scale."""
    edges = data["latency"]["edges_ms"]
    for run, label in enumerate(_names(data)):
        one = data["latency"]["runs"][run]
        if one is None:
            continue
        said = f"{label}: p50 {one['p50']:.3g}, p95 {one['p95']:.3g}, p99 {one['p99']:.3g} ms"
        axes.stairs(one["share"], edges, fill=True, color=COLOURS[run], alpha=0.5, label=said)
        axes.axvline(one["p50"], color=COLOURS[run], lw=1)
    _log(axes)
    axes.set_xlabel("milliseconds a query")
    axes.set_ylabel("share of queries")
    axes.legend(frameon=False)


def _log(axes: Axes) -> None:
    """A log scale whose ticks are written as plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _unit(axes: Axes) -> None:
    axes.set_ylim(0, 1.01)
    axes.grid(color="#e4e6ea")
    axes.legend(frameon=False, fontsize=9)
