"""The published figure of all-MiniLM-L6-v2: nDCG@10 of 0.645 on SciFact's test questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.dataset.prepare import open_dataset
from harness.runs.folder.scored import score_run


@pytest.mark.slow
@pytest.mark.usefixtures("home", "weights")
def test_minilm_reaches_its_published_figure_on_scifact(data: Path, tmp_path: Path) -> None:
    from harness import Settings, run

    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    folder = run(dataset, "minilm", Settings(k=100), out=tmp_path)
    blocks = score_run(folder, dataset).report.protocols
    block = next(block for block in blocks if block.protocol == "trec")
    cell = block.slices["all"]
    assert cell.n == 300
    assert cell.metrics["ndcg@10"].value == pytest.approx(0.645, abs=0.003)
