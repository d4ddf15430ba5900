"""An installed package adds a metric, which is loaded when its name is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from polling import HANGS

from harness import Metric, evaluate
from harness.errors import UsageError
from harness.scoring import metrics

CODE = '''
import numpy as np
from harness import MetricDefinition

print("the package is imported")


def last(ranked, cutoff):
    """1 where the document at the cutoff is relevant."""
    there = (ranked.grade >= 1) & (ranked.rank == cutoff[ranked.query])
    return np.bincount(ranked.query, weights=there, minlength=ranked.n)


def share(orders):
    return np.where(orders.cutoff <= orders.size, orders.share, 0.0)


LAST = MetricDefinition(
    name="last",
    about="the share of questions whose document at rank k is evidence",
    formula="1 where the document at rank k is relevant, else 0",
    function=last,
    random_baseline=share,
    has_upper_bound=False,
    needs_cutoff=True,
)
LARGE = MetricDefinition(
    name="large", about="a", formula="b", function=lambda ranked, cutoff: np.full(ranked.n, 2.0)
)
NO_METRIC = "text"
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package as pip leaves it."""
    folder = tmp_path / "installed"
    info = folder / "ranks_of_mine-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "ranks_of_mine.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ranks-of-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[harness.metrics]\nlast = ranks_of_mine:LAST\nlarge = ranks_of_mine:LARGE\n"
        "odd = ranks_of_mine:NO_METRIC\nabsent = not_there:METRIC\n"
    )
    return folder


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(metrics, "METRICS", dict(metrics.METRICS))


@pytest.mark.usefixtures("installed")
def test_a_metric_of_a_package_is_loaded_once_its_name_is_asked_for() -> None:
    qrels = {"q": {"a": 1, "b": 1}}
    run = {"q": {"x": 3.0, "a": 2.0, "b": 1.0}}
    sys.modules.pop("ranks_of_mine", None)
    assert evaluate(qrels, run, "recall@2").means == {"recall@2": 0.5}
    assert "ranks_of_mine" not in sys.modules
    assert evaluate(qrels, run, "last@2,last@4").means == {"last@2": 1.0, "last@4": 0.0}
    assert "ranks_of_mine" in sys.modules
    assert str(Metric.parse("Last(rel=2)@3")) == "last(rel=2)@3"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("last", "the metric 'last' needs a cut-off"),
        ("lats@1", "unknown metric 'lats@1'; did you mean last"),
        ("odd", "ranks_of_mine:NO_METRIC must be a harness.MetricDefinition named 'odd'"),
        ("absent", "not_there:METRIC: ModuleNotFoundError"),
        ("large", "the metric 'large' must give a value from 0 to 1, or NaN, for each of 1 quer"),
    ],
)
def test_what_is_wrong_with_it_is_said_in_one_line(name: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, name)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_run_is_scored_by_it(package: Path, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r}); sys.argv[0] = 'harness';"
        "from harness.__main__ import main; sys.exit(main())"
    )
    arguments = ["run", "--dataset", "sample", "--retriever", "bm25", "--quiet"]
    arguments += ["--metrics", "last@3", "--out", str(tmp_path / "results")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={"HOME": str(tmp_path), "HARNESS_HOME": str(tmp_path / "home"), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "results").glob("*/scores.json")
    (memory,) = (
        p
        for p in json.loads(path.read_bytes())["protocols"]
        if p["level"] == "turn" and p["protocol"] == "memory"
    )
    found = memory["slices"]["all"]
    at = memory["metrics"].index("last@3")
    assert 0 < found["value"][at] < 1
    assert 0 < found["random_baseline"][at] < found["value"][at]
    assert found["upper_bound"][at] is None
    assert found["low"][at] < found["value"][at] < found["high"][at]
