"""What a service bills, and what the record of a run says of it, over attempts that are killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
from corpora import labelled
from serving import Message, Reply, serving

from harness.datasets.registry import open_dataset
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.runs.usage import BudgetExceededError

PRICES = {"*": {"prompt_tokens": 1e6}}  # a dollar a token
EXCEEDED = 3


class Billing:
    """A service that bills documents and questions, and kills its client at a message: before the
    message is billed, or when it is, in place of the reply."""

    def __init__(self, seed: int, most: int = 9) -> None:
        self.rng, self.most = random.Random(seed), most
        self.documents = self.questions = self.cut_off = self.until = 0
        self.signals = [signal.SIGKILL, signal.SIGINT]
        self.client = 0

    def __call__(self, message: Message) -> Reply:
        if message["type"] not in ("index", "search"):
            return 200, {"concurrent_haystacks": True}
        used = self.rng.randint(1, self.most)
        self.until -= 1
        if self.until == 0:
            self.cut_off += self.rng.choice((0, used))
            os.kill(self.client, self.rng.choice(self.signals))
            time.sleep(0.1)
            return 0, {}
        time.sleep(0.025)  # a call that costs takes its time
        if message["type"] == "index":
            self.documents += used
        else:
            self.questions += used
        results = [{"hits": []} for _ in message.get("queries", ())]
        return 200, {"results": results, "usage": {"prompt_tokens": used}}


def attempt(source: Path, url: str, out: Path, max_usd: float | None) -> None:
    """Run in a process of its own, from where the last one ended."""
    spec = RetrieverSpec("http", {"url": url, "documents": 1})
    settings = Settings(k=1, prices=PRICES, allow_empty=True, max_usd=max_usd)
    try:
        run(open_dataset("labelled", source=source), spec, settings, out=out, mode=Mode.RESUME)
    except KeyboardInterrupt:
        os._exit(130)
    except BudgetExceededError:
        os._exit(EXCEEDED)


def attempts(
    billing: Billing, folder: Path, kills: int, questions: int, max_usd: float | None = None
) -> int:
    """Kill so many attempts, then let one end by itself; returns its status."""
    documents = [{"id": f"d{i}", "text": f"note {i}"} for i in range(3)]
    queries = [{"id": f"q{i}", "text": f"ask {i}"} for i in range(questions)]
    labelled(folder / "data", documents, queries, {"q0": ["d0"]})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.runs.run", "harness.retrievers.http", "urllib3"])
    with serving(billing) as (url, _):
        for left in range(kills, -1, -1):
            billing.until = billing.rng.randint(1, 6) if left else -1
            arguments = (folder / "data", url, folder / "out", max_usd)
            process = context.Process(target=attempt, args=arguments)
            process.start()
            billing.client = process.pid or 0
            process.join()
            if process.exitcode == EXCEEDED:
                break
    return process.exitcode or 0


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_record_holds_what_was_billed_whatever_was_killed(
    home: Path, tmp_path: Path, kills: int
) -> None:
    billing = Billing(kills)
    assert attempts(billing, tmp_path, kills, questions=4 + kills) == 0
    (folder,) = (tmp_path / "out").glob("[!.]*")
    record = RunFolder(folder).record
    measured = record.measured
    assert measured.ingestion.prompt_tokens == billing.documents
    assert measured.searching.prompt_tokens == billing.questions
    assert measured.searching.usd_per_1000_queries == pytest.approx(
        1000 * billing.questions / record.queries.asked
    )
    assert record.cut_off_attempts == kills


@pytest.mark.slow
def test_no_more_than_the_limit_is_billed_over_all_attempts(home: Path, tmp_path: Path) -> None:
    billing = Billing(1, most=1)
    assert attempts(billing, tmp_path, kills=3, questions=40, max_usd=14.0) == EXCEEDED
    billed = billing.documents + billing.questions + billing.cut_off
    assert 10 <= billed <= 14
