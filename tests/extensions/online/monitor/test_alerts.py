"""Alarms: once, until they are cleared, kept and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.online.monitor import AlertRules, ChangeRule, Monitor, parse_threshold
from harness.extensions.online.monitor.records import Alert
from harness.extensions.online.monitor.rules import MonitorConfig
from harness.io.records import decode
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings as RunSettings

QRELS = {"q": {"a": 1}}


def monitor(*rules: str, told: list[Any] | None = None, **more: Any) -> Monitor:
    made = AlertRules(tuple(parse_threshold(rule) for rule in rules), ())
    tell = None if told is None else told.append
    return Monitor(window=200, labels=QRELS, rules=made, on_alert=tell, **more)


def good(one: Monitor, n: int) -> None:
    for _ in range(n):
        one.record(query_id="q", returned=["a"], seconds=0.1, time=1.7e9)


def bad(one: Monitor, n: int) -> None:
    for _ in range(n):
        one.record(query_id="q", returned=["b"], seconds=2.0, time=1.7e9)


def test_an_alarm_is_raised_once_and_cleared_a_way_off(tmp_path: Path) -> None:
    told: list[Any] = []
    one = monitor("recall@10 < 0.5", told=told, alert_log=tmp_path / "alerts.jsonl")
    bad(one, 99)
    assert one.snapshot().alerts == []  # fewer than 100 requests say nothing
    bad(one, 1)
    (alert,) = one.snapshot().alerts
    assert (alert.rule, alert.value, alert.n) == ("recall@10 < 0.5", 0.0, 100)
    good(one, 105)  # 105 of 200 good: above 0.5, and not yet at 0.55
    assert len(one.snapshot().alerts) == 1
    good(one, 10)
    assert one.snapshot().alerts == []
    bad(one, 110)
    one.snapshot()
    states = [(one.state, one.episode) for one in told]
    assert states == [("firing", 1), ("resolved", 1), ("firing", 2)]
    lines = (tmp_path / "alerts.jsonl").read_text().splitlines()
    assert [decode(line, Alert, "log") for line in lines] == told
    assert one.rules.alerts.episodes["recall@10 < 0.5"] == 2


def test_rates_and_times_alarm_too() -> None:
    one = monitor("p95 > 0.5", "no_result > 0.1", "recall@10[lookup] < 0.9")
    good(one, 150)
    assert one.snapshot().alerts == []
    bad(one, 20)
    for _ in range(30):
        one.record(query_id="q", returned=[])
    assert {alert.rule for alert in one.snapshot().alerts} == {
        "p95 > 0.5",
        "no_result > 0.1",
    }


def test_after_a_crash_no_alarm_is_told_twice(tmp_path: Path) -> None:
    told: list[Any] = []
    files = {"state": tmp_path / "state", "alert_log": tmp_path / "alerts.jsonl"}
    one = monitor("recall@10 < 0.5", told=told, **files)
    good(one, 50)
    one.save()
    bad(one, 100)
    one.snapshot()  # and then it is killed
    assert len(told) == 1
    with open(files["alert_log"], "a") as file:
        file.write('{"alert": "torn')
    again = monitor("recall@10 < 0.5", told=told, **files)
    bad(again, 100)
    assert len(again.snapshot().alerts) == 1
    assert len(told) == 1
    good(again, 150)
    again.snapshot()
    assert [json.loads(line)["state"] for line in files["alert_log"].read_text().splitlines()] == [
        "firing",
        "resolved",
    ]


@pytest.mark.slow
def test_what_records_and_what_tells_fail_apart_and_cost_no_recall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    pager = {"down": True}

    def page(alert: Any) -> None:
        if pager["down"]:
            raise ConnectionError("the pager is away")
        told.append(alert)

    monkeypatch.setattr("harness.extensions.online.monitor.monitor._EVERY", 0.0)
    files = {"state": tmp_path / "kept" / "state", "alert_log": tmp_path / "kept" / "alerts.jsonl"}
    rules = AlertRules((parse_threshold("recall@10 < 0.5"),), ())
    one = Monitor(window=200, labels=QRELS, rules=rules, on_alert=page, **files)
    for path in files.values():  # nobody can write there any more
        path.unlink(missing_ok=True)
        path.mkdir()
    bad(one, 3_000)
    found = one.snapshot()
    assert found.totals.requests == 3_000
    assert len(found.alerts) == 1
    said = " ".join(found.errors)
    assert "alerts.jsonl: alerts cannot be written" in said
    assert "the pager is away" in said
    assert "the state cannot be written" in said
    assert capsys.readouterr().err.count("warning: ") <= 3  # said, and not at every request
    pager["down"] = False
    for path in files.values():
        path.rmdir()
    one.close()
    (alert,) = told
    lines = files["alert_log"].read_text().splitlines()
    assert [decode(line, Alert, "log") for line in lines] == [alert]
    assert one.errors == []


def test_an_alarm_that_was_not_told_before_the_end_is_told_after_it(tmp_path: Path) -> None:
    def away(alert: Any) -> None:
        raise ConnectionError("away")

    files = {"state": tmp_path / "state", "alert_log": tmp_path / "alerts.jsonl"}
    rules = AlertRules((parse_threshold("recall@10 < 0.5"),), ())
    with Monitor(window=200, labels=QRELS, rules=rules, on_alert=away, **files) as one:
        bad(one, 150)
    told: list[Any] = []
    with monitor("recall@10 < 0.5", told=told, **files) as again:
        bad(again, 10)
    assert [alert.state for alert in told] == ["firing"]
    assert len(files["alert_log"].read_text().splitlines()) == 1


def test_a_change_against_a_run_of_the_same_labels(
    sample: Dataset, with_evidence: int, tmp_path: Path
) -> None:
    folder = run(sample, RetrieverSpec("bm25"), RunSettings(k=20), out=tmp_path)
    rule = ChangeRule(metric="recall@10", reference=str(folder))
    with pytest.raises(UsageError, match="this run has no scores"):
        Monitor(labels=sample, rules=AlertRules(changes=(rule,)))
    report = score_run(folder, sample).report
    mean = report.protocols[0].slices["all"].metrics["recall@10"].value
    one = Monitor(labels=sample, rules=AlertRules(changes=(rule,)))
    (test,) = one.snapshot().tests
    assert test.reference == pytest.approx(mean)
    assert test.reference_n == with_evidence
    for i in range(400):
        name, day = sample.query_ids[i % sample.n_queries], i // 350
        one.record(query_id=name, returned=["nothing"], time=1.7e9 + 86_400 * day)
    (alert,) = one.snapshot().alerts
    assert alert.rule == "recall@10 dropped"
    assert "at most 5%" in alert.message
    with pytest.raises(UsageError, match="this run has other labels"):
        Monitor(labels=QRELS, rules=AlertRules(changes=(rule,)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[at_least]]\nmetric = 'recall@10'", "value: is missing"),
        ("[[at_least]]\nmetric = 'recal@10'\nvalue = 1", "unknown metric 'recal@10'.*no_result"),
        ("[[at_most]]\nmetric = 'p95'\nvalue = 'x'", "at_most.0..value: expected float"),
        ("[[change]]\nmetric = 'p95'", "values from 0 to 1"),
        ("[[change]]\nmetric = 'mrr'\nalpha = 2", r"change\[0\].alpha: expected float < 1"),
        ("[[change]]\nmetric = 'mrr'\nreference = 3", "reference must be from 0 to 1"),
        (
            "[[change]]\nmetric = 'mrr'\ndirection = 'up'",
            "direction: invalid enum value .up.; choose one of drop, rise",
        ),
        ("[change]\nmetric = 'mrr'", "change: expected list"),
        ("window = '5'", "window: expected int"),
        ("colour = 1", "colour: unknown field"),
        ("metrics = 'mrr'", "metrics: expected list"),
        ("= broken", "not valid TOML"),
    ],
)
def test_a_wrong_config_is_said(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UsageError, match=words):
        MonitorConfig.read(tmp_path / "a.toml")


@pytest.mark.parametrize("text", ["recall@10", "recall@10 = 1", "x < 1", "mrr < nan", "mrr < a"])
def test_a_wrong_alarm_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"write `recall@10 < 0\.7`|unknown metric"):
        parse_threshold(text)
