"""Results read from columns are the results that were stored."""

from __future__ import annotations

from harness.records.base import convert, to_plain
from harness.records.scores import MetricResult, ProtocolResult, SliceResult


def test_a_metric_over_no_query_keeps_its_n_of_0_beside_others() -> None:
    metrics = {"a": MetricResult(value=0.5, n=5), "b": MetricResult(value=None, n=0)}
    built = ProtocolResult.build(
        {"all": SliceResult(n=5, metrics=metrics)},
        protocol="memory",
        version=1,
        description="",
        level="turn",
        ties="order",
        signature="",
    )
    read = convert(to_plain(built), ProtocolResult, "scores")
    assert [one.n for one in read.overall.values()] == [5, 0]
    assert read.select(["all"], ["b"]).overall == {"b": read.overall["b"]}
