"""Shards of a corpus: parts that processes of a cluster index.

Only this module and the sandbox's stream read the private columns of a corpus: retrievers see
neither rows nor the dataset.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Documents
from harness.retrievers.corpus import Corpus


@dataclass(frozen=True)
class CorpusShard:
    """Part of a corpus, without documents: those of the dataset's rows `low` to `high`.

    `positions`: positions of its documents in the whole corpus, ascending.
    """

    corpus: Corpus
    low: int
    high: int
    positions: npt.NDArray[np.int64]


def split_corpus(whole: Corpus, n: int) -> list[CorpusShard]:
    """Splits a corpus into at most n shards of documents adjacent in the dataset."""
    chosen = np.array_split(np.argsort(whole._rows, kind="stable"), min(n, max(len(whole), 1)))
    return [_shard(whole, np.sort(positions)) for positions in chosen]


def corpus_over(shard: CorpusShard, documents: Documents) -> Corpus:
    """Returns the corpus of a shard over its documents, in the process that has them."""
    one = shard.corpus
    columns = one._rows, one._numbers, one._timestamps, one._sessions
    corpus = Corpus(documents, *columns, one._dataset, one.changes, one._users)
    return corpus.with_owner(one._owner)


def _shard(whole: Corpus, positions: npt.NDArray[np.int64]) -> CorpusShard:
    rows = whole._rows[positions]
    low, high = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
    corpus = Corpus(
        whole._documents.none(),
        (rows - low).astype(np.int32),
        whole._numbers[positions],
        _some(whole._timestamps, positions),
        None if whole._sessions is None else whole._sessions[positions],
        f"{whole._dataset} from {low}" if whole._dataset else "",
        users=None if whole._users is None else whole._users[positions],
    ).with_owner(whole._owner)
    return CorpusShard(corpus, low, high, positions)


def _some(values: npt.NDArray[np.float64], at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Selects values; a broadcast array (of undated documents) stays broadcast."""
    if len(values) and values.strides == (0,):
        return np.broadcast_to(values[:1], at.shape)
    return values[at]
