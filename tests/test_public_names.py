"""What `import harness` offers: every public name in sight, short reprs, numbers one step away."""

from __future__ import annotations

import math
import pydoc
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from polling import HANGS

import harness
from harness.cli.options import require_provider
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.records.scores import MetricResult, ProtocolResult, SliceResult
from harness.scoring.scores import Scores


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOME", str(tmp_path_factory.mktemp("home")))
        return harness.open_dataset("sample")


@pytest.fixture(scope="module")
def folders(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    out = tmp_path_factory.mktemp("runs")
    return [harness.run(dataset, name, out=out) for name in ("bm25", "tfidf")]


@pytest.fixture(scope="module")
def scores(dataset: Dataset, folders: list[Path]) -> Scores:
    harness.score_run(folders[1], dataset)
    return harness.score_run(folders[0], dataset)


def test_completion_and_help_list_the_public_names_before_any_is_imported() -> None:
    code = (
        "import sys, harness, pydoc; before = dir(harness);"
        "assert set(harness.__all__) <= set(before);"
        "assert 'numpy' not in sys.modules, 'listing names imported numpy';"
        "print(pydoc.plain(pydoc.render_doc(harness)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    for name in harness.__all__:
        assert name in done.stdout


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert harness.__all__ == sorted(harness.__all__)
    for name in harness.__all__:
        assert (getattr(harness, name).__doc__ or "").strip(), name
        assert pydoc.getdoc(getattr(harness, name))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = harness.nothing  # type: ignore[attr-defined]


def test_the_number_that_everybody_wants_is_one_step_away(scores: Scores, dataset: Dataset) -> None:
    whole = scores.report.protocols[0].slices
    assert scores["recall@10"] == whole["all"].metrics["recall@10"].value
    assert scores["recall@10", "temporal"] == whole["temporal"].metrics["recall@10"].value
    assert scores["recall@10", harness.Ability.TEMPORAL] == scores["recall@10", "temporal"]
    trec = next(b for b in scores.report.protocols if b.protocol == "trec")
    value = trec.slices["all"].metrics["ndcg@10"].value
    assert scores["ndcg@10", "all", "trec"] == scores["ndcg@10", "all", "trec/1"] == value
    sessions = next(b for b in scores.report.protocols if b.level == "turn>session")
    value = sessions.slices["all"].metrics["recall@10"].value
    assert scores["recall@10", "all", "memory:turn>session"] == value
    cell = scores.result("recall@10", "temporal")
    assert cell.n == whole["temporal"].n == (dataset.abilities == "temporal").sum()
    assert cell.signature.startswith("recall@10|protocol:memory/1|data:sample")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("recal@10", "no metric 'recal@10' was scored; did you mean recall@10"),
        (("recall@10", "tempral"), "no slice 'tempral'; did you mean temporal?"),
        (("recall@10", "all", "trek"), "no protocol 'trek' was scored; did you mean trec?"),
    ],
)
def test_what_was_not_scored_is_told_with_the_near_names(
    scores: Scores, key: str | tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError) as error:
        scores[key]
    assert str(error.value).startswith(said)


def test_tables_hold_every_cell(scores: Scores, with_evidence: int) -> None:
    table = scores.to_arrow()
    cells = [
        (block.protocol, slice_, metric)
        for block in scores.report.protocols
        for slice_, part in block.slices.items()
        for metric in part.metrics
    ]
    assert table.num_rows == len(cells)
    named = zip(table["protocol"].to_pylist(), table["metric"].to_pylist(), strict=True)
    assert {name.split(":")[0] for name, _ in named} == {name for name, *_ in cells}
    frame = scores.to_pandas()
    row = frame.query("protocol == 'memory' and slice == 'all' and metric == 'recall@10'").iloc[0]
    assert row["value"] == scores["recall@10"]
    assert row["n"] == with_evidence
    assert row["low"] < row["value"] < row["high"]


def test_objects_print_short(scores: Scores, dataset: Dataset, folders: list[Path]) -> None:
    comparison = harness.compare([str(folders[0]), folders[1]])
    evaluation = harness.evaluate({"q": {"d": 1}}, {"q": {"d": 2.0}}, "mrr@10,recall@5")
    rankings = harness.read_rankings(folders[0] / "rankings.trec")
    monitor = harness.Monitor(labels={"where?": {"d": 1}})
    for one in (scores, comparison, evaluation, dataset, rankings, monitor):
        assert len(repr(one)) < 400, repr(one)[:1000]
        assert len(str(one)) < 400
    assert f"recall@10 {scores['recall@10']:.4f}" in repr(scores)
    assert repr(evaluation) == "<Evaluation, n 1: mrr@10 1.0000  recall@5 1.0000>"
    assert evaluation["mrr@10"] == 1.0
    with pytest.raises(UsageError, match="no metric 'mrr@5' here"):
        evaluation["mrr@5"]


def test_a_comparison_is_asked_by_metric_and_slice(folders: list[Path], scores: Scores) -> None:
    comparison = harness.compare(folders)
    cell = comparison["recall@10"]
    assert cell.means[0].value == pytest.approx(scores["recall@10"], abs=1e-12)
    means = [mean.value for mean in cell.means]
    assert cell.pairs[0].found.difference.value == pytest.approx(means[1] - means[0], abs=1e-12)
    assert comparison["recall@10", "temporal"].slice == "temporal"
    with pytest.raises(UsageError, match="no metric 'recall@11' over 'all'"):
        comparison["recall@11"]


def test_a_mean_over_nothing_is_nan(scores: Scores) -> None:
    nothing = SliceResult(n=0, metrics={"recall@10": MetricResult(value=None, n=0)})
    memory = scores.report.protocols[0]
    about = {name: getattr(memory, name) for name in ("version", "description", "ties")}
    empty = ProtocolResult(
        protocol="memory", level="turn", signature=memory.signature, **about
    ).with_slices({"all": nothing})
    empty = Scores(replace(scores.report, protocols=[empty]), pa.table({}))
    assert math.isnan(empty["recall@10"])
    assert empty.result("recall@10").value is None
    assert "recall@10 -" in repr(empty)


def test_a_name_of_a_missing_extension_says_what_is_missing() -> None:
    code = (
        "import sys; sys.modules['harness.extensions.online'] = None\n"
        "from harness import evaluate\n"
        "try:\n    from harness import ABTest\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANGS
    )
    assert done.stdout.startswith("harness.ABTest needs harness.extensions.online")


def test_an_option_of_a_missing_extension_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="--answers needs an extension that is not installed"):
        require_provider("--answers", "absent")
