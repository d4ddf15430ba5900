"""Turn rankings scored at session level, by LongMemEval's rule (evaluate_retrieval_turn2session).

Strip turns to their sessions and grow an effective k from k until the top holds k distinct sessions
or the ranking ends; then score at that effective k over turn positions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset, DatasetQrels
from harness.scoring.arrays import Ints
from harness.scoring.haystacks import haystack_sizes
from harness.scoring.ranks import NOT_RETRIEVED, Ranked
from harness.scoring.resolve import Resolved


class SessionLevel:
    """The sessions behind the turns of a run, for one answer key."""

    def __init__(
        self,
        dataset: Dataset,
        resolved: Resolved,
        judged: DatasetQrels,
        ranked: Ranked,
        depth: int,
        *,
        renamed: bool,
    ) -> None:
        """`resolved` and `ranked` are in one order; `depth`: documents that a ranking could hold.

        `renamed`: turns of a session that are not gold are a session of their own (`noans_`).
        """
        self._ranked = ranked
        # Shorter than it could be: the system had no more to give, and the ranking is all of it.
        self._ended = (ranked.returned >= haystack_sizes(dataset)) | (ranked.returned < depth)
        self.renamed = renamed
        group = sessions_of(dataset, resolved.row)
        # What is not there must not be taken for something else that is not there either.
        self.of_judgement = sessions_of(dataset, judged.document, beyond=len(resolved.row))
        if renamed:
            gold = judged.grade >= 1
            pairs = judged.query[gold].astype(np.int64) << 32 | judged.document[gold]
            is_gold = np.isin(resolved.query.astype(np.int64) << 32 | resolved.row, pairs)
            group = group * 2 + is_gold
        # The rank at which each query meets its 1st, 2nd, ... distinct session.
        keys = resolved.query.astype(np.int64) << 33 | group
        self._met, first = np.unique(keys, return_index=True)
        self._met_at = np.append(resolved.rank[first], NOT_RETRIEVED)
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
        """The judged turns, with the session as the piece of evidence.

        Any turn of a session brings the session, unless its other turns are renamed.
        """
        pieces = self._ranked.query.astype(np.int64) << 33 | self.of_judgement
        _, evidence_id = np.unique(pieces, return_inverse=True)
        rank = self._ranked.rank
        if not self.renamed:
            at = np.searchsorted(self._met, pieces)
            known = np.append(self._met, -1)[at] == pieces
            rank = np.where(known, self._met_at[at], NOT_RETRIEVED)
        return replace(self._ranked, evidence_id=evidence_id.astype(np.int32), rank=rank)

    def effective_cutoff(self, cutoff: int) -> tuple[Ints, np.ndarray]:
        """The effective cutoff of each query, and whether the ranking was deep enough to know it.

        A ranking that was cut off before k distinct sessions is not: run with a larger k.
        """
        wanted = self._starts[:-1] + cutoff - 1
        enough = wanted < self._starts[1:]
        cut = self._ranked.returned + 1
        cut[enough] = self._rank[wanted[enough]]
        return cut, enough | self._ended


def sessions_of(dataset: Dataset, rows: npt.NDArray[np.int32], beyond: int = 0) -> Ints:
    """A code for the session of each document row; what has no session, or is no document (-1),
    is a session of its own. Codes of the latter leave `beyond` free."""
    codes = dataset.session_codes.astype(np.int64)
    named = int(codes.max(initial=-1)) + 1
    codes = np.where(codes >= 0, codes, named + np.arange(len(codes)))
    own = named + len(codes) + beyond + np.arange(len(rows))
    return own if len(codes) == 0 else np.where(rows >= 0, codes[rows], own)
