"""Reads the inputs of the numbers of a run: rankings, qrels, the outcome of each query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.manifest import IDS_ONLY
from harness.datasets.reader import Dataset
from harness.runfiles.arrow import flags, read_parquet
from harness.runfiles.readers import read_rankings

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]

_UNKNOWN_SIZE = 1 << 31
"""The size of haystacks with unknown documents: more than in any ranking."""


class QueryRanking(NamedTuple):
    """The documents of a query, best first, each once; no scores if the system returned none."""

    documents: list[str]
    scores: Floats | None

    def compared(self, ties: str) -> list[float]:
        """Returns the scores in the precision of a rule for equal scores: `trec` has 32 bits."""
        if self.scores is None:
            return [-float(rank) for rank in range(len(self.documents))]
        found: list[float] = self.scores.astype(np.float32 if ties == "trec" else float).tolist()
        return found

    def has_ties(self, ties: str) -> bool:
        """Tests whether scores are equal in the precision of a rule for equal scores."""
        scores = self.compared(ties)
        return len({*scores}) < len(scores)

    def order(self, ties: str) -> list[str]:
        """Returns the documents, ordered by a rule for equal scores.

        `order`: as they were returned. `trec`, `trec64`: by id, descending.
        """
        if ties == "order" or not self.has_ties(ties):
            return self.documents
        pairs = zip(self.compared(ties), map(str.encode, self.documents), strict=True)
        return [document.decode() for _, document in sorted(pairs, reverse=True)]


class Judgement(NamedTuple):
    """One line of the qrels; `present`: a ranking can contain the document."""

    document: str
    grade: int
    evidence: int
    present: bool


class QueryQrels:
    """The qrels of one query: the highest grade of each document, and the evidence items."""

    def __init__(self, lines: Sequence[Judgement]) -> None:
        self._lines = lines
        self.grades: dict[str, int] = {}
        for line in lines:
            self.grades[line.document] = max(line.grade, self.grades.get(line.document, line.grade))
        self.present = {line.document for line in lines if line.present}
        n_pieces = len({line.evidence for line in lines})
        self.shares_evidence = min(n_pieces, len(self.grades)) < len(lines)

    def without(self, documents: Collection[str]) -> QueryQrels:
        """Returns the qrels where some documents cannot be in a ranking."""
        return QueryQrels(
            [
                one._replace(present=one.present and one.document not in documents)
                for one in self._lines
            ]
        )

    def relevant(self, rel: int = 1) -> list[str]:
        """Returns the documents of a grade or more."""
        return [document for document, grade in self.grades.items() if grade >= rel]

    def pieces(self, rel: int) -> list[set[str]]:
        """Returns the evidence items, each as the documents that contain it."""
        found: dict[int, set[str]] = {}
        for line in self._lines:
            if line.grade >= rel:
                found.setdefault(line.evidence, set()).add(line.document)
        return [*found.values()]


class DocumentFacts(NamedTuple):
    """The attributes of a document that numbers depend on."""

    session: str | None
    timestamp: int | None
    user: str | None = None


class Inputs:
    """The inputs of all numbers; arrays and `rankings` have an entry for each query.

    `ranked`: the file has a ranking for the query; `answered`: it was answered, perhaps with no
    results. `measurable`: at least one returned text matches a document. `skipped`: excluded,
    because the run has no ranking for it. `counted`: means may include it.
    """

    def __init__(
        self, folder: Path, file: Path, dataset: Dataset, k: int, *, skip_missing: bool
    ) -> None:
        """Reads the rankings of a file and the outcomes in a folder."""
        self.dataset, self.k = dataset, k
        self._number = {id_: i for i, id_ in enumerate(dataset.query_ids)}
        n = dataset.n_queries
        self.asked, self.measurable = np.ones((2, n), bool)
        self.ranked, self.failed, self.answered, self.abstained = np.zeros((4, n), bool)
        self.confidence = np.full(n, np.nan)
        self._read_outcomes(folder)
        self.rankings = [QueryRanking([], None)] * n
        self.repeated_documents = self.unknown_queries = 0
        for id_, ranking in iter_rankings(file):
            query = self._number.get(id_)
            self.unknown_queries += query is None
            if query is not None:
                documents = ranking.documents
                self.repeated_documents += len(documents) - len({*documents})
                self.ranked[query] = not self.failed[query]
                if self.ranked[query]:
                    own = id_ if dataset.manifest.exclude_self else None
                    self.rankings[query] = best_first(ranking, excluded=own)
        self.skipped = skip_missing & ~(self.ranked | self.answered | self.failed)
        self.counted = self.asked & self.measurable & ~self.skipped
        self._qrels: dict[str, list[QueryQrels]] = {}
        self._users: dict[int, Counter[str | None]] = {}

    def _read_outcomes(self, folder: Path) -> None:
        """Reads hits.parquet and queries.parquet; without the latter all queries were asked."""
        if (folder / "queries.parquet").is_file():
            columns = ["query", "failed", "abstained", "confidence"]
            table = read_parquet(folder / "queries.parquet", columns)
            rows = [self._number[query] for query in table["query"].to_pylist()]
            self.asked[:] = False
            self.asked[rows] = True
            self.failed[rows], self.abstained[rows] = flags(table["failed"]), flags(table[2])
            self.answered[rows] = ~self.failed[rows]
            self.confidence[rows] = table["confidence"].to_numpy()
        if (folder / "hits.parquet").is_file():
            hits = read_parquet(folder / "hits.parquet", ["query", "documents"])
            known = hits.filter(pc.greater(pc.list_value_length(hits["documents"]), 0))
            queries, with_known = ({*table["query"].to_pylist()} for table in (hits, known))
            self.measurable[[self._number[query] for query in queries - with_known]] = False

    @cached_property
    def sizes(self) -> list[int]:
        """The maximum number of documents in a ranking of each query."""
        if self.dataset.manifest.text == IDS_ONLY:
            return [_UNKNOWN_SIZE] * len(self.rankings)
        haystacks = self.dataset.query_haystack.tolist()
        sizes = self.dataset.haystack_sizes.tolist()
        return [sizes[h] - own for h, own in zip(haystacks, self.own, strict=True)]

    @cached_property
    def own(self) -> list[bool]:
        """Whether the haystack has a document with the query's id, which rankings exclude."""
        if not self.dataset.manifest.exclude_self:
            return [False] * len(self.rankings)
        return [id_ in self.documents(query) for query, id_ in enumerate(self.dataset.query_ids)]

    def qrels(self, name: str = "default") -> list[QueryQrels]:
        """Returns the qrels of each query, from one qrels set of the dataset."""
        if name not in self._qrels:
            found = self.dataset.qrels(name)
            own = self.dataset.query_ids if self.dataset.manifest.exclude_self else None
            lines: list[list[Judgement]] = [[] for _ in self.rankings]
            columns = (found.query, found.document, found.grade, found.evidence_id)
            rows = zip(found.document_id.to_pylist(), *(c.tolist() for c in columns), strict=True)
            for document, query, row, grade, evidence in rows:
                present = row >= 0 and (own is None or own[query] != document)
                lines[query].append(Judgement(document, grade, evidence, present))
            self._qrels[name] = [*map(QueryQrels, lines)]
        return self._qrels[name]

    def documents(self, query: int) -> Mapping[str, DocumentFacts]:
        """Returns the returned and judged documents in the haystack of a query, by id."""
        return self._documents[int(self.dataset.query_haystack[query])]

    def users(self, haystack: int) -> Counter[str | None]:
        """Returns the number of documents of each user in a haystack."""
        if haystack not in self._users:
            self._users[haystack] = Counter(self._users_of(self.dataset.haystack_rows(haystack)))
        return self._users[haystack]

    def _users_of(self, rows: npt.NDArray[np.int32]) -> list[str | None]:
        if self.dataset.scopes is None:
            return [None] * len(rows)
        found: list[str | None] = self.dataset.documents.column("user_id", rows).to_pylist()
        return found

    @cached_property
    def _documents(self) -> dict[int, dict[str, DocumentFacts]]:
        dataset = self.dataset
        wanted: dict[int, set[str]] = {}
        for query, haystack in enumerate(dataset.query_haystack.tolist()):
            ids = wanted.setdefault(haystack, set())
            ids.update(self.rankings[query].documents, [dataset.query_ids[query]])
            ids.update(*(self.qrels(name)[query].grades for name in dataset.qrels_sets))
        found = {}
        for haystack, ids in wanted.items():
            rows, named = dataset.haystack_rows(haystack), pa.array(sorted(ids), pa.string())
            at = np.flatnonzero(pc.is_in(dataset.documents.column("id", rows), named).to_numpy())
            there, sessions = (dataset.documents.column(c, rows[at]) for c in ("id", "session"))
            stamps = dataset.haystack_timestamps(haystack).take(pa.array(at))
            users = self._users_of(rows[at])
            values = map(DocumentFacts, sessions.to_pylist(), stamps.to_pylist(), users)
            found[haystack] = dict(zip(there.to_pylist(), values, strict=True))
        return found


def iter_rankings(file: Path) -> Iterator[tuple[str, QueryRanking]]:
    """Yields each query of a file and its ranking, in the order of the file."""
    rankings = read_rankings(file)
    for query, (start, end) in zip(rankings.query_ids, pairwise(rankings.starts), strict=True):
        scores = None if rankings.score is None else rankings.score[start:end]
        yield query, QueryRanking(rankings.document[start:end].to_pylist(), scores)


def best_first(ranking: QueryRanking, *, excluded: str | None = None) -> QueryRanking:
    """Returns the ranking best first, each document once, at its best rank."""
    distinct = {*ranking.documents}
    ordered = ranking.scores is None or bool((np.diff(ranking.scores) <= 0).all())
    if ordered and len(distinct) == len(ranking.documents) and excluded not in distinct:
        return ranking
    rows = range(len(ranking.documents))
    if ranking.scores is not None:
        rows = np.argsort(-ranking.scores, kind="stable").tolist()
    best: dict[str, int] = {}
    for row in rows:
        best.setdefault(ranking.documents[row], row)
    if excluded is not None:
        best.pop(excluded, None)
    kept = [*best.values()]
    return QueryRanking([*best], None if ranking.scores is None else ranking.scores[kept])
