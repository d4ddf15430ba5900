"""LoCoMo: every row of the reference values for BM25, from the raw file to the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.datasets.registry import open_dataset
from harness.records.scores import MetricResult, ScoreReport
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.protocols import Choices

KS = (5, 10, 25, 50)


@pytest.fixture(scope="module")
def summaries(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ScoreReport]:
    """The scores of rank_bm25's BM25Okapi over words, by granularity."""
    out = tmp_path_factory.mktemp("locomo")
    found = {}
    for granularity in ("turn", "session"):
        dataset = open_dataset("locomo", granularity=granularity, source=data / "locomo")
        spec = RetrieverSpec("bm25-okapi", {"tokens": "words"})
        path = run(dataset, spec, Settings(k=50), out=out)
        found[granularity] = score_run(path, dataset).report
    found["session, all"] = score_run(path, dataset, Choices(["memory"], ks=[50])).report
    return found


def cells(report: ScoreReport, protocol: str, level: str) -> dict[str, MetricResult]:
    (found,) = [b for b in report.protocols if (b.protocol, b.level) == (protocol, level)]
    return found.overall


@pytest.mark.parametrize(
    ("unit", "protocol", "metric", "n", "part", "percent"),
    [
        ("turn", "locomo-official", "recall", 1986, "value", (45.79, 52.82, 63.27, 69.57)),
        (
            "turn",
            "locomo-official-aggregate",
            "recall",
            1986,
            "value",
            (45.59, 52.62, 63.07, 69.37),
        ),
        ("turn", "memory", "recall", 1982, "value", (45.75, 52.80, 63.29, 69.64)),
        ("turn", "memory", "hit", 1982, "value", (49.45, 57.32, 68.77, 75.28)),
        ("turn", "memory", "recall_all", 1982, "value", (42.94, 49.29, 58.73, 64.83)),
        ("session", "memory", "hit", 1982, "value", (88.04, 94.70, 99.29)),
        ("session", "memory", "recall_all", 1982, "value", (78.36, 85.87, 97.58)),
        ("turn", "memory", "recall", 1982, "random_baseline", (0.86, 1.72, 4.31, 8.62)),
        ("session", "memory", "hit", 1982, "random_baseline", (22.5, 42.5, 89.7)),
        ("session", "memory", "recall_all", 1982, "random_baseline", (15.8, 32.5, 85.4)),
    ],
)
def test_bm25_and_chance_reach_the_reference_values(
    summaries: dict[str, ScoreReport],
    unit: str,
    protocol: str,
    metric: str,
    n: int,
    part: str,
    percent: tuple[float, ...],
) -> None:
    found = cells(summaries[unit], protocol, unit)
    tolerance = 0.05 if unit == "session" and part == "random_baseline" else 0.005
    for k, expected in zip(KS, percent, strict=False):
        cell = found[f"{metric}@{k}"]
        assert cell.n == n
        assert 100 * getattr(cell, part) == pytest.approx(expected, abs=tolerance + 1e-9), k


def test_a_cut_off_beyond_every_haystack_finds_everything_and_is_shown_only_when_asked_for(
    summaries: dict[str, ScoreReport],
) -> None:
    assert "hit@50" not in cells(summaries["session"], "memory", "session")
    found = cells(summaries["session, all"], "memory", "session")
    assert [found[f"{m}@50"].value for m in ("hit", "recall_all")] == [1, 1]
    assert [found[f"{m}@50"].random_baseline for m in ("hit", "recall_all")] == [1, 1]
    warnings = summaries["session, all"].warnings
    (warning,) = (one for one in warnings if "reaches the whole haystack" in one)
    assert "hit@50" in warning


def test_abilities_hold_the_questions_of_the_paper_s_counts(
    summaries: dict[str, ScoreReport],
) -> None:
    summary = summaries["turn"]
    (official,) = [b for b in summary.protocols if b.protocol == "locomo-official"]
    n = {name: part.n for name, part in official.slices.items()}
    assert n["multi-hop"] == n["category:multi-hop"] == 282
    assert n["temporal"] == n["category:temporal"] == 321
    assert n["lookup"] == n["category:open-domain"] + n["category:single-hop"] == 96 + 841
    assert n["abstention"] == n["category:adversarial"] == 446
    assert n["answerable"] == 1986 - 446
    (memory,) = [b for b in summary.protocols if (b.protocol, b.level) == ("memory", "turn")]
    assert memory.excluded == {"without relevant documents": 4}
