"""A rank is a range wherever intervals overlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.dataset.prepare import open_dataset
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Found, Hit, Question
from harness.runs.folder.scored import score_run
from harness.runs.runner import run
from harness.verdicts.board.leaderboard import build, rank_ranges
from harness.verdicts.board.table import table

INTERVALS = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda ends: (min(ends), max(ends))),
    min_size=1,
    max_size=12,
)


def test_systems_apart_have_one_rank_and_systems_that_overlap_share_several() -> None:
    assert rank_ranges([(0.8, 0.9), (0.5, 0.6), (0.55, 0.7), (0.1, 0.2)]) == [
        (1, 1),
        (2, 3),
        (2, 3),
        (4, 4),
    ]


@given(INTERVALS)
def test_every_order_that_the_intervals_allow_lies_within_the_ranges(
    intervals: list[tuple[float, float]],
) -> None:
    ranges = rank_ranges(intervals)
    for ends in (0, 1):  # everybody at the lower, everybody at the upper end
        values = [interval[ends] for interval in intervals]
        for i, (best, worst) in enumerate(ranges):
            above = sum(value > values[i] for value in values)
            assert best <= above + 1 <= worst
    for i, (best, worst) in enumerate(
        ranges
    ):  # one at its best while all others are at their worst
        others = [intervals[j] for j in range(len(intervals)) if j != i]
        assert best == 1 + sum(low > intervals[i][1] for low, _ in others)
        assert worst == len(intervals) - sum(high < intervals[i][0] for _, high in others)


class Picks:
    """BM25 that fails, or returns a text of nothing, wherever it is not sure."""

    def __init__(self, how: str) -> None:
        self.how, self.bm25 = how, BM25()
        self.name = how

    def index(self, corpus: Corpus) -> None:
        self.bm25.index(corpus)

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        found = self.bm25.search(queries, k)
        scores = found[0].scores
        if scores is not None and len(scores) and max(scores) > 4.5:
            return found
        if self.how == "fails":
            raise LookupError("too hard")
        return [[Hit("qzx vbn")]]


def test_who_is_measured_on_fewer_questions_has_no_rank(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    for retriever in (BM25(), Picks("fails"), Picks("mumbles")):
        score_run(run(dataset, retriever, out=tmp_path), dataset)
    (board,) = build(tmp_path)["boards"]
    found = {}
    for entry in board["entries"]:
        cell = entry["protocols"][0]["slices"]["all"]["recall@10"]
        found[entry["system"]] = (cell["n"], cell.get("rank"))
    assert found["BM25"] == (65, [1, 1])
    for name in ("fails", "mumbles"):
        n, rank = found[name]
        assert n < 65
        assert rank is None
    shown = table({"boards": [board]}).splitlines()
    assert next(line.split()[1] for line in shown if line.startswith(("1 ", "- "))) == "BM25"
    assert any("unresolved" in line for line in shown)
    assert any("failed" in line for line in shown)
