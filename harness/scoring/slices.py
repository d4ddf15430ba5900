"""Which queries a mean is over: the slices of a dataset, and what became of each query in a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.datasets.reader import Dataset
from harness.schema import Ability
from harness.scoring.arrays import Flags, Ints, Values


def slices(dataset: Dataset) -> dict[str, Flags]:
    """Masks over the dataset's queries, by name; only those that hold a query.

    `all` is every scored query, `answerable` all but abstention; then each ability, and each of the
    dataset's own categories as `category:...` (where they say more than the abilities).
    """
    n = dataset.n_queries
    masks: dict[str, Flags] = {"all": np.ones(n, bool)}
    abilities = dataset.abilities
    without = abilities == str(Ability.ABSTENTION)
    if without.any():
        masks["answerable"] = ~without
    for ability in Ability:
        if (abilities == str(ability)).any():
            masks[str(ability)] = abilities == str(ability)
    for category in np.unique(dataset.categories):
        if category:
            masks[f"category:{category}"] = dataset.categories == category
    return masks


@dataclass(frozen=True)
class QueryStatus:
    """What is known of a run beside its rankings; every array has shape (queries,).

    `asked`: the run was to answer the query. `replied`: it is known to have answered, be it with
    nothing; a run file cannot tell an empty answer from a query that was left out. `failed`: it
    raised an error there, so it has found nothing and counts 0. `confidence`: the system's
    own, NaN where it gave none. `abstained`: it said that there is no answer.

    Of systems that return texts of their own: `unmeasurable`, no text of the answer could be
    resolved to a document; `places_unresolved`, how many places of rankings hold such a text;
    `tokens`, what each returned row costs in a prompt, by query and rank, in place of its document;
    `match`, how texts were resolved, for the signature; `texts`, those of each query, best first.

    `repeated` documents were left out of rankings that are shorter by them.
    """

    asked: Flags
    replied: Flags
    failed: Flags
    confidence: Values
    abstained: Flags
    unmeasurable: Flags | None = None
    places_unresolved: int = 0
    tokens: Ints | None = None
    match: str = ""
    texts: list[list[str]] | None = None
    repeated: int = 0

    @property
    def counted(self) -> Flags:
        """Queries that means are over: asked, and not unmeasurable; failed ones count 0."""
        return self.asked if self.unmeasurable is None else self.asked & ~self.unmeasurable

    def skipped(self, ranked: Flags, missing: str) -> Flags:
        """Queries that `missing` "skip" leaves out: neither `ranked` (those that the rankings have)
        nor known to have been answered or to have failed. None where a missing query counts `zero`.
        """
        return ~(ranked | self.replied | self.failed) & (missing == "skip")

    @classmethod
    def everything(cls, n: int) -> QueryStatus:
        """Every query asked, nothing failed, nothing else known: a run from elsewhere."""
        no = np.zeros(n, bool)
        return cls(np.ones(n, bool), no, no.copy(), np.full(n, np.nan), no.copy())
