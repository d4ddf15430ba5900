"""Vectors on disk, so that a text is embedded once, ever: one SQLite file a model and revision.

A vector's key is the sha256 of its text and prompt. Haystacks, datasets, runs and processes share
the files: SQLite's own locks keep them whole, and whoever embeds holds the file's lock meanwhile.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.dataset.prepare import home
from harness.errors import RunError, UsageError, near

Vectors = npt.NDArray[np.float32]

_WAIT_SECONDS = 60
_KEYS_A_SELECT = 900  # SQLite's limit of variables was once 999
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_REFUSED = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
_TABLES = """
pragma page_size = 8192;  -- a page of 4096 would hold two vectors of 384 numbers, and waste a fifth
create table if not exists model(
    id integer primary key check (id = 1), name text, revision text, dimension integer);
create table if not exists vectors(
    id integer primary key, key blob not null unique, vector blob not null);
"""


@dataclass(frozen=True)
class Kept:
    """What is kept of one model; `dimension` and `vectors` are 0 where the file is damaged."""

    model: str
    revision: str
    dimension: int
    vectors: int
    bytes: int
    path: Path


class Store:
    """The vectors of one model at one revision."""

    def __init__(self, model: str, revision: str) -> None:
        name = re.sub(r"[^\w.-]+", "--", model).strip("-.")[-80:]
        self.path = folder() / f"{name}@{revision[:16]}.sqlite"
        self._model, self._revision = model, revision

    def dimension(self) -> int | None:
        """Length of a vector; None while there is none."""
        if not self.path.is_file():
            return None
        with _open(self.path) as db:
            row = db.execute("select dimension from model").fetchone()
        return int(row[0]) if row else None

    def create(self, dimension: int) -> None:
        """Make the file, unless another process has."""
        with _writable(self.path), _open(self.path) as db:
            values = (self._model, self._revision, dimension)
            db.execute("insert or ignore into model values(1, ?, ?, ?)", values)

    def fill(self, keys: Sequence[bytes], into: Vectors) -> npt.NDArray[np.bool_]:
        """Copy the vectors of `keys` into the rows of `into`; returns which were there."""
        found = np.zeros(len(keys), bool)
        with _open(self.path) as db:
            for start in range(0, len(keys), _KEYS_A_SELECT):
                rows = {key: start + i for i, key in enumerate(keys[start:][:_KEYS_A_SELECT])}
                marks = ",".join("?" * len(rows))
                select = f"select key, vector from vectors where key in ({marks})"
                for key, vector in db.execute(select, list(rows)):
                    into[rows[key]] = np.frombuffer(vector, "<f4")
                    found[rows[key]] = True
        return found

    def add(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Keep vectors, all or none; those that are there already stay."""
        rows = zip(keys, (vector.tobytes() for vector in vectors.astype("<f4")), strict=True)
        with _writable(self.path), _open(self.path) as db:
            db.execute("begin immediate")
            db.executemany("insert or ignore into vectors(key, vector) values(?, ?)", rows)
            db.execute("commit")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Embed alone, so that no two processes embed one text; the others wait."""
        from filelock import FileLock

        with _writable(self.path):
            lock = FileLock(self.path.with_suffix(".lock"))
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def bytes(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size if self.path.is_file() else 0


def key(text: str, prompt: str = "") -> bytes:
    """What a text's vector is kept under."""
    return hashlib.sha256(f"{prompt}\0{text}".encode("utf-8", "surrogatepass")).digest()


def folder() -> Path:
    """Where the files are."""
    return home() / "embeddings"


def kept() -> list[Kept]:
    """What is kept of every model, by name."""
    found = (_look(path) for path in sorted(folder().glob("*.sqlite")))
    return [one for one in found if one.vectors or not one.dimension]


def clear(model: str = "") -> list[Kept]:
    """Forget the vectors of `model`, or of every model; returns what was kept of them.

    Raises UsageError for a model of which nothing is kept.
    """
    known = kept()
    chosen = [one for one in known if model in ("", one.model)]
    if model and not chosen:
        known_names = [one.model for one in known] or ["none"]
        raise UsageError(f"no vectors of {model!r} are kept{near(model, known_names)}")
    for one in chosen:
        if not one.dimension:
            one.path.unlink()
            one.path.with_name(f"{one.path.name}-journal").unlink(missing_ok=True)
            continue
        # Emptied, not removed: another process may have the file open.
        with _writable(one.path), _open(one.path) as db:
            db.execute("delete from vectors")
            db.execute("vacuum")
    return chosen


def _look(path: Path) -> Kept:
    size = path.stat().st_size
    try:
        with _open(path) as db:
            select = "select name, revision, dimension from model"
            name, revision, dimension = db.execute(select).fetchone()
            vectors = db.execute("select count(*) from vectors").fetchone()[0]
        return Kept(name, revision, dimension, vectors, size, path)
    except (UsageError, TypeError):
        return Kept(path.stem.partition("@")[0], "damaged", 0, 0, size, path)


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for one piece of work. None is kept: they do not survive a fork or a thread."""
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)) as db:
            db.execute("pragma synchronous = normal")
            db.executescript(_TABLES)
            yield db
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the kind, without its variety
        if code in _HELD:
            raise RunError(f"{path}: another process held it for {_WAIT_SECONDS} s") from None
        if code in _DAMAGED:
            raise UsageError(
                f"{path}: damaged ({error}); `harness cache clear` removes it, and its texts are "
                "embedded again"
            ) from None
        if code in _REFUSED:
            raise UsageError(
                f"{path}: {error}: free space there, or set HARNESS_HOME to a folder that can be "
                "written"
            ) from None
        raise


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    from harness.files import disk_errors

    with disk_errors(path.parent, "set HARNESS_HOME to a folder that can be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
