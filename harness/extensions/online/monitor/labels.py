"""The labelled queries that a monitor scores requests against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.online.logs.events import QueryIndex
from harness.schema import Ability
from harness.scoring.qrels import Qrels, QrelsDict, from_dataset, from_dict


class Labels:
    """Judgements by query, ready to be looked up a request at a time.

    `abilities` and `texts` have one entry a query; the former may be empty texts (not known).
    `texts` are the queries' words, which drift is measured against. `identity` tells one set of
    labels from another.
    """

    def __init__(
        self,
        qrels: Qrels,
        texts: Sequence[str],
        abilities: Sequence[str],
        identity: str,
        *,
        exclude_self: bool = False,
    ) -> None:
        self.ids, self.texts, self.abilities = list(qrels.query_ids), list(texts), list(abilities)
        self.identity, self.exclude_self = identity, exclude_self
        self.qrels = qrels
        starts = np.searchsorted(qrels.query, np.arange(qrels.n + 1))
        documents: list[str] = qrels.document.to_pylist()
        self.starts: list[int] = starts.tolist()
        self.documents = [documents[a:b] for a, b in pairwise(starts.tolist())]
        relevant = np.bincount(qrels.query[qrels.grade >= 1], minlength=qrels.n)
        self.has_evidence: npt.NDArray[np.bool_] = relevant > 0
        self.unanswerable: npt.NDArray[np.bool_] = np.array(
            [ability == str(Ability.ABSTENTION) for ability in abilities], bool
        )
        self._labelled = QueryIndex(self.ids, self.texts)

    def find(self, query_id: str | None, query: str | None) -> int:
        """The row of a labelled query, by its id or its exact text; below 0 where there is none."""
        return self._labelled.find(query_id, query)[0]

    def __len__(self) -> int:
        return len(self.ids)


LabelsLike = Labels | Dataset | QrelsDict | None
"""What `Monitor(labels=)` accepts."""


def as_labels(given: LabelsLike) -> Labels | None:
    """Converts a Dataset or `{query: {document: grade}}` to labels. Raises UsageError."""
    if given is None or isinstance(given, Labels):
        return given
    if isinstance(given, Dataset):
        return Labels(
            from_dataset(given),
            given.query_table["text"].to_pylist(),
            given.abilities.tolist(),
            given.fingerprint,
            exclude_self=given.manifest.exclude_self,
        )
    if isinstance(given, Mapping):
        return _of_dict(given)
    raise UsageError(
        "labels must be a dataset (harness.open_dataset) or {query: {document: grade}}, not "
        f"{type(given).__name__}"
    )


def _of_dict(given: QrelsDict) -> Labels:
    import hashlib

    import orjson

    if not given:
        raise UsageError("the labels have no query")
    try:
        text = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
        qrels = from_dict(given)
    except (TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"labels must be {{query: {{document: grade}}}} ({error})") from None
    nothing = [""] * len(given)
    return Labels(qrels, nothing, nothing, hashlib.sha256(text).hexdigest())
