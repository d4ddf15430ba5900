"""Two runs on different queries are compared by unpaired tests, and it is said why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from harness.__main__ import main
from harness.analysis.compare.compare import compare_split
from harness.datasets.registry import open_dataset
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.protocols import Choices


@pytest.fixture(scope="module")
def split(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """SciFact's questions dealt to two systems, as their logs would be."""
    place = tmp_path_factory.mktemp("split")
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    folders = []
    for part, system in enumerate(("bm25", "random")):
        whole = run(dataset, RetrieverSpec(system), Settings(k=100), out=place / "whole")
        lines = (whole / "rankings.trec").read_text().splitlines()
        queries = {*sorted({line.split()[0] for line in lines})[part::2]}
        log = place / f"{system}.trec"
        log.write_text("\n".join(line for line in lines if line.split()[0] in queries))
        folder = import_rankings(log, dataset, ImportOptions(place / "runs", system))
        score_run(folder, dataset, Choices(missing="skip"))
        folders.append(folder)
    return folders[0], folders[1]


def test_groups_are_compared_by_welch(split: tuple[Path, Path]) -> None:
    rows = {row.slice: row for row in compare_split(split, ["ndcg@10"])}
    found = rows["all"].found
    assert (found.n_a, found.n_b, found.method) == (150, 150, "welch")
    values = []
    for folder in reversed(split):  # the new run less the old one
        table = pq.read_table(folder / "scores.parquet").to_pylist()
        mine = [
            r["ndcg@10"] for r in table if r["protocol"] == "memory" and r["ndcg@10"] is not None
        ]
        values.append(np.array(mine, float))
    expected = stats.ttest_ind(*values, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high))


def test_the_command_says_why_and_refuses_queries_that_could_be_paired(
    split: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, split), "--unpaired", "--metrics", "hit@10"]) == 0
    said = capsys.readouterr().out
    assert "the runs scored different queries" in said
    assert "two-proportion" in said
    whole = [str(path) for path in (split[0].parent.parent / "whole").iterdir()]
    for folder in whole:
        assert main(["score", folder, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["compare", *whole, "--unpaired"]) == 2
    assert "300 queries were scored in both runs" in capsys.readouterr().err


def test_runs_without_a_query_in_common_are_sent_to_unpaired(
    split: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, split)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "no query was scored in all of these runs" in said.err
    assert "--unpaired" in said.err
