"""The graph in LadybugDB, which runs in this process; the living fork of Kuzu."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from harness.retrievers.graph.columns import Columns

_SCHEMA = (
    "create node table Turn(position int64 primary key, norm double)",
    "create node table Entity(name string primary key, rarity double)",
    "create rel table MENTIONS(from Turn to Entity, weight double)",
    "create rel table NEXT(from Turn to Turn)",
)


class Embedded:
    """A database in memory, made anew for each corpus."""

    turn, entity = "Turn", "Entity"

    def about(self) -> str:
        """Name and version."""
        return f"ladybug {version('ladybug')}"

    def load(self, graph: Columns) -> None:
        """Make a graph in place of the last one, from whole columns."""
        import ladybug

        self.close()
        self._database = ladybug.Database(":memory:")
        # One thread: sums, and so the last digits of scores, are the same in every run.
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
        """The rows of a statement's answer."""
        found: list[list[Any]] = self._connection.execute(statement, given).get_all()
        return found

    def close(self) -> None:
        """Drop the database."""
        if hasattr(self, "_connection"):
            self._connection.close()
            self._database.close()
            del self._connection, self._database

    def _copy(self, table: str, **columns: Any) -> None:
        if len(next(iter(columns.values()))):
            self._connection.execute(f"copy {table} from $rows", {"rows": pa.table(columns)})
