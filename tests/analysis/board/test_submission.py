"""A run from elsewhere is scored from its rankings; what it claims is held against them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from edited_scores import edit_scores, result

from harness.__main__ import main
from harness.analysis.board.leaderboard import read_boards
from harness.datasets.registry import open_dataset
from harness.io.files import read_json
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Hit, Question
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

pytestmark = pytest.mark.extensions

Edit = Callable[[Path], None]


class Rewrites(BM25):
    """BM25 whose answers are texts."""

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        self._texts = corpus.contents

    def search(self, queries: list[Question], k: int) -> list[list[Hit]]:  # type: ignore[override]
        return [
            [Hit("Noted: " + self._texts[int(i)]) for i in found.ids]
            for found in super().search(queries, k)
        ]


@pytest.fixture
def theirs(sample_run: Callable[..., Path], tmp_path: Path) -> Path:
    """A whole run folder that somebody sent."""
    made = sample_run("bm25", k=21, submitted_by="a group")
    return Path(shutil.copytree(made, tmp_path / "theirs" / made.name))


def taken_in(folder: Path, results: Path) -> int:
    return main(["leaderboard", "add", str(folder), "--results", str(results), "--quiet"])


def recall(folder: Path) -> float:
    value = result(folder).value
    assert value is not None
    return value


def test_an_honest_run_stands_on_the_board_with_its_own_numbers(
    theirs: Path, tmp_path: Path
) -> None:
    assert taken_in(theirs, tmp_path / "results") == 0
    (board,) = read_boards(tmp_path / "results" / "leaderboard.json")
    (entry,) = board.entries
    assert (entry.system, entry.submitted_by, entry.provenance.submitted) == (
        "bm25",
        "a group",
        True,
    )
    assert entry.params["k1"] == 1.2
    assert recall(tmp_path / "results" / entry.run) == recall(theirs)


def test_rankings_and_a_few_lines_by_hand_are_enough(theirs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sent"
    folder.mkdir()
    shutil.copy(theirs / "rankings.trec", folder / "rankings.trec")
    about = {
        "system": "mine",
        "dataset": "sample",
        "granularity": "turn",
        "fingerprint": RunFolder(theirs).record.dataset.fingerprint[:12],
        "k": 21,
    }
    (folder / "run.json").write_bytes(orjson.dumps(about))
    assert taken_in(folder, tmp_path / "results") == 0
    (board,) = read_json(tmp_path / "results" / "leaderboard.json")["boards"]
    assert recall(tmp_path / "results" / board["entries"][0]["run"]) == recall(theirs)


@pytest.mark.slow
def test_a_run_of_texts_is_matched_again_and_not_taken_at_its_word(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    folder = run(dataset, Rewrites(), Settings(k=20, limit=60), out=tmp_path / "theirs")
    score_run(folder, dataset)
    assert taken_in(folder, tmp_path / "results") == 0
    hits = pq.read_table(folder / "hits.parquet")
    gold = hits["documents"].to_pylist()
    lied = hits.set_column(
        hits.column_names.index("text"), "text", [["made up entirely"] * len(gold)]
    )
    pq.write_table(lied, folder / "hits.parquet")
    assert taken_in(folder, tmp_path / "again") == 2


def cell(scores: Any) -> Any:
    return scores["protocols"][0]["slices"]["all"]["metrics"]["recall@10"]


def _scores(folder: Path) -> None:
    edit_scores(folder, lambda scores: cell(scores).update(value=recall(folder) + 0.01))


def _texts_of_bytes(folder: Path) -> None:
    row = {"query": "q", "hit": 1, "text": b"\xff", "sources": ["a"], "score": 1.0}
    pq.write_table(pa.Table.from_pylist([row]), folder / "hits.parquet")


def _record(**changes: Any) -> Edit:
    def edit(folder: Path) -> None:
        record = read_json(folder / "run.json")
        for name, value in changes.items():
            part, _, key = name.partition("__")
            record[part] = {**record[part], key: value} if key else value
        (folder / "run.json").write_bytes(orjson.dumps(record))

    return edit


def _rankings(change: Callable[[list[str]], list[str]]) -> Edit:
    def edit(folder: Path) -> None:
        lines = (folder / "rankings.trec").read_text().splitlines()
        (folder / "rankings.parquet").unlink()
        (folder / "rankings.trec").write_text("\n".join(change(lines)) + "\n")

    return edit


def _interval(folder: Path) -> None:
    edit_scores(folder, lambda scores: cell(scores)["interval"].update(low=recall(folder)))


def _two_minds(folder: Path) -> None:
    lines = (folder / "rankings.trec").read_text().splitlines()
    (folder / "rankings.trec").write_text("\n".join(lines[1:]) + "\n")


def _failed(folder: Path) -> None:
    table = pq.read_table(folder / "queries.parquet")
    at = table.column_names.index("failed")
    failed = [[True] * 9 + [False] * (len(table) - 9)]
    pq.write_table(table.set_column(at, "failed", failed), folder / "queries.parquet")


def _no_number(folder: Path) -> None:
    scores = read_json(folder / "scores.json")
    scores["protocols"][0]["slices"]["all"]["value"][0] = "all"
    (folder / "scores.json").write_bytes(orjson.dumps(scores))


def _queries(change: Callable[[Any], Any]) -> Edit:
    def edit(folder: Path) -> None:
        table = pq.read_table(folder / "queries.parquet")
        pq.write_table(change(table), folder / "queries.parquet")

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_scores, "claims recall@10 {more:.6f}"),
        (_interval, "95% {value:.4f} to"),
        (_two_minds, "rankings.parquet and rankings.trec differ in their rankings"),
        (_record(dataset__fingerprint="0" * 64), "the data differ"),
        (_record(settings__k=5), "more than --k 5"),
        (_record(settings={}), "does not say k"),
        (_record(dataset__name="nonsense"), "unknown dataset 'nonsense'"),
        (
            _rankings(lambda lines: [lines[0], *lines]),
            "with a document that is already in the ranking",
        ),
        (
            _rankings(lambda lines: [lines[0].replace(lines[0].split()[2], "x"), *lines[1:]]),
            "not in the haystack",
        ),
        (
            _rankings(lambda lines: [lines[0].replace(lines[0].split()[0], "x"), *lines[1:]]),
            "that sample does not have",
        ),
        (_rankings(lambda lines: lines[40:]), "rankings give"),
        (_failed, "rankings give"),
        (_no_number, "protocols[0].slices[...].value[0]: expected float, got str"),
        (
            _record(retriever__params=[1]),
            "run.json: retriever.params: expected object, got list",
        ),
        (_record(retriever="bm25"), "run.json: retriever: expected object, got str"),
        (
            _record(submitted_by={"a": "group"}),
            "run.json: submitted_by: expected str, got object",
        ),
        (_record(settings__k=True), "run.json: settings.k: expected int, got bool"),
        (_record(dataset__fingerprint="0"), "fingerprint must have 8 characters or more"),
        (_record(dataset__granularity="session"), "the data differ"),
        (_record(retriever__name="x" * 300), "system must be a name of one line"),
        (_queries(lambda table: table.drop_columns(["failed"])), "must have one column 'failed'"),
        (_queries(lambda table: table.slice(9)), "9 queries with a ranking are missing"),
        (lambda folder: (folder / "queries.parquet").write_text("x"), "not a readable Parquet"),
        (lambda folder: (folder / "run.json").unlink(), "run.json"),
        (_texts_of_bytes, "hits.parquet: not a file of the harness"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_wrong_or_doctored_run_is_refused_with_the_reason(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, said: str
) -> None:
    value = recall(theirs)
    said = said.format(value=value, more=value + 0.01)
    edit(theirs)
    assert taken_in(theirs, tmp_path / "results") == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not list((tmp_path / "results").glob("*/run.json"))
