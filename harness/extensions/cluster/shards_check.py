"""Checks that a retriever split into shards scores like one over the whole corpus."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.datasets.registry import open_dataset
from harness.datasets.remote_store import DatasetLocation
from harness.extensions.cluster.corpus_shards import split_corpus
from harness.extensions.cluster.shards import Shard, add_statistics, can_be_cut, merge_answers
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.runs.blinding import BlindedCorpus

_QUESTIONS = 24
_TOLERANCE = 1e-5


def check_shards(retriever: Retriever, spec: RetrieverSpec) -> str | None:
    """Returns how three shards differ from one on a haystack of `sample`; empty if they agree.

    Returns None for a retriever that cannot be split (see can_be_cut). Raises a shard's error.
    """
    if not can_be_cut(retriever):
        return None
    one, three = (_scores(spec, n) for n in (1, 3))
    apart = sum(a.keys() != b.keys() for a, b in zip(one, three, strict=True))
    if apart:
        return f"three shards returned other documents for {apart} of {len(one)} questions"
    for a, b in zip(one, three, strict=True):
        off = max((abs(score - b[at]) for at, score in a.items()), default=0.0)
        if off > _TOLERANCE:
            return f"a score differs by {off:.2g} in three shards: see `statistics`"
    return ""


def _scores(spec: RetrieverSpec, n: int) -> list[dict[int, float]]:
    """Returns scores by document position for a haystack of `sample` in n shards."""
    dataset = open_dataset("sample")
    view, place = BlindedCorpus(dataset, 0, 0), DatasetLocation.of(dataset)
    asked = np.flatnonzero(dataset.query_haystack == 0)[:_QUESTIONS]
    questions = [view.question(int(query)) for query in asked]
    shards = [Shard(spec, 0, 1, place, piece) for piece in split_corpus(view.corpus, n)]
    try:
        statistics = add_statistics([_checked(shard.statistics(questions)) for shard in shards])
        k = len(view.corpus)
        found = [_checked(shard.search(questions, k, statistics)) for shard in shards]
    finally:
        for shard in shards:
            shard.close()
    results = merge_answers(found, k)
    pairs = ((map(int, r.ids), np.asarray(r.scores).tolist()) for r in results)
    return [dict(zip(ids, scores, strict=True)) for ids, scores in pairs]


def _checked(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer
