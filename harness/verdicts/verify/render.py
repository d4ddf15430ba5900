"""The verdict in words: who agrees with what to how many digits, and what does not."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from harness.scoring.grid import grid
from harness.scoring.returned import depth_message
from harness.verdicts.verify.hearing import PLAIN, Difference, Pair, distance
from harness.verdicts.verify.verify import Verdict

_SHOWN = 12
"""Metrics that differ, in words; all of them are in the JSON."""


def lines(verdict: Verdict, *, quiet: bool = False) -> list[str]:
    """What is printed; with `quiet` only what is wrong."""
    found = [] if quiet else [_head(verdict), "", _table(verdict), "", *_checks(verdict)]
    if quiet:
        found = [f"FAIL  {c.what}: {c.message}" for c in verdict.checks if not c.ok]
    for some in (_differences(verdict), [] if quiet else _left(verdict)):
        found += ["", *some] if some and found else some
    if not quiet or not verdict.agrees:
        found.append(_sum(verdict))
    return found


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Everything, as plain JSON values."""
    return {
        "run": str(verdict.folder.path),
        "agrees": verdict.agrees,
        "numbers": verdict.numbers,
        "recomputed": verdict.recomputed,
        "witnesses": [{**asdict(line), "digits": line.digits} for line in verdict.lines],
        "checks": [asdict(check) for check in verdict.checks],
        "differences": [asdict(one) for one in verdict.differences],
        "not_verified": verdict.not_verified,
        "notes": verdict.notes,
    }


def _head(verdict: Verdict) -> str:
    report, executed = verdict.folder.report, verdict.folder.record.executed
    d = report.dataset
    return (
        f"{verdict.folder.record.system} on {d.name}, {d.granularity}, {d.text} text, {d.split}; "
        f"{report.queries.asked} queries, "
        f"{depth_message(report.returned, report.depth, requested=executed)}; "
        f"data {d.fingerprint[:8]}"
    )


def _table(verdict: Verdict) -> str:
    rows = [
        [
            line.protocol,
            line.unit,
            "levels" if line.levels else "value",
            line.by,
            line.metrics,
            line.slices,
            f"{line.numbers:,}",
            f"{line.largest:.1e}" if line.largest else "0",
            line.digits,
        ]
        for line in verdict.lines
    ]
    names = ["protocol", "level", "number", "by", "metrics", "slices", "values", "off by", "digits"]
    table = grid(rows, names, keys=2)
    levels = dict.fromkeys(kind for line in verdict.lines for kind in line.levels)
    return f"{table}\nlevels: {', '.join(levels)}" if levels else table


def _checks(verdict: Verdict) -> list[str]:
    rows = [["ok" if c.ok else "FAIL", c.what, c.message] for c in verdict.checks]
    return grid(rows, style="plain").splitlines()


def _differences(verdict: Verdict) -> list[str]:
    """A paragraph a metric: the slice where it is furthest off, who says so, and which queries."""
    by_metric: dict[tuple[str, str, str], list[Difference]] = {}
    for one in verdict.differences:
        by_metric.setdefault((one.protocol, one.unit, one.what), []).append(one)
    found: list[str] = []
    for (protocol, unit, what), all_ in list(by_metric.items())[:_SHOWN]:
        worst = max(all_, key=lambda one: distance(one.published, one.recomputed))
        said = f"FAIL  {protocol}, {unit}: {what}"
        if worst.slice == "by query":
            said += ": values in scores.parquet are not what the rankings give"
        else:
            published, other = _numbers(worst.published, worst.recomputed)
            where = f" ({worst.slice})" if worst.slice else ""
            who = ", ".join(dict.fromkeys(one.by for one in all_))
            said += f"{where} is published as {published}, recomputed as {other} ({who})"
        more = len({one.slice for one in all_}) - 1
        slices = "slice" if more == 1 else "slices"
        found.append(said + (f"; and in {more} more {slices}" if more > 0 else ""))
        found += [f"      {_query(query)}" for query in worst.queries]
        if worst.of_mean and not worst.queries and verdict.folder.per_query is not None:
            found.append("      no value by query differs: the mean is not that of its queries")
    if len(by_metric) > _SHOWN:
        found.append(f"      and {len(by_metric) - _SHOWN} more; --json has all")
    return found


def _numbers(published: float | None, other: float | None) -> tuple[str, str]:
    """Both with as many digits as it takes to see that they differ."""
    if published is None or other is None:
        return _number(published, 4), _number(other, 4)
    apart = abs(published - other)
    digits = 4 if apart == 0 else max(4, 1 + math.ceil(-math.log10(apart)))
    return _number(published, digits), _number(other, digits)


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return "nothing"
    return str(value) if isinstance(value, int) else f"{value:.{digits}f}"


def _query(pair: Pair) -> str:
    query, published, other = pair
    one, two = _numbers(published, other)
    return f"{query}: {one} published, {two} recomputed"


def _left(verdict: Verdict) -> list[str]:
    """What nobody recomputed, by name."""
    rows = [f"  {n:,}  {name}" for name, n in verdict.not_verified.items()]
    return [*(["not verified:", *rows] if rows else []), *verdict.notes]


def _sum(verdict: Verdict) -> str:
    plain = [line for line in verdict.lines if line.by == PLAIN]
    digits = min((line.digits for line in plain), default=0)
    done, means = verdict.means
    of_all = "all" if done == means else f"{done:,} of"
    said = (
        f"{verdict.folder.path}: {of_all} {means:,} published means recomputed, "
        f"{verdict.recomputed:,} of {verdict.numbers:,} numbers in all"
    )
    if verdict.agrees:
        return f"{said}; all agree, to {digits} digits"
    wrong = len({(d.protocol, d.unit, d.what, d.slice) for d in verdict.differences})
    failed = sum(not check.ok for check in verdict.checks)
    parts = [f"{wrong:,} {'does' if wrong == 1 else 'do'} not agree"] if wrong else []
    parts += [f"{failed} {'check' if failed == 1 else 'checks'} failed"] if failed else []
    return f"{said}; {', '.join(parts)}"
