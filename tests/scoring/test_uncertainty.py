"""Every mean comes with a 95% interval, over what is independent, and says how it was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.dataset.prepare import open_dataset
from harness.dataset.reader import Dataset
from harness.runs.folder.scored import score_run
from harness.runs.runner import run
from harness.scoring.protocols import Choices
from harness.scoring.scores import Scores
from harness.statistics.intervals import mean_intervals


@pytest.fixture
def locomo(home: Path, data: Path) -> Dataset:
    return open_dataset("locomo", source=data / "locomo" / "locomo10.json", granularity="session")


def scored(dataset: Dataset, out: Path) -> Scores:
    return score_run(run(dataset, "bm25", out=out), dataset, Choices(ks=(1, 5)))


def test_questions_to_one_conversation_are_one_unit_of_the_interval(
    locomo: Dataset, tmp_path: Path
) -> None:
    scores = scored(locomo, tmp_path)
    block = scores.summary["protocols"][0]
    table = scores.per_query
    mine = np.array(table["protocol"].to_pylist()) == block["protocol"]
    values = np.array(table["recall@5"].to_pylist(), float)[mine]
    haystacks = np.array(table["haystack"].to_pylist())[mine]
    temporal = np.array(table["ability"].to_pylist())[mine] == "temporal"
    for name, chosen in (("all", slice(None)), ("temporal", temporal)):
        (expected,) = mean_intervals(values[chosen], haystacks[chosen], bounds=(0, 1))
        found = block["slices"][name]["metrics"]["recall@5"]["interval"]
        assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
        assert (found["method"], found["units"], found["over"]) == (
            "korn-graubard",
            10,
            "haystacks",
        )
        assert found["rough"] == expected.note
        assert found["effective"] == pytest.approx(expected.effective, abs=0.005)
        once = block["slices"][name]["metrics"]["recall@5"]["over_haystacks"]
        each = [values[chosen][haystacks[chosen] == one] for one in set(haystacks[chosen])]
        assert once["value"] == pytest.approx(np.mean([np.nanmean(of) for of in each]))
        assert once["low"] < once["value"] < once["high"]


def test_every_cell_with_a_value_has_an_interval_around_it(locomo: Dataset, tmp_path: Path) -> None:
    cells = [
        cell
        for block in scored(locomo, tmp_path).summary["protocols"]
        for part in block["slices"].values()
        for cell in part["metrics"].values()
        if cell["value"] is not None
    ]
    assert len(cells) > 100
    for cell in cells:
        interval = cell["interval"]
        assert 0 <= interval["low"] <= cell["value"] + 1e-12
        assert cell["value"] - 1e-12 <= interval["high"] <= 1


def test_one_collection_for_all_questions_is_no_cluster(
    home: Path, data: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    cell = scored(dataset, tmp_path).summary["protocols"][0]["slices"]["all"]["metrics"]["recall@5"]
    interval = cell["interval"]
    assert (interval["method"], interval["units"], interval["over"]) == (
        "korn-graubard",
        300,
        "queries",
    )
    assert "rough" not in interval
