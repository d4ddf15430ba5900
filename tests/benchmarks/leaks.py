"""Leak rates of five systems on the included dataset `scopes`: `python -m tests.benchmarks.leaks`.

Two systems have namespaces: one filters a common index, the other has an index for each user.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from harness import RetrieverSpec, open_dataset, run, score_run
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Question

FTS5 = f"{Path(__file__).parents[2]}/examples/systems/sqlite_fts5.py:Fts5"
METRICS = ("leak_rate@10", "query_leak_rate@10", "recall_in_scope@10")


class Filtered:
    """BM25 over all documents, without those that the user may not read."""

    def index(self, corpus: Corpus) -> None:
        """Indexes all documents."""
        self._bm25, self._users = BM25(), corpus.user_ids or []
        self._bm25.index(corpus)

    def search(
        self, queries: Sequence[Question], k: int, user_id: str | None = None
    ) -> list[list[int]]:
        """Removes the documents of others from each ranking."""
        allowed = {None, user_id, *queries[0].groups}
        found = self._bm25.search(queries, len(self._users))
        return [[int(i) for i in one.ids if self._users[int(i)] in allowed][:k] for one in found]


class Namespaces:
    """An index of SQLite FTS5 for each user; the rankings that the user may read are merged."""

    def index(self, corpus: Corpus) -> None:
        """Indexes the documents of each user."""
        rows: dict[str | None, list[int]] = {}
        for row, user in enumerate(corpus.user_ids or []):
            rows.setdefault(user, []).append(row)
        texts = corpus.contents
        self._spaces: dict[str | None, tuple[Any, list[int]]] = {}
        for user, mine in rows.items():
            index = RetrieverSpec(FTS5).build()
            index.index(SimpleNamespace(contents=[texts[row] for row in mine]))  # type: ignore[arg-type]
            self._spaces[user] = index, mine

    def search(
        self, queries: Sequence[Question], k: int, user_id: str | None = None
    ) -> list[list[tuple[int, float]]]:
        """Merges the rankings of the namespaces by score."""
        spaces = [
            self._spaces[name]
            for name in (None, user_id, *queries[0].groups)
            if name in self._spaces
        ]
        merged: list[list[tuple[int, float]]] = [[] for _ in queries]
        for index, rows in spaces:
            for found, part in zip(merged, index.search(queries, k), strict=True):
                found += [(rows[row], score) for row, score in part]
        return [sorted(found, key=lambda one: -one[1])[:k] for found in merged]


SYSTEMS: dict[str, Any] = {
    "`bm25`": "bm25",
    "`tfidf`": "tfidf",
    "`examples/systems/sqlite_fts5.py`": FTS5,
    "`bm25` behind a filter by user": Filtered(),
    "SQLite FTS5, an index for each user": Namespaces(),
}


def main() -> None:
    """Prints a table."""
    dataset = open_dataset("scopes", quiet=True)
    print("| system |", " | ".join(f"`{name}`" for name in METRICS), "|")
    print("|---|" + "---:|" * len(METRICS))
    for name, system in SYSTEMS.items():
        retriever = RetrieverSpec(system) if isinstance(system, str) else system
        with TemporaryDirectory() as out:
            scores = score_run(run(dataset, retriever, out=out, quiet=True), dataset)
        (scope,) = [one for one in scores.report.protocols if one.protocol == "scope"]
        values = [scope.overall[metric].value for metric in METRICS]
        print(f"| {name} |", " | ".join(f"{value:.4f}" for value in values), "|")


if __name__ == "__main__":
    main()
