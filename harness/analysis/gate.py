"""Checks a scored run against the rules of a TOML file.

For example:

    baseline = "results/last-release"      # a run folder; `--baseline` overrides it
    failed = 0                             # queries that may fail
    alpha = 0.05                           # for all drops, as one family
    cluster_by = "auto"                    # independent units: haystacks, queries, auto
    allow_inconclusive = false             # true: only failed checks fail the gate

    [[at_least]]
    metric = "recall@10"
    value = 0.60
    slice = "temporal"                     # an ability, a category, `answerable` or `all` (default)
    protocol = "memory"                    # default: the first with the metric
    level = "turn>session"                  # default: the run's granularity

    [[at_most]]                            # the same for an upper bound

    [[no_drop]]
    metric = "recall@10"
    max_drop = 0.02                        # the largest drop that does not matter
    slice = "all"

A check passes or fails. A drop is inconclusive if the data show neither that it is larger than
`max_drop` nor that it is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar
from xml.etree import ElementTree

from msgspec import Meta, field
from msgspec.structs import replace

from harness.analysis.drops import Drop, GateOutcome, drops
from harness.analysis.scored_run import Block, ScoredRun
from harness.errors import UsageError, suggest
from harness.io.files import disk_errors, write_bytes
from harness.io.records import Record, read_toml_record
from harness.records.scores import MetricResult
from harness.scoring.metrics.described import is_lower_better
from harness.scoring.protocols import ANSWERS, metric_name


class NumberRule(Record):
    """Names one number of a run; `level` is by default the run's granularity."""

    metric: str
    slice: str = "all"
    protocol: str = ""
    level: str = ""

    @property
    def name(self) -> str:
        """The number in the names of checks: `recall@10 (temporal, memory)`."""
        where = ", ".join(part for part in (self.slice, self.protocol, self.level) if part)
        return f"{self.metric} ({where})"


class GateThreshold(NumberRule):
    """A bound of one number: `GateMinimum` or `GateMaximum`."""

    above: ClassVar[bool]
    value: float


class GateMinimum(GateThreshold):
    """A number must reach its bound."""

    above: ClassVar[bool] = True


class GateMaximum(GateThreshold):
    """A number must not exceed its bound."""

    above: ClassVar[bool] = False


class NoDrop(NumberRule):
    """A number must not drop below the baseline's by more than `max_drop`."""

    max_drop: Annotated[float, Meta(gt=0, le=1)]


R = TypeVar("R", bound=NumberRule)


class GateRules(Record):
    """The TOML file of a gate.

    `alpha` is for all drops together, `cluster_by` are the independent units, as in a comparison.
    With `allow_inconclusive`, inconclusive checks do not change the exit status.
    """

    at_least: list[GateMinimum] = field(default_factory=list)
    at_most: list[GateMaximum] = field(default_factory=list)
    no_drop: list[NoDrop] = field(default_factory=list)
    baseline: str | None = None
    failed: Annotated[int, Meta(ge=0)] = 0
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    cluster_by: str = "auto"
    allow_inconclusive: bool = False

    @property
    def thresholds(self) -> list[GateThreshold]:
        """All lower and upper bounds."""
        return [*self.at_least, *self.at_most]

    @property
    def baseline_folder(self) -> Path | None:
        """The folder of the baseline, if the file names one."""
        return None if self.baseline is None else Path(self.baseline)

    @classmethod
    def read(cls, path: Path) -> GateRules:
        """Reads rules. Raises UsageError for a file that is missing, broken or without checks."""
        rules = read_toml_record(path, cls, "--config")
        if not rules.thresholds and not rules.no_drop:
            raise UsageError(
                f"--config {path}: has no checks; add [[at_least]], [[at_most]] or [[no_drop]]"
            )
        for rule in rules.no_drop:
            if is_lower_better(rule.metric):
                raise UsageError(
                    f"--config {path}: {rule.metric} is better the lower it is; use [[at_most]]"
                )
        baseline = None if rules.baseline is None else str(path.parent / rules.baseline)
        return replace(
            rules,
            at_least=_canonical(rules.at_least),
            at_most=_canonical(rules.at_most),
            no_drop=_canonical(rules.no_drop),
            baseline=baseline,
        )


def _canonical(rules: Sequence[R]) -> list[R]:
    """Returns rules with the metric names of scores.json. Raises UsageError for unknown ones."""
    return [
        rule if rule.protocol == ANSWERS.name else replace(rule, metric=metric_name(rule.metric))
        for rule in rules
    ]


@dataclass(frozen=True)
class GateResult:
    """The outcome of one rule, with the `signature` of its number."""

    rule: str
    outcome: GateOutcome
    message: str
    signature: str = ""


def _result(rule: str, passed: bool, message: str, signature: str = "") -> GateResult:
    outcome = GateOutcome.PASS if passed else GateOutcome.FAIL
    return GateResult(rule, outcome, message, signature)


def gate(folder: Path, rules: GateRules, baseline: Path | None = None) -> list[GateResult]:
    """Checks a run folder.

    Raises UsageError for unknown metrics and slices, for a missing baseline, and for one that
    cannot be compared.
    """
    run = ScoredRun.read(folder)
    checks = [failed_check(run, rules.failed)]
    checks += [threshold_check(run, threshold) for threshold in rules.thresholds]
    before = baseline or rules.baseline_folder
    if not rules.no_drop and before:
        raise UsageError(
            f"no rule uses the baseline {before}: add a [[no_drop]] rule "
            '(metric = "recall@10", max_drop = 0.02), or omit the baseline'
        )
    if rules.no_drop:
        if before is None:
            raise UsageError("[[no_drop]] needs a baseline: name its run with --baseline")
        checks += _no_drops(run, before, rules)
    return checks


def failed_check(run: ScoredRun, allowed: int) -> GateResult:
    """Checks the number of failed queries."""
    failed, asked = run.scores.queries.failed, run.scores.queries.asked
    return _result(f"failed queries <= {allowed}", failed <= allowed, f"{failed} of {asked}")


def threshold_check(run: ScoredRun, rule: GateThreshold) -> GateResult:
    """Checks one number against its bound. Raises UsageError if the run does not have it."""
    result = result_of(run, rule)[1]
    sign = ">=" if rule.above else "<="
    name = f"{rule.name} {sign} {rule.value:g}"
    value = result.value
    if value is None:
        return _result(name, False, "not measurable: the rankings are too short", result.signature)
    passed = value >= rule.value if rule.above else value <= rule.value
    interval = result.interval
    between = f", 95% {interval.low:.4f} to {interval.high:.4f}" if interval else ""
    return _result(name, passed, f"{value:.4f}{between}, n {result.n}", result.signature)


def result_of(run: ScoredRun, rule: NumberRule) -> tuple[Block, MetricResult]:
    """Returns the number of a rule, with its protocol and level.

    By default of the first protocol at the run's granularity that has its metric. Raises UsageError
    if none has.
    """
    level = rule.level or run.scores.dataset.granularity
    blocks = {
        (protocol, found): block
        for (protocol, found), block in run.blocks.items()
        if protocol == (rule.protocol or protocol) and found == level
    }
    if not blocks:
        known = sorted({f"{protocol} at {found}" for protocol, found in run.blocks})
        wanted = f"{rule.protocol or 'any protocol'} at {level}"
        raise UsageError(f"{run.folder}: was not scored by {wanted}; it has {', '.join(known)}")
    slices = [name for block in blocks.values() for name in block.slices]
    if rule.slice not in slices:
        known = list(dict.fromkeys(slices))
        raise UsageError(f"{run.folder}: no slice {rule.slice!r}{suggest(rule.slice, known)}")
    for place, block in blocks.items():
        if (result := block.find(rule.metric, rule.slice)) is not None:
            return place, result
    raise UsageError(
        f"{run.folder}: was not scored by {rule.metric}; `harness score {run.folder} --metrics "
        f"{rule.metric}` adds it"
    )


def _no_drops(run: ScoredRun, baseline: Path, rules: GateRules) -> list[GateResult]:
    """Checks all drops as one family, of any metrics and slices."""
    places = [(result_of(run, rule)[0], rule.metric, rule.slice) for rule in rules.no_drop]
    allowed = [rule.max_drop for rule in rules.no_drop]
    before = ScoredRun.read(baseline)
    found = drops(before, run, places, allowed, rules.cluster_by, rules.alpha)
    return [drop_check(rule.name, drop) for rule, drop in zip(rules.no_drop, found, strict=True)]


def drop_check(name: str, drop: Drop) -> GateResult:
    """Checks a drop against its `max_drop`: in gates, `assert_quality` and nightly suites."""
    return GateResult(f"{name} drop <= {drop.max_drop:g}", drop.outcome, str(drop))


def status(checks: Sequence[GateResult], *, allow_inconclusive: bool = False) -> int:
    """Returns the exit status: 1 if a check failed, else 3 if one is inconclusive, else 0."""
    outcomes = {check.outcome for check in checks}
    if GateOutcome.FAIL in outcomes:
        return 1
    return 3 if GateOutcome.INCONCLUSIVE in outcomes and not allow_inconclusive else 0


# -- Checks as JUnit XML ---------------------------------------------------------------------------


def write_junit(
    checks: Sequence[GateResult], run: str, path: Path, *, allow_inconclusive: bool = False
) -> None:
    """Writes a test case per check; inconclusive ones are errors, or skipped if allowed.

    Raises UsageError if the file cannot be written.
    """
    kind = {
        GateOutcome.FAIL: "failure",
        GateOutcome.INCONCLUSIVE: "skipped" if allow_inconclusive else "error",
    }
    kinds = [kind.get(check.outcome) for check in checks]
    counts = {
        "tests": str(len(checks)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "harness gate", **counts})
    for check, name in zip(checks, kinds, strict=True):
        case = ElementTree.SubElement(suite, "testcase", {"classname": run, "name": check.rule})
        if name is None:
            ElementTree.SubElement(case, "system-out").text = check.message
            continue
        part = ElementTree.SubElement(case, name, {"message": check.message})
        if name == "failure":
            part.text = check.signature or check.message
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    with disk_errors(path.parent, "name another file with --junit"):
        write_bytes(path, text + b"\n")
