"""A rank is a range wherever intervals overlap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.board.ranks import rank_ranges

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
