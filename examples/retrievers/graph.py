"""Ranking by the entities that questions and documents mention, in LadybugDB or Neo4j.

pip install ladybug (in this process), or neo4j (for a server at NEO4J_URI)
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
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.outputs import top_k
from harness.retrievers.registry import need

# Cypher that LadybugDB and Neo4j understand alike: no lists by index (one counts from 1), no
# subqueries, and no trust in a pattern's edges being different ones (Ladybug may take one twice).
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
    """Where the graph is. `turn` and `entity` are the labels of its nodes."""

    turn: str
    entity: str

    def about(self) -> str:
        """Name and version, for the record."""
        ...

    def load(self, graph: Columns) -> None:
        """Make a graph in place of the last one."""
        ...

    def rows(self, statement: str, **given: Any) -> list[list[Any]]:
        """The rows of a Cypher statement's answer."""
        ...

    def close(self) -> None:
        """Remove what was made."""
        ...


class Graph:
    """Ranking in a graph of entities and the documents that mention them, on LadybugDB or Neo4j.

    Entities are names, numbers, dates, speakers and (`words`) other content words, found by rules.
    A document scores by its mentions of the question's entities, each weighed as by BM25. The best
    `seeds` documents pass on a part of their score: `hop` of it times the cosine of the rare
    entities they share with another document, and `neighbour` of it to those before and after them
    in their session. `backend`: embedded, neo4j (at NEO4J_URI, with NEO4J_USER, NEO4J_PASSWORD and
    NEO4J_DATABASE), or empty: neo4j where NEO4J_URI is set.
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
        """Find the entities, and load the graph."""
        graph = columns(corpus, self._stem, self._words)
        self._database.load(graph)
        self._size, self._in_sessions = len(graph.norms), bool(len(graph.before))

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The k best documents of each question; those with no score are not returned."""
        asked = [
            {"question": number, "name": name}
            for number, query in enumerate(queries)
            for name in sorted(set(entities(query.text, self._stem, self._words)))
        ]
        scores = np.zeros((len(queries), self._size))
        if asked and self._size:
            self._add(scores, 1.0, _MENTIONED, asked=asked)
            seeds = self._best_of(scores)
            # An entity in more than a tenth of the documents makes none of them alike.
            if seeds and self._hop:
                self._add(scores, self._hop, _SHARED, seeds=seeds, rarity=float(np.log(10)))
            if seeds and self._neighbour and self._in_sessions:
                self._add(scores, self._neighbour, _NEIGHBOURS, seeds=seeds)
        # Databases add in different orders: without the last digits equal scores are equal.
        scores = scores.round(9)
        tops = [top_k(row, k, above=0.0) for row in scores]
        return [Result(top, row[top]) for row, top in zip(scores, tops, strict=True)]

    def close(self) -> None:
        """Remove the graph."""
        self._database.close()

    def _best_of(self, scores: Scores) -> list[dict[str, object]]:
        """The seeds of each question, as parameters of a statement."""
        return [
            {"question": number, "position": position, "score": float(row[position])}
            for number, row in enumerate(scores.round(9))
            for position in top_k(row, self._seeds, above=0.0).tolist()
        ]

    def _add(self, scores: Scores, part: float, statement: str, **given: Any) -> None:
        """Add a statement's scores, times `part`, to those of shape (questions, documents)."""
        database = self._database
        text = statement.format(turn=database.turn, entity=database.entity)
        rows = database.rows(text, **given)
        if rows:
            question, position, score = zip(*rows, strict=True)
            np.add.at(scores, (list(question), list(position)), part * np.array(score))


def _database(backend: str) -> Database:
    if backend == "neo4j":
        need("retriever 'graph' on neo4j", "neo4j")
        return Bolt()
    need("retriever 'graph'", "ladybug")
    return Embedded()
