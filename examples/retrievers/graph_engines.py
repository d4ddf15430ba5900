"""Where the graph of graph.py is: in LadybugDB in this process, or on a server that speaks Bolt."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from graph_entities import Columns

from harness.errors import UsageError
from harness.io.masking import from_environment, refuse_address
from harness.retrievers.locks import reach

_SCHEMA = (
    "create node table Turn(position int64 primary key, norm double)",
    "create node table Entity(name string primary key, rarity double)",
    "create rel table MENTIONS(from Turn to Entity, weight double)",
    "create rel table NEXT(from Turn to Turn)",
)
_BOLT = "retriever 'graph'"
_AT_ONCE = 5_000
"""Rows that a statement writes or deletes on a server."""


class Embedded:
    """LadybugDB, the maintained fork of Kuzu: a new in-memory database for each corpus."""

    turn, entity = "Turn", "Entity"

    def about(self) -> str:
        """Returns name and version."""
        return f"ladybug {version('ladybug')}"

    def load(self, graph: Columns) -> None:
        """Loads a graph from whole columns, replacing the last one."""
        import ladybug

        self.close()
        self._database = ladybug.Database(":memory:")
        # One thread, so that sums are equal to the last digit in every run.
        self._connection: Any = ladybug.Connection(self._database, num_threads=1)
        for statement in _SCHEMA:
            self._connection.execute(statement)
        positions = np.arange(len(graph.norms))
        mentioned = pa.array(graph.names, pa.string()).take(pa.array(graph.mentioned))
        self._copy("Turn", position=positions, norm=graph.norms)
        self._copy("Entity", name=pa.array(graph.names, pa.string()), rarity=graph.rarities)
        self._copy("MENTIONS", a=graph.turns, b=mentioned, weight=graph.weights)
        self._copy("NEXT", a=graph.before, b=graph.after)

    def rows(self, statement: str, **given: Any) -> list[list[Any]]:
        """Returns the result rows of a statement."""
        found: list[list[Any]] = self._connection.execute(statement, given).get_all()
        return found

    def close(self) -> None:
        """Drops the database."""
        if hasattr(self, "_connection"):
            self._connection.close()
            self._database.close()
            del self._connection, self._database

    def _copy(self, table: str, **columns: Any) -> None:
        if len(next(iter(columns.values()))):
            self._connection.execute(f"copy {table} from $rows", {"rows": pa.table(columns)})


class Bolt:
    """Neo4j, and other servers that Neo4j's driver supports.

    Nodes have unique labels in a database of the server; all other data is left unchanged.

    The address is NEO4J_URI; NEO4J_USER (default: neo4j), NEO4J_PASSWORD and NEO4J_DATABASE
    (default: the server's) are optional. Nodes and their indexes are removed when the next corpus
    is loaded, on `close()`, and at the latest when the process ends.
    """

    def __init__(self) -> None:
        """Raises UsageError for a missing or unsafe address, RunError if no server answers."""
        from neo4j import GraphDatabase

        if not (url := os.environ.get("NEO4J_URI")):
            raise UsageError(f"{_BOLT} on neo4j: set NEO4J_URI, like bolt://localhost:7687")
        refuse_address(_BOLT, url)
        password = from_environment("NEO4J_PASSWORD")
        user = os.environ.get("NEO4J_USER") or "neo4j"
        self._driver = GraphDatabase.driver(
            url, auth=(user, password) if password else None, telemetry_disabled=True
        )
        # The first finalizer is called last, after the nodes are removed.
        weakref.finalize(self, self._driver.close)
        self._database = os.environ.get("NEO4J_DATABASE") or None
        reach(_BOLT, url, self._driver.verify_connectivity)
        name = uuid4().hex
        self.turn, self.entity = f"HarnessTurn_{name}", f"HarnessEntity_{name}"
        self._indexes = {f"harness_turn_{name}": f"(n:{self.turn}) on (n.position)"}
        self._indexes[f"harness_entity_{name}"] = f"(n:{self.entity}) on (n.name)"
        self._remove: Callable[[], object] | None = None

    def about(self) -> str:
        """Returns the server's name and version."""
        return f"{self._driver.get_server_info().agent}, by Bolt"

    def load(self, graph: Columns) -> None:
        """Loads a graph, replacing the last one."""
        self.close()
        self._remove = weakref.finalize(
            self, _remove, self._driver, self._database, [self.turn, self.entity], self._indexes
        )
        for name, place in self._indexes.items():
            self._write(f"create index {name} for {place}")
        mentioned = [graph.names[i] for i in graph.mentioned.tolist()]
        self._put(
            f"create (:{self.turn} {{position: row[0], norm: row[1]}})",
            zip(range(len(graph.norms)), graph.norms.tolist(), strict=True),
        )
        self._put(
            f"create (:{self.entity} {{name: row[0], rarity: row[1]}})",
            zip(graph.names, graph.rarities.tolist(), strict=True),
        )
        self._put(
            f"match (t:{self.turn}) where t.position = row[0] "
            f"match (e:{self.entity}) where e.name = row[1] "
            "create (t)-[:MENTIONS {weight: row[2]}]->(e)",
            zip(graph.turns.tolist(), mentioned, graph.weights.tolist(), strict=True),
        )
        self._put(
            f"match (t:{self.turn}) where t.position = row[0] "
            f"match (u:{self.turn}) where u.position = row[1] create (t)-[:NEXT]->(u)",
            zip(graph.before.tolist(), graph.after.tolist(), strict=True),
        )

    def rows(self, statement: str, **given: Any) -> list[list[Any]]:
        """Returns the result rows of a statement."""
        records, _, _ = self._driver.execute_query(
            statement, given, database_=self._database, routing_="r"
        )
        return [record.values() for record in records]

    def close(self) -> None:
        """Removes the graph; another one may be loaded afterwards."""
        if self._remove is not None:
            self._remove()
            self._remove = None

    def _put(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        values = [list(row) for row in rows]
        for start in range(0, len(values), _AT_ONCE):
            self._write(f"unwind $rows as row {statement}", rows=values[start : start + _AT_ONCE])

    def _write(self, statement: str, **given: Any) -> None:
        self._driver.execute_query(statement, given, database_=self._database)


def _remove(driver: Any, database: str | None, labels: list[str], indexes: dict[str, str]) -> None:
    for label in labels:
        deleted = _AT_ONCE
        while deleted == _AT_ONCE:
            records, _, _ = driver.execute_query(
                f"match (n:{label}) with n limit {_AT_ONCE} detach delete n return count(*)",
                database_=database,
            )
            deleted = records[0][0]
    for name in indexes:
        driver.execute_query(f"drop index {name} if exists", database_=database)
