"""What stands beside a mean, again: the levels, the mean over haystacks, and the 95% intervals.

Intervals of values from 0 to 1, in plain Python with SciPy's quantiles: Clopper and Pearson's
for single 0s and 1s; else Korn and Graubard's, the same at as many 0s and 1s as would make the mean
as uncertain, which for haystacks is by the bias-reduced cluster-robust variance (CR2, Bell and
McCaffrey 2002) and its degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from reference.blocks import mean
from reference.published import Place

ENDS = "ends of intervals"
LEVEL = 0.95
METHODS = ("clopper-pearson", "korn-graubard")
"""What is made here; older folders have others."""

_NOTHING = 1e-13  # what rounding leaves of no spread, as a share of the mean


def beside(
    ours: Mapping[str, Mapping[str, float]], haystack: Mapping[str, str], failed: Collection[str]
) -> Iterator[tuple[str, Place, float | None]]:
    """What could stand beside a mean: its kind, the keys that lead to it in the cell, and ours.

    `ours` holds values by query, of each level and as `value` of the metric; `failed` the queries
    that failed.
    """
    answered = [v for query, v in ours.get("value", {}).items() if query not in failed]
    yield "means of answered queries", ("answered_only", "value"), mean(answered)
    yield "means of answered queries", ("answered_only", "n"), len(answered)
    for name in ("random_baseline", "upper_bound"):
        if name in ours:
            yield name.replace("_", " "), (name,), mean(list(ours[name].values()))
    for name in ("best", "worst"):
        if name in ours:
            yield "best and worst of ties", ("ties", name), mean(list(ours[name].values()))
    by_haystack: dict[str, list[float]] = {}
    for query, one in ours.get("value", {}).items():
        by_haystack.setdefault(haystack[query], []).append(one)
    if by_haystack:
        # The mean in which each haystack counts once; how many units an interval had, and how many
        # of equal size would have told as much.
        means = [mean(one) or 0.0 for one in by_haystack.values()]
        yield "means over haystacks", ("macro_haystack", "value"), mean(means)
        clustered = 1 < len(set(haystack.values())) < len(haystack)
        groups = [*by_haystack.values()]
        if not clustered:
            groups = [[one] for group in groups for one in group]
        sizes = [len(one) for one in groups]
        effective = sum(sizes) ** 2 / sum(n * n for n in sizes)
        yield "units of intervals", ("interval", "clusters"), len(sizes)
        yield "units of intervals", ("interval", "effective_clusters"), round(effective, 2)
        macro = ("macro_haystack", "interval")
        yield "units of intervals", ("macro_haystack", "groups"), len(means)
        for name in ("clusters", "effective_clusters"):  # each counts once: all carry as much
            yield "units of intervals", (*macro, name), len(means)
        for place, units in ((("interval",), groups), (macro, [[one] for one in means])):
            ends = interval(units, clustered=clustered) or (None, None)
            yield ENDS, (*place, "low"), ends[0]
            yield ENDS, (*place, "high"), ends[1]


def over_categories(
    values: Mapping[str, float], categories: Collection[Collection[str]]
) -> Iterator[tuple[str, Place, float | None]]:
    """The mean in which each category counts once, and how many there are, as `beside` gives them.

    `values`: by query; `categories`: the queries of each.
    """
    of = [[values[query] for query in mine if query in values] for mine in categories]
    means = [mean(one) for one in of if one]
    yield "means over categories", ("macro_category", "value"), mean([m or 0.0 for m in means])
    yield "means over categories", ("macro_category", "groups"), len(means)


def interval(groups: Sequence[Sequence[float]], *, clustered: bool) -> tuple[float, float] | None:
    """Low and high of the mean over all values; None where there is no spread to see.

    `groups`: the values of each independent unit, of one value each unless `clustered`.
    """
    from scipy.special import betaincinv, ndtri, stdtrit

    sizes, sums = [len(one) for one in groups], [sum(one) for one in groups]
    n, g = sum(sizes), len(groups)
    if not g or (g == 1 and (clustered or sums[0] not in (0, 1))):
        return None
    share = min(sum(sums) / n, 1.0)
    worth = float(n)
    if clustered or any(one not in (0, 1) for one in sums):
        shares = [size / n for size in sizes]
        residuals = [total - size * share for total, size in zip(sums, sizes, strict=True)]
        variance = sum(r * r / (1 - h) for r, h in zip(residuals, shares, strict=True)) / n**2
        q = [size**2 / (1 - h) for size, h in zip(sizes, shares, strict=True)]
        squares = sum(size**2 for size in sizes)
        df = n**2 / (squares + (sum(q) ** 2 - sum(one * one for one in q)) / n**2)
        worth = n**2 / squares
        if variance > (_NOTHING * share) ** 2 and 0 < share < 1:
            worth = share * (1 - share) / variance
        upper = (1 + LEVEL) / 2
        worth *= float(ndtri(upper) / stdtrit(df, upper)) ** 2
    tail, x = (1 - LEVEL) / 2, share * worth
    low = float(betaincinv(x, worth - x + 1, tail)) if x > 0 else 0.0
    high = float(betaincinv(x + 1, worth - x, 1 - tail)) if x < worth else 1.0
    return min(low, share), max(high, share)
