"""Questions that are asked when their time has come, and memories that are told as in life."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import labelled, ranked

from harness.analysis.verify.verify import verify
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

SYSTEMS = """
import json
from pathlib import Path
from harness.retrievers.bm25 import BM25

def words(text):
    return {word.strip("?.,").lower() for word in text.split()}

class Plain:
    def index(self, corpus):
        self.known = {d.id: words(d.content) for d in corpus}
    def search(self, queries, k):
        return [self.best(words(q.text), k) for q in queries]
    def best(self, asked, k):
        scores = {id_: len(asked & text) for id_, text in self.known.items()}
        return sorted(scores.items(), key=lambda one: -one[1])[:k]

class Told(Plain):
    "Is told as in life, and writes down when."
    index = None
    def __init__(self, log="/dev/null"):
        self.log = Path(log)
    def say(self, *what):
        with open(self.log, "a") as file:
            file.write(json.dumps(what) + "\\n")
    def reset(self):
        self.known = {}
        self.say("reset")
    def add(self, documents):
        assert len({d.session for d in documents}) == 1
        self.say("add", [d.timestamp for d in documents], [d.text for d in documents])
        self.known |= {d.id: words(d.content) for d in documents}
    def search(self, queries, k):
        for query in queries:
            self.say("search", query.timestamp, query.text)
        return super().search(queries, k)

class ToldAsync(Told):
    async def reset(self):
        super().reset()
    async def add(self, documents):
        super().add(documents)

class FailsOnce(Told):
    "Fails at the second session of each haystack."
    def reset(self):
        super().reset()
        self.n = 0
    def add(self, documents):
        self.n += 1
        if self.n == 2:
            raise ConnectionError("lost")
        super().add(documents)
"""

DAY = 86_400
SAID = [  # day, session, text
    (1, "s1", "my sister lives in Lyon"),
    (1, "s1", "she likes Lyon a lot"),
    (3, "s2", "the weather is bad"),
    (5, "s3", "my sister moved to Porto"),
    (None, None, "sister of nobody"),
]
ASKED = [(2, "q2", "where does my sister live?"), (5, "q5", "where is my sister?")]
ASKED += [(9, "q9", "sister weather?"), (None, "qn", "sister Lyon Porto weather")]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Two haystacks with the same dated questions, of which one is answered by what comes later."""
    labelled(tmp_path / "data", *_records())
    return open_dataset("labelled", source=tmp_path / "data", split="test-as-of")


def _records() -> tuple[Any, Any, Any]:
    documents, queries, gold = [], [], {}
    for h in ("a", "b"):
        for i, (day, session, text) in enumerate(SAID):
            when = {} if day is None else {"timestamp": f"2024-01-{day:02}T10:00:00"}
            told = {"session": f"{h}{session}", "speaker": "me"} if session else {}
            documents.append({"id": f"{h}{i}", "text": text, "haystack": h, **when, **told})
        for day, name, text in ASKED:
            when = {} if day is None else {"timestamp": f"2024-01-{day:02}T12:00:00"}
            queries.append({"id": h + name, "text": text, "haystack": h, **when})
            gold[h + name] = [f"{h}0", f"{h}3"]
    return documents, queries, gold


@pytest.fixture
def systems(tmp_path: Path) -> str:
    path = tmp_path / "systems.py"
    path.write_text(SYSTEMS)
    return str(path)


def test_each_question_has_the_haystack_of_its_time_and_no_later_evidence(dataset: Dataset) -> None:
    texts = dataset.documents.table["text"].to_pylist()
    held = {
        query: [texts[row] for row in dataset.haystack_rows(int(haystack))]
        for query, haystack in zip(dataset.query_ids, dataset.query_haystack, strict=True)
    }
    said = [text for *_, text in SAID]
    assert held["aq2"] == [*said[:2], said[4]]
    assert held["aq5"] == held["aq9"] == held["aqn"] == said
    judged = dataset.qrels()
    gold: dict[str, list[str]] = {}
    for query, row in zip(judged.query.tolist(), judged.document.tolist(), strict=True):
        gold.setdefault(dataset.query_ids[query], []).append(texts[row])
    assert gold["aq2"] == [said[0]]
    assert gold["aq5"] == [said[0], said[3]]
    (repair,) = dataset.manifest.repairs
    assert (repair.count, repair.examples) == (2, ["aq2", "bq2"])
    assert repair.kind.startswith("evidence later than the query")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_memory_is_told_each_session_once_in_time_order_and_asked_when_the_time_has_come(
    dataset: Dataset, systems: str, tmp_path: Path, workers: int
) -> None:
    settings = Settings(k=3, workers=workers)
    log = tmp_path / "log.jsonl"
    plain = run(dataset, RetrieverSpec(f"{systems}:Plain"), settings, out=tmp_path / "plain")
    for name in ("Told", "ToldAsync"):
        spec = RetrieverSpec(f"{systems}:{name}", {"log": str(log)})
        told = run(dataset, spec, settings, out=tmp_path / name)
        assert ranked(told) == ranked(plain)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line[0] == "reset" for line in lines) == 2 * 2
    assert sum(line[0] == "add" for line in lines) == 2 * 2 * 4
    if workers == 1:
        kinds = [line[0] for line in lines[:9]]
        assert kinds == ["reset", *["add"] * 2, "search", *["add"] * 2, *["search"] * 3]
        moments = [line[1] if line[0] == "search" else line[1][-1] for line in lines[2:8]]
        assert moments == sorted(moments)
    report = score_run(told, dataset).report
    assert "split:test-as-of" in report.protocols[0].signature


@pytest.mark.slow
def test_a_haystack_as_of_many_times_is_one_haystack_to_intervals_and_comparisons(
    systems: str, tmp_path: Path
) -> None:
    def found(split: str) -> tuple[Any, Path]:
        dataset = open_dataset("sample", split=split)
        folder = run(dataset, RetrieverSpec("bm25"), Settings(k=10), out=tmp_path / split)
        return score_run(folder, dataset).report.protocols[0].slices["all"], folder

    (plain, _), (as_of, folder) = found("test"), found("test-as-of")
    # All evidence of `sample` is older than its question, and nothing else is newer.
    cell, same = (part.metrics["recall@10"] for part in (as_of, plain))
    assert cell.value == same.value
    assert cell.interval == same.interval
    assert cell.interval.clusters == 12
    verdict = verify(folder)
    assert verdict.differences == []
    assert [check for check in verdict.checks if check.ok is False] == []


def test_without_it_all_is_told_before_the_first_question(systems: str, tmp_path: Path) -> None:
    labelled(tmp_path / "data", *_records())
    whole = open_dataset("labelled", source=tmp_path / "data")
    log = tmp_path / "log.jsonl"
    told = run(
        whole, RetrieverSpec(f"{systems}:Told", {"log": str(log)}), Settings(k=3), out=tmp_path
    )
    plain = run(whole, RetrieverSpec(f"{systems}:Plain"), Settings(k=3), out=tmp_path)
    assert ranked(told) == ranked(plain)
    kinds = [json.loads(line)[0] for line in log.read_text().splitlines()]
    assert kinds == ["reset", *["add"] * 4, *["search"] * 4] * 2


def test_what_was_told_in_part_is_not_asked_any_more_and_not_told_again(
    dataset: Dataset, systems: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    spec = RetrieverSpec(f"{systems}:FailsOnce", {"log": str(log)})
    with pytest.raises(Exception, match="all 8 queries failed"):
        run(dataset, spec, Settings(k=3), out=tmp_path)
    kinds = [json.loads(line)[0] for line in log.read_text().splitlines()]
    assert kinds == ["reset", "add"] * 2


def test_other_retrievers_are_asked_as_of_too_and_inside_one_another(
    dataset: Dataset, systems: str, tmp_path: Path
) -> None:
    for name, params in (
        ("bm25", {}),
        ("hybrid", {"retrievers": [f"{systems}:Told", "bm25"]}),
        ("oracle", {}),
    ):
        folder = run(dataset, RetrieverSpec(name, params), Settings(k=3), out=tmp_path)
        assert RunFolder(folder).record.queries.failed == 0
        assert "a3" not in ranked(folder)["aq2"]
        assert "--split test-as-of" in RunFolder(folder).record.command


def test_longmemeval_as_of_holds_what_was_said_before_each_question(data: Path) -> None:
    longmemeval = data / "longmemeval" / "longmemeval_s_sample.json"
    whole = open_dataset("longmemeval", source=longmemeval)
    asked = open_dataset("longmemeval", source=longmemeval, split=f"{whole.manifest.split}-as-of")
    assert asked.query_ids == whole.query_ids
    table = asked.query_table["timestamp"].to_pylist()
    for query, when in enumerate(table):
        now, before = int(asked.query_haystack[query]), int(whole.query_haystack[query])
        stamps = whole.haystack_timestamps(before).to_numpy(zero_copy_only=False)
        expected = whole.haystack_rows(before)[np.asarray(stamps) <= when]
        assert asked.haystack_rows(now).tolist() == expected.tolist()


def test_what_has_no_dates_cannot_be_asked_so(tmp_path: Path, harness: Any) -> None:
    labelled(
        tmp_path / "data", [{"id": "d", "text": "t"}], [{"id": "q", "text": "t"}], {"q": ["d"]}
    )
    with pytest.raises(UsageError, match="--as-of: none of these questions has a date"):
        open_dataset("labelled", source=tmp_path / "data", split="test-as-of")
    said = harness("run", "--dataset", "sample", "--retriever", "bm25", "--as-of", "--split", "no")
    assert (said.status, "has no split 'no'" in said.err) == (2, True)
