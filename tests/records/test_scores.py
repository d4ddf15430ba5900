"""Results read from columns are the results that were stored."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.io.records import convert, to_plain
from harness.records.scores import MetricResult, ProtocolResult, SliceResult


def test_a_metric_over_no_query_keeps_its_n_of_0_beside_others() -> None:
    metrics = {"a": MetricResult(value=0.5, n=5), "b": MetricResult(value=None, n=0)}
    built = ProtocolResult(
        protocol="memory",
        version=1,
        description="",
        level="turn",
        ties="order",
        signature="",
    ).with_slices({"all": SliceResult(n=5, metrics=metrics)})
    read = convert(to_plain(built), ProtocolResult, "scores")
    assert [one.n for one in read.overall.values()] == [5, 0]
    assert read.select(["all"], ["b"]).overall == {"b": read.overall["b"]}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"low": [0.1]}, "slice 'all' has 1 entries of low for 2 metrics"),
        ({"basis": 3}, "slice 'all' names interval basis 3 of 0"),
        ({"macro_haystack_basis": [None, -1]}, "slice 'all' names interval basis -1 of 0"),
    ],
)
def test_columns_that_do_not_fit_are_refused(column: dict[str, object], message: str) -> None:
    values = {
        **{"protocol": "memory", "version": 1, "description": "", "level": "turn"},
        **{"ties": "order", "signature": "", "metrics": ["a", "b"]},
        "slices": {"all": {"n": 5, "value": [0.1, 0.2], **column}},
    }
    with pytest.raises(UsageError, match=message):
        convert(values, ProtocolResult, "scores")
