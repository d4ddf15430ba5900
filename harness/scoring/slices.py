"""The parts of a dataset that means are taken over."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.schema import Ability

Flags = npt.NDArray[np.bool_]


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
