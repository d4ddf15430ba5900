"""The files in which vectors were kept before: read over once into blocks, then removed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from harness.errors import UsageError
from harness.retrievers.blocks import Keys, Vectors

_AT_ONCE = 8192


def about(path: Path) -> tuple[str, str, int, int]:
    """Model, revision, length of a vector and number of vectors; UsageError where it is damaged."""
    with _open(path) as db:
        name, revision, dimension = db.execute(
            "select name, revision, dimension from model"
        ).fetchone() or (path.stem.partition("@")[0], "", 0)
        return name, revision, dimension, db.execute("select count(*) from vectors").fetchone()[0]


def read(path: Path) -> Iterator[tuple[Keys, Vectors]]:
    """All that is kept, some thousand at a time; raises UsageError where the file is damaged."""
    with _open(path) as db:
        found = db.execute("select key, vector from vectors order by id")
        while rows := found.fetchmany(_AT_ONCE):
            keys = np.frombuffer(b"".join(key[:16] for key, _ in rows), "<u8").reshape(-1, 2)
            vectors = np.frombuffer(b"".join(vector for _, vector in rows), "<f4")
            yield keys, vectors.reshape(len(rows), -1)


def remove(path: Path) -> None:
    """Remove the file and its journal."""
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as db:
            yield db
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise UsageError(
            f"{path}: cannot be read ({error}); `harness cache clear` removes it, and its texts "
            "are embedded again"
        ) from None
