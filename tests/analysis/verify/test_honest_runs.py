"""`harness verify` accepts runs that nobody altered, of any size and kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest
from graded import graded

from harness.analysis.verify import metrics
from harness.analysis.verify.render import lines
from harness.analysis.verify.verify import verify
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import RunError
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.published import import_published, open_published
from harness.runs.folder.score_folder import rescore, score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties


class Failing(BM25):
    """Fails at questions with an odd number of characters."""

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        if any(len(query.text) % 2 for query in queries):
            raise RuntimeError("no answer to that")
        return super().search(queries, k)


class Texts(BM25):
    """Returns texts of its own, of which some match no document."""

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        self._texts = corpus.contents

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        found = super().search(queries, k)
        return [Result(hits=[self._hit(int(i)) for i in one.ids]) for one in found]

    def _hit(self, document: int) -> Hit:
        return Hit("zzqx blorp" if document % 3 == 0 else f"Noted: {self._texts[document]}")


def assert_accepted(folder: Path) -> None:
    verdict = verify(folder, rescore=rescore)
    assert verdict.agrees, "\n".join(lines(verdict, quiet=True))


def accept(dataset: Dataset, system: BM25 | str, settings: Settings, out: Path) -> None:
    made = run(dataset, system, settings, out=out)
    score_run(made, dataset)
    assert_accepted(made)


@pytest.mark.slow
@pytest.mark.parametrize(("granularity", "limit"), [("turn", 1), ("session", 3)])
def test_a_run_of_a_few_queries_is_accepted(tmp_path: Path, granularity: str, limit: int) -> None:
    """No two queries share a haystack there, so that intervals have no clusters."""
    accept(open_dataset("sample", granularity=granularity), "bm25", Settings(10, limit), tmp_path)


def test_queries_with_negative_grades_alone_are_not_passed_to_pytrec_eval(
    home: Path, tmp_path: Path
) -> None:
    """It reads undefined memory of them: it crashed, or did not return."""
    dataset = graded(tmp_path / "raw", lambda i: (-2, -5) if i % 2 else (2, -1, 0))
    accept(dataset, "bm25", Settings(k=10), tmp_path / "runs")


def test_a_package_that_does_not_return_is_stopped_after_the_time_limit(
    sample_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "TIME_LIMIT", 0.001)
    with pytest.raises(RunError, match=r"did not finish within 0\.001 seconds"):
        verify(sample_run("bm25", k=20, limit=40))


def test_ctrl_c_ends_a_verification_while_the_package_computes(
    sample_run: Callable[..., Path], tmp_path: Path
) -> None:
    """A package in C would not look at the signal."""
    package = tmp_path / "pytrec_eval.py"
    package.write_text(
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path / 'started')!r}).touch()\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "verify", str(sample_run("bm25", k=20, limit=40))],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 30
        while not (tmp_path / "started").is_file() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()


# -- The whole matrix ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["turn", "session"])
def test_samples_of_all_sizes_are_accepted(tmp_path: Path, granularity: str) -> None:
    dataset = open_dataset("sample", granularity=granularity)
    for limit in (1, 2, 9, None):
        accept(dataset, "bm25", Settings(20, limit), tmp_path / str(limit))


@pytest.mark.slow
@pytest.mark.parametrize("system", [Failing, Texts])
def test_runs_with_failures_and_of_texts_are_accepted(
    tmp_path: Path, sample: Dataset, system: type[BM25]
) -> None:
    for limit in (1, None):
        settings = Settings(10, limit, batch_size=1, seed=3)
        accept(sample, system(), settings, tmp_path / str(limit))


@pytest.mark.slow
@pytest.mark.parametrize("ties", [None, *Ties])
def test_scores_of_all_choices_are_accepted(
    tmp_path: Path, sample: Dataset, ties: Ties | None
) -> None:
    for limit in (2, 40):
        made = run(sample, "bm25", Settings(20, limit), out=tmp_path / str(limit))
        score_run(made, sample, Choices(ks=(2, 7), ties=ties, answers=True))
        assert_accepted(made)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "granularity"),
    [
        ("locomo", "locomo/locomo10.json", "turn"),
        ("locomo", "locomo/locomo10.json", "session"),
        ("longmemeval/s", "longmemeval/longmemeval_s_sample.json", "session"),
        ("longmemeval/s", "longmemeval/longmemeval_s_sample.json", "turn"),
        ("beir/scifact", "beir/scifact", "passage"),
        ("changes", None, "turn"),
    ],
)
def test_samples_of_real_data_are_accepted(
    data: Path, tmp_path: Path, name: str, source: str | None, granularity: str
) -> None:
    dataset = open_dataset(
        name, granularity=granularity, source=None if source is None else data / source
    )
    for limit in (1, 8):
        accept(dataset, "bm25", Settings(20, limit), tmp_path / str(limit))


@pytest.mark.slow
def test_rankings_from_elsewhere_are_accepted(tmp_path: Path, sample: Dataset) -> None:
    documents = sample.documents.column("id").to_pylist()
    for n in (1, 40):
        rows = [
            f"{query} Q0 {document} 0 {-at // 2} r"
            for i, query in enumerate([*sample.query_ids[:n], "unknown"])
            for at, document in enumerate([*documents[i : i + 9], "no-such-document"])
        ]
        (tmp_path / "run.trec").write_text("\n".join(rows) + "\n")
        made = import_rankings(tmp_path / "run.trec", sample, ImportOptions(tmp_path / str(n), "r"))
        for missing in ("zero", "skip"):
            score_run(made, sample, Choices(missing=missing))
            assert_accepted(made)
        lines_of = [{"query": q, "hits": [{"text": "a ferry"}]} for q in sample.query_ids[:n]]
        (tmp_path / "run.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines_of)))
        made = import_rankings(
            tmp_path / "run.jsonl", sample, ImportOptions(tmp_path / f"t{n}", "t")
        )
        score_run(made, sample)
        assert_accepted(made)


@pytest.mark.slow
@pytest.mark.extensions
@pytest.mark.parametrize(
    ("file", "format", "granularity", "unasked"),
    [
        ("letta/results.jsonl", "agent-memory-benchmarks", "turn", False),
        ("mempalace/*_raw_*.json", "mempalace", "session", True),
    ],
)
def test_published_rankings_are_accepted(
    data: Path, tmp_path: Path, file: str, format: str, granularity: str, unasked: bool
) -> None:
    source = data / "locomo" / "locomo10.json"
    dataset = open_dataset("locomo", granularity=granularity, source=source)
    (path,) = (data / "published").glob(file)
    published = open_published(path, format, unasked=unasked)
    made = import_published(published, dataset, ImportOptions(tmp_path, "p"))
    score_run(made, dataset)
    assert_accepted(made)
