"""Semantic accuracy: precision and recall by cosines of texts, with random baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.scoring.arrays import SAME_COSINE, Ints, Values, mean, unit

Vectors = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], npt.NDArray[Any]]

METRICS = (
    "semantic_recall",
    "semantic_precision",
    "semantic_precision_returned",
    "soft_recall",
    "soft_precision",
)


def accuracy(
    cosines: npt.ArrayLike, piece: Ints, pieces: int, cutoffs: Sequence[int], threshold: float
) -> dict[str, float]:
    """Computes every metric at every k.

    `cosines`, shape (returned, gold), has the returned texts best first; `piece`, shape (gold,), is
    the number of the evidence item in each gold text, 0 to `pieces` - 1. An item may be in several
    gold texts, or in none. best(r) is the highest cosine of a returned text with any gold text,
    best(p) that of an evidence item with any of the top k:

    * semantic_recall@k: items with best(p) >= threshold / pieces
    * semantic_precision@k: texts of the top k with best(r) >= threshold / k
    * semantic_precision_returned@k: the same / texts in the top k; 0 when nothing was returned
    * soft_recall@k: mean of best(p); soft_precision@k: mean of best(r) over the top k; 0 when
      nothing was returned (BERTScore's R and P, Zhang et al., ICLR 2020, of texts for tokens)
    """
    matrix = np.asarray(cosines, np.float64)
    best_of_text = matrix.max(axis=1, initial=-1.0)
    # The best cosine of each evidence item among the first 1, 2, ... returned texts.
    so_far = np.maximum.accumulate(by_piece(matrix, piece, pieces), axis=0)
    found: dict[str, float] = {}
    for cutoff in cutoffs:
        n = min(cutoff, len(matrix))
        best = best_of_text[:n]
        similar = int((best >= threshold - SAME_COSINE).sum())
        found_best = so_far[n - 1] if n else np.zeros(pieces)
        found |= {
            f"semantic_recall@{cutoff}": float((found_best >= threshold - SAME_COSINE).mean()),
            f"semantic_precision@{cutoff}": similar / cutoff,
            f"semantic_precision_returned@{cutoff}": similar / n if n else 0.0,
            f"soft_recall@{cutoff}": float(found_best.mean()),
            f"soft_precision@{cutoff}": float(best.mean()) if n else 0.0,
        }
    return found


def random_baseline(
    cosines: npt.ArrayLike, piece: Ints, pieces: int, cutoffs: Sequence[int], threshold: float
) -> dict[str, float]:
    """Returns the exact expected metrics of k texts drawn at random from a haystack.

    `cosines` has shape (haystack, gold); the other arguments are as in `accuracy`. If m of N texts
    are similar to an item, k of them include none with probability C(N - m, k) / C(N, k); the
    highest of k values is the i-th highest of all with probability C(N - i, k - 1) / C(N, k).
    """
    matrix = np.asarray(cosines, np.float64)
    size = len(matrix)
    best = matrix.max(axis=1, initial=-1.0)
    share = float((best >= threshold - SAME_COSINE).mean())
    pieces_of = by_piece(matrix, piece, pieces)
    similar = (pieces_of >= threshold - SAME_COSINE).sum(axis=0)
    ordered = -np.sort(-pieces_of, axis=0)
    found: dict[str, float] = {}
    for cutoff in cutoffs:
        n = min(cutoff, size)
        i = np.arange(n)
        missed = np.prod(np.maximum(size - similar[:, None] - i, 0) / (size - i), axis=1)
        found |= {
            f"semantic_recall@{cutoff}": float((1 - missed).mean()),
            f"semantic_precision@{cutoff}": share * n / cutoff,
            f"semantic_precision_returned@{cutoff}": share,
            f"soft_recall@{cutoff}": float((_of_the_highest(size, n) @ ordered).mean()),
            f"soft_precision@{cutoff}": float(best.mean()),
        }
    return found


@dataclass(frozen=True)
class SimilarityModel:
    """An embedding model: `embed` returns vectors of shape (texts, dimension), of any norm."""

    name: str
    revision: str
    embed: Embed

    def __str__(self) -> str:
        return f"{self.name}@{self.revision}" if self.revision else self.name


class TextVectors:
    """Unit vectors of texts; each distinct text is embedded once. Blank texts have zero vectors."""

    def __init__(self, texts: Iterable[str], embed: Embed) -> None:
        """Raises UsageError if the model does not return a numeric matrix with a row per text."""
        blank: dict[str, None] = {}
        self._row: dict[str, int] = {}
        for text in texts:
            if text.strip():
                self._row.setdefault(text, len(self._row))
            else:
                blank[text] = None
        vectors = np.zeros((0, 1), np.float32)
        if self._row:
            vectors = np.asarray(embed(list(self._row)), np.float32)
        if vectors.ndim != 2 or len(vectors) != len(self._row) or not np.isfinite(vectors).all():
            raise UsageError(
                f"the embedding of {len(self._row)} texts must be a matrix of so many rows of "
                f"numbers, not of shape {vectors.shape}"
            )
        nothing = np.zeros((1, vectors.shape[1]))
        self._vectors = np.concatenate([unit(vectors), nothing]).astype(np.float32)
        self._row |= dict.fromkeys(blank, len(self._row))

    def __getitem__(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[self._row[text] for text in texts]]


def by_piece(cosines: Values, piece: Ints, pieces: int) -> Values:
    """Reduces cosines with each gold text, shape (texts, gold), to the highest per evidence item,
    shape (texts, pieces); 0 for an item without a gold text."""
    if np.array_equal(piece, np.arange(pieces)):
        return cosines
    best = np.zeros((len(cosines), pieces))
    for one in np.unique(piece).tolist():
        best[:, one] = cosines[:, piece == one].max(axis=1)
    return best


def _of_the_highest(size: int, drawn: int) -> Values:
    """Returns P(the highest of k drawn values is the i-th highest of N), for i = 1..N.

    It is k/N for i = 1; each next value is multiplied by (N-i-k+1)/(N-i). SciPy's nhypergeom agrees
    to ten digits and takes ten times as long."""
    i = np.arange(1, size)
    ratios = np.maximum(size - i - drawn + 1, 0) / (size - i)
    return np.concatenate([[1.0], np.cumprod(ratios)]) * drawn / size


THRESHOLD = 0.7
"""Cosine from which two texts count as similar. Measured with all-MiniLM-L6-v2 on LoCoMo:

* Of 2,541 facts that a language model extracted, 94% reach 0.5 with their source turn, 79% reach
  0.6, 50% 0.7, 16% 0.8; with other turns of the conversation 11%, 2.7%, 0.3%, 0.01%. Pairs of
  different turns, which share the form `NAME said, "..."`, reach them in 34%, 14%, 3.6%, 0.4%.
* BM25 over turns: semantic recall@10 correlates with recall@10 by ids at r = 0.25, 0.47, 0.75 and
  0.97; random turns reach a semantic recall@10 of 0.78, 0.49, 0.18 and 0.03.
* BM25 over those facts, which are rewritten: r = 0.45, 0.59, 0.55 and 0.32 with recall by their
  source turns; random facts reach 0.54, 0.21, 0.04 and 0.01.

So 0.8 suits verbatim texts, 0.6 rewritten ones, and 0.7 lies between. No threshold separates
similar from unrelated texts, so every value is reported with its random baseline. Computed by
`python -m tests.benchmarks.semantic`.
"""

SAMPLE = 10_000
"""Maximum number of documents, in total, for random baselines; larger collections are sampled."""


@dataclass(frozen=True)
class Asked:
    """One query: returned texts best first, and gold texts with the evidence item of each.

    An evidence item without a gold text (its document is not in the corpus) cannot be retrieved.
    `haystack` is the number of the text list that the random baseline is computed from.
    """

    returned: Sequence[str]
    gold: Sequence[str]
    piece: Sequence[int]
    pieces: int
    haystack: int = 0


@dataclass(frozen=True)
class HaystackTexts:
    """Texts for random baselines, one list per haystack; `sampled`: the lists are samples."""

    texts: Sequence[Sequence[str]]
    sampled: bool


@dataclass(frozen=True)
class SemanticAccuracy:
    """The semantic metrics of many queries.

    `per_query` holds values by metric (`semantic_recall@10`), each of shape (queries,), NaN for a
    query without a gold text; `random_baseline` has the same form, for random texts of the
    haystack. `sampled`: the random baseline is computed from a seeded sample of the haystacks, not
    from all of their texts; `texts` is the number of texts used.
    """

    ks: tuple[int, ...]
    threshold: float
    model: str
    per_query: dict[str, Values]
    random_baseline: dict[str, Values]
    sampled: bool
    texts: int

    @property
    def n(self) -> int:
        """Number of queries that have a gold text."""
        return int((~np.isnan(next(iter(self.per_query.values())))).sum())

    @property
    def means(self) -> dict[str, float | None]:
        """The mean of each metric; None without a query."""
        return {name: mean(v[~np.isnan(v)]) for name, v in self.per_query.items()}

    def __str__(self) -> str:
        cutoff = 10 if 10 in self.ks else self.ks[-1]
        parts = []
        for name in ("semantic_recall", "semantic_precision", "soft_recall"):
            values, random = (
                table[f"{name}@{cutoff}"] for table in (self.per_query, self.random_baseline)
            )
            value, level = mean(values[~np.isnan(values)]), mean(random[~np.isnan(random)])
            if value is None:
                return "semantic accuracy: no query has a gold text"
            # An empty haystack has no random baseline.
            said = "not known" if level is None else f"{level:.3f}"
            parts.append(f"{name}@{cutoff} {value:.3f} (random {said})")
        return (
            f"{'  '.join(parts)}  n {self.n}; cosine >= {self.threshold:g} by {self.model}; "
            "not checked against ids"
        )


def measured(
    asked: Sequence[Asked],
    haystacks: HaystackTexts,
    cutoffs: tuple[int, ...],
    threshold: float,
    find_model: Callable[[], SimilarityModel],
) -> SemanticAccuracy:
    """Computes the semantic accuracy of queries; each distinct text is embedded once.

    `find_model` is called after the threshold has been validated, so that an invalid argument is
    reported before a missing model.
    """
    check_threshold(threshold)
    model = find_model()
    sample = haystacks.texts
    judged = [bool(one.gold) for one in asked]
    wanted = (t for one, use in zip(asked, judged, strict=True) if use for t in one.returned)
    gold = (text for one in asked for text in one.gold)
    used = {one.haystack for one, use in zip(asked, judged, strict=True) if use}
    drawn = (text for at in sorted(used) for text in sample[at])
    vectors = TextVectors([*wanted, *gold, *drawn], model.embed)
    names = [f"{metric}@{cutoff}" for cutoff in cutoffs for metric in METRICS]
    values, random = ({name: np.full(len(asked), np.nan) for name in names} for _ in range(2))
    of_haystack: dict[int, Vectors] = {}
    for at, one in enumerate(asked):
        if not one.gold:
            continue
        piece = np.asarray(one.piece, np.int64)
        of_gold = vectors[one.gold].T
        found = accuracy(vectors[one.returned] @ of_gold, piece, one.pieces, cutoffs, threshold)
        for name, value in found.items():
            values[name][at] = value
        if sample[one.haystack]:
            if one.haystack not in of_haystack:
                of_haystack[one.haystack] = vectors[sample[one.haystack]]
            cosines = of_haystack[one.haystack] @ of_gold
            for name, value in random_baseline(
                cosines, piece, one.pieces, cutoffs, threshold
            ).items():
                random[name][at] = value
    size = sum(len(sample[at]) for at in used)
    return SemanticAccuracy(cutoffs, threshold, str(model), values, random, haystacks.sampled, size)


def sample_of(sizes: Sequence[int], least: int, seed: int) -> list[Ints]:
    """Draws positions of at most SAMPLE texts over all haystacks, but at least `least` of each.

    k random texts of a random sample are k random texts of the whole, so a baseline from the sample
    is an unbiased estimate.
    """
    most = max(sizes, default=0) if sum(sizes) <= SAMPLE else max(least, SAMPLE // len(sizes))
    generator = np.random.default_rng(seed)
    return [
        np.arange(size)
        if size <= most
        else np.sort(generator.choice(size, most, replace=False).astype(np.int64))
        for size in sizes
    ]


def one_haystack(texts: Sequence[str], cutoff: int) -> HaystackTexts:
    """Uses these texts, or a sample of `cutoff` or more, as the haystack of every query."""
    (rows,) = sample_of([len(texts)], cutoff, seed=0)
    return HaystackTexts([[texts[row] for row in rows]], sampled=len(rows) < len(texts))


def check_threshold(threshold: float) -> None:
    """Raises UsageError unless the threshold is a number above 0 and at most 1."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise UsageError(f"the threshold must be a number, not {threshold!r}")
    if not 0 < threshold <= 1:
        raise UsageError(f"the threshold must be above 0 and at most 1, not {threshold}")
