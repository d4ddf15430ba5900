"""Progress in a log: what, how far, how fast, how long yet; and nothing of what is short."""

from __future__ import annotations

import pytest

from harness.io import progress as module
from harness.io.progress import duration, progress


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TQDM_DISABLE", raising=False)


def test_a_log_says_how_far_how_fast_and_how_long_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    with progress(7000, "queries", "search") as bar:
        now[0] += 600  # an index is built before the first answer
        for _ in range(70):
            bar.update(100)
            now[0] += 10
    assert capsys.readouterr().err.splitlines()[:3] == [
        "search: 100 of 7,000 queries",
        "search: 400 of 7,000 queries, 10/s, 11 min 00 s left",
        "search: 700 of 7,000 queries, 10/s, 10 min 30 s left",
    ]


def test_what_is_short_quiet_or_of_unknown_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def work(total: int, seconds: float, *, quiet: bool = False) -> str:
        with progress(total, "documents", "prepare", quiet=quiet) as bar:
            for _ in range(4):
                bar.update(1000)
                now[0] += seconds
        return capsys.readouterr().err

    assert work(4000, 1) == ""
    assert work(4000, 100, quiet=True) == ""
    assert work(0, 15).splitlines() == [
        "prepare: 3,000 documents, 67/s",
        "prepare: 4,000 documents in 1 min 00 s",
    ]
    monkeypatch.setenv("TQDM_DISABLE", "1")
    assert work(4000, 100) == ""


def test_durations_read_as_people_say_them() -> None:
    assert [duration(s) for s in (0.4, 59.4, 60, 3599, 7500)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "59 min 59 s",
        "2 h 05 min",
    ]
