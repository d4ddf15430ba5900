"""A corpus as the nodes and edges of a graph, in columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.retrievers.contract import Corpus
from harness.retrievers.graph.entities import Stem, day, entities, speaker
from harness.schema import as_datetime

K1, B = 1.2, 0.75
"""BM25's usual constants: how soon further mentions count less, and how much length counts."""


@dataclass(frozen=True)
class Columns:
    """Nodes and edges.

    `norms` (n,): length of each document's vector of mention weights. `names` and `rarities` (e,):
    the entities, and ln(1 + (n - df + 0.5) / (df + 0.5)) of the df documents that mention each.
    Row i of `turns`, `mentioned` and `weights` is one edge: document `turns[i]` mentions entity
    `mentioned[i]`, with BM25's weight. Row j of `before` and `after` are two documents of one
    session, one after the other.
    """

    norms: npt.NDArray[np.float64]
    names: list[str]
    rarities: npt.NDArray[np.float64]
    turns: npt.NDArray[np.int64]
    mentioned: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]


def columns(corpus: Corpus, stem: Stem, words: bool) -> Columns:
    """The graph of a corpus. An entity's weight in a document is BM25's, of its mentions."""
    number: dict[str, int] = {}
    turns: list[int] = []
    mentioned: list[int] = []
    counts: list[int] = []
    for position, document in enumerate(corpus):
        found = entities(document.content, stem, words)
        if document.speaker:
            found += speaker(document.speaker, stem)
        if document.timestamp is not None:
            found += day(as_datetime(document.timestamp).date().isoformat())
        for name, count in Counter(found).items():
            turns.append(position)
            mentioned.append(number.setdefault(name, len(number)))
            counts.append(count)
    n, edges = len(corpus), (np.array(turns, np.int64), np.array(mentioned, np.int64))
    rarities, weights = _bm25(n, len(number), *edges, np.array(counts, np.float64))
    norms = np.sqrt(np.bincount(edges[0], weights**2, n))
    before, after = _neighbours(corpus)
    return Columns(norms, list(number), rarities, *edges, weights, before, after)


def _bm25(
    n: int,
    names: int,
    turns: npt.NDArray[np.int64],
    mentioned: npt.NDArray[np.int64],
    counts: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Rarity of each entity, and weight of each mention."""
    documents = np.bincount(mentioned, minlength=names)
    rarities = np.log1p((n - documents + 0.5) / (documents + 0.5))
    lengths = np.bincount(turns, counts, n)
    mean = lengths.mean() if n else 1.0
    slowed = K1 * (1 - B + B * lengths[turns] / (mean or 1.0))
    return rarities, rarities[mentioned] * counts * (K1 + 1) / (counts + slowed)


def _neighbours(corpus: Corpus) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Documents that follow each other in a session; those without a session have no neighbour."""
    last: dict[str, int] = {}
    pairs = []
    for position, document in enumerate(corpus):
        if document.session is None:
            continue
        if document.session in last:
            pairs.append((last[document.session], position))
        last[document.session] = position
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
