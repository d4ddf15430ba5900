"""The messages that a service or a command exchanges with the harness, as JSON.

Three requests, each answered by one reply: `reset` begins a haystack, `index` takes documents in
(in time order, in batches, the final one marked `last`), `search` answers questions. Where `reset`
is answered by `"has_index": true`, no documents are sent. `"ready": false` is followed by `ready`
until it is true, `"concurrent_haystacks": true` by `close` when a haystack is done with, and
`"changes": true` by `update` and `delete`, where the dataset has such.
Every request carries the client (`run`) and the `haystack`. The schema is `wire.schema.json` beside
this file; HTTP posts a message to the path of its type, a command reads and writes one message a
line. A message may come twice where the first reply was lost: indexing a document again replaces
it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from harness.retrievers.clock import current
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.retrievers.corpus import Changed
from harness.schema import Document, as_datetime

WIRE_VERSION = 1
_TYPE_OF = {"update": "update", "forget": "delete"}
SCHEMA = Path(__file__).with_name("wire.schema.json")
LONGEST_REPLY = 1 << 28
"""Bytes of one reply, unpacked; what goes on for longer is no answer, and would fill the memory."""


class Messages:
    """What one client sends, of the haystack that it began last.

    `run` is its own: two workers of a run are two clients. `haystack` is the same for the same
    documents shown in the same way, in every run. Each message has a number of its own.
    """

    def __init__(self) -> None:
        self._about = {"run": uuid.uuid4().hex, "haystack": ""}
        self._numbers = count(1)
        self._instance: Any = None

    def reset(self, corpus: Corpus, key: str) -> dict[str, Any]:
        """A new haystack begins; `key`: of what was taken in, by which it may be kept."""
        haystack = corpus.key.hex()
        self._about = {**self._about, "haystack": haystack}
        version, n = WIRE_VERSION, len(corpus)
        return self._message("reset", key=key, version=version, documents=n)

    def batches(self, corpus: Corpus, size: int, changes: bool = False) -> Iterator[dict[str, Any]]:
        """The documents, `size` a message; an empty corpus is one message without any.

        With `changes`, what became of documents in messages of its own, in time order.
        """
        if changes and corpus.changes:
            yield from self._in_time(corpus, size)
            return
        for start in range(0, max(len(corpus), 1), size):
            end = min(start + size, len(corpus))
            documents = [_document(corpus[i]) for i in range(start, end)]
            yield self._message("index", documents=documents, last=end == len(corpus))
            current().taken_in(len(documents))

    def _in_time(self, corpus: Corpus, size: int) -> Iterator[dict[str, Any]]:
        left = len(corpus)
        for event in corpus.events():
            if isinstance(event, Changed):
                named = {"document": event.document, "by": event.by}
                yield self._message(_TYPE_OF[event.kind], **_plain(named))
                continue
            for start in range(0, len(event), size):
                documents = [_document(one) for one in event[start : start + size]]
                left -= len(documents)
                yield self._message("index", documents=documents, last=left == 0)
                current().taken_in(len(documents))

    def search(self, queries: Sequence[Question], k: int) -> dict[str, Any]:
        """Questions, each with when it is asked where that is known."""
        asked = [_plain({"text": q.text, "timestamp": _date(q.timestamp)}) for q in queries]
        return self._message("search", queries=asked, k=k)

    def ready(self) -> dict[str, Any]:
        """Can what was indexed be found?"""
        return self._message("ready")

    def close(self) -> dict[str, Any]:
        """The haystack will not be asked about again."""
        return self._message("close")

    def checked(self, reply: Any, message: dict[str, Any]) -> dict[str, Any]:
        """The reply to a message.

        Raises ValueError for what is no object, and for an error that it reports; NotTheReplyError
        for the reply to another message, and of another than took the haystack in, where it says.
        """
        if not isinstance(reply, dict):
            raise ValueError(f"a reply must be a JSON object, not {_short(reply)}")
        said = reply.get("number", message["number"])
        if said != message["number"]:
            raise NotTheReplyError(
                f"this is the reply to message {said!r}, not to {message['number']}"
            )
        if "error" in reply:
            raise ValueError(f"the system reports: {reply['error']}")
        instance = reply.get("instance")
        if message["type"] == "reset":
            self._instance = instance
        elif instance != self._instance and None not in (instance, self._instance):
            raise NotTheReplyError(
                "the system was started anew since it took the haystack in, and may have lost it"
            )
        return reply

    def _message(self, type_: str, **content: Any) -> dict[str, Any]:
        return {"type": type_, "number": next(self._numbers), **self._about, **content}


def own_key(corpus: Corpus, *system: str) -> str:
    """The key of a haystack where nobody gives one: of the corpus, and of what the system is."""
    return hashlib.blake2b(
        "\0".join([corpus.key.hex(), *system]).encode(), digest_size=16
    ).hexdigest()


def is_ready(reply: dict[str, Any]) -> bool:
    """Whether what was indexed can be found, by a reply to `index` or `ready`."""
    return reply.get("ready", True) is not False


def results(reply: dict[str, Any], n: int) -> list[Result]:
    """The answers in a reply to n questions. Raises ValueError for a reply of another form."""
    found = reply.get("results")
    if not isinstance(found, list) or len(found) != n:
        raise ValueError(f"expected {n} results, not {_short(found)}")
    return [_result(one) for one in found]


class NotTheReplyError(ValueError):
    """What came is no answer to what was asked, and what comes next may be none either."""


class Usage:
    """What a system says that its replies have cost, summed: `calls`, `prompt_tokens`, ..."""

    def __init__(self) -> None:
        self.counts: dict[str, Any] = {}

    def add(self, reply: dict[str, Any]) -> None:
        """Add a reply's `usage`."""
        _add(reply.get("usage") or {}, self.counts)


def _add(usage: dict[str, Any], into: dict[str, Any]) -> None:
    """Numbers by name; those of each model stand in a table of its own below `models`."""
    for name, value in usage.items():
        if isinstance(value, int | float):
            into[name] = into.get(name, 0) + value
        elif isinstance(value, dict):
            _add(value, into.setdefault(name, {}))


def _result(one: Any) -> Result:
    if not isinstance(one, dict) or not isinstance(one.get("hits"), list):
        raise ValueError(f'a result is an object with "hits", not {_short(one)}')
    hits = one["hits"]
    if not all(isinstance(hit, dict) for hit in hits):
        raise ValueError(f"a hit is an object, not {_short(hits)}")
    confidence, abstain = one.get("confidence"), one.get("abstain")
    if not isinstance(abstain, bool | None):  # "no" would be true
        raise ValueError(f'"abstain" is true or false, not {_short(abstain)}')
    abstain = bool(abstain)
    answer = one.get("answer")
    if all("id" in hit and not hit.get("text") and not hit.get("sources") for hit in hits):
        ids, scores = [hit["id"] for hit in hits], [hit.get("score") for hit in hits]
        known = scores if hits and all(score is not None for score in scores) else None
        return Result(ids, known, confidence, abstain, answer=answer)
    own = [
        Hit(
            hit.get("text") or "",
            [*([hit["id"]] if "id" in hit else []), *(hit.get("sources") or [])],
            hit.get("score"),
        )
        for hit in hits
    ]
    return Result(confidence=confidence, abstain=abstain, hits=own, answer=answer)


def _document(document: Document) -> dict[str, Any]:
    return _plain(
        {
            "id": document.id,
            "text": document.text,
            "title": document.title or None,
            "timestamp": _date(document.timestamp),
            "session": document.session,
            "speaker": document.speaker,
            "position": document.position,
        }
    )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is not known."""
    return {name: value for name, value in values.items() if value is not None}


def _date(seconds: int | None) -> str | None:
    """ISO 8601, in the dataset's own wall clock: no time zone is known."""
    return None if seconds is None else as_datetime(seconds).isoformat()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
