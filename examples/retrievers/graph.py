"""Ranking by the entities that questions and documents mention, in LadybugDB or Neo4j.

Install `ladybug` (embedded in this process) or `neo4j` (for a server at NEO4J_URI) with pip.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from graph_engines import Bolt, Embedded
from graph_entities import Columns, columns, entities

from harness.errors import require_numbers
from harness.io.packages import require_packages
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.outputs import top_k

# Cypher for both LadybugDB and Neo4j: no list indices (one of them counts from 1), no subqueries,
# and no assumption that a pattern's edges are distinct (Ladybug may use one twice).
_MENTIONED = """
unwind $asked as asked
match (e:{entity})<-[m:MENTIONS]-(t:{turn}) where e.name = asked.name
return asked.question, t.position, sum(m.weight)
"""
_SHARED = """
unwind $seeds as seed
match (s:{turn})-[a:MENTIONS]->(e:{entity})<-[b:MENTIONS]-(t:{turn})
where s.position = seed.position and e.rarity >= $rarity and t.position <> seed.position
return seed.question, t.position, sum(seed.score * a.weight * b.weight / (s.norm * t.norm))
"""
_NEIGHBOURS = """
unwind $seeds as seed
match (s:{turn})-[:NEXT]-(t:{turn}) where s.position = seed.position
return seed.question, t.position, sum(seed.score)
"""

Scores = npt.NDArray[np.float64]


class Database(Protocol):
    """A graph database. `turn` and `entity` are the labels of its nodes."""

    turn: str
    entity: str

    def about(self) -> str:
        """Returns name and version."""
        ...

    def load(self, graph: Columns) -> None:
        """Loads a graph, replacing the last one."""
        ...

    def rows(self, statement: str, **given: Any) -> list[list[Any]]:
        """Returns the result rows of a Cypher statement."""
        ...

    def close(self) -> None:
        """Removes the graph."""
        ...


class Graph:
    """Ranking by a graph of entities and the documents that mention them, in LadybugDB or Neo4j.

    Entities are names, numbers, dates, speakers and (`words`) other content words, found by rules.
    A document's score is the sum of the BM25 weights of its mentions of the question's entities.
    The best `seeds` documents propagate parts of their score: `hop` times the cosine of shared rare
    entities to other documents, and `neighbour` to the documents before and after them in their
    session. `backend`: embedded, neo4j (at NEO4J_URI, with NEO4J_USER, NEO4J_PASSWORD and
    NEO4J_DATABASE), or empty: neo4j if NEO4J_URI is set.
    """

    batch_size = 32

    def __init__(
        self,
        words: bool = True,
        hop: float = 0.1,
        neighbour: float = 0.1,
        seeds: int = 10,
        backend: str = "",
    ) -> None:
        require_numbers(hop=hop, neighbour=neighbour, seeds=seeds)
        if backend not in ("", "embedded", "neo4j"):
            raise ValueError(f"backend must be embedded or neo4j, not {backend!r}")
        import Stemmer

        self._stem = Stemmer.Stemmer("english").stemWord
        self._words, self._seeds = words, int(seeds)
        self._hop, self._neighbour = float(hop), float(neighbour)
        self._database = _database(backend or ("neo4j" if os.environ.get("NEO4J_URI") else ""))
        self.revision = self._database.about()

    def index(self, corpus: Corpus) -> None:
        """Extracts the entities, and loads the graph."""
        graph = columns(corpus, self._stem, self._words)
        self._database.load(graph)
        self._size, self._in_sessions = len(graph.norms), bool(len(graph.before))

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the k best documents per question; those with score 0 are not returned."""
        asked = [
            {"question": number, "name": name}
            for number, query in enumerate(queries)
            for name in sorted(set(entities(query.text, self._stem, self._words)))
        ]
        scores = np.zeros((len(queries), self._size))
        if asked and self._size:
            self._add(scores, 1.0, _MENTIONED, asked=asked)
            seeds = self._best_of(scores)
            # Entities in more than a tenth of the documents do not count as shared.
            if seeds and self._hop:
                self._add(scores, self._hop, _SHARED, seeds=seeds, rarity=float(np.log(10)))
            if seeds and self._neighbour and self._in_sessions:
                self._add(scores, self._neighbour, _NEIGHBOURS, seeds=seeds)
        # Databases sum in different orders, so scores are rounded to keep ties.
        scores = scores.round(9)
        tops = [top_k(row, k, above=0.0) for row in scores]
        return [Result(top, row[top]) for row, top in zip(scores, tops, strict=True)]

    def close(self) -> None:
        """Removes the graph."""
        self._database.close()

    def _best_of(self, scores: Scores) -> list[dict[str, object]]:
        """Returns the seeds of each question, as parameters of a statement."""
        return [
            {"question": number, "position": position, "score": float(row[position])}
            for number, row in enumerate(scores.round(9))
            for position in top_k(row, self._seeds, above=0.0).tolist()
        ]

    def _add(self, scores: Scores, part: float, statement: str, **given: Any) -> None:
        """Adds a statement's scores times `part` to `scores`, shape (questions, documents)."""
        database = self._database
        text = statement.format(turn=database.turn, entity=database.entity)
        rows = database.rows(text, **given)
        if rows:
            question, position, score = zip(*rows, strict=True)
            np.add.at(scores, (list(question), list(position)), part * np.array(score))


def _database(backend: str) -> Database:
    if backend == "neo4j":
        require_packages("retriever 'graph' on neo4j", "neo4j")
        return Bolt()
    require_packages("retriever 'graph'", "ladybug")
    return Embedded()
