"""Rejects alert rules that can never fire."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import UsageError, near
from harness.extensions.online.monitor.labels import Labels
from harness.extensions.online.monitor.rules import OTHERS, RATES, TIMES, AlertThreshold, ChangeRule
from harness.schema import Ability

_WHOLE_WINDOW = OTHERS
_BY_WORDS = ("drift", "unseen_words")
_UNBOUNDED = (*TIMES, *_BY_WORDS, "rating")


def is_metric(name: str) -> bool:
    """Tests whether this is a metric of rankings, which needs labels."""
    return name not in (*RATES, *TIMES, *OTHERS)


def validate_rules(
    rules: Sequence[AlertThreshold | ChangeRule],
    metrics: Sequence[str],
    labels: Labels | None,
    window: int,
    drifts: bool,
) -> None:
    """Raises UsageError for the first rule that can never fire.

    `metrics` are measured, `window` is its size in requests; `drifts`: there are enough labelled
    queries to measure drift.
    """
    for rule in rules:
        why = _labels_lack(rule.metric, metrics, labels, drifts)
        if not why:
            why = (
                _threshold(rule, labels, window)
                if isinstance(rule, AlertThreshold)
                else _test(rule)
            )
        if why:
            raise UsageError(f"{rule.name}: {why}")


def _labels_lack(metric: str, metrics: Sequence[str], labels: Labels | None, drifts: bool) -> str:
    """Why the labels do not give this number."""
    needs = is_metric(metric) or metric in (*_BY_WORDS, "false_positive")
    if needs and labels is None:
        return (
            "needs labels: name them with --dataset (labels= in Python); "
            f"without, there are {', '.join(n for n in (*RATES, *TIMES) if n != 'false_positive')} "
            "and feedback"
        )
    if is_metric(metric) and metric not in metrics:
        return f"is not among the measured metrics ({', '.join(metrics)}); add it there"
    if labels is None:
        return ""
    if is_metric(metric) and not labels.has_evidence.any():
        return "can never be measured: no labelled query has a relevant document"
    if metric == "false_positive" and not labels.unanswerable.any():
        return f"can never be measured: no labelled query is of the ability {Ability.ABSTENTION}"
    if metric in _BY_WORDS and not drifts:
        return "can never be measured: too few labelled queries have a text"
    return ""


def _threshold(rule: AlertThreshold, labels: Labels | None, window: int) -> str:
    if rule.min_n > window:
        return (
            f"needs {rule.min_n} requests, and the window holds {window}: set a larger --window, "
            "or a smaller min_n in [[at_least]], [[at_most]]"
        )
    if rule.metric not in _UNBOUNDED and not (rule.value > 0 if rule.above else rule.value < 1):
        return f"can never fire: {rule.metric} is from 0 to 1"
    if rule.metric in TIMES and rule.above and rule.value <= 0:
        return "can never fire: no time is below 0"
    if rule.slice == "all":
        return ""
    if rule.metric in _WHOLE_WINDOW:
        return f"{rule.metric} is of the whole window; remove [{rule.slice}]"
    if rule.metric == "false_positive" and rule.slice != Ability.ABSTENTION:
        return f"is of queries of the ability {Ability.ABSTENTION} alone; remove [{rule.slice}]"
    return _slice(rule, labels)


def _slice(rule: AlertThreshold, labels: Labels | None) -> str:
    """Whether a metric has a slice; of rates and times the log's own abilities decide."""
    if labels is None or not is_metric(rule.metric) or not any(labels.abilities):
        return ""
    known = ["all", *sorted(set(filter(None, labels.abilities)))]
    if rule.slice not in known:
        return f"no labelled query is of the ability {rule.slice!r}{near(rule.slice, known)}"
    pairs = zip(labels.abilities, labels.has_evidence.tolist(), strict=True)
    if not any(has for ability, has in pairs if ability == rule.slice):
        return (
            f"can never be measured: no query of the ability {rule.slice} has a relevant document"
        )
    return ""


def _test(rule: ChangeRule) -> str:
    end = 0 if rule.drop else 1
    if isinstance(rule.reference, float | int) and rule.reference == end:
        return f"can never fire: the reference {rule.reference:g} is the worst possible value"
    return ""
