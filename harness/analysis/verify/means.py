"""Computes means over slices, with intervals and counts, from the values of the queries.

Intervals are of values from 0 to 1: Clopper and Pearson's for single zeros and ones; otherwise Korn
and Graubard's, the same for the number of zeros and ones with the uncertainty of the mean. For
clusters that is the bias-reduced variance (CR2, Bell and McCaffrey 2002) with its degrees of
freedom.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from harness.analysis.verify.inputs import Flags, Floats, Inputs, Ints

Place = tuple[str, ...]
"""The keys that lead to a number in scores.json."""

_LEVEL = 0.95
_ROUNDING = 1e-13
"""A smaller spread, as a share of the mean, is a rounding error."""


def mean(values: Floats) -> float | None:
    """Returns the mean; None without values, or if one is unknown."""
    return None if not len(values) or np.isnan(values).any() else float(values.mean())


def cell(
    values: Floats, failed: Flags, groups: Ints, levels: Mapping[str, Floats], *, clustered: bool
) -> Iterator[tuple[Place, float | None]]:
    """Yields all numbers of one metric over one slice, by the keys that lead to them.

    `values`, `failed`, `groups` (haystacks) and `levels` have an entry for each query of the slice;
    `clustered`: queries share haystacks.
    """
    unknown = int(np.isnan(values).sum())
    yield ("value",), mean(values)
    yield ("n",), len(values)
    yield ("unmeasurable",), unknown
    for name, level in levels.items():
        yield tuple(name.split(".")), mean(level)
    yield ("answered_only", "value"), mean(values[~failed])
    yield ("answered_only", "n"), int((~failed).sum())
    if unknown or not len(values):
        return
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.bincount(number, values) / sizes
    yield ("macro_haystack", "value"), mean(means)
    yield ("macro_haystack", "groups"), len(means)
    units = (means, sizes) if clustered else (values, np.ones(len(values), int))
    for place, (ones, weights) in (
        (("interval",), units),
        (("macro_haystack", "interval"), (means, np.ones(len(means), int))),
    ):
        effective = float(weights.sum() ** 2 / (weights**2).sum())
        low, high = interval(ones, weights, clustered=clustered)
        yield (*place, "clusters"), len(weights)
        yield (*place, "effective_clusters"), round(effective, 2)
        yield (*place, "low"), low
        yield (*place, "high"), high


def interval(means: Floats, sizes: Ints, *, clustered: bool) -> tuple[float | None, float | None]:
    """Returns the interval of the mean over all values; None without spread.

    `means` and `sizes` are those of the independent units; sizes are 1 unless `clustered`.
    """
    from scipy.special import betaincinv, ndtri, stdtrit

    n, sums = int(sizes.sum()), means * sizes
    share = min(float(sums.sum()) / n, 1.0)
    single = not clustered and bool(np.isin(means, (0, 1)).all())
    if len(sizes) == 1 and not single:
        return None, None
    effective, tail = float(n), (1 - _LEVEL) / 2
    if not single:
        weights, squares = sizes / n, int((sizes**2).sum())
        variance = float(((sums - sizes * share) ** 2 / (1 - weights)).sum()) / n**2
        q = sizes**2 / (1 - weights)
        df = n**2 / (squares + float(q.sum() ** 2 - (q**2).sum()) / n**2)
        effective = n**2 / squares
        if variance > (_ROUNDING * share) ** 2 and 0 < share < 1:
            effective = share * (1 - share) / variance
        effective *= float(ndtri(tail) / stdtrit(df, tail)) ** 2
    found = share * effective
    low = float(betaincinv(found, effective - found + 1, tail)) if found > 0 else 0.0
    high = float(betaincinv(found + 1, effective - found, 1 - tail)) if found < effective else 1.0
    return min(low, share), max(high, share)


# -- Other published numbers: counts, knowledge update, abstention ---------------------------------


Numbers = dict[Place, float | None]


def counts(inputs: Inputs, cutoffs: Collection[int]) -> Numbers:
    """Counts queries and documents; `cutoffs`: of the metrics of documents."""
    n_unknown = 0
    for query, ranking in enumerate(inputs.rankings):
        known = inputs.documents(query)
        unknown = [document for document in ranking.documents if document not in known]
        n_unknown += sum(not document.startswith("unresolved:") for document in unknown)
    sizes = np.array([len(ranking.documents) for ranking in inputs.rankings])
    possible = np.minimum(inputs.k - np.array(inputs.own), inputs.sizes)
    answered = inputs.asked & ~inputs.failed
    used = answered & ~inputs.abstained & (sizes > 0)
    sizes, possible = sizes[used], possible[used]
    ended = {k: int((sizes < np.minimum(k, possible)).sum()) for k in sorted(cutoffs)}
    beyond = [k for k, n in ended.items() if 10 * n > len(sizes)]
    return {
        ("depth",): inputs.k,
        ("queries", "in_dataset"): len(inputs.rankings),
        ("queries", "asked"): int(inputs.asked.sum()),
        ("queries", "failed"): int(inputs.failed.sum()),
        ("queries", "without_ranking"): int((answered & ~inputs.ranked).sum()),
        ("queries", "unknown_in_run"): inputs.unknown_queries,
        ("unknown_documents",): n_unknown,
        ("repeated_documents",): inputs.repeated_documents,
        ("returned", "rankings"): len(sizes),
        ("returned", "mean"): float(sizes.mean()) if len(sizes) else None,
        ("returned", "min"): min(sizes.tolist(), default=None),
        ("returned", "shorter"): int((sizes < possible).sum()),
        **{("returned", "unreached_cutoffs", str(i)): k for i, k in enumerate(beyond)},
    }


def knowledge_update(inputs: Inputs, ks: Collection[int]) -> Numbers:
    """Measures whether the newest statement of a fact is found, and above the older ones.

    Over knowledge-update queries with gold documents of different dates.
    """
    ranks = []
    asked = inputs.counted & (inputs.dataset.abilities == "knowledge-update")
    for query in np.flatnonzero(asked).tolist():
        held, gold = inputs.documents(query), inputs.qrels()[query].relevant()
        dated = {d: held[d].timestamp for d in gold if d in held}
        dates = {d: date for d, date in dated.items() if date is not None}
        if len({*dates.values()}) > 1:
            latest = max(dates.values())
            rank = {d: at for at, d in enumerate(inputs.rankings[query].documents, 1)}
            new = min(rank.get(d, np.inf) for d, date in dates.items() if date == latest)
            old = min(rank.get(d, np.inf) for d, date in dates.items() if date < latest)
            ranks.append((new, old))
    if not ranks:
        return {("n",): 0}
    new, old = np.array(ranks).T
    found: Numbers = {("n",): len(ranks)}
    found["values", "update_ranked_first"] = float((new < old).mean())
    for k in ks:
        found["values", f"update_recall@{k}"] = float((new <= k).mean())
        found["values", f"stale_only_rate@{k}"] = float(((old <= k) & (new > k)).mean())
    return found


def abstention(inputs: Inputs) -> Numbers:
    """Measures silence and confidence as signs that a query has no answer.

    Over queries without an answer and those with evidence. Silence is an empty result or an
    explicit abstention; a failed query is not silent.
    """
    unanswerable = inputs.dataset.abilities == "abstention"
    evidence = np.array([bool(qrels.relevant()) for qrels in inputs.qrels()])
    empty = np.array([not ranking.documents for ranking in inputs.rankings])
    counted = inputs.asked & (unanswerable | (evidence & inputs.measurable))
    counted &= ~empty | inputs.failed | inputs.answered
    none, failed = unanswerable[counted], inputs.failed[counted]
    if none.all() or not none.any():
        return {}
    silent = ~failed & (inputs.abstained | empty)[counted]
    right, said, n = int((silent & none).sum()), int(silent.sum()), int(none.sum())
    found: Numbers = {
        ("n_unanswerable",): n,
        ("n_answerable",): len(none) - n,
        ("false_positive_rate",): float(1 - silent[none].mean()),
        ("as_returned", "precision"): right / said if said else None,
        ("as_returned", "recall"): right / n,
        ("as_returned", "f1"): 2 * right / (said + n),
    }
    sure = inputs.confidence[counted]
    if np.isnan(sure[~silent]).all():
        scores = (ranking.scores for ranking in inputs.rankings)
        best = [np.nan if one is None or not len(one) else one.max() for one in scores]
        sure = np.array(best)[counted]
    rows = zip(inputs.rankings, inputs.qrels(), strict=True)
    k = min(10, inputs.k)
    missed = np.array([{*q.relevant()}.isdisjoint(r.documents[:k]) for r, q in rows])[counted]
    columns = (np.where(silent, -np.inf, sure), none, none | missed)
    return found | _confidence(*(column[~failed] for column in columns))


def _confidence(sure: Floats, none: Flags, wrong: Flags) -> Numbers:
    """Returns the numbers of confidence; silence is minus infinity."""
    spoken = {*sure[sure > -np.inf].tolist()}
    if none.all() or not none.any() or np.isnan(sure).any() or len(spoken) < 2:
        return {}
    from scipy.stats import mannwhitneyu

    pairs = int(none.sum()) * int((~none).sum())
    # Answers of equal confidence share their errors.
    _, number, sizes = np.unique(-sure, return_inverse=True, return_counts=True)
    shares = np.repeat(np.bincount(number, wrong) / sizes, sizes)
    risks = np.cumsum(shares) / np.arange(1, len(sure) + 1)
    found: Numbers = {
        ("confidence", "n"): len(sure),
        ("confidence", "auroc"): float(mannwhitneyu(sure[~none], sure[none]).statistic) / pairs,
        ("confidence", "aurc"): float(risks.mean()),
    }
    for tenth in range(1, 11):
        place = ("confidence", "risk_coverage", str(tenth - 1))
        found[*place, "coverage"] = tenth / 10
        found[*place, "risk"] = float(risks[max(0, round(tenth / 10 * len(risks)) - 1)])
    return found
