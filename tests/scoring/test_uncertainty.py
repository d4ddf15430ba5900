"""Every mean comes with a 95% interval, over what is independent, and says how it was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small import one_corpus

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.scoring import score_columns
from harness.scoring.protocols import Choices
from harness.scoring.score_columns import Column, with_intervals_over
from harness.scoring.scores import Scores
from harness.stats.intervals import mean_intervals


def scored(dataset: Dataset, out: Path, retriever: str = "bm25") -> Scores:
    return score_run(run(dataset, retriever, out=out), dataset, Choices(ks=(1, 5)))


@pytest.fixture(scope="module")
def locomo(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Scores:
    source = data / "locomo" / "locomo10.json"
    dataset = open_dataset("locomo", source=source, granularity="session")
    return scored(dataset, tmp_path_factory.mktemp("locomo"))


def test_questions_to_one_conversation_are_one_unit_of_the_interval(locomo: Scores) -> None:
    block = locomo.report.protocols[0]
    table = locomo.per_query
    mine = np.array(table["protocol"].to_pylist()) == block.protocol
    values = np.array(table["recall@5"].to_pylist(), float)[mine]
    haystacks = np.array(table["haystack"].to_pylist())[mine]
    temporal = np.array(table["ability"].to_pylist())[mine] == "temporal"
    for name, chosen in (("all", slice(None)), ("temporal", temporal)):
        (expected,) = mean_intervals(values[chosen], haystacks[chosen], bounds=(0, 1))
        found = block.slices[name].metrics["recall@5"].interval
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
        assert (found.method, found.clusters, found.cluster_by) == (
            "korn-graubard",
            10,
            "haystacks",
        )
        assert found.approximate == expected.note.replace("cluster", "haystack")
        assert found.effective_clusters == pytest.approx(expected.effective, abs=0.005)
        once = block.slices[name].metrics["recall@5"].macro_haystack
        each = [values[chosen][haystacks[chosen] == one] for one in set(haystacks[chosen])]
        assert once.value == pytest.approx(np.mean([np.nanmean(of) for of in each]))
        assert once.interval.low < once.value < once.interval.high
        # Read alone, it is as careful as the interval beside it.
        made = once.interval
        assert (made.method, made.clusters, made.cluster_by) == ("korn-graubard", 10, "haystacks")
        assert made.approximate == "only 10 haystacks"


def test_intervals_do_not_depend_on_how_many_are_computed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    haystacks = np.array([0, 1, 2, 3, 4, 4, 5, 5, 5, 6], np.int32)
    names = ("recall@1", "recall@5", "recall@10")
    columns = [Column(name, rng.random(10), np.ones(10, bool), None, None) for name in names]
    # The queries of one slice are alone in their haystacks, those of the others share some.
    masks = {"all": np.ones(10, bool), "alone": np.arange(10) < 4, "shared": np.arange(10) > 2}
    means = {n: {c.metric: c.result(mask) for c in columns} for n, mask in masks.items()}
    together = with_intervals_over(haystacks, 10, columns, masks, means)
    monkeypatch.setattr(score_columns, "_VALUES", 10)
    assert with_intervals_over(haystacks, 10, columns, masks, means) == together
    assert together["alone"]["recall@1"].interval.cluster_by == "haystacks"


def test_every_cell_with_a_value_has_an_interval_around_it(locomo: Scores) -> None:
    cells = [
        cell
        for block in locomo.report.protocols
        for part in block.slices.values()
        for cell in part.metrics.values()
        if cell.value is not None
    ]
    assert len(cells) > 100
    for cell in cells:
        interval = cell.interval
        assert 0 <= interval.low <= cell.value + 1e-12
        assert cell.value - 1e-12 <= interval.high <= 1


def test_one_collection_for_all_questions_is_no_cluster(tmp_path: Path) -> None:
    documents = [f"d{i}" for i in range(20)]
    judged = {f"q{i}": {f"d{i % 20}": 1} for i in range(60)}
    dataset = one_corpus(tmp_path / "files", documents, judged)
    interval = scored(dataset, tmp_path, "random").result("recall@5").interval
    assert interval is not None
    # One judged document a question: each recall is 0 or 1.
    assert (interval.method, interval.clusters, interval.cluster_by) == (
        "clopper-pearson",
        60,
        "queries",
    )
    assert not interval.approximate
