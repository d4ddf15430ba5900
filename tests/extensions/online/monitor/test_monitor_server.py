"""What a monitor serves: metrics for Prometheus, numbers as JSON, and a page."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread
from typing import Any

import pytest
from polling import HANGS
from prometheus_client.parser import text_string_to_metric_families

from harness.extensions.online.monitor import AlertRules, Monitor, parse_threshold
from harness.extensions.online.monitor.http_server import server

QRELS = {f"q{i}": {"a": 1} for i in range(40)}


@pytest.fixture
def monitor() -> Monitor:
    """500 requests of an hour, with an alarm that stands."""
    rules = AlertRules((parse_threshold("recall@10 < 0.9"),))
    made = Monitor(window=300, labels=QRELS, rules=rules)
    chance = random.Random(0)
    for i in range(500):
        made.record(
            f"secret words {i}",
            query_id=f"q{i % 40}",
            returned=chance.choice([["a", "b"], ["b"], []]),
            seconds=0.01 if i % 10 else 0.3,
            clicked=["a"] if i % 5 == 0 else [],
            ability="lookup" if i % 2 else None,
            time=1.7e9 + 60 * i,
        )
    return made


@contextmanager
def serving(monitor: Monitor) -> Iterator[int]:
    """The port that a monitor is served at."""
    with server(monitor, 0, name="app.log", notes=lambda: ["3 lines cannot be read"]) as one:
        thread = Thread(target=one.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield one.server_port
        one.shutdown()
        thread.join()


@pytest.fixture
def port(monitor: Monitor) -> Iterator[int]:
    with serving(monitor) as found:
        yield found


def get(port: int, path: str, host: str = "") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_the_metrics(port: int, monitor: Monitor) -> None:
    status, text = get(port, "/metrics")
    assert status == 200
    found, now = samples(text), monitor.snapshot()
    cell = now.slices["all"]
    assert found["harness_requests_total", ()] == 500
    score = ("harness_window_score", (("ability", "all"), ("metric", "recall@10")))
    assert found[score] == cell.metrics["recall@10"]
    assert found["harness_window_scored_requests", (("ability", "all"),)] == cell.scored == 300
    assert found["harness_window_no_result_ratio", (("ability", "lookup"),)] == pytest.approx(
        now.slices["lookup"].no_result.value
    )
    bucket = "harness_request_duration_seconds_bucket"
    assert found[bucket, (("le", "0.005"),)] == 0
    assert found[bucket, (("le", "0.01"),)] == 450  # the bound itself belongs to it
    assert found[bucket, (("le", "0.5"),)] == found[bucket, (("le", "+Inf"),)] == 500
    assert found["harness_request_duration_seconds_sum", ()] == pytest.approx(450 * 0.01 + 50 * 0.3)
    assert found["harness_alert_firing", (("alert", "recall@10 < 0.9"),)] == 1
    assert found["harness_alerts_total", (("alert", "recall@10 < 0.9"),)] == 1
    # Not measurable is absent, never 0.
    assert not any(name.startswith("harness_window_false_positive") for name, _ in found)
    assert not any(name.startswith("harness_window_rating") for name, _ in found)


def test_no_text_of_a_query_leaves_it(port: int) -> None:
    for path in ("/", "/state.json", "/metrics"):
        status, text = get(port, path)
        assert (status, "secret" in text) == (200, False), path
    assert get(port, "/x")[0] == 404
    assert get(port, "/state.json", host="example.org")[0] == 403
    assert json.loads(get(port, "/state.json")[1])["notes"] == ["3 lines cannot be read"]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_shows_the_window_and_follows_it(port: int, monitor: Monitor, width: int) -> None:
    from browsers import opened
    from layout import amiss

    with opened(f"http://127.0.0.1:{port}/", width=width) as page:
        assert page.locator("#status").inner_text() == "1 active alert: recall@10 < 0.9"
        assert "recall@10 < 0.9: 0." in page.locator("#alerts").inner_text()
        assert "clicks do not measure recall" in page.locator("#feedback").text_content()
        assert "3 lines cannot be read" in page.locator("#footer").inner_text()
        assert page.get_by_role("link", name="/metrics").count() == 1
        assert page.locator("body").inner_text().count("UTC") == 1
        ticks = page.locator("#time-figure svg").text_content()
        assert "15 Nov" in ticks
        assert "PM" not in ticks
        assert amiss(page) == []
        for part in page.locator("details.part").all():
            if part.get_attribute("open") is None:  # on a phone
                part.locator("summary").click()
        assert amiss(page) == []
        table: Any = page.locator("#abilities-table")
        assert "lookup" in table.inner_text()
        page.get_by_role("combobox", name="Show").select_option("no_result")
        assert page.get_by_role("img", name="no result over time").count() == 1
        for _ in range(300):
            monitor.record(query_id="q1", returned=["a"])
        page.get_by_text("800 requests ·").wait_for(timeout=10_000)
        page.get_by_text("No active alert").wait_for(timeout=10_000)
        assert page.get_by_role("combobox", name="Show").input_value() == "no_result"
        page.get_by_role("button", name="Dark colours").click()
