"""Hold a scored run against rules; nothing is computed here that scores and comparison have not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.statistics.power import PairedPower
from harness.verdicts.compare.compare import compare
from harness.verdicts.compare.comparison import Cell, Options, Table
from harness.verdicts.compare.scored import Block, ScoredRun
from harness.verdicts.rules import NoDrop, Rules, Threshold


@dataclass(frozen=True)
class Check:
    """One rule held against the run: `said` is what was found, `signature` the number's own."""

    rule: str
    passed: bool
    said: str
    signature: str = ""


def gate(folder: Path, rules: Rules, baseline: Path | None = None) -> list[Check]:
    """Check a run folder. Raises UsageError for what cannot be checked: no such metric or slice, no
    baseline where one is needed, a baseline that does not compare."""
    run = ScoredRun.read(folder)
    checks = [failed_check(run, rules.failed)]
    checks += [threshold_check(run, threshold) for threshold in rules.thresholds]
    if rules.no_drops:
        before = baseline or rules.baseline
        if before is None:
            raise UsageError("no_drop needs a baseline: name its run folder with --baseline")
        checks += _no_drops(folder, before, rules)
    return checks


def failed_check(run: ScoredRun, allowed: int) -> Check:
    """Whether no more queries failed than may."""
    failed = run.scores["queries"]["failed"]
    asked = run.scores["queries"]["asked"]
    return Check(f"failed queries <= {allowed}", failed <= allowed, f"{failed} of {asked}")


def threshold_check(run: ScoredRun, rule: Threshold) -> Check:
    """Hold one number against its bound. Raises UsageError where the run does not have it."""
    cell = cell_of(run, rule)[1]
    sign = ">=" if rule.above else "<="
    name = f"{_name(rule)} {sign} {rule.value:g}"
    value = cell["value"]
    if value is None:
        return Check(name, False, "not measurable: the rankings are too short", cell["signature"])
    passed = value >= rule.value if rule.above else value <= rule.value
    interval = cell.get("interval")
    between = f", 95% {interval['low']:.4f} to {interval['high']:.4f}" if interval else ""
    return Check(name, passed, f"{value:.4f}{between}, n {cell['n']}", cell["signature"])


def cell_of(run: ScoredRun, rule: Threshold) -> tuple[Block, dict[str, Any]]:
    """The number of a rule and where it stands: the first protocol at the run's granularity that
    has its metric. Raises UsageError where none does."""
    unit = rule.unit or run.scores["dataset"]["granularity"]
    blocks = {
        (protocol, found): block
        for (protocol, found), block in run.blocks.items()
        if protocol == (rule.protocol or protocol) and found == unit
    }
    if not blocks:
        known = sorted({f"{protocol} at {found}" for protocol, found in run.blocks})
        wanted = f"{rule.protocol or 'any protocol'} at {unit}"
        raise UsageError(f"{run.folder}: was not scored by {wanted}; it has {', '.join(known)}")
    slices = [name for block in blocks.values() for name in block["slices"]]
    if rule.slice not in slices:
        known = list(dict.fromkeys(slices))
        raise UsageError(f"{run.folder}: no slice {rule.slice!r}{near(rule.slice, known)}")
    for place, block in blocks.items():
        metrics = block["slices"].get(rule.slice, {}).get("metrics", {})
        if rule.metric in metrics:
            return place, metrics[rule.metric]
    raise UsageError(
        f"{run.folder}: was not scored by {rule.metric}; `harness score {run.folder} --metrics "
        f"{rule.metric}` adds it"
    )


def _no_drops(folder: Path, baseline: Path, rules: Rules) -> list[Check]:
    """All drops in one comparison, so that they are corrected together."""
    metrics = tuple(dict.fromkeys(rule.metric for rule in rules.no_drops))
    protocols = tuple(dict.fromkeys(rule.protocol for rule in rules.no_drops if rule.protocol))
    categories = any(rule.slice not in _ABILITIES for rule in rules.no_drops)
    options = Options(
        protocols=protocols,
        metrics=metrics,
        categories=categories,
        level=1 - rules.alpha,
        over=rules.over,
    )
    tables = compare([baseline, folder], options).groups[0].tables
    unit = ScoredRun.read(folder).scores["dataset"]["granularity"]
    return [_no_drop(rule, tables, unit, baseline, rules.alpha) for rule in rules.no_drops]


_ABILITIES = (
    "all",
    "answerable",
    "lookup",
    "multi-hop",
    "temporal",
    "knowledge-update",
    "abstention",
)


def _no_drop(
    rule: NoDrop, tables: tuple[Table, ...], unit: str, baseline: Path, alpha: float
) -> Check:
    cell = next(_cells(rule, tables, unit), None)
    if cell is None:
        raise UsageError(
            f"{rule.metric} over {rule.slice!r} is not in both runs, or {rule.slice!r} is all of it"
        )
    pair = cell.pairs[0]
    found = pair.found
    # The comparison is baseline against run: what fell is above 0 there.
    fell = cell.means[0].value - cell.means[1].value
    passed = not (fell > rule.by and pair.shown)
    said = (
        f"{cell.means[0].value:.4f} -> {cell.means[1].value:.4f}, "
        f"{0.0 - fell:+.4f}, p {pair.p:.4f} ({pair.family}); {could_show(found.power)}"
    )
    families = {family.name: family.tests for table in tables for family in table.families}
    # The least p that so many units can have, if every one of them fell; Holm multiplies the least
    # of m by m.
    least = 2.0 ** (1 - found.power.units)
    if least * families[pair.family] > alpha and fell > rule.by:
        # A gate that nothing can close is none.
        raise UsageError(
            f"{_name(rule)} fell by {fell:.4f}, which {found.power.units} units can never show to "
            f"be significant (least p {least:.3g}, {families[pair.family]} tests "
            "corrected together): take more data, fewer rules, or over = "
            '"queries" if questions to one haystack are independent'
        )
    return Check(f"{_name(rule)} not below {baseline.name} by {rule.by:g}", passed, said)


def could_show(power: PairedPower) -> str:
    """The smallest drop that so many queries show, in words; without a spread there is none."""
    if math.isnan(power.detectable):
        return "every query has the same value in both"
    return f"could have shown {power.detectable:.4f}"


def _cells(rule: NoDrop, tables: tuple[Table, ...], unit: str) -> Iterator[Cell]:
    for table in tables:
        named = table.protocol.partition("/")[0]
        if (rule.protocol and named != rule.protocol) or table.unit != (rule.unit or unit):
            continue
        for cell in table.cells:
            if (cell.metric, cell.slice) == (rule.metric, rule.slice):
                yield cell


def _name(rule: Threshold | NoDrop) -> str:
    where = ", ".join(part for part in (rule.slice, rule.protocol, rule.unit) if part)
    return f"{rule.metric} ({where})"
