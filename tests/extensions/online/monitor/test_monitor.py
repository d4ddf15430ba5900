"""Rolling numbers: equal to the harness's own scoring of the requests in the window."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import evaluate
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.online.logs.events import RateStats, RetrievalEvent
from harness.extensions.online.monitor import AlertRules, Monitor, parse_threshold
from harness.stats.intervals import mean_intervals

METRICS = ("recall@3", "precision@3", "mrr@3", "ndcg@5", "recall_all@2", "map")
QRELS = {
    "q1": {"a": 1, "b": 2},
    "q2": {"c": 1, "a": 0},
    "q3": {"e": 1, "f": 1, "g": 1},
    "q4": {"h": 0},  # nothing relevant: in no mean
}


def quiet(**more: Any) -> Monitor:
    """Without tests of change, which need thousands of requests."""
    return Monitor(labels=QRELS, rules=AlertRules(changes=()), **more)


ids = st.sampled_from("abcdefghij")
made = st.tuples(
    st.sampled_from([*QRELS, "unknown"]),
    st.lists(st.tuples(ids, st.integers(0, 3)), max_size=8),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(events=st.lists(made, min_size=1, max_size=40), window=st.integers(1, 30))
def test_means_are_those_of_evaluate(
    events: list[tuple[str, list[tuple[str, int]], bool]], window: int
) -> None:
    monitor = quiet(window=window, metrics=METRICS)
    for query, hits, scored in events:
        returned, scores = [id_ for id_, _ in hits], [float(score) for _, score in hits]
        monitor.record(query_id=query, returned=returned, scores=scores if scored else None)
    cell = monitor.snapshot().slices["all"]
    kept = [one for one in events[-window:] if one[0] in ("q1", "q2", "q3")]
    assert (cell.n, cell.scored) == (min(window, len(events)), len(kept))
    if not kept:
        assert set(cell.metrics.values()) == {None}
        return
    # Each request as a query of its own; without scores the order is what counts. Of a document
    # that was returned twice the place counts that it has first, by its score.
    qrels, run = {}, {}
    for i, (query, hits, scored) in enumerate(kept):
        order = sorted(hits, key=lambda hit: -hit[1]) if scored else hits
        unique = list(dict.fromkeys(id_ for id_, _ in order))
        qrels[str(i)] = QRELS[query]
        run[str(i)] = {id_: float(-rank) for rank, id_ in enumerate(unique)}
    assert cell.metrics == pytest.approx(evaluate(qrels, run, list(METRICS)).means)


def test_abilities_rates_and_times_of_a_labelled_dataset(sample: Dataset) -> None:
    n = sample.n_queries
    monitor = Monitor(window=n, labels=sample)
    chance = random.Random(0)
    for row in range(sample.n_queries):
        query = sample.query(row)
        silent = row % 4 == 0
        monitor.record(
            query.text,
            returned=[] if silent else ["s01_0", "s02_0"],
            seconds=chance.random(),
            abstained=row % 8 == 0,
            failed=row == 1,
        )
    found = monitor.snapshot()
    chance = random.Random(0)
    seconds = [chance.random() for _ in range(n)]
    cell = found.slices["all"]
    assert cell.seconds.p95 == pytest.approx(np.percentile(seconds, 95))
    silent, abstained = len(range(0, n, 4)), len(range(0, n, 8))  # the one that failed is neither
    assert cell.no_result == RateStats(value=silent / (n - 1), n=n - 1)
    assert cell.abstained == RateStats(value=abstained / (n - 1), n=n - 1)
    assert cell.failed == RateStats(value=1 / n, n=n)
    without = [row for row in range(n) if sample.abilities[row] == "abstention" and row != 1]
    spoke = sum(row % 4 != 0 for row in without)
    assert cell.false_positive == RateStats(value=spoke / len(without), n=len(without))
    by_ability = {name: one.n for name, one in found.slices.items() if name != "all"}
    names, counts = np.unique(sample.abilities, return_counts=True)
    assert by_ability == dict(zip(names.tolist(), counts.tolist(), strict=True))
    assert found.slices["abstention"].metrics["recall@10"] is None  # never 0


def test_without_labels_there_are_rates_and_no_scores() -> None:
    monitor = Monitor(window=10)
    monitor.record("x", returned=[], ability="mine")
    monitor.record("y", returned=["a"])
    monitor.record("z", texts=[])
    monitor.record("z", texts=["a text"])
    found = monitor.snapshot()
    assert found.slices["all"].no_result == RateStats(value=0.5, n=4)
    assert found.slices["mine"].n == 1
    assert found.slices["all"].metrics["recall@10"] is None
    assert found.drift is None
    assert [test.rule for test in found.tests] == ["no_result rose"]


def test_feedback_counts_when_it_comes_and_while_its_recall_is_there() -> None:
    monitor = quiet(window=3)
    monitor.record(query_id="q1", returned=["a", "b", "c"], request_id="r1", time=7200)
    monitor.record(query_id="q1", returned=["a"], clicked=[], rating=0, time=7200)
    monitor.feedback("r1", clicked=["c"])
    monitor.feedback("r1", clicked=["b"], rating=1)
    monitor.feedback("never", clicked=["b"])
    found = monitor.snapshot()
    assert found.feedback.click_rate == RateStats(value=0.5, n=2)
    assert found.feedback.first_click_mrr == RateStats(value=0.5, n=1)
    assert found.feedback.rating == RateStats(value=0.5, n=2)
    assert len(found.feedback.caveats) == 4
    (row,) = found.over_time.rows
    assert (row.start, row.click_rate, row.rating) == (7200, 0.5, 0.5)
    for _ in range(3):
        monitor.record(query_id="q1", returned=["a"])
    monitor.feedback("r1", rating=0)
    found = monitor.snapshot()
    assert found.feedback is None
    assert (found.totals.feedback, found.totals.feedback_lost) == (2, 2)


def test_hours_are_kept_in_order_and_bounded() -> None:
    monitor = quiet(window=5, bucket="minute")
    now = time.time() // 60 * 60
    for i in range(725):
        at = now - 60 * (724 - i)
        monitor.record(query_id="q1", returned=["a"], seconds=0.1, time=at)
        monitor.record(query_id="q1", returned=[], seconds=0.4, time=at)
    monitor.snapshot()
    monitor.record(query_id="q1", returned=["a"], time=now - 60 * 724)  # too late
    monitor.record(query_id="q1", returned=["a"], time=now + 1e9)  # a mistake
    monitor.record_many([RetrievalEvent(("a",), query_id="q1")])  # without a time
    later = monitor.snapshot().over_time
    assert len(later.rows) == 720
    assert (later.dropped, later.late) == (5, 1)
    assert (later.without_time, later.in_the_future) == (1, 1)
    last = later.rows[-1]
    assert (last.start, last.counts.n, last.no_result) == (now, 2, 0.5)
    assert last.metrics["recall@10"] == pytest.approx(0.25)
    assert last.p95 == pytest.approx(0.4, rel=0.05)


def test_a_restart_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    def events(n: int) -> list[RetrievalEvent]:
        chance = random.Random(n)
        return [
            RetrievalEvent(
                tuple(chance.sample("abcdefgh", 4)),
                query=f"secret words {i}",
                query_id=chance.choice(["q1", "q2", "q3", None]),
                time=1.7e9 + i * 60,
                seconds=chance.random(),
                ability=chance.choice(["x", "y", None]),
                request_id=f"r{n}-{i}",
            )
            for i in range(n)
        ]

    def monitor(state: Path | None) -> Monitor:
        rules = AlertRules((parse_threshold("recall@10 < 0.99"),))
        return Monitor(window=150, labels=QRELS, state=state, rules=rules)

    path = tmp_path / "state.npz"
    one, first = monitor(None), monitor(path)
    one.record_many(events(400))
    first.record_many(events(400))
    first.close()
    second = monitor(path)
    assert second.snapshot() == one.snapshot()
    for each in (one, second):
        each.record_many(events(90))
        each.feedback("r400-395", clicked=["a"])
    assert second.snapshot() == one.snapshot()
    assert b"secret" not in path.read_bytes()


def test_a_state_of_other_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    quiet(window=10, state=path).close()
    with pytest.raises(UsageError, match="was written with window 10, not 11"):
        quiet(window=11, state=path)
    with pytest.raises(UsageError, match="was written with labels"):
        Monitor(window=10, labels={"q": {"d": 1}}, state=path)
    path.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(UsageError, match="not a monitor state"):
        quiet(window=10, state=path)


def header_of(arrays: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(arrays["header"].tobytes())
    return found


def with_header(arrays: dict[str, Any], header: Any) -> dict[str, Any]:
    return arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}


HEADERS: dict[str, Any] = {
    "total": [-1, 10**18, "many", None],
    "settings": [None, [], 5],
    "over_time": [None, [], {"dropped": 1}],
    "alerts": [None, {}, 5],
    "tests": [None, 7, {"x": {}}],
    "position": [5, "there", [1]],
    "abilities": [None, 5, [["x"]]],
    "totals": [{"requests": 7}],
}


def changed_states(arrays: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The arrays of a state with one thing changed each, and what."""
    header = header_of(arrays)
    yield "a list as header", with_header(arrays, [header])
    for name, values in HEADERS.items():
        yield f"no {name}", with_header(arrays, {k: v for k, v in header.items() if k != name})
        for value in values:
            yield f"{name} {value}", with_header(arrays, header | {name: value})
    for name in arrays.keys() - {"header"}:
        yield f"no {name}", {k: v for k, v in arrays.items() if k != name}
    yield "other values", arrays | {"values": np.full_like(arrays["values"], 7.0)}
    yield "values of another shape", arrays | {"values": arrays["values"][:1, :1]}
    yield "values of another type", arrays | {"values": arrays["values"].astype(np.float32)}
    yield "one array more", arrays | {"further": np.zeros(3)}


def test_a_state_with_anything_changed_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    with quiet(window=10, state=path) as first:
        first.record("a", query_id="q1", returned=["a"], seconds=0.1, ability="x")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for what, changed in changed_states(arrays):
        np.savez(path, **changed)
        with pytest.raises(UsageError, match="remove it, or name another file") as caught:
            quiet(window=10, state=path)
        assert "\n" not in str(caught.value), what
    np.savez(path, **arrays)  # as it was
    assert quiet(window=10, state=path).snapshot().window.n == 1


@pytest.mark.slow
def test_what_is_no_state_at_all_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "state.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(UsageError, match="not a monitor state"):
        quiet(window=10, state=path)
    quiet(window=10, state=tmp_path / "whole.npz").close()
    whole = (tmp_path / "whole.npz").read_bytes()
    for place in range(0, len(whole), len(whole) // 500 | 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(UsageError):  # what is of the archive alone makes no difference
            assert quiet(window=10, state=path).snapshot().window.n == 0


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    quiet(window=10, state=path).close()
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "checksum"}
    np.savez(path, **with_header(arrays, header_of(arrays) | {"version": 1}))
    with pytest.raises(UsageError, match="has version 1, expected 2"):
        quiet(window=10, state=path)


@pytest.mark.parametrize("digits", [8, 11, 30, 5000])
def test_a_window_beyond_all_memory_is_refused(digits: int) -> None:
    with pytest.raises(UsageError, match=r"at most 10,000,000 requests"):
        quiet(window=10**digits)


def test_many_threads_lose_nothing() -> None:
    monitor = quiet(window=10_000)
    usual = sys.getswitchinterval()

    def work() -> None:
        for _ in range(100):
            monitor.record(query_id="q1", returned=["a"], seconds=0.1)

    threads = [Thread(target=work) for _ in range(8)]
    sys.setswitchinterval(1e-5)  # a switch in the midst of each request
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            monitor.snapshot()
    finally:
        sys.setswitchinterval(usual)
    found = monitor.snapshot()
    assert found.totals.requests == found.slices["all"].scored == 800
    assert found.slices["all"].metrics["recall@10"] == 0.5


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"window": 0}, "window must be a whole number of requests"),
        ({"metrics": "recal@10"}, "unknown metric 'recal@10'; did you mean recall"),
        ({"metrics": ()}, "metrics is empty"),
        ({"bucket": "year"}, "bucket must be minute, hour, day"),
        ({"labels": {}}, "the labels have no query"),
        ({"labels": ["q"]}, "labels must be a dataset"),
        ({"labels": {"q": {"d": "x"}}}, "labels|grade"),
    ],
)
def test_wrong_settings_are_said(settings_: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Monitor(**settings_)


def test_wrong_recalls_raise_at_once() -> None:
    monitor = quiet()
    with pytest.raises(TypeError, match="list of ids"):
        monitor.record("x", returned="d1")
    with pytest.raises(ValueError, match="1 returned documents, 2 scores"):
        monitor.record("x", returned=["d1"], scores=[1, 2])
    monitor.record("\ud800 broken \x00 text", returned=["\ud800"], request_id="\ud800")
    assert monitor.snapshot().window.n == 1


def test_the_rolling_mean_is_over_the_requests_of_the_last_24_hours_with_its_interval() -> None:
    monitor = Monitor(window=10, labels={"q": {"a": 1}})
    chance = random.Random(0)
    hits = [[chance.random() < 0.3 for _ in range(chance.randrange(1, 9))] for _ in range(60)]
    for hour, mine in enumerate(hits):
        for hit in mine:
            time = 1.7e9 // 3600 * 3600 + 3600 * hour
            monitor.record(
                query_id="q", returned=["a" if hit else "b"], seconds=hour + 1, time=time
            )
    for hour, row in enumerate(monitor.snapshot().over_time.rows):
        last = hits[max(0, hour - 23) : hour + 1]
        clusters = [i for i, mine in enumerate(last) for _ in mine]
        [expected] = mean_intervals(np.concatenate(last), clusters, bounds=(0, 1))
        found = row.rolling["recall@10"]
        assert found.value == pytest.approx(expected.value)
        if hour:
            assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert row.rolling["p50"].value == pytest.approx(50, rel=0.1)


def test_a_rolling_mean_excludes_older_hours_when_hours_are_missing() -> None:
    monitor = Monitor(window=10, labels={"q": {"a": 1}})
    for hour, returned in ((0, "a"), (30, "b")):
        monitor.record(query_id="q", returned=[returned], time=1.7e9 + 3600 * hour)
    assert monitor.snapshot().over_time.rows[1].rolling["recall@10"].value == 0


def test_a_system_that_did_not_answer_in_the_last_window_is_a_change(tmp_path: Path) -> None:
    state = tmp_path / "state"
    systems = ["v1"] * 20 + ["v1", "v2"] * 10 + ["v2"] * 20 + ["v1"]
    with Monitor(window=10, state=state) as monitor:
        for system in systems[:50]:
            monitor.record("q", returned=[], system=system, time=1.7e9)
    with Monitor(window=10, state=state) as monitor:
        for system in systems[50:]:
            monitor.record("q", returned=[], system=system, time=1.7e9)
        changes = monitor.snapshot().system_changes
    assert [(one.system, one.request_number) for one in changes] == [
        ("v1", 1),
        ("v2", 22),
        ("v1", 61),
    ]
