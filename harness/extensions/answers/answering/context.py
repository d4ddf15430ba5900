"""Builds the context of each question for the reader, from a run or a baseline.

Baselines put a system's score into perspective: no context, the newest documents of the
haystack, random documents (as many as the run returned), and the evidence alone, which is the
upper bound of retrieval. Every context is cut to the same token budget (`words+marks/2`, see
scoring/tokens).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.records.answers import BASELINES
from harness.runs.folder.rankings import read_run_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import query_status
from harness.scoring.matching.matcher import read_hits
from harness.scoring.resolve import canonicalize, resolve
from harness.scoring.tokens import TokenCounts, text_tokens

RETRIEVED: Literal["retrieved"] = "retrieved"
DEFAULT_WINDOW = 8000
"""Token limit of the newest documents if neither window nor budget is given."""


@dataclass(frozen=True)
class ContextItem:
    """A text in a context, and the rows of its documents (none for a system's own text that matches
    no document). `timestamp` is its time in the question's haystack."""

    text: str
    rows: tuple[int, ...]
    timestamp: int | None
    tokens: int
    speaker: str = ""


@dataclass(frozen=True)
class Context:
    """The context of the question at `query`, best item first."""

    query: int
    items: tuple[ContextItem, ...]

    @property
    def tokens(self) -> int:
        """Returns the number of tokens."""
        return sum(item.tokens for item in self.items)


@dataclass(frozen=True)
class ContextLimits:
    """Limits of a context: the first `k` items (None: all) that fit into `budget` tokens (None: no
    limit); `window` is the token limit of the newest documents."""

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
        """Returns the token limit of the newest documents."""
        return self.window or self.budget or DEFAULT_WINDOW


class ContextBuilder:
    """Builds contexts from the documents of a dataset."""

    def __init__(self, dataset: Dataset, limits: ContextLimits) -> None:
        self._dataset, self._limits = dataset, limits
        self._counts = TokenCounts(dataset)
        self._stamps = lru_cache(maxsize=1)(self._read_stamps)

    def retrieved(self, folder: Path) -> list[Context]:
        """Builds the context of each question of a run; empty for a question that failed.

        Returns no contexts if all questions failed.
        """
        run = RunFolder(folder)
        known = query_status(run, self._dataset)
        asked = np.flatnonzero(known.asked).tolist()
        if known.failed[asked].all():
            return []
        found = self._texts(run) if run.hits.is_file() else self._documents(run)
        return [
            self._cut(query, () if known.failed[query] else found.get(query, ())) for query in asked
        ]

    def baseline(self, name: str, retrieved: Sequence[Context], seed: int = 0) -> list[Context]:
        """Builds a baseline for the questions of `retrieved`; `random` has as many documents.

        Raises UsageError for an unknown name, and for `newest` if no document has a date.
        """
        if name == "none":
            return [Context(one.query, ()) for one in retrieved]
        if name == "newest":
            if not self._dated:
                raise UsageError(f"{self._dataset.name}: documents have no dates, none is newest")
            return [self._newest(one.query) for one in retrieved]
        if name == "random":
            return [self._random(one, seed) for one in retrieved]
        if name == "evidence":
            gold = ((one.query, self._gold.get(one.query, [])) for one in retrieved)
            return [Context(query, tuple(self.items(query, rows))) for query, rows in gold]
        raise UsageError(f"unknown baseline {name!r}; known: {', '.join(BASELINES)}")

    def evidence(self, query: int) -> frozenset[int]:
        """Returns the rows of the evidence of a question."""
        return frozenset(self._gold.get(query, ()))

    def _documents(self, run: RunFolder) -> dict[int, tuple[ContextItem, ...]]:
        rankings, _ = canonicalize(read_run_rankings(run.rankings), self._dataset)
        resolved = resolve(rankings, self._dataset)
        included = resolved.row >= 0
        if self._limits.k is not None:
            included &= resolved.rank <= self._limits.k
        queries, rows = resolved.query[included], resolved.row[included]
        found: dict[int, tuple[ContextItem, ...]] = {}
        cuts = np.flatnonzero(np.diff(queries)) + 1
        for part in np.split(np.arange(len(queries)), cuts):
            if len(part):
                query = int(queries[part[0]])
                found[query] = tuple(self.items(query, rows[part].tolist()))
        return found

    def _texts(self, run: RunFolder) -> dict[int, tuple[ContextItem, ...]]:
        """Reads the system's own texts; a hit without text gets the texts of its documents."""
        found: dict[int, list[ContextItem]] = {}
        hits = [
            hit
            for hit in sorted(read_hits(self._dataset, run.hits), key=lambda h: (h.query, h.place))
            if self._limits.k is None or hit.place <= self._limits.k
        ]
        costs = text_tokens([hit.text for hit in hits]).tolist()
        for hit, cost in zip(hits, costs, strict=True):
            documents = list(self.items(hit.query, hit.documents))
            dates = [one.timestamp for one in documents if one.timestamp is not None]
            item = ContextItem(
                hit.text or " ".join(one.text for one in documents),
                tuple(hit.documents),
                max(dates, default=None),
                cost if hit.text else sum(one.tokens for one in documents),
            )
            found.setdefault(hit.query, []).append(item)
        return {query: tuple(items) for query, items in found.items()}

    def _cut(self, query: int, items: Sequence[ContextItem]) -> Context:
        """Returns the longest prefix of the items within the limits."""
        included, tokens = [], 0
        for item in items[: self._limits.k]:
            tokens += item.tokens
            if self._limits.budget is not None and tokens > self._limits.budget:
                break
            included.append(item)
        return Context(query, tuple(included))

    def _newest(self, query: int) -> Context:
        haystack = int(self._dataset.query_haystack[query])
        rows = self._dataset.haystack_rows(haystack)
        stamps = self._dataset.haystack_timestamps(haystack).to_numpy(zero_copy_only=False)
        order = np.argsort(np.nan_to_num(stamps.astype(float), nan=-np.inf), kind="stable")[::-1]
        costs = np.cumsum(self._counts.of(rows[order]))
        fits = rows[order][: int(np.searchsorted(costs, self._limits.newest, side="right"))]
        return Context(query, tuple(self.items(query, fits.tolist())))

    def _random(self, retrieved: Context, seed: int) -> Context:
        """Draws as many documents as `retrieved` has items, seeded by `seed` and query id."""
        query, n = retrieved.query, len(retrieved.items)
        rows = self._dataset.haystack_rows(int(self._dataset.query_haystack[query]))
        text = f"{seed} {self._dataset.query_ids[query]}".encode()
        drawn = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:8]))
        chosen = drawn.choice(len(rows), min(n, len(rows)), replace=False)
        return self._cut(query, tuple(self.items(query, rows[chosen].tolist())))

    def items(self, query: int, rows: Sequence[int]) -> Iterator[ContextItem]:
        """Yields documents with their timestamps in the question's haystack."""
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
            yield ContextItem(text, (row,), stamps.get(row), cost, speaker or "")

    def _read_stamps(self, haystack: int) -> Mapping[int, int | None]:
        if not self._dated:
            return {}
        rows = self._dataset.haystack_rows(haystack).tolist()
        return dict(zip(rows, self._dataset.haystack_timestamps(haystack).to_pylist(), strict=True))

    @cached_property
    def _dated(self) -> bool:
        """Tests whether any document has a date."""
        stamps = self._dataset.documents.column("timestamp")
        return bool(stamps.null_count < len(stamps)) or any(
            self._dataset.haystack_timestamps(one).null_count < self._dataset.haystack_sizes[one]
            for one in range(min(1, len(self._dataset.haystack_ids)))
        )

    @cached_property
    def _gold(self) -> dict[int, list[int]]:
        """Collects the rows of the evidence of each question, in the dataset's order."""
        judged = self._dataset.qrels()
        relevant = (judged.grade >= 1) & (judged.document >= 0)
        found: dict[int, set[int]] = {}
        pairs = zip(
            judged.query[relevant].tolist(), judged.document[relevant].tolist(), strict=True
        )
        for query, row in pairs:
            found.setdefault(query, set()).add(row)
        return {query: sorted(rows) for query, rows in found.items()}
