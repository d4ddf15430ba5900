"""What an endpoint replied, kept so that no call is paid twice.

One SQLite file in the cache, a row a call: the key is a digest of all that could change the reply,
the row holds the reply and no prompt. A row is on the disk before its reply is used.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from harness.errors import UsageError

FILE = "replies.sqlite"
_WAIT = 60.0  # seconds for another process that writes


@dataclass(frozen=True)
class Call:
    """One question to a model. `params` go beside the messages as they are; `repeat` is which of
    several repetitions of the same question it is, from 0."""

    model: str
    messages: tuple[Mapping[str, str], ...]
    params: Mapping[str, Any]
    repeat: int = 0

    def key(self, address: str) -> str:
        """sha256 over everything that could change the reply at this address."""
        import orjson

        seen = [address, self.model, self.messages, self.params, self.repeat]
        return hashlib.sha256(orjson.dumps(seen, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True)
class Reply:
    """What came. `finish` is why the model ended (`stop`, `length`, `content_filter`), `model` as
    the endpoint calls the one that answered; tokens are None where the endpoint does not say.
    `refused` says why the endpoint did not take the call, which is no reply."""

    text: str
    finish: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    refused: str = ""


class Replies:
    """The replies that are kept, for several threads and processes."""

    def __init__(self, home: Path) -> None:
        """`home`: the folder of the cache. Raises UsageError for a file that is damaged."""
        home.mkdir(parents=True, exist_ok=True)
        self.path = home / FILE
        self._lock = Lock()
        try:
            self._db = sqlite3.connect(
                self.path, timeout=_WAIT, isolation_level=None, check_same_thread=False
            )
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            self._db.execute(
                "create table if not exists replies"
                "(key text primary key, model text, at real, reply blob) without rowid"
            )
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def get(self, key: str) -> Reply | None:
        """The reply of an earlier call, None where there is none that is whole. Raises UsageError
        for a file that is damaged."""
        try:
            with self._lock:
                found = self._db.execute("select reply from replies where key = ?", (key,))
                row = found.fetchone()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None
        return None if row is None else _unpacked(key, row[0])

    def put(self, key: str, reply: Reply, model: str) -> None:
        """Keep a reply; it is on the disk when this returns."""
        row = (key, model, time.time(), _packed(key, reply))
        with self._lock:
            self._db.execute("insert or replace into replies values (?, ?, ?, ?)", row)

    def count(self) -> dict[str, int]:
        """How many replies of each model are kept."""
        with self._lock:
            found = self._db.execute("select model, count(*) from replies group by 1 order by 1")
            return dict(found.fetchall())

    def damaged(self) -> int:
        """How many replies are not as they were written; they are asked again."""
        try:
            with self._lock:
                rows = self._db.execute("select key, reply from replies").fetchall()
                (said,) = self._db.execute("pragma quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None
        if said != "ok":
            raise self._damaged(said)
        return sum(_unpacked(key, data) is None for key, data in rows)

    def clear(self, model: str = "") -> int:
        """Forget the replies of a model, or all; how many there were."""
        with self._lock:
            where, values = (" where model = ?", (model,)) if model else ("", ())
            gone = self._db.execute(f"delete from replies{where}", values).rowcount
            self._db.execute("vacuum")
        return gone

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _damaged(self, error: object) -> UsageError:
        return UsageError(
            f"{self.path}: cannot be read ({error}); remove it, and what it holds is asked again"
        )


def _packed(key: str, reply: Reply) -> bytes:
    """A reply, and below it the sha256 of it and its key."""
    import orjson

    said = orjson.dumps(asdict(reply))
    return said + b"\n" + _digest(key, said)


def _unpacked(key: str, data: object) -> Reply | None:
    """The reply; None where it is not as it was written. An older version wrote no sha256."""
    import orjson

    if not isinstance(data, bytes):
        return None
    said, end, digest = data.rpartition(b"\n")
    if end and digest != _digest(key, said):
        return None
    try:
        return Reply(**orjson.loads(said if end else data))
    except (orjson.JSONDecodeError, TypeError):
        return None


def _digest(key: str, said: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + said).hexdigest().encode()
