"""Answering and judging are killed at six points: nothing is lost, and nothing is paid twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from answering_rule import Rule
from openai_endpoint import Chat, OpenAIEndpoint
from polling import wait_until

from harness.datasets.reader import Dataset

_AT_ONCE = 4
_POINTS = 3


def _killed(command: list[str], endpoint: OpenAIEndpoint, calls: int) -> None:
    """Run a command, and kill it when so many more calls were billed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = len(endpoint.bills) + calls
    wait_until(lambda: len(endpoint.bills) >= until or process.poll() is not None)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_killed_at_six_points_not_one_call_is_paid_twice_and_none_is_lost(
    sample: Dataset,
    sample_run: Callable[..., Path],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = Rule(sample)

    def slowly(chat: Chat) -> str:
        time.sleep(0.005)
        return rule(chat)

    run = Path(shutil.copytree(sample_run("bm25"), tmp_path / "results" / "run"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    with OpenAIEndpoint(slowly) as endpoint:
        model = ["--model", "m", "--endpoint", endpoint.url, "--concurrency", str(_AT_ONCE)]
        harness = [sys.executable, "-m", "harness"]
        answer = [*harness, "answer", str(run), "--no-baselines", *model]
        for point in range(_POINTS):
            _killed(answer, endpoint, 1 + 10 * point)
            assert not list(run.parent.glob("*.answers")), "nothing half-written stands there"
        subprocess.run(answer, check=True, capture_output=True)
        (folder,) = run.parent.glob("*.answers")
        asked = len(set(endpoint.bills))
        judge = [*harness, "judge", str(folder), "--judge", "plain", *model]
        for point in range(_POINTS):
            _killed(judge, endpoint, 1 + 10 * point)
            assert not list(folder.glob("judgements/*/judge.json"))
        subprocess.run(judge, check=True, capture_output=True)
        billed, times = endpoint.bills, len(endpoint.bills)
        for command in (answer, judge):  # and once more: all is there
            subprocess.run(command, check=True, capture_output=True)
        assert len(billed) == times
    answers = pq.read_table(folder / "answers.parquet").to_pylist()
    right = [
        rule.truth(rule.of[sample.query(row).text], one["answer"])
        for row, one in enumerate(answers)
    ]
    assert (len(answers), asked) == (sample.n_queries, sample.n_queries)
    (judged,) = folder.glob("judgements/*/judgements.parquet")
    assert pq.read_table(judged)["correct"].to_pylist() == right
    # What was in the air when it was killed was billed, and its reply came to nobody: it is sent
    # again with the key that it had, by which the endpoint knows it.
    assert len(set(billed)) == 2 * sample.n_queries
    assert len(billed) - len(set(billed)) <= 2 * _POINTS * _AT_ONCE
