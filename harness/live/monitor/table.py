"""What a person reads in the terminal: the window by ability, drift, feedback, alarms."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from harness.live.monitor.alerts import RATES, TIMES

_RATES = {"no_result": "no result", "false_evidence": "false evidence"}


def table(snapshot: dict[str, Any]) -> str:
    """All of a snapshot in lines of text."""
    from tabulate import tabulate

    window, totals, metrics = snapshot["window"], snapshot["totals"], snapshot["metrics"]
    parts = [
        f"{totals['recalls']:,} recalls so far; below, the last {window['n']:,}"
        + _span(window["from"], window["to"])
    ]
    if not snapshot["labels"]:
        metrics = []
        parts.append("no labels were given: nothing is known of recall, precision and rank")
    rates = [name for name in RATES if snapshot["slices"]["all"][name]["n"]]
    rows = []
    for name, cell in _ordered(snapshot["slices"]):
        row = [name, f"{cell['n']:,}"]
        if metrics:
            row += [f"{cell['scored']:,}", *(_number(cell["metrics"][m]) for m in metrics)]
        row += [_number(cell[rate]["value"]) for rate in rates]
        row += [_seconds(cell["seconds"][time]) for time in TIMES]
        rows.append(row)
    head = ["window", "n", *(["scored", *metrics] if metrics else [])]
    head += [*(_RATES.get(rate, rate) for rate in rates), *(f"time {time}" for time in TIMES)]
    align = ["left"] + ["right"] * (len(head) - 1)
    parts.append(tabulate(rows, head, colalign=align, disable_numparse=True))
    if metrics:
        parts.append(
            "scored: recalls of labelled queries with evidence; every mean is over those alone"
        )
    parts += [*_drift(snapshot["drift"]), *_feedback(snapshot["feedback"])]
    parts += [*_tests(snapshot["tests"]), *_alerts(snapshot)]
    return "\n".join(parts)


def line(snapshot: dict[str, Any]) -> str:
    """One line for a log."""
    cell, n = snapshot["slices"]["all"], snapshot["totals"]["recalls"]
    means = ", ".join(
        f"{name} {_number(value)}" for name, value in cell["metrics"].items() if value is not None
    )
    return (
        f"{n:,} recalls; last {cell['n']:,}: {means or 'nothing scored'} (n {cell['scored']:,}), "
        f"no result {_number(cell['no_result']['value'])}, p95 {_seconds(cell['seconds']['p95'])}, "
        f"{len(snapshot['alerts'])} alarms stand"
    )


def _ordered(slices: dict[str, Any]) -> list[tuple[str, Any]]:
    """Abilities by name, `all` at the end."""
    return sorted(slices.items(), key=lambda item: (item[0] == "all", item[0]))


def _drift(drift: dict[str, Any] | None) -> list[str]:
    if drift is None:
        return []
    if drift["divergence"] is None:
        return [f"drift: only {drift['n']} queries are not labelled ones; too few to tell"]
    unseen = f"{drift['unseen']:.1%} of them have a word that no labelled one has"
    level = f"{drift['unseen_level']:.1%}"
    side = "above" if drift["excess"] > 0 else "within"
    return [
        f"drift: the {drift['n']:,} queries that are not labelled diverge by "
        f"{drift['divergence']:.3f} bits in their words, {side} the level of {drift['level']:.3f} "
        f"that labelled queries have among themselves; {unseen} (among labelled ones {level})",
        f"  {drift['caveat']}",
    ]


def _feedback(feedback: dict[str, Any] | None) -> list[str]:
    if feedback is None:
        return []
    said = {
        "click_rate": "recalls with a click",
        "first_click_mrr": "reciprocal rank of the first click",
        "rating": "mean rating",
    }
    parts = [
        f"{what} {_number(feedback[name]['value'])} (n {feedback[name]['n']:,})"
        for name, what in said.items()
        if feedback[name]["n"]
    ]
    return [f"feedback: {', '.join(parts)}", *(f"  {one}" for one in feedback["caveats"])]


def _tests(tests: list[dict[str, Any]]) -> list[str]:
    found = []
    for test in tests:
        if test["learning"]:
            found.append(f"change of {test['metric']}: the reference is being measured")
        elif not test["testable"]:
            found.append(
                f"change of {test['metric']}: not testable, as the reference "
                f"({_number(test['reference'])}) cannot become worse"
            )
        elif not test["alarm"]:
            n = "" if test["reference_n"] is None else f" (n {test['reference_n']:,})"
            found.append(
                f"change of {test['metric']}: none shown against {_number(test['reference'])}{n} "
                f"in {test['tested']:,} recalls (a false alarm, ever: chance of {test['alpha']:g})"
            )
    return found


def _alerts(snapshot: dict[str, Any]) -> list[str]:
    if not snapshot["alerts"]:
        return ["no alarm stands"]
    return [f"ALARM {alert['said']}{_at(alert['time'])}" for alert in snapshot["alerts"]]


def alert_line(alert: dict[str, Any]) -> str:
    """One event as it is printed."""
    mark = "ALARM" if alert["state"] == "raised" else "over "
    return f"{mark} {alert['said']}{_at(alert['time'])}, at recall {alert['recall']:,}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1000:.3g} ms"


def _at(time: float | None) -> str:
    return "" if time is None else f" ({_moment(time)})"


def _span(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return ""
    return f" ({_moment(first)} to {_moment(last)} UTC)"


def _moment(time: float) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "no time that a calendar has"
