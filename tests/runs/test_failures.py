"""A retriever that fails on some of its work costs that work and nothing else."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc
import pytest
from corpora import cell, labelled, ranked

from harness.__main__ import main
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import RunError, UsageError
from harness.records.run import QueryCounts, RunSettings
from harness.records.scores import AnsweredOnly
from harness.retrievers.contract import Corpus, Question
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

FAILING = '''
import os

class Base:
    """Finds the note of the question's last word."""

    def index(self, corpus):
        self.texts = [text.split()[-1] for text in corpus.contents]

    def search(self, queries, k):
        return [[self.texts.index(q.text.split()[-1])] for q in queries]

class OneHaystack(Base):
    def index(self, corpus):
        super().index(corpus)
        if "10" in self.texts:
            raise MemoryError("too many notes")

class SomeQueries(Base):
    batch_size = 8

    def search(self, queries, k):
        if any(q.text.endswith(("3", "11")) for q in queries):
            raise LookupError("cannot think of it")
        return super().search(queries, k)

class Nothing(Base):
    def search(self, queries, k):
        raise ConnectionError("nobody listens")

class Dies(Base):
    def search(self, queries, k):
        if any(q.text.endswith("13") for q in queries):
            os._exit(9)
        return super().search(queries, k)

class Empty(Base):
    """Finds nothing in two haystacks, and says in a third one that there is nothing."""

    def search(self, queries, k):
        haystack = int(self.texts[0]) // 5
        if haystack < 2:
            return [[] for _ in queries]
        if haystack == 2:
            from harness import Result
            return [Result(abstain=True) for _ in queries]
        return [[] if q.text.endswith("16") else Base.search(self, [q], k)[0] for q in queries]

class Reports(Base):
    calls = 0

    def search(self, queries, k):
        self.calls += len(queries)
        return super().search(queries, k)

    def report(self):
        return {"calls": self.calls, "where": object, 3: {1}}

class CannotReport(Base):
    def report(self):
        raise ValueError("no ledger")
'''


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Dataset:
    """Four haystacks of five notes; a question for every note."""
    numbers = range(20)
    documents = [
        {"id": f"n{i}", "text": f"note number {i}", "haystack": f"h{i // 5}"} for i in numbers
    ]
    queries = [{"id": f"q{i}", "text": f"want {i}", "haystack": f"h{i // 5}"} for i in numbers]
    gold = {f"q{i}": [f"n{i}"] for i in numbers}
    return labelled(tmp_path / "files", documents, queries, gold)


@pytest.fixture
def failing(tmp_path: Path) -> str:
    (tmp_path / "failing.py").write_text(FAILING)
    return f"{tmp_path}/failing.py:"


@pytest.mark.slow
def test_a_haystack_where_nothing_was_found_is_told_loudly_unless_that_is_allowed(
    notes: Dataset, failing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = r"in 2 of 4 haystacks no query returned a document \(10 queries; 'h0', 'h1'\)"
    for workers in (1, 2):
        out = tmp_path / str(workers)
        for mode in (Mode.NEW, Mode.RESUME):  # a finished run that is shown again says it too
            with pytest.warns(UserWarning, match=said):
                run(notes, failing + "Empty", Settings(workers=workers), out=out, mode=mode)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(notes, failing + "Empty", Settings(allow_empty=True), out=out, mode=Mode.RESUME)
    base = ["--retriever", failing + "Empty", "--out", str(tmp_path / "cli"), "--quiet"]
    one = ["run", "--dataset", "labelled", "--source", str(tmp_path / "files"), *base]
    for options, status in (([], 1), (["--allow-empty"], 0)):
        assert main([*one, *options]) == status
        assert bool(re.search(said, capsys.readouterr().err)) == bool(status)
        listed = ["--retriever", "random", *options]  # a list of two
        assert main([*one, *listed]) == status
        assert bool(re.search(said, capsys.readouterr().err)) == bool(status)


def _errors(folder: Path) -> dict[str, str]:
    lines = (folder / "errors.jsonl").read_bytes().splitlines()
    return {line["query"]: line["error"] for line in map(orjson.loads, lines)}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_haystack_that_cannot_be_indexed_costs_its_queries(
    notes: Dataset, failing: str, tmp_path: Path, workers: int
) -> None:
    folder = run(notes, failing + "OneHaystack", Settings(workers=workers), out=tmp_path / "out")
    errors = _errors(folder)
    assert sorted(errors) == ["q10", "q11", "q12", "q13", "q14"]
    assert errors["q10"].startswith("index failed:")
    assert "failing.py" in errors["q10"]
    assert errors["q10"].rstrip().endswith("MemoryError: too many notes")
    assert ranked(folder) == {f"q{i}": [f"n{i}"] for i in range(20) if not 10 <= i < 15}


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_questions_in_a_batch_cost_themselves_and_count_0(
    notes: Dataset, failing: str, tmp_path: Path, workers: int
) -> None:
    folder = run(notes, failing + "SomeQueries", Settings(workers=workers), out=tmp_path / "out")
    assert sorted(_errors(folder)) == ["q11", "q13", "q3"]
    assert RunFolder(folder).record.queries == QueryCounts(
        asked=20, answered=17, failed=3, abstained=0
    )
    scores = score_run(folder, notes)
    assert cell(folder, "recall@1").value == 17 / 20
    assert cell(folder, "recall@1").n == 20
    assert cell(folder, "recall@1").random_baseline == pytest.approx(1 / 5)
    assert cell(folder, "recall@1").answered_only == AnsweredOnly(value=1.0, n=17)
    assert cell(folder, "ndcg@1", "trec").n == 20
    assert scores.report.queries.failed == 3
    assert scores.report.queries.without_ranking == 0
    assert scores.excluded["memory"] == {}
    values = scores.per_query.filter(pc.equal(scores.per_query["protocol"], "memory"))
    of = dict(zip(values["query"].to_pylist(), values["recall@1"].to_pylist(), strict=True))
    assert {q for q, value in of.items() if value == 0} == {"q3", "q11", "q13"}
    assert "queries:all" in cell(folder, "recall@1").signature


def test_strict_stops_at_the_first_failure_and_leaves_no_run(
    notes: Dataset, failing: str, tmp_path: Path
) -> None:
    line = r"in search: LookupError: cannot think of it \(query q\d+\)"
    with pytest.raises(RunError, match=line) as caught:
        run(notes, failing + "SomeQueries", Settings(strict=True), out=tmp_path / "out")
    assert "failing.py" in str(caught.value)
    assert [p for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")] == []


def test_when_every_query_fails_one_line_says_so(
    notes: Dataset, failing: str, tmp_path: Path
) -> None:
    with pytest.raises(RunError) as caught:
        run(notes, failing + "Nothing", out=tmp_path / "out")
    said = str(caught.value)
    assert "all 20 queries failed" in said
    assert "ConnectionError: nobody listens" in said
    assert "\n" not in said
    (traces,) = (tmp_path / "out").glob(".*/errors.jsonl")
    assert str(traces) in said
    assert len(_errors(traces.parent)) == 20
    assert [p for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")] == []


def test_a_worker_that_dies_ends_the_run(notes: Dataset, failing: str, tmp_path: Path) -> None:
    spec = RetrieverSpec(failing + "Dies")
    with pytest.raises(RunError, match=r"ended, status 9.*--resume"):
        run(notes, spec, Settings(workers=2), out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("[!.]*"))


def test_a_retriever_that_cannot_be_sent_to_a_process_is_refused(
    notes: Dataset, tmp_path: Path
) -> None:
    class Local:
        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[Any]:
            return [[0] for _ in queries]

    with pytest.raises(UsageError, match="cannot be sent to other processes"):
        run(notes, Local(), Settings(workers=2), out=tmp_path / "out")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_system_says_of_itself_is_kept_apart_for_each_process(
    notes: Dataset, failing: str, tmp_path: Path, workers: int
) -> None:
    folder = run(notes, failing + "Reports", Settings(workers=workers), out=tmp_path / "out")
    record = RunFolder(folder).record
    said = record.reported
    assert 1 <= len(said) <= workers
    assert sum(one["calls"] for one in said) == 20
    assert record.measured.searching is not None


def test_a_report_that_fails_is_no_failure_of_the_run(
    notes: Dataset, failing: str, tmp_path: Path
) -> None:
    record = RunFolder(run(notes, failing + "CannotReport", out=tmp_path / "out")).record
    assert record.queries.failed == 0
    assert "ValueError: no ledger" in record.reported[0]["error"]


def test_what_nobody_measured_or_said_is_absent(
    notes: Dataset, failing: str, tmp_path: Path
) -> None:
    record = RunFolder(run(notes, failing + "Base", out=tmp_path / "out")).record
    assert record.reported == []
    measured = record.measured
    assert measured.seconds.prepare is None
    assert measured.seconds.run > 0
    assert measured.peak_memory_bytes.largest_worker is None
    assert measured.index.haystacks == measured.index.builds == 4
    assert measured.index.documents == 20
    assert 0 < measured.search_ms.p50 <= measured.search_ms.p95
    assert record.settings == RunSettings(k=100, seed=0, workers=1, batch_size=1)
    assert record.retriever.name.endswith("failing.py:Base")
    assert record.retriever.version is None
    assert len(record.retriever.files["failing.py"]) == 64
    assert record.machine.cores == os.cpu_count()
    assert {"harness", "python", "numpy", "pyarrow", "PyStemmer"} <= set(record.versions)


def test_two_processes_do_not_work_at_one_run(notes: Dataset, failing: str, tmp_path: Path) -> None:
    from filelock import FileLock

    folder = run(notes, failing + "Base", out=tmp_path / "out")
    partial = folder.with_name(f".{folder.name}.tmp")
    partial.mkdir()
    with (
        FileLock(partial / "lock"),
        pytest.raises(UsageError, match="another process works on this run"),
    ):
        run(notes, failing + "Base", out=tmp_path / "out", mode=Mode.REPLACE)
    again = run(notes, failing + "Base", out=tmp_path / "out", mode=Mode.REPLACE)
    assert again == folder


ODD = '''
from harness.retrievers.contract import Hit

class Cut:
    """Its answers and its errors hold half a character, as cut JSON of a model does."""
    def index(self, corpus):
        self.texts = corpus.contents

    def search(self, queries, k):
        if "3" in queries[0].text:
            raise RuntimeError("bad \\\\ud83d text")
        return [[Hit(self.texts[0] + " \\\\ud83d")] for q in queries]

class Quits(Cut):
    def search(self, queries, k):
        raise SystemExit(0)

class Mixed(Cut):
    def search(self, queries, k):
        return [[Hit(self.texts[0]), 1]]
'''


@pytest.mark.slow
def test_half_a_character_and_an_exit_cost_their_question_only(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    (tmp_path / "odd.py").write_text(ODD)
    folder = run(dataset, RetrieverSpec(f"{tmp_path / 'odd.py'}:Cut"), out=tmp_path / "runs")
    score_run(folder, dataset)
    queries = RunFolder(folder).record.queries
    assert queries.asked == dataset.n_queries
    assert 0 < queries.failed < dataset.n_queries
    for name in ("Quits", "Mixed"):
        with pytest.raises(RunError, match=f"all {dataset.n_queries} queries failed"):
            run(dataset, RetrieverSpec(f"{tmp_path / 'odd.py'}:{name}"), out=tmp_path / "runs")
