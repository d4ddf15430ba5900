"""What systems have used, what it costs, and runs that may cost so much and no more."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from corpora import gold_first, labelled
from msgspec.structs import replace
from serving import Message, Reply, serving

from harness.cli.run_summary_lines import cost
from harness.datasets.registry import open_dataset
from harness.errors import ResponseMismatchError, RunError, UsageError
from harness.io.records import to_plain
from harness.records.run import RunRecord
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.runs.usage import BudgetExceededError, cost_usd, counts_in, format_usd, usage_record

PRICES = {"big": {"prompt_tokens": 2.0, "completion_tokens": 8.0}, "*": {"embedded_tokens": 0.02}}

SYSTEMS = """
import os, threading, time
from harness.retrievers.bm25 import BM25

class Paid(BM25):
    "Pays a cent for each document, and a hundredth of one for each question."
    batch_size = 1
    spent = 0.0
    seconds = 0.0
    def index(self, corpus):
        for document in corpus:
            Paid.spent += 0.01
            time.sleep(self.seconds)
        super().index(corpus)
    def search(self, queries, k):
        Paid.spent += 0.0001 * len(queries)
        return super().search(queries, k)
    def report(self):
        return {"usd": Paid.spent}

class Broken(Paid):
    def search(self, queries, k):
        if os.environ.get("BROKEN"):
            raise ValueError("it is broken")
        return super().search(queries, k)

class PaidSlowly(Paid):
    "Takes long for its haystack, and is told to stop in the midst of it."
    seconds = 0.05

class Deaf(PaidSlowly):
    "Goes on whatever is raised."
    def index(self, corpus):
        try:
            super().index(corpus)
        except Exception:
            BM25.index(self, corpus)

class Silent(BM25):
    pass

class SaysNothing(BM25):
    def report(self):
        return {"texts": 3}

class Unknown(BM25):
    "Its endpoint does not say what it used."
    calls = 0
    def search(self, queries, k):
        self.calls += len(queries)
        return super().search(queries, k)
    def report(self):
        models = {"m": {"prompt_tokens": 0}}
        return {"calls": self.calls, "calls_without_usage": self.calls, "models": models}
"""


@pytest.fixture
def systems(tmp_path: Path) -> str:
    path = tmp_path / "systems.py"
    path.write_text(SYSTEMS)
    return str(path)


def ran(name: str, out: Path, mode: Mode = Mode.NEW, **settings: Any) -> RunRecord:
    dataset = open_dataset("sample")
    folder = run(dataset, RetrieverSpec(name), Settings(k=10, **settings), out=out, mode=mode)
    return RunFolder(folder).record


def test_tokens_cost_what_their_model_does_and_dollars_of_the_system_are_not_counted_twice() -> (
    None
):
    report = {
        "retrievers": [
            {"calls": 3, "prompt_tokens": 3e6, "models": {"big": {"prompt_tokens": 1e6}}},
            {"usd": 0.5, "prompt_tokens": 9e9},
            {"retriever": {"embedded_tokens": 5e6, "seconds": 3.0}},
        ]
    }
    counts = counts_in(report)
    assert cost_usd(counts, PRICES) is None  # two million tokens of who knows which model
    prices = {**PRICES, "*": {"prompt_tokens": 1.0, "embedded_tokens": 0.02}}
    assert cost_usd(counts, prices) == pytest.approx(2.0 + 2.0 + 0.5 + 0.1, abs=1e-12)
    found = usage_record(counts, prices)
    assert found is not None
    assert found.prompt_tokens == 3e6 + 9e9
    assert found.models == {"big": {"prompt_tokens": 1e6}}
    assert cost_usd(counts_in({"calls": 7}), PRICES) is None
    assert cost_usd(counts_in({"usd": 0}), {}) == 0


def test_taking_in_and_searching_are_priced_apart_by_model_and_stand_on_the_board(
    tmp_path: Path,
) -> None:
    def asked(message: Message) -> Reply:
        kind = {"index": "documents", "search": "queries"}.get(message["type"], "")
        n = len(message.get(kind, ()))
        what = "prompt_tokens" if message["type"] == "index" else "completion_tokens"
        usage = {"calls": n, what: 1000 * n, "models": {"big": {what: 1000 * n}}} if n else {}
        results = [{"hits": []} for _ in message.get("queries", ())]
        return 200, {"concurrent_haystacks": True, "results": results, "usage": usage}

    with serving(asked) as (url, _):
        settings = Settings(k=10, prices=PRICES, max_usd=1000.0, allow_empty=True)
        spec = RetrieverSpec("http", {"url": url})
        dataset = open_dataset("sample")
        folder = run(dataset, spec, settings, out=tmp_path)
    record = RunFolder(folder).record
    documents = record.measured.index.documents
    queries = record.queries.asked
    assert to_plain(record.measured.ingestion) == {
        "calls": documents,
        "prompt_tokens": 1000 * documents,
        "completion_tokens": 0,
        "usd": pytest.approx(documents * 0.002),
        "models": {"big": {"prompt_tokens": 1000 * documents}},
    }
    searching = record.measured.searching
    assert searching.usd == pytest.approx(queries * 0.008)
    assert searching.usd_per_1000_queries == pytest.approx(8.0)
    assert record.settings.prices == PRICES
    score_run(folder, dataset)
    from harness.analysis.board.leaderboard import build
    from harness.analysis.board.summary import table

    shown = table(build(tmp_path)[0])
    assert "USD ingestion" in shown
    assert f"{documents * 0.002:.4g}" in shown


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_stops_before_more_is_spent_than_may_be_and_goes_on_with_more(
    systems: str, tmp_path: Path, workers: int
) -> None:
    whole = ran(f"{systems}:Paid", tmp_path / "whole", max_usd=1e6)
    cost = whole.measured.ingestion.usd + whole.measured.searching.usd
    assert cost == pytest.approx(1211 * 0.01 + 321 * 0.0001)
    out = tmp_path / "parts"
    # A process counts what it spends itself, and so has its own sum.
    with pytest.raises(RunError, match=r"--max-usd 5: .* may cost .*--resume continues") as stopped:
        ran(f"{systems}:Paid", out, workers=workers, max_usd=5.0)
    assert 2.0 < float(str(stopped.value).split(": ")[1].split()[0]) <= 5.0
    if workers == 2:  # whose spending ends with its processes, so that the next attempt's is new
        after = ran(f"{systems}:Paid", out, Mode.RESUME, workers=2, max_usd=100.0)
        assert after.queries.failed == 0
        paid = after.measured.ingestion.usd + after.measured.searching.usd
        # Taken in twice is at most what was begun when it was stopped.
        assert cost <= paid + 1e-9 <= cost + 4 * 1.2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PaidSlowly", "Deaf"])
def test_it_is_stopped_in_the_midst_of_a_haystack_whatever_the_system_makes_of_it(
    systems: str, tmp_path: Path, name: str
) -> None:
    with pytest.raises(RunError, match=r"--max-usd 0\.5"):
        ran(f"{systems}:{name}", tmp_path, max_usd=0.5)
    (journal,) = tmp_path.glob(".*.tmp/checkpoint.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert not any(line["queries"] for line in lines)
    assert 0 < lines[-1]["indexed"] < lines[-1]["documents"]
    assert 0.4 < sum(line["ingestion_usage"]["usd"] for line in lines) <= 0.5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Silent", r"has no report\(\)"),
        ("SaysNothing", "neither usd nor tokens"),
        ("Unknown", "calls did not report what they used"),
    ],
)
def test_a_limit_that_nobody_can_keep_is_refused(
    systems: str, tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises((UsageError, RunError), match=said):
        ran(f"{systems}:{name}", tmp_path, max_usd=5.0, prices={"*": {"prompt_tokens": 1.0}})


def test_what_calls_without_usage_cost_is_unknown_and_not_nothing(
    systems: str, tmp_path: Path
) -> None:
    record = ran(f"{systems}:Unknown", tmp_path, limit=3, prices={"*": {"prompt_tokens": 1.0}})
    assert record.measured.searching.calls_without_usage == 3
    assert record.measured.searching.usd is None


def test_prices_of_a_file_or_a_config_are_checked_and_named(
    tmp_path: Path, harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_it = ("run", "--dataset", "sample", "--retriever", "bm25", "--limit", "3", "--quiet")
    Path("good.toml").write_text('[prices."a b"]\nprompt_tokens = 2\n')
    assert harness(*run_it, "--prices", "good.toml").status == 0
    Path("bad.toml").write_text("[m]\nprompt_token = 2\n")
    refused = harness(*run_it, "--prices", "bad.toml")
    assert refused.status == 2
    assert "m has no 'prompt_token'; did you mean prompt_tokens" in refused.err
    Path("c.toml").write_text(
        'dataset = "sample"\nretriever = "bm25"\nlimit = 3\nmax_usd = 2\n[prices.m]\ncalls = -1\n'
    )
    refused = harness("run", "--config", "c.toml", "--quiet")
    assert refused.status == 2
    assert "calls of m must be US dollars a million, not -1" in refused.err


def test_what_one_object_spent_in_every_attempt_counts_once(tmp_path: Path) -> None:
    class Paid(BM25):
        spent, batch_size = 0.0, 1

        def index(self, corpus: Corpus) -> None:
            self.spent += 1.0
            super().index(corpus)

        def report(self) -> dict[str, Any]:
            return {"usd": self.spent}

    paid, dataset = Paid(), open_dataset("sample")
    run(dataset, paid, Settings(k=5, limit=3), out=tmp_path / "before")
    before = paid.spent
    for most in (4.0, 7.0):
        with pytest.raises(RunError, match="--max-usd"):
            run(dataset, paid, Settings(k=5, max_usd=most), out=tmp_path, mode=Mode.RESUME)
        assert paid.spent - before <= most
    folder = run(dataset, paid, Settings(k=5, max_usd=100.0), out=tmp_path, mode=Mode.RESUME)
    record = RunFolder(folder).record.measured
    assert record.ingestion.usd == paid.spent - before == 12


class OneEach:
    """Searches for a dollar; each of its haystacks has one question."""

    batch_size = 1

    def __init__(self) -> None:
        self.usd = 0.0

    def index(self, corpus: Corpus) -> None:
        self.n = len(corpus)

    def search(self, queries: Any, k: int) -> list[list[int]]:
        self.usd += len(queries)
        return [list(range(self.n)) for _ in queries]

    def report(self) -> dict[str, Any]:
        return {"usd": self.usd} if self.usd else {}


def test_questions_alone_are_steps_too_and_a_run_that_is_complete_is_never_refused(
    tmp_path: Path,
) -> None:
    dataset = gold_first(tmp_path / "data", 10, 1)
    for most, spent in ((5.0, 5.0), (4.5, 4.0)):
        one = OneEach()
        with pytest.raises(RunError, match="may cost 1"):
            run(dataset, one, Settings(k=1, max_usd=most), out=tmp_path / str(most))
        assert one.usd == spent
    exact = OneEach()
    folder = run(dataset, exact, Settings(k=1, max_usd=10.0), out=tmp_path / "all")
    assert RunFolder(folder).record.measured.searching.usd == 10


def test_calls_that_are_under_way_when_a_run_stops_stay_within_the_limit(tmp_path: Path) -> None:
    class Several(OneEach):
        thread_safe, lock = True, threading.Lock()

        def search(self, queries: Any, k: int) -> list[list[int]]:
            time.sleep(0.2)
            with self.lock:
                return super().search(queries, k)

        def report(self) -> dict[str, Any]:
            time.sleep(0.5)  # calls could end and others begin meanwhile
            return super().report()

    dataset = labelled(
        tmp_path / "data",
        [{"id": "d", "text": "note"}],
        [{"id": f"q{i}", "text": f"ask {i}"} for i in range(60)],
        {"q0": ["d"]},
    )
    several = Several()
    with pytest.raises(RunError, match=r"--max-usd 23\.5"):
        run(dataset, several, Settings(k=1, max_usd=23.5, concurrency=8), out=tmp_path)
    time.sleep(0.3)  # what was begun ends
    assert 8 <= several.usd <= 23.5


class MixesUp:
    """Pays a cent a question, and finds at one that it may have mixed up the answers."""

    batch_size = 1

    def __init__(self, at: int | None = None) -> None:
        self.at, self.asked = at, 0

    def index(self, corpus: Corpus) -> None:
        pass

    def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
        self.asked += 1
        if self.asked == self.at:
            raise ResponseMismatchError("a reply came too late")
        return [[0] for _ in queries]

    def report(self) -> dict[str, float]:
        return {"usd": self.asked / 100}


def test_answers_that_were_mixed_up_are_discarded_and_what_they_cost_is_not(tmp_path: Path) -> None:
    settings = Settings(k=1, limit=40, max_usd=0.45)
    dataset, resume = open_dataset("sample"), Mode.RESUME
    with pytest.raises(ResponseMismatchError):
        run(dataset, MixesUp(at=20), settings, out=tmp_path)
    with pytest.raises(BudgetExceededError, match=r"0\.4\d+ USD are spent"):
        run(dataset, MixesUp(), settings, out=tmp_path, mode=resume)
    settings = Settings(k=1, limit=40)
    record = RunFolder(run(dataset, MixesUp(), settings, out=tmp_path, mode=resume)).record
    assert record.queries.answered == 40
    assert record.measured.searching.usd == pytest.approx(0.2 + 0.4)


@pytest.mark.slow
def test_what_was_cut_off_is_not_more_after_a_resume_that_was_refused(
    systems: str, tmp_path: Path
) -> None:
    said = []
    for mode in (Mode.NEW, Mode.RESUME, Mode.RESUME):
        with pytest.raises(BudgetExceededError) as stopped:
            ran(f"{systems}:Paid", tmp_path, mode, workers=2, max_usd=1.5)
        said.append(str(stopped.value))
    assert "cut off may have cost" in said[1]
    assert said[2] == said[1]


def test_a_run_that_came_to_its_end_was_not_cut_off(
    systems: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(RunError, match="all 5 queries failed"):
        ran(f"{systems}:Broken", tmp_path, limit=5)
    monkeypatch.delenv("BROKEN")
    record = ran(f"{systems}:Broken", tmp_path, Mode.RESUME, limit=5)
    assert record.cut_off_attempts == 0
    line = cost(replace(record, cut_off_attempts=1))
    assert line is not None
    assert line[1].endswith("without the calls cut off in 1 attempt")


def test_dollars_have_cents_from_ten_dollars_on_and_four_digits_below() -> None:
    shown = [format_usd(dollars) for dollars in (0, 0.00012346, 0.5, 9.87654, 1234.5)]
    assert shown == ["0.00", "0.0001235", "0.5", "9.877", "1,234.50"]


def test_programs_and_commands_have_one_bound_of_k() -> None:
    with pytest.raises(UsageError, match="--k must be 1 or more, not 0"):
        Settings(k=0)
