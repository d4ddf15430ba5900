"""Who may read which documents of a dataset: the users of documents and queries.

A query's user may read documents of its own, of its groups, and of no user.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Reader = tuple[str | None, tuple[str, ...]]
"""The user and the groups of a query."""


class Scopes:
    """The users of a dataset's documents and queries.

    `names`: all users and groups. `owner`, (documents,): position in `names` of each document's
    user; -1: everyone may read it. `has_user`, (queries,): whether a query has a user.
    """

    def __init__(self, table: pa.Table, documents: int, queries: int) -> None:
        """`table` has the columns of manifest.SCOPES; the others are numbers of rows."""
        of_query = pc.equal(table["kind"], "query")
        owned, asked = table.filter(pc.invert(of_query)), table.filter(of_query)
        groups = asked["groups"].to_pylist()
        rows, users = asked["row"].to_pylist(), asked["user_id"].to_pylist()
        readers = zip(users, map(tuple, groups), strict=True)
        self._readers: dict[int, Reader] = dict(zip(rows, readers, strict=True))
        known = dict.fromkeys([*owned["user_id"].to_pylist(), *users, *chain(*groups)])
        self.names: list[str] = sorted(known)
        self._number = {name: i for i, name in enumerate(self.names)}
        self.owner: Int32 = np.full(documents, -1, np.int32)
        self.owner[owned["row"].to_numpy()] = self._numbers(owned["user_id"])
        self.has_user: Flags = np.zeros(queries, bool)
        self.has_user[rows] = True
        pairs = {
            (row, self._number[name])
            for row, user, of in zip(rows, users, groups, strict=True)
            for name in (user, *of)
        }
        self._reads = np.array(sorted(pairs), np.int64).reshape(-1, 2)

    def _numbers(self, names: pa.ChunkedArray) -> Int32:
        found = pc.index_in(names, value_set=pa.array(self.names, pa.string()))
        return np.asarray(found.to_numpy(), np.int32)

    def document_users(self) -> pa.Array:
        """Returns the user of each document, null if everyone may read it."""
        codes = pa.array(self.owner, mask=self.owner < 0)
        return pa.array(self.names, pa.string()).take(codes)

    def reader(self, query: int) -> Reader:
        """Returns the user and the groups of a query."""
        return self._readers.get(query, (None, ()))

    def number(self, name: str) -> int:
        """Returns the position of a user or group in `names`."""
        return self._number[name]

    def foreign(self, query: npt.NDArray[np.integer], row: npt.NDArray[np.integer]) -> Flags:
        """Tests for each pair of a query and a document row (-1: none) whether the query's user may
        not read the document."""
        owner = np.where(row >= 0, self.owner[row], -1).astype(np.int64)
        size = len(self.names)
        allowed = np.isin(query * size + owner, self._reads @ np.array([size, 1]))
        return np.asarray((owner >= 0) & self.has_user[query] & ~allowed)

    def foreign_counts(self, haystack: Int32, rows: dict[int, Int32]) -> Int64:
        """Returns the number of documents in the haystack of each query, (queries,), that its user
        may not read; `rows` are those of each haystack."""
        found = np.zeros(len(haystack), np.int64)
        for number, mine in rows.items():
            here = (haystack == number) & self.has_user
            counts = np.bincount(self.owner[mine] + 1, minlength=len(self.names) + 1)[1:]
            found[here] = counts.sum()
            pairs = self._reads[here[self._reads[:, 0]]]
            np.subtract.at(found, pairs[:, 0], counts[pairs[:, 1]])
        return found
