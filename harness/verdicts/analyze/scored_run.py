"""A run scored at one k by the protocol `memory`: which queries count, and how their evidence did.

All abilities and normalised evidence; equal scores as they were returned.
"""

from __future__ import annotations

import numpy as np

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.rankings.rankings import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.scored import answered
from harness.scoring.choices import Choices, Scores
from harness.scoring.qrels import from_dataset
from harness.scoring.ranks import Ties, rank_judged
from harness.scoring.resolve import cleaned, resolve
from harness.scoring.rollup import haystack_sizes
from harness.scoring.score import score

PROTOCOL = "memory"


class ScoredAt:
    """What is known of a run at k. Nothing is written into its folder.

    `recall` has shape (queries,), NaN where a query is not scored; `scored` says where it is.
    `ranked` and `resolved` are as `harness score` sees them. `texts`: the system returns texts of
    its own.
    """

    def __init__(self, run: RunFolder, dataset: Dataset, k: int) -> None:
        """Raises UsageError for a k that the rankings cannot tell of."""
        self.dataset, self.k = dataset, k
        self.depth: int = run.record["settings"]["k"]
        deepest = int(haystack_sizes(dataset).max(initial=0))
        if k < 1:
            raise UsageError(f"--k must be 1 or more, not {k}")
        if self.depth < k and self.depth < deepest:
            raise UsageError(
                f"{run.path}: its rankings hold {self.depth} documents, so nothing is known of the "
                f"top {k}; choose a smaller --k"
            )
        self.texts = run.hits.is_file()
        self.answered = answered(run, dataset)
        self._rankings = read_rankings(run.rankings)
        rankings, _ = cleaned(self._rankings, dataset)
        self.resolved = resolve(rankings, dataset)
        self.ranked = rank_judged(rankings, from_dataset(dataset), Ties.ORDER)
        self.scores = self.score(dataset)
        table = self.scores.per_query
        table = table.filter(np.array(table["unit"]) == dataset.manifest.granularity)
        row = {name: at for at, name in enumerate(dataset.query_ids)}
        self.recall = np.full(dataset.n_queries, np.nan)
        at = [row[name] for name in table["query"].to_pylist()]
        self.recall[at] = table[f"recall@{k}"].to_numpy(zero_copy_only=False)
        self.scored = ~np.isnan(self.recall)

    def score(self, dataset: Dataset) -> Scores:
        """The run's scores at k by this dataset's default answer key."""
        choices = Choices(protocols=(PROTOCOL,), ks=(self.k,))
        return score(dataset, self._rankings, choices, depth=self.depth, answered=self.answered)

    @property
    def left_out(self) -> dict[str, int]:
        """How many of the queries that were asked are not scored, by reason."""
        reasons = self.scores.left_out[PROTOCOL].items()
        return {name: len(ids) for name, ids in reasons if not name.startswith("not asked")}
