"""Cache of model replies, so that no call is paid for twice.

The cache is one SQLite file with a row per call. The key is a digest of everything that can
change the reply; a row contains no prompt. A row is written to disk before its reply is used.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import msgspec

from harness.errors import UsageError
from harness.io.records import Record, decode, encode

FILE = "replies.sqlite"
_WAIT = 60.0  # seconds to wait for another writing process

REASONING = "stripped/1"
"""Version of the rule of `without_reasoning`, for signatures."""
_TAG = re.compile(r"[<\[](/?)(?:think|thinking|thought|reasoning)[>\]]", re.IGNORECASE)


def has_reasoning(text: str) -> bool:
    """Tests whether a text contains a tag around a model's reasoning."""
    return _TAG.search(text) is not None


def without_reasoning(text: str) -> str:
    """Removes reasoning from a reply: the text between `<think>` and `</think>`, before a closing
    tag without an opening one (the prompt may contain it), and after an opening tag without a
    closing one. The tags may also be `thinking`, `thought`, `reasoning` or `[THINK]`."""
    first, *rest = _TAG.split(text)
    parts, inside = [first], False
    for closing, part in zip(rest[::2], rest[1::2], strict=True):
        if closing and not inside:
            parts = []
        if closing:
            parts.append(part)
        inside = not closing
    return "".join(parts)


class ModelMessage(Record):
    """A chat message."""

    role: str
    content: str


@dataclass(frozen=True)
class Call:
    """A model call. `params` are sent unchanged with the messages; `repeat` numbers the repetitions
    of one call, from 0."""

    model: str
    messages: tuple[ModelMessage, ...]
    params: Mapping[str, object]
    repeat: int = 0

    def key(self, address: str) -> str:
        """Returns the sha256 of everything that can change the reply at this address."""
        parts = [address, self.model, self.messages, self.params, self.repeat]
        return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


class ChatReply(Record):
    """A model's reply.

    `finish_reason` is `stop`, `length` or `content_filter`; `model` is the model name that the
    endpoint reports; token counts are None if the endpoint does not report them. `refused` is the
    reason why the endpoint rejected the call or the model refused to answer.
    """

    text: str
    finish_reason: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    refused: str = ""

    @property
    def error(self) -> str | None:
        """The reason why the text is missing (call refused, filtered or truncated, or empty reply);
        None if there is text."""
        if self.refused or self.text.strip():
            return self.refused or None
        return _CUT.get(self.finish_reason, "empty reply")

    @property
    def truncated(self) -> str | None:
        """The reason why the text is incomplete; None if it is complete."""
        return _CUT.get(self.finish_reason)


_CUT = {"length": "truncated at the token limit", "content_filter": "content filter"}


class Replies:
    """Cached replies. Safe for threads and processes."""

    def __init__(self, home: Path) -> None:
        """`home`: the cache folder. Raises UsageError for a damaged file."""
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

    def get(self, key: str) -> ChatReply | None:
        """Returns a cached reply; None if it is missing or damaged. Raises UsageError for a damaged
        file."""
        try:
            with self._lock:
                found = self._db.execute("select reply from replies where key = ?", (key,))
                row = found.fetchone()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None
        return None if row is None else _unpacked(key, row[0])

    def put(self, key: str, reply: ChatReply, model: str) -> None:
        """Stores a reply; it is on disk when this returns."""
        row = (key, model, time.time(), _packed(key, reply))
        with self._lock:
            self._db.execute("insert or replace into replies values (?, ?, ?, ?)", row)

    def count(self) -> dict[str, int]:
        """Counts the replies by model."""
        with self._lock:
            found = self._db.execute("select model, count(*) from replies group by 1 order by 1")
            return dict(found.fetchall())

    def damaged(self) -> int:
        """Counts the damaged replies; their calls are made again on use."""
        try:
            with self._lock:
                rows = self._db.execute("select key, reply from replies").fetchall()
                (status,) = self._db.execute("pragma quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None
        if status != "ok":
            raise self._damaged(status)
        return sum(_unpacked(key, data) is None for key, data in rows)

    def clear(self, model: str = "") -> int:
        """Deletes the replies of a model, or all replies; returns their number."""
        with self._lock:
            where, values = (" where model = ?", (model,)) if model else ("", ())
            deleted = self._db.execute(f"delete from replies{where}", values).rowcount
            self._db.execute("vacuum")
        return deleted

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def _damaged(self, error: object) -> UsageError:
        return UsageError(f"{self.path}: cannot be read ({error}); remove it to ask again")


def _packed(key: str, reply: ChatReply) -> bytes:
    """Encodes a reply, followed by the sha256 of its key and itself."""
    data = encode(reply)
    return data + b"\n" + _digest(key, data)


def _unpacked(key: str, stored: object) -> ChatReply | None:
    """Decodes a reply; None if its checksum does not match."""
    data, _, digest = stored.rpartition(b"\n") if isinstance(stored, bytes) else (b"", b"", b"")
    if digest != _digest(key, data):
        return None
    try:
        return decode(data, ChatReply, FILE)
    except UsageError:
        return None


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + data).hexdigest().encode()
