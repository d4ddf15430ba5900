"""Turn rankings scored at session level, by LongMemEval's rule (evaluate_retrieval_turn2session).

Strip turns to their sessions and grow an effective k from k until the top holds k distinct sessions
or the ranking ends; then score at that effective k over turn positions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.dataset.reader import Dataset, Judgements
from harness.scoring.arrays import Ints
from harness.scoring.ranks import Ranked
from harness.scoring.resolve import Resolved


class SessionLevel:
    """The sessions behind the turns of a run, for one answer key."""

    def __init__(
        self,
        dataset: Dataset,
        resolved: Resolved,
        judged: Judgements,
        ranked: Ranked,
        *,
        renamed: bool,
    ) -> None:
        """`renamed`: turns of a session that are not gold are a session of their own (`noans_`)."""
        self._ranked = ranked
        self._whole = ranked.returned >= haystack_sizes(dataset)
        sessions = dataset.session_codes
        self.of_judgement = np.where(judged.document >= 0, sessions[judged.document], -1)
        group = np.where(resolved.row >= 0, sessions[resolved.row], -1).astype(np.int64)
        if renamed:
            gold = judged.grade >= 1
            pairs = judged.query[gold].astype(np.int64) << 32 | judged.document[gold]
            is_gold = np.isin(resolved.query.astype(np.int64) << 32 | resolved.row, pairs)
            group = group * 2 + is_gold
        # The rank at which each query meets its 1st, 2nd, ... distinct session.
        keys = resolved.query.astype(np.int64) << 33 | (group + 2)
        _, first = np.unique(keys, return_index=True)
        first.sort()
        self._query, self._rank = resolved.query[first], resolved.rank[first]
        self._starts = np.searchsorted(self._query, np.arange(ranked.n + 1))

    @staticmethod
    def most_sessions(dataset: Dataset) -> int:
        """Sessions in the haystack that has most of them."""
        haystacks = range(len(dataset.haystack_ids))
        codes = dataset.session_codes
        return max((len(np.unique(codes[dataset.haystack_rows(h)])) for h in haystacks), default=0)

    def ranked(self) -> Ranked:
        """The judged turns, with the session as the piece of evidence."""
        pieces = self._ranked.query.astype(np.int64) << 32 | (self.of_judgement + 1)
        _, unit = np.unique(pieces, return_inverse=True)
        return replace(self._ranked, unit=unit.astype(np.int32))

    def cut(self, k: int) -> tuple[Ints, np.ndarray]:
        """The effective k of each query, and whether the ranking was deep enough to know it.

        A ranking that ends before k distinct sessions, but does not hold the whole haystack, is not
        deep enough: run with a larger k.
        """
        wanted = self._starts[:-1] + k - 1
        enough = wanted < self._starts[1:]
        cut = self._ranked.returned + 1
        cut[enough] = self._rank[wanted[enough]]
        return cut, enough | self._whole | ~self._ranked.answered


def haystack_sizes(dataset: Dataset) -> Ints:
    """Documents in the haystack of each query; shape (n,)."""
    sizes = np.array([dataset.haystack_size(h) for h in range(len(dataset.haystack_ids))], np.int64)
    sizes = sizes[dataset.query_haystack]
    if dataset.manifest.exclude_self:
        sizes = sizes - (dataset.rows_with_query_id >= 0)
    return sizes
