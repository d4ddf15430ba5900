"""What one run finds and the other does not, query by query, and the tests that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest
from scipy import stats
from small import in_three_haystacks

from harness.__main__ import main
from harness.analysis.compare.compare import compare
from harness.analysis.compare.comparison import Options
from harness.analysis.compare.side_by_side import side_by_side, win_tie_loss
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run

BLOCK = ("memory", "turn")


@pytest.fixture
def pair(sample_run: Callable[..., Path]) -> tuple[Path, Path]:
    return sample_run("bm25"), sample_run("recency")


def test_evidence_and_both_rankings_stand_beside_each_other(
    sample: Dataset, pair: tuple[Path, Path]
) -> None:
    found = win_tie_loss(*pair, BLOCK, "recall@10")
    assert found.wins
    assert found.losses
    for one in side_by_side(sample, pair, [*found.wins[:5], *found.losses[:5]], k=10):
        within = [
            sum(e.ranks[side] is not None and e.ranks[side] <= 10 for e in one.evidence)  # type: ignore[operator]
            for side in (0, 1)
        ]
        n = len(one.evidence)
        assert (one.difference.a, one.difference.b) == pytest.approx((within[0] / n, within[1] / n))
        for side in (0, 1):
            assert len(set(one.rankings[side]) & one.relevant) == within[side]
            for evidence in one.evidence:
                rank = evidence.ranks[side]
                if rank is not None and rank <= 10:
                    assert one.rankings[side][rank - 1] == evidence.document


def test_the_command_shows_them_and_share_leaves_texts_out(
    sample: Dataset, pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(folder) for folder in pair]
    assert main(["compare", *names, "--queries", "2", "--top", "3"]) == 0
    said = capsys.readouterr().out
    first = win_tie_loss(*pair, BLOCK, "recall@10").wins[0].query
    text = sample.query(sample.query_ids.index(first)).text
    assert first in said
    assert text[:40] in said
    assert main(["compare", *names, "--queries", "2", "--format", "json"]) == 0
    found = orjson.loads(capsys.readouterr().out)["queries"]
    assert found["wins"][0]["difference"]["query"] == first
    assert found["wins"][0]["evidence"]
    assert main(["compare", *names, "--queries", "2", "--format", "csv"]) == 2
    assert main(["compare", names[0], names[0]]) == 2
    capsys.readouterr()
    assert main(["compare", *names, "--queries", "2", "--share"]) == 0
    said = capsys.readouterr().out
    assert first in said
    assert text[:40] not in said


def test_other_tests_are_scipys_and_stand_beside_the_randomisation_test(
    pair: tuple[Path, Path],
) -> None:
    options = Options(
        protocols=("memory",),
        metrics=("recall@10",),
        cluster_by="queries",
        tests=("t", "wilcoxon"),
        equivalence=0.05,
    )
    (table, _) = compare(pair, options).groups[0].tables
    cell = next(cell for cell in table.cells if cell.slice == "all")
    found = win_tie_loss(*pair, BLOCK, "recall@10")
    values = np.array([(q.a, q.b) for q in (*found.wins, *found.losses, *found.ties)])
    compared = cell.pairs[0]
    assert compared.others["t"] == pytest.approx(stats.ttest_rel(*values.T).pvalue)
    expected = stats.wilcoxon(values[:, 0] - values[:, 1], zero_method="wilcox").pvalue
    assert compared.others["wilcoxon"] == pytest.approx(expected)
    assert compared.equivalence is not None
    assert not compared.equivalence.equivalent
    with pytest.raises(UsageError, match="unknown test 'anova'"):
        compare(pair, Options(tests=("anova",)))
    with pytest.raises(UsageError, match="must be above 0"):
        compare(pair, Options(equivalence=0.0))


def test_what_cannot_be_shown_is_said_and_no_spread_is_no_certainty(
    pair: tuple[Path, Path],
    sample: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = [str(in_three_haystacks(folder, tmp_path / "few")) for folder in pair]
    same = run(sample, RetrieverSpec("bm25", {"k1": 1.2000001}), out=tmp_path)
    score_run(same, sample)
    assert main(["compare", *few]) == 0
    said = capsys.readouterr().out
    assert "p: t tests over haystacks, corrected for all 15 tests of this table (Holm)." in said
    assert main(["compare", *few, "--average", "haystacks", "--tests", "wilcoxon"]) == 0
    said = capsys.readouterr().out
    assert "--cluster-by queries" not in said
    assert "treats queries as independent" not in said
    assert "approximate: only 3 haystacks" in said
    names = [str(pair[0]), str(same)]
    assert main(["compare", *names, "--equivalence", "0.1", "--tests", "t"]) == 0
    said = capsys.readouterr().out
    assert "shown here (" in said  # of these haystacks: no question differs
    assert "shown (p" not in said
    assert "The runs have equal values for every query." in said
    assert main(["compare", *names, "--format", "latex"]) == 0
    inside = False
    for line in capsys.readouterr().out.splitlines():
        inside = inside or line.startswith("\\begin{tabular}")
        assert inside or not line or line.startswith("%")
        inside = inside and not line.startswith("\\end{tabular}")
