"""Settings of a comparison, each defined once."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.settings import setting


@dataclass(frozen=True)
class Options:
    """How to compare. Empty `protocols` and `metrics`: all common ones.

    With `cluster_by` `auto`, haystacks are the units if several queries share one of several. With
    `average` `haystacks`, each counts once, by the mean of its queries. `force` puts runs that do
    not compare into separate groups instead of refusing them.
    """

    protocols: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    categories: bool = setting(False, "by the dataset's own too")
    cluster_by: str = setting(
        "auto",
        "what is independent; queries that share one of several haystacks are not",
        choices=("auto", "haystacks", "queries"),
    )
    average: str = setting(
        "queries",
        "what a mean is over: every query counts the same (queries), or every haystack once",
        choices=("queries", "haystacks"),
    )
    level: float = 0.95
    power: float = 0.8
    tests: tuple[str, ...] = setting(
        (), "additional tests without correction: t, wilcoxon", metavar="T,T", kind="names"
    )
    equivalence: float | None = setting(
        None, "test for a difference below MARGIN", metavar="MARGIN"
    )
    resamples: int = setting(10_000, "signs to draw for the test", metavar="N")
    seed: int = setting(0, "of the resamples")
    force: bool = setting(False, "compare only within groups")
