"""Settings of a comparison, each defined once."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records.settings import setting


@dataclass(frozen=True)
class Options:
    """How to compare. Empty `protocols` and `metrics`: all common ones.

    With `cluster_by` `auto`, haystacks are the units if several queries share one of several. With
    `average` `haystacks`, each haystack counts once, by the mean of its queries. `force` puts runs
    that cannot be compared into separate groups instead of raising an error.
    """

    protocols: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    categories: bool = setting(False, "add slices of the dataset's own categories")
    cluster_by: str = setting(
        "auto",
        "independent units (auto: haystacks if queries share some of several, else queries)",
        choices=("auto", "haystacks", "queries"),
    )
    average: str = setting(
        "queries",
        "equal weights in the mean: of queries or of haystacks",
        choices=("queries", "haystacks"),
    )
    level: float = 0.95
    power: float = 0.8
    tests: tuple[str, ...] = setting(
        (), "additional tests without correction: t, wilcoxon", metavar="T,T", kind="names"
    )
    equivalence: float | None = setting(
        None, "test whether differences are smaller than MARGIN", metavar="MARGIN"
    )
    resamples: int = setting(10_000, "number of sign flips in the test", metavar="N")
    seed: int = setting(0, "seed of the sign flips")
    force: bool = setting(False, "list runs that cannot be compared apart, without a test")
