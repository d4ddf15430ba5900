"""An alarm that could never be raised is refused; every one that could is taken."""

from __future__ import annotations

import pytest

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.online.monitor.monitor import Monitor
from harness.extensions.online.monitor.rules import AlertRules, ChangeRule, parse_threshold

QRELS = {"q": {"a": 1}}


@pytest.mark.parametrize("metric", ["recall@10 <", "mrr@10 <", "drift >", "false_positive >"])
def test_without_labels_nothing_that_needs_them_is_watched(metric: str) -> None:
    with pytest.raises(UsageError, match="needs labels: add --dataset"):
        Monitor(rules=AlertRules((parse_threshold(f"{metric} 0.3"),)))


def test_without_labels_a_test_of_a_metric_is_refused_only_where_it_was_asked_for() -> None:
    assert Monitor().rules.names == ["no_result rose"]
    with pytest.raises(UsageError, match="recall@10 dropped: needs labels"):
        Monitor(rules=AlertRules(changes=(ChangeRule(metric="recall@10"),)))


@pytest.mark.parametrize(
    "rule", ["no_result > 0.1", "abstained < 0.1", "failed > 0", "p99 > 2", "rating < 4"]
)
def test_without_labels_rates_times_and_feedback_are_watched(rule: str) -> None:
    assert (
        parse_threshold(rule).name
        in Monitor(rules=AlertRules((parse_threshold(rule),))).rules.names
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("recall@7 < 1", "is not a measured metric"),
        ("recall@10 < 0", "recall@10 is always from 0 to 1"),
        ("recall@10 > 1", "recall@10 is always from 0 to 1"),
        ("click_rate < 0", "click_rate is always from 0 to 1"),
        ("p95 < 0", "a time is never below 0"),
        ("drift[temporal] > 0.1", "drift is measured over the whole window"),
        ("rating[lookup] < 3", "rating is measured over the whole window"),
        ("false_positive[lookup] > 0.1", "is measured only for the ability abstention"),
        ("recall@10[abstention] < 0.5", "no abstention query has a relevant"),
        ("recall@10[temporl] < 0.5", "no labelled query has the ability 'temporl'; did you"),
    ],
)
def test_with_labels_a_threshold_that_no_recall_could_break_is_refused(
    sample: Dataset, rule: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        Monitor(labels=sample, rules=AlertRules((parse_threshold(rule),)))


def test_what_the_labels_do_not_have_is_said() -> None:
    for rule, said in (
        ("false_positive > 0", "no labelled query has the ability abstention"),
        ("drift > 0", "too few labelled queries"),
    ):
        with pytest.raises(UsageError, match=said):
            Monitor(labels=QRELS, rules=AlertRules((parse_threshold(rule),)))
    with pytest.raises(UsageError, match="no labelled query has a relevant document"):
        Monitor(labels={"q": {"a": 0}}, rules=AlertRules((parse_threshold("recall@10 < 1"),)))


def test_a_window_that_is_too_small_for_an_alarm_is_refused() -> None:
    with pytest.raises(UsageError, match="needs 100 requests, but the window has 99"):
        Monitor(99, rules=AlertRules((parse_threshold("p95 > 1"),)))
    Monitor(100, rules=AlertRules((parse_threshold("p95 > 1"),)))


@pytest.mark.parametrize(
    "rule",
    [ChangeRule(metric="no_result", reference=1.0), ChangeRule(metric="recall@10", reference=0.0)],
)
def test_a_test_of_change_from_the_worst_there_is_is_refused(rule: ChangeRule) -> None:
    with pytest.raises(UsageError, match="nothing is worse than the reference"):
        Monitor(labels=QRELS, rules=AlertRules(changes=(rule,)))
