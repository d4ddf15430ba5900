"""Scores returned texts against the reference answers: could a reader of the top k have answered?

The results have the form of a protocol's, but do not show whether evidence was retrieved. The
random baseline is exact for small haystacks, else computed from a sample of their documents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.scoring.text_metrics import METRICS, Text, best_of, check_metrics
from harness.scoring.arrays import Flags, Values
from harness.scoring.protocols import ANSWERS
from harness.scoring.resolve import Resolved
from harness.scoring.score_columns import Column

SHOWN = ("containment", "exact_match", "token_f1", "rouge_l", "bleu", "bleu1")

PAIRS = 20_000
"""Texts compared with answers for the random baseline, in total; about as many as in a run."""

_SEED = 0xC4A2
_KEPT = 5_000  # documents with cached words


def text_columns(
    dataset: Dataset,
    resolved: Resolved,
    texts: Sequence[Sequence[str]] | None,
    counted: Flags,
    depth: float,
) -> list[Column]:
    """Computes every text metric at every cutoff up to `depth`.

    `texts` are by query, best first; None scores the texts of the returned documents.
    """
    if texts is None:
        texts = document_texts(dataset, resolved)
    references = dataset.query_table["answers"].to_pylist()
    given = [answers if use else [] for answers, use in zip(references, counted, strict=True)]
    cutoffs = [cutoff for cutoff in ANSWERS.ks if cutoff <= depth] or [1]
    found = answers_in_top(texts, given, cutoffs, SHOWN)
    baseline, how = random_baseline_of_texts(dataset, given, SHOWN, cutoffs)
    known = np.ones(dataset.n_queries, bool)
    return [
        Column(name, values, known, baseline[name], None, random_method=how)
        for name, values in found.items()
    ]


def answers_in_top(
    texts: Sequence[Sequence[str]],
    answers: Sequence[Sequence[str]],
    cutoffs: Sequence[int],
    metrics: Sequence[str] = tuple(METRICS),
) -> dict[str, Values]:
    """Returns each query's best value among its first k texts: `metric@k` -> shape (queries,).

    `texts` are each query's texts, best first; `answers` its references. Containment in any of the
    top k is called `success@k`. A query with fewer than k texts uses those it has; with none it
    scores 0. NaN for a query without a usable reference. Raises UsageError for an unknown metric or
    a k below 1.
    """
    check_metrics(metrics)
    if any(cutoff < 1 for cutoff in cutoffs):
        raise UsageError(f"a cutoff of answer metrics is at least 1, not {min(cutoffs)}")
    depth = max(cutoffs, default=0)
    cut: dict[str, Text] = {}
    best = {name: np.full((len(texts), len(cutoffs)), np.nan) for name in metrics}
    for query, (ranked, references) in enumerate(zip(texts, answers, strict=True)):
        if not references:
            continue
        known = [Text(reference) for reference in references]
        shown = [cut.setdefault(text, Text(text)) for text in ranked[:depth]]
        for name, values in best.items():
            metric = METRICS[name]
            # The empty text gives the value without any text: 0, or NaN without a usable reference.
            scores = [best_of(metric, text, known) for text in (Text(""), *shown)]
            highest = np.maximum.accumulate(scores)
            values[query] = highest[[min(cutoff, len(shown)) for cutoff in cutoffs]]
    return {
        metric_at(name, cutoff): values[:, i]
        for name, values in best.items()
        for i, cutoff in enumerate(cutoffs)
    }


def metric_at(name: str, cutoff: int) -> str:
    """Returns the name of a metric of the best of k texts; containment is `success@k`."""
    return f"{'success' if name == 'containment' else name}@{cutoff}"


def document_texts(dataset: Dataset, resolved: Resolved) -> list[list[str]]:
    """Returns the texts of each query's best documents, up to the largest cutoff."""
    top = np.flatnonzero((resolved.rank <= max(ANSWERS.ks)) & (resolved.row >= 0))
    texts = dataset.documents.contents(resolved.row[top])
    by_query: list[list[str]] = [[] for _ in range(dataset.n_queries)]
    for query, text in zip(resolved.query[top].tolist(), texts, strict=True):
        by_query[query].append(text)
    return by_query


def random_baseline_of_texts(
    dataset: Dataset, answers: Sequence[Sequence[str]], names: Sequence[str], cutoffs: Sequence[int]
) -> tuple[dict[str, Values], str]:
    """Returns the expected best value of k random documents of the haystack against each query's
    `answers`, by `metric@k`, shape (n,), NaN without answers; and the method if it is not exact.

    The mean over all sets of k documents is a sum over the documents in order of their values. It
    is computed over the whole haystack if that is small, else over a sample.
    """
    asked = sum(map(bool, answers))
    most = max(*cutoffs, PAIRS // max(1, asked))
    found = {name: np.full((len(answers), len(cutoffs)), np.nan) for name in names}
    cut: dict[int, Text] = {}
    sampled = False
    for query, references in enumerate(answers):
        if not references:
            continue
        rows = dataset.haystack_rows(int(dataset.query_haystack[query]))
        if dataset.manifest.exclude_self:
            rows = rows[rows != dataset.rows_with_query_id[query]]
        if len(rows) > most:
            sampled = True
            rng = np.random.default_rng([_SEED, query])
            rows = rows[np.sort(rng.choice(len(rows), most, replace=False))]
        known = [Text(reference) for reference in references]
        if len(cut) > _KEPT:
            cut.clear()
        new = np.array([row for row in rows.tolist() if row not in cut], np.int32)
        cut |= zip(new.tolist(), map(Text, dataset.documents.contents(new)), strict=True)
        texts = [cut[row] for row in rows.tolist()]
        for name in names:
            values = np.sort([best_of(METRICS[name], text, known) for text in texts])
            found[name][query] = [best_of_random(values, cutoff) for cutoff in cutoffs]
    by_name = {
        metric_at(name, cutoff): values[:, at]
        for name, values in found.items()
        for at, cutoff in enumerate(cutoffs)
    }
    return by_name, f"from {most} random documents a query" if sampled else ""


def best_of_random(values: Values, cutoff: int) -> float:
    """Returns the mean, over all sets of k of the ascending `values` (all if fewer than k), of the
    largest: the sum over i of values[i] C(i, k - 1) / C(n, k)."""
    n = len(values)
    if n == 0:
        return 0.0
    cutoff = min(cutoff, n)
    i = np.arange(n - 1, cutoff - 1, -1)  # C(i - 1, k - 1) / C(i, k - 1) = (i - k + 1) / i
    weight = np.cumprod([cutoff / n, *((i - cutoff + 1) / i)])
    return float(values[::-1][: n - cutoff + 1] @ weight)
