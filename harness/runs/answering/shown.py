"""What a reader is shown for each question: what a run returned, or a control in its place.

Controls say what the number of a system is worth: nothing at all, the newest of the haystack, a
random selection of as many documents, and the evidence alone, which is the best that retrieval can
do. Whatever is shown is cut to the same budget of tokens (`words+marks`, see scoring/budget).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.rankings.rankings import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.scored import asked_in
from harness.scoring.budget import TokenCounts, text_tokens
from harness.scoring.matching.hits import read_hits
from harness.scoring.resolve import cleaned, resolve

CONTROLS = ("none", "newest", "random", "evidence")
"""In place of what was retrieved."""

RETRIEVED = "retrieved"
WINDOW = 8000
"""Tokens of the newest that are shown where no budget says how many."""


@dataclass(frozen=True)
class Shown:
    """One thing that a reader is shown: its text, and the documents that it is, as rows; a text of
    a system's own may be none. `timestamp` is when it was said in this haystack."""

    text: str
    rows: tuple[int, ...]
    timestamp: int | None
    tokens: int
    speaker: str = ""


@dataclass(frozen=True)
class Context:
    """What is shown for the question at `query`, best first."""

    query: int
    shown: tuple[Shown, ...]

    @property
    def tokens(self) -> int:
        """What all of it costs."""
        return sum(one.tokens for one in self.shown)


@dataclass(frozen=True)
class Limits:
    """How much is shown: the first `k` (None: all that was returned) that cost at most `budget`
    tokens together (None: any), and of the newest as many as cost `window`."""

    k: int | None = None
    budget: int | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        for name in ("k", "budget", "window"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be 1 or more, not {value}")

    @property
    def newest(self) -> int:
        """Tokens of the newest."""
        return self.window or self.budget or WINDOW


class Shower:
    """Makes what is shown of the documents of a dataset."""

    def __init__(self, dataset: Dataset, limits: Limits) -> None:
        self._dataset, self._limits = dataset, limits
        self._counts = TokenCounts(dataset)
        self._stamps = lru_cache(maxsize=1)(self._read_stamps)

    def retrieved(self, folder: Path) -> list[Context]:
        """What a run returned to each question that it was asked, and answered without an error."""
        run = RunFolder(folder)
        known = asked_in(run, self._dataset)
        asked = np.flatnonzero(known.asked & ~known.failed).tolist()
        found = self._texts(run) if run.hits.is_file() else self._documents(run)
        return [self._cut(query, found.get(query, ())) for query in asked]

    def control(self, name: str, beside: Sequence[Context], seed: int = 0) -> list[Context]:
        """A control for the questions of `beside`, which says how many documents `random` has.

        Raises UsageError for an unknown name, and for `newest` where nothing has a date.
        """
        if name == "none":
            return [Context(one.query, ()) for one in beside]
        if name == "newest":
            if not self._dated:
                raise UsageError(f"{self._dataset.name}: documents have no dates, none is newest")
            return [self._newest(one.query) for one in beside]
        if name == "random":
            return [self._random(one, seed) for one in beside]
        if name == "evidence":
            gold = ((one.query, self._gold.get(one.query, [])) for one in beside)
            return [Context(query, tuple(self._of(query, rows))) for query, rows in gold]
        raise UsageError(f"unknown control {name!r}; known: {', '.join(CONTROLS)}")

    def evidence(self, query: int) -> frozenset[int]:
        """Rows of the documents that are evidence for a question."""
        return frozenset(self._gold.get(query, ()))

    def _documents(self, run: RunFolder) -> dict[int, tuple[Shown, ...]]:
        rankings, _ = cleaned(read_rankings(run.rankings), self._dataset)
        resolved = resolve(rankings, self._dataset)
        held = resolved.row >= 0
        if self._limits.k is not None:
            held &= resolved.rank <= self._limits.k
        queries, rows = resolved.query[held], resolved.row[held]
        found: dict[int, tuple[Shown, ...]] = {}
        cuts = np.flatnonzero(np.diff(queries)) + 1
        for part in np.split(np.arange(len(queries)), cuts):
            if len(part):
                query = int(queries[part[0]])
                found[query] = tuple(self._of(query, rows[part].tolist()))
        return found

    def _texts(self, run: RunFolder) -> dict[int, tuple[Shown, ...]]:
        """Texts of the system's own; a hit without one is the text of its documents."""
        found: dict[int, list[Shown]] = {}
        hits = [
            hit
            for hit in sorted(read_hits(self._dataset, run.hits), key=lambda h: (h.query, h.place))
            if self._limits.k is None or hit.place <= self._limits.k
        ]
        costs = text_tokens([hit.text for hit in hits]).tolist()
        for hit, cost in zip(hits, costs, strict=True):
            of = list(self._of(hit.query, hit.documents))
            dates = [one.timestamp for one in of if one.timestamp is not None]
            one = Shown(
                hit.text or " ".join(each.text for each in of),
                tuple(hit.documents),
                max(dates, default=None),
                cost if hit.text else sum(each.tokens for each in of),
            )
            found.setdefault(hit.query, []).append(one)
        return {query: tuple(shown) for query, shown in found.items()}

    def _cut(self, query: int, shown: Sequence[Shown]) -> Context:
        """As many of the first as the limits let through."""
        kept, spent = [], 0
        for one in shown[: self._limits.k]:
            spent += one.tokens
            if self._limits.budget is not None and spent > self._limits.budget:
                break
            kept.append(one)
        return Context(query, tuple(kept))

    def _newest(self, query: int) -> Context:
        haystack = int(self._dataset.query_haystack[query])
        rows = self._dataset.haystack_rows(haystack)
        stamps = self._dataset.haystack_timestamps(haystack).to_numpy(zero_copy_only=False)
        order = np.argsort(np.nan_to_num(stamps.astype(float), nan=-np.inf), kind="stable")[::-1]
        costs = np.cumsum(self._counts.of(rows[order]))
        fits = rows[order][: int(np.searchsorted(costs, self._limits.newest, side="right"))]
        return Context(query, tuple(self._of(query, fits.tolist())))

    def _random(self, beside: Context, seed: int) -> Context:
        """As many documents as `beside` has things, of a choice that the question's id settles."""
        query, n = beside.query, len(beside.shown)
        rows = self._dataset.haystack_rows(int(self._dataset.query_haystack[query]))
        text = f"{seed} {self._dataset.query_ids[query]}".encode()
        drawn = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:8]))
        chosen = drawn.choice(len(rows), min(n, len(rows)), replace=False)
        return self._cut(query, tuple(self._of(query, rows[chosen].tolist())))

    def _of(self, query: int, rows: Sequence[int]) -> Iterator[Shown]:
        """Documents, as they were said in the question's haystack."""
        if not rows:
            return
        at = np.array(rows, np.int32)
        documents, stamps = (
            self._dataset.documents,
            self._stamps(int(self._dataset.query_haystack[query])),
        )
        speakers = documents.column("speaker", at).to_pylist()
        costs = self._counts.of(at).tolist()
        for row, text, speaker, cost in zip(
            rows, documents.contents(at), speakers, costs, strict=True
        ):
            yield Shown(text, (row,), stamps.get(row), cost, speaker or "")

    def _read_stamps(self, haystack: int) -> Mapping[int, int | None]:
        if not self._dated:
            return {}
        rows = self._dataset.haystack_rows(haystack).tolist()
        return dict(zip(rows, self._dataset.haystack_timestamps(haystack).to_pylist(), strict=True))

    @cached_property
    def _dated(self) -> bool:
        """Whether any document has a date."""
        stamps = self._dataset.documents.column("timestamp")
        return bool(stamps.null_count < len(stamps)) or any(
            self._dataset.haystack_timestamps(one).null_count < self._dataset.haystack_size(one)
            for one in range(min(1, len(self._dataset.haystack_ids)))
        )

    @cached_property
    def _gold(self) -> dict[int, list[int]]:
        """Rows of the evidence of each question, in the dataset's order."""
        judged = self._dataset.qrels()
        mine = (judged.grade >= 1) & (judged.document >= 0)
        found: dict[int, set[int]] = {}
        pairs = zip(judged.query[mine].tolist(), judged.document[mine].tolist(), strict=True)
        for query, row in pairs:
            found.setdefault(query, set()).add(row)
        return {query: sorted(rows) for query, rows in found.items()}
