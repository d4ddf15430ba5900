"""The last N requests, their scores against labelled queries, and later feedback."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.online.logs.events import Feedback, QueryIndex, RetrievalEvent
from harness.extensions.online.monitor.change import Observed
from harness.schema import Ability
from harness.scoring.arrays import Values
from harness.scoring.metrics import Metric
from harness.scoring.qrels import from_dict
from harness.scoring.ranks import NOT_RETRIEVED, Qrels, QrelsDict, Ranked, from_dataset


class Labels:
    """Qrels indexed by query, for fast lookup per request.

    `abilities` and `texts` have one entry per query; an ability may be empty (unknown). Drift is
    measured against the words of `texts`. `identity` is a digest that distinguishes sets of
    labels.
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
        self.has_evidence: Flags = relevant > 0
        self.unanswerable: Flags = np.array(
            [ability == str(Ability.ABSTENTION) for ability in abilities], bool
        )
        self._labelled = QueryIndex(self.ids, self.texts)

    def find(self, query_id: str | None, query: str | None) -> int:
        """Returns the row of a labelled query, by id or exact text; below 0 if there is none."""
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
    if not isinstance(given, Mapping):
        raise UsageError(
            "labels must be a dataset (harness.open_dataset) or {query: {document: grade}}, not "
            f"{type(given).__name__}"
        )
    if not given:
        raise UsageError("the labels have no query")
    try:
        text = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
        qrels = from_dict(given)
    except (TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"labels must be {{query: {{document: grade}}}} ({error})") from None
    nothing = [""] * len(given)
    return Labels(qrels, nothing, nothing, hashlib.sha256(text).hexdigest())


Columns = dict[str, npt.NDArray[Any]]
Flags = npt.NDArray[np.bool_]

COLUMNS: dict[str, tuple[Any, Any]] = {
    "time": (np.float64, np.nan),
    "seconds": (np.float64, np.nan),
    "ability": (np.int16, -1),  # a code; -1: unknown
    "known": (np.bool_, False),  # the result is known
    "empty": (np.bool_, False),  # the result is empty
    "abstained": (np.bool_, False),
    "failed": (np.bool_, False),
    "unanswerable": (np.int8, -1),  # from the labels; -1: not labelled
    "labelled": (np.bool_, False),
    "click": (np.int32, -1),  # rank of the first click; 0: no click; -1: clicks not logged
    "rating": (np.float64, np.nan),
    "request_id": (np.uint64, 0),  # hash of the id; 0: none
}
"""Column -> type, and the value for unknown."""


class Window:
    """The last `size` requests as columns, in a ring buffer.

    Memory is `size` times about 50 bytes, plus 8 per metric.
    """

    def __init__(self, size: int, metrics: int) -> None:
        self.size, self.total = size, 0
        self.columns: Columns = {
            name: np.full(size, empty, kind) for name, (kind, empty) in COLUMNS.items()
        }
        self.values = np.full((size, metrics), np.nan)

    def append(self, columns: Columns, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Adds rows, the newest last; returns their slots.

        If there are more rows than slots, the last ones are kept.
        """
        n = len(values)
        slots = np.arange(self.total, self.total + n) % self.size
        keep = slice(max(0, n - self.size), n)
        for name, column in columns.items():
            self.columns[name][slots[keep]] = column[keep]
        self.values[slots[keep]] = values[keep]
        self.total += n
        return slots

    @property
    def n(self) -> int:
        """Number of requests in the window."""
        return min(self.total, self.size)


# -- Scores, by the metrics of runs ----------------------------------------------------------------


def ranking(event: RetrievalEvent, own_id: str | None = None) -> dict[str, int]:
    """Returns document -> rank from 1; a repeated document has its best rank.

    Given scores that are not in descending order sort the documents, keeping the order of ties, as
    in the `memory` protocol. `own_id` is excluded, for datasets that require it.
    """
    returned = event.returned or ()
    scores = event.scores
    if scores is not None and any(after > before for before, after in pairwise(scores)):
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        returned = tuple(returned[i] for i in order)
    unique = dict.fromkeys(returned)
    if own_id is not None:
        unique.pop(own_id, None)
    return {document: rank for rank, document in enumerate(unique, 1)}


class Scorer:
    """Computes the metrics of requests of labelled queries."""

    def __init__(self, labels: Labels, metrics: Sequence[Metric]) -> None:
        self._labels, self._metrics = labels, list(metrics)
        qrels = labels.qrels
        self._units = int(qrels.evidence_id.max(initial=0)) + 1
        self._documents = int(qrels.document_code.max(initial=0)) + 1
        self._starts = np.array(labels.starts)

    def __call__(self, rows: Sequence[int], events: Sequence[RetrievalEvent]) -> Values:
        """Returns every metric, shape (requests, metrics); NaN for a query without evidence.

        `rows` are the labelled queries of the requests, none below 0.
        """
        labels, qrels = self._labels, self._labels.qrels
        n = len(events)
        ranks: list[int] = []
        returned = []
        for row, event in zip(rows, events, strict=True):
            places = ranking(event, labels.ids[row] if labels.exclude_self else None)
            returned.append(len(places))
            get = places.get
            ranks += [get(document, NOT_RETRIEVED) for document in labels.documents[row]]
        at = np.asarray(rows, np.int64)
        counts = (self._starts[1:] - self._starts[:-1])[at]
        query = np.repeat(np.arange(n, dtype=np.int32), counts)
        first = np.repeat(self._starts[:-1][at] - (np.cumsum(counts) - counts), counts)
        judgement = np.arange(len(query)) + first
        rank = np.array(ranks, np.int64)
        found = rank < NOT_RETRIEVED
        ranked = Ranked(
            np.array(returned, np.int64),
            np.ones(n, bool),
            query,
            qrels.grade[judgement],
            qrels.evidence_id[judgement].astype(np.int64) + query.astype(np.int64) * self._units,
            qrels.document_code[judgement] + query.astype(np.int64) * self._documents,
            qrels.first_of_document[judgement],
            rank,
            np.where(found, rank - 1, NOT_RETRIEVED),
            found.astype(np.int64),
        )
        return np.column_stack([metric(ranked) for metric in self._metrics])


# -- Requests as columns, and observations of change tests -----------------------------------------


def as_columns(
    events: Sequence[RetrievalEvent],
    rows: Sequence[int],
    labels: Labels | None,
    abilities: Sequence[int],
) -> Columns:
    """Converts requests to columns.

    `rows` are their labelled queries (below 0: none), and `abilities` their ability codes.
    """
    at = np.array(rows)
    labelled = at >= 0
    unanswerable = np.full(len(rows), -1)
    if labels is not None:
        unanswerable[labelled] = labels.unanswerable[at[labelled]]
    found: dict[str, npt.ArrayLike] = {
        "time": [_float(r.time) for r in events],
        "seconds": [_float(r.seconds) for r in events],
        "ability": abilities,
        "known": [r.returned is not None or r.texts is not None for r in events],
        "empty": [
            not r.returned and not r.texts and (r.returned is not None or r.texts is not None)
            for r in events
        ],
        "abstained": [r.abstained for r in events],
        "failed": [r.failed for r in events],
        "unanswerable": unanswerable,
        "labelled": labelled,
        "click": [_first_click(r) for r in events],
        "rating": [_float(r.rating) for r in events],
        "request_id": [0 if r.request_id is None else name_of(r.request_id) for r in events],
    }
    return {name: np.array(found[name], kind) for name, (kind, _) in COLUMNS.items()}


def observations(
    columns: Columns, values: Values, rows: Sequence[int], metrics: Sequence[str], latest: float
) -> dict[str, Observed]:
    """Returns the values of every metric and rate, over the requests of each (see `measure`).

    `rows` are the labelled queries of the requests; a time after `latest` is an error and ignored.
    """
    scored = ~np.isnan(values[:, 0])
    times = np.where(columns["time"] > latest, np.nan, columns["time"])
    at = np.array(rows, np.int64)
    everywhere = np.full(len(at), -1)
    found = {
        name: Observed(flags[base].astype(float), times[base], everywhere[base])
        for name, (flags, base) in rates(columns).items()
    }
    for i, name in enumerate(metrics):
        found[name] = Observed(values[scored, i], times[scored], at[scored])
    return found


def rates(columns: Columns) -> dict[str, tuple[Flags, Flags]]:
    """Returns by rate the flags of its numerator, and of its denominator."""
    answered = ~columns["failed"]
    known = answered & columns["known"]
    silent = columns["empty"] | columns["abstained"]
    return {
        "no_result": (columns["empty"], known),
        "abstained": (columns["abstained"], answered),
        "failed": (columns["failed"], np.ones(len(known), bool)),
        "false_positive": (~silent, known & (columns["unanswerable"] == 1)),
    }


def name_of(request: str) -> int:
    """Returns a 64-bit hash of a request id; never 0."""
    digest = hashlib.blake2b(request.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def _float(value: float | None) -> float:
    return np.nan if value is None else value


def _first_click(event: RetrievalEvent) -> int:
    """Returns the rank of the first clicked document; 0 for none, -1 if clicks were not logged."""
    if event.clicked is None:
        return -1
    if not event.clicked:
        return 0
    places = ranking(event)
    return min((places[name] for name in event.clicked if name in places), default=0)


# -- Requests by their ids -------------------------------------------------------------------------

_SHOWN = 10
"""Number of documents of a request for which a later click gets a rank."""


@dataclass(frozen=True)
class FeedbackDelta:
    """Changes to the counts of a request made at `time`, caused by feedback."""

    time: float
    watched: int
    clicked: int
    rated: int
    rating: float


class RequestIndex:
    """Finds the requests of a window by id, for later feedback.

    `shown` has hashes of the first documents of each request, shape (window, 10); None before the
    first request with an id.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self.shown: npt.NDArray[np.uint32] | None = None

    def remember(self, events: Sequence[RetrievalEvent], slots: npt.NDArray[np.int64]) -> None:
        """Stores the results of the requests in these slots."""
        for event, slot in zip(events, slots.tolist(), strict=True):
            if event.request_id is not None:
                if self.shown is None:
                    self.shown = np.zeros((self._window.size, _SHOWN), np.uint32)
                shown = [_place(name) for name in list(ranking(event))[:_SHOWN]]
                self.shown[slot] = shown + [0] * (_SHOWN - len(shown))

    def feedback(self, one: Feedback) -> FeedbackDelta | None:
        """Adds feedback to the newest request with its id; None if the window has none."""
        window, columns = self._window, self._window.columns
        slots = np.flatnonzero(columns["request_id"][: window.n] == name_of(one.request_id))
        if not len(slots) or self.shown is None:
            return None
        slot = int(slots[np.argmax((slots - window.total) % window.size)])
        before, rated = int(columns["click"][slot]), not np.isnan(columns["rating"][slot])
        after, rating = before, 0.0
        if one.clicked is not None:
            shown = self.shown[slot].tolist()
            ranks = [shown.index(p) + 1 for c in one.clicked if (p := _place(c)) in shown]
            after = min([*ranks, *([before] if before > 0 else [])], default=max(before, 0))
            columns["click"][slot] = after
        if one.rating is not None:
            rating = one.rating - (float(columns["rating"][slot]) if rated else 0.0)
            columns["rating"][slot] = one.rating
        return FeedbackDelta(
            float(columns["time"][slot]),
            int(before < 0 <= after),
            int(before <= 0 < after),
            int(one.rating is not None and not rated),
            rating,
        )


def _place(name: str) -> int:
    """Returns a 32-bit hash of a document id; never 0."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) or 1
