"""What a run must reach, from a TOML file.

baseline = "results/last-release"      # a run folder; `--baseline` goes over it
failed = 0                             # queries that may fail
alpha = 0.05                           # for all drops together (Holm)
over = "auto"                          # what is independent: haystacks, queries, auto

[[at_least]]
metric = "recall@10"
value = 0.60
slice = "temporal"                     # an ability, a category, `answerable` or `all` (default)
protocol = "memory"                    # the first that has the metric, if not given
unit = "turn>session"                  # the run's granularity, if not given

[[at_most]]                            # the same, from above

[[no_drop]]
metric = "recall@10"
by = 0.02                              # a drop beyond this, that is significant too, fails
slice = "all"
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import read_toml
from harness.scoring.answers import ANSWERS
from harness.scoring.metrics import Metric
from harness.toml_tables import fields_of, tables


@dataclass(frozen=True)
class Threshold:
    """A bound of one number: `above` is True for at least."""

    metric: str
    value: float
    above: bool
    slice: str = "all"
    protocol: str = ""
    unit: str = ""


@dataclass(frozen=True)
class NoDrop:
    """One number must not fall below the baseline's by more than `by`."""

    metric: str
    by: float = 0.0
    slice: str = "all"
    protocol: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Rules:
    """Everything that a gate asks of a run. `alpha` is for all drops together (Holm); `over` as in
    a comparison."""

    thresholds: tuple[Threshold, ...] = ()
    no_drops: tuple[NoDrop, ...] = ()
    baseline: Path | None = None
    failed: int = 0
    alpha: float = 0.05
    over: str = "auto"

    @classmethod
    def read(cls, path: Path) -> Rules:
        """Raises UsageError for a file that is missing, broken or asks for nothing."""
        values = read_toml(path, "--config")
        known = ("at_least", "at_most", "no_drop", "baseline", "failed", "alpha", "over")
        for key in values:
            if key not in known:
                raise UsageError(f"--config {path}: unknown key {key!r}{near(key, list(known))}")
        thresholds = [
            _row(path, Threshold, row, above=name == "at_least")
            for name in ("at_least", "at_most")
            for row in tables(path, values, name)
        ]
        no_drops = [_row(path, NoDrop, row) for row in tables(path, values, "no_drop")]
        if not thresholds and not no_drops:
            raise UsageError(f"--config {path}: asks for nothing; see [[at_least]], [[no_drop]]")
        alpha, failed = values.get("alpha", 0.05), values.get("failed", 0)
        if not isinstance(alpha, float) or not 0 < alpha < 1:
            raise UsageError(f"--config {path}: alpha must be between 0 and 1, not {alpha!r}")
        if type(failed) is not int or failed < 0:
            raise UsageError(f"--config {path}: failed must be a number of queries, not {failed!r}")
        baseline = values.get("baseline")
        return cls(
            tuple(thresholds),
            tuple(no_drops),
            None if baseline is None else path.parent / str(baseline),
            failed,
            alpha,
            str(values.get("over", "auto")),
        )


def _row(path: Path, kind: Any, row: dict[str, Any], **given: Any) -> Any:
    """A Threshold or a NoDrop from its table."""
    values = fields_of(path, kind, row, **given)
    if row.get("protocol") != ANSWERS.name:
        values["metric"] = str(Metric.parse(row["metric"]))
    return kind(**values)
