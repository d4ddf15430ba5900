"""`harness monitor`: a log is read to its end, or followed with a page and /metrics."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from polling import HANGS, wait_until

from harness import open_dataset

pytestmark = pytest.mark.extensions

Harness = Callable[..., Any]


@pytest.fixture(scope="module")
def questions(cache: Path) -> list[tuple[str, list[str]]]:
    """Labelled questions of the sample with their evidence."""
    dataset = open_dataset("sample")
    judged = dataset.qrels()
    found: dict[int, list[str]] = {}
    for query, name in zip(judged.query.tolist(), judged.document_id.to_pylist(), strict=True):
        found.setdefault(query, []).append(name)
    return [(dataset.query(query).text, names) for query, names in found.items()]


def write(
    path: Path, questions: list[tuple[str, list[str]]], n: int, *, wrong: bool = False
) -> Path:
    with open(path, "a") as file:
        for i in range(n):
            text, names = questions[i % len(questions)]
            line = {"ts": 1.7e9 + i, "query": text, "hits": ["wrong"] if wrong else names}
            file.write(json.dumps({**line, "latency_ms": 20}) + "\n")
    return path


def test_once_prints_the_window_and_its_alarms_make_status_1(
    harness: Harness, questions: list[tuple[str, list[str]]], tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", questions, 500)
    command = ("monitor", log, "--dataset", "sample", "--once", "--alert", "recall@10 < 0.5")
    said = harness(*command)
    assert said.status == 0, said.err
    assert "requests=500  window=500" in said.out
    (row,) = [line.split() for line in said.out.splitlines() if line.startswith("all ")]
    assert row[1:4] == ["500", "500", "1.0000"]
    assert "no active alert" in said.out
    write(log, questions, 1000, wrong=True)
    said = harness(*command, "--alert-log", tmp_path / "alerts.jsonl", "--window", 400)
    assert said.status == 1
    assert said.err.startswith("ALERT recall@10 < 0.5: ")
    assert said.err.count("ALERT") == 1
    assert "ALERT" not in said.out, "an alert is printed once"
    assert "1 active alert" in said.out
    lines = (tmp_path / "alerts.jsonl").read_text().splitlines()
    names = [json.loads(line)["rule"] for line in lines]
    assert names == ["recall@10 < 0.5"]
    found = json.loads(harness(*command, "--json").out)
    assert found["totals"]["requests"] == 1500


def test_a_config_and_a_state_that_goes_on(
    harness: Harness, questions: list[tuple[str, list[str]]], tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", questions, 60)
    config = tmp_path / "monitor.toml"
    config.write_text(
        'window = 50\nmetrics = ["hit@1"]\nbucket = "day"\n'
        '[[at_least]]\nmetric = "hit@1"\nvalue = 0.9\nmin_n = 10\n'
        '[[change]]\nmetric = "hit@1"\nreference = 0.9\nbatch_size = 10\n'
        '[log.fields]\nreturned = "hits"\n'
    )
    command = ("monitor", log, "--dataset", "sample", "--once", "--config", config)
    command += ("--state", tmp_path / "state", "--json")
    first = json.loads(harness(*command).out)
    assert (first["window"]["size"], first["totals"]["requests"]) == (50, 60)
    assert first["metrics"] == ["hit@1"]
    again = json.loads(harness(*command).out)
    assert again["totals"]["requests"] == 60
    write(log, questions, 200, wrong=True)
    said = harness(*command)
    assert said.status == 1
    found = json.loads(said.out)
    assert found["totals"]["requests"] == 260
    assert {alert["rule"] for alert in found["alerts"]} == {"hit@1 < 0.9", "hit@1 dropped"}
    assert harness(*command, "--window", 7).status == 2  # the state was kept with another


def test_on_alert_gets_each_alarm(
    harness: Harness, questions: list[tuple[str, list[str]]], tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", questions, 200, wrong=True)
    command = ("monitor", log, "--dataset", "sample", "--once", "--alert", "hit@1 < 0.5")
    command += ("--metrics", "hit@1", "--on-alert")
    said = harness(*command, f"tee {tmp_path / 'got.json'}")
    assert said.status == 1
    assert json.loads((tmp_path / "got.json").read_text())["rule"] == "hit@1 < 0.5"
    assert "warning: --on-alert false failed with status 1" in harness(*command, "false").err
    assert "could not be started" in harness(*command, "no-such-command").err


@pytest.mark.slow
def test_it_follows_and_serves_until_it_is_stopped(
    questions: list[tuple[str, list[str]]], tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", questions, 100)
    command = [sys.executable, "-m", "harness", "monitor", log, "--dataset", "sample"]
    command += ["--port", "0", "--state", tmp_path / "state"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[0]
        port = int(address.rstrip("/").rpartition(":")[2])

        def events() -> int:
            connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
            connection.request("GET", "/state.json")
            return int(json.loads(connection.getresponse().read())["totals"]["requests"])

        wait_until(lambda: events() == 100, process)
        write(log, questions, 50)
        wait_until(lambda: events() == 150, process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=HANGS)
        assert (process.returncode, errors) == (0, b"")
    assert (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["no.jsonl", "--once"], "no.jsonl: no such log file or folder"),
        (["a.jsonl", "--once", "--port", "0"], "--once serves no page"),
        (["a.jsonl", "--port", "99999"], "--port must be from 0 to 65535"),
        (["a.jsonl", "--once", "--alert", "recall"], "'recall' is not an alert rule; write"),
        (["a.jsonl", "--once", "--config", "no.toml"], "--config no.toml: no such file"),
        (["a.jsonl", "--once", "--window", "0"], "the window must be a whole number of requests"),
        (["a.jsonl", "--once", "--json", "--bucket", "year"], "bucket must be minute, hour, day"),
        (["a.jsonl", "--once", "--on-alert", "'x"], "--on-alert"),
        (["a.jsonl", "--once", "--alert", "recall@10<0.3"], "needs labels: add --dataset"),
        (
            ["a.jsonl", "--dataset", "sample", "--alert", "mrr@3 < 1"],
            "not a measured metric",
        ),
        (["a.jsonl", "--window", "50", "--alert", "p95 > 1"], "the window has 50"),
        (["a.jsonl", "--once", "--metrics", "hit@1"], "--metrics needs labels"),
        (["a.jsonl", "--once", "--split", "dev"], "--split needs labels"),
        (["a.jsonl", "--once", "--config", "metrics.toml"], "metrics need labels"),
        (["a.jsonl", "--json"], "--json prints the numbers at the end of the log: add --once"),
        (["bad.jsonl", "--once"], "contains no request: bad.jsonl, line 1: invalid JSON"),
        (["empty.jsonl", "--once"], "contains no request (0 other lines or spans)"),
        (["lost.jsonl", "--once", "--log-config", "lost.toml"], "no request has it"),
    ],
)
def test_wrong_use_is_one_line(
    harness: Harness, tmp_path: Path, options: list[str], words: str
) -> None:
    (tmp_path / "a.jsonl").write_text('{"query": "x", "hits": []}\n')
    (tmp_path / "lost.jsonl").write_text('{"query": "x", "hits": []}\n')
    (tmp_path / "lost.toml").write_text('[log.fields]\nquery = "request.text"\n')
    (tmp_path / "metrics.toml").write_text('metrics = ["hit@1"]\n')
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    (tmp_path / "empty.jsonl").write_text("")
    said = harness("monitor", *options)
    assert said.status == 2
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_an_alarm_that_nothing_could_be_said_of_yet_is_told(
    harness: Harness, questions: list[tuple[str, list[str]]], tmp_path: Path
) -> None:
    log = write(tmp_path / "a.jsonl", questions, 30, wrong=True)
    said = harness("monitor", log, "--dataset", "sample", "--once", "--alert", "recall@10 < 0.5")
    assert said.status == 0
    assert (
        "warning: alert recall@10 < 0.5 is not evaluated yet: 30 of 100 requests have a value"
        in said.err
    )
