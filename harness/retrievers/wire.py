"""The wire protocol of services and commands: builds requests and checks replies.

`reset` starts a haystack, `index` sends documents (in time order, in batches, the final one marked
`last`), `search` asks questions. If the reply to `reset` has `"has_index": true`, no documents are
sent, unless an earlier run was interrupted while sending them. After `"ready": false`, `ready` is
sent until it is true; with `"concurrent_haystacks": true`, `close` ends a haystack; with
`"changes": true`, `update` and `delete` are sent, if the dataset has changes. Every request has the
`client` and the `haystack`; the records are below. HTTP posts a message to the path of its type; a
command reads and writes one message per line. A message may be repeated if the first reply was
lost: indexing a document again replaces it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from harness.errors import UsageError
from harness.io.records import Record, convert
from harness.retrievers.calls import wait_until_ready
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.retrievers.corpus import Changed
from harness.retrievers.timing import current, is_measured
from harness.schema import Document, as_datetime

WIRE_VERSION = 1

Counts = dict[str, int | float | dict[str, dict[str, int | float]]]
"""Counts by name; under `models`, the counts of each model."""


class WireDocument(Record):
    """A document."""

    id: Annotated[str, Meta(description="Opaque; in no other haystack of the run.")]
    text: str
    title: str = ""
    timestamp: Annotated[
        str | None, Meta(description="When it was said: ISO 8601 without a time zone.")
    ] = None
    session: Annotated[
        str | None, Meta(description="Opaque; the same for all documents of a session.")
    ] = None
    speaker: Annotated[str | None, Meta(description="Person or role that said it.")] = None
    position: Annotated[int | None, Meta(description="Position in its session, from 0.")] = None
    user_id: Annotated[
        str | None,
        Meta(description="Opaque: the user, team or session that may read it. None: everyone."),
    ] = None


class WireQuery(Record):
    """A question."""

    text: str
    timestamp: Annotated[
        str | None, Meta(description="When it is asked: ISO 8601 without a time zone.")
    ] = None
    user_id: Annotated[
        str | None,
        Meta(
            description="Who asks: may read documents of this user_id, of one of the groups, and "
            "without a user_id."
        ),
    ] = None
    groups: Annotated[
        tuple[str, ...], Meta(description="Further user_ids whose documents it may read.")
    ] = ()


class Message(Record, tag_field="type", tag=str.lower):
    """What every request has."""

    number: Annotated[
        int, Meta(description="Number of the message, from 1. Repeat it in the reply.")
    ]
    client: Annotated[
        str, Meta(description="Opaque: one worker of a run. It uses one haystack at a time.")
    ]
    haystack: Annotated[
        str, Meta(description="Opaque: the same for the same documents shown in the same way.")
    ]


class Reset(Message):
    """Begins a haystack. Drop the client's previous one, and this one if it is known."""

    key: Annotated[
        str,
        Meta(
            description="Identifies the index: the same in every run with the same documents, "
            "system, version and parameters."
        ),
    ]
    version: Annotated[int, Meta(description="Version of the protocol.")]
    document_count: Annotated[int, Meta(description="Number of documents that follow.")]


class Index(Message):
    """Documents to index, in time order where they are dated. May repeat if its reply was lost."""

    documents: list[WireDocument]
    last: Annotated[
        bool, Meta(description="True if no further documents follow before the next reset.")
    ]


class Update(Message):
    """A document is replaced by another that was sent. Only sent if the reply to reset has
    `changes`, between documents in time order."""

    document: Annotated[str, Meta(description="The id of the outdated document.")]
    replacement: Annotated[str, Meta(description="The id of the document that replaces it.")]


class Delete(Message):
    """A document is to be forgotten. Sent as `update` is."""

    document: Annotated[str, Meta(description="Its id.")]
    requested_in: Annotated[
        str | None, Meta(description="The id of the document with the request, if there is one.")
    ] = None


class Search(Message):
    """Questions to answer; the reply has `results`."""

    queries: list[WireQuery]
    k: Annotated[int, Meta(description="Maximum number of hits a question.")]


class Ready(Message):
    """Asks whether all documents can be found. Sent after `"ready": false` until it is true."""


class Close(Message):
    """The client has finished with this haystack. Only sent over HTTP, to a service with
    `concurrent_haystacks`; any reply is accepted."""


def message_type(message: Message) -> str:
    """Returns a message's type, which HTTP has in its path."""
    return type(message).__name__.lower()


Request = Reset | Index | Update | Delete | Search | Ready | Close


class WireHit(Record, forbid_unknown_fields=False):
    """A document by its id; or a text of the system's own, with the ids of its source documents."""

    id: str | None = None
    score: Annotated[float | None, Meta(description="Higher is better.")] = None
    text: str | None = None
    sources: list[str] | None = None


class WireResult(Record, forbid_unknown_fields=False):
    """The result of one question."""

    hits: Annotated[list[WireHit], Meta(description="Best first.")]
    ranked_by: Annotated[
        str, Meta(description="Which counts if they contradict each other: order or score.")
    ] = ""
    confidence: Annotated[
        float | None,
        Meta(description="How sure the system is that there is an answer; higher is surer."),
    ] = None
    abstain: Annotated[bool | None, Meta(description="True if there is no answer.")] = None
    answer: Annotated[str | None, Meta(description="The system's own answer.")] = None


class ReplyHeader(Record, forbid_unknown_fields=False):
    """Fields of any reply; they identify the answered message and the answering process."""

    number: Annotated[
        int | str | None, Meta(description="The number of the message that is answered.")
    ] = None
    instance: Annotated[
        int | str | None,
        Meta(
            description="Identifies the process that answers; another one after a restart. If a "
            "restart lost the index, the answers are errors."
        ),
    ] = None
    error: Annotated[
        str | None,
        Meta(
            description="Why the request failed. In search it is recorded for the questions, in "
            "reset or index for the haystack."
        ),
    ] = None
    usage: Annotated[
        Counts | None,
        Meta(
            description="Cost of this message: counts such as calls, prompt_tokens, "
            "completion_tokens, embedded_tokens, usd; those of each model below models."
        ),
    ] = None


class Reply(ReplyHeader, forbid_unknown_fields=False):
    """The reply to a request; every field is optional, `results` is required of search."""

    concurrent_haystacks: Annotated[
        bool,
        Meta(
            description="To reset: haystacks of several clients can be held at once, told apart by "
            "client and haystack. Otherwise clients of one machine wait for each other."
        ),
    ] = False
    changes: Annotated[
        bool, Meta(description="To reset: send update and delete, where the dataset has such.")
    ] = False
    has_index: Annotated[
        bool,
        Meta(
            description="To reset: the index of this key exists. No documents are sent, unless an "
            "earlier run was cut off while it sent them: then all are."
        ),
    ] = False
    ready: Annotated[
        bool,
        Meta(
            description="To index, ready, and reset with has_index: false if documents cannot be "
            "found yet."
        ),
    ] = True
    results: Annotated[
        list[WireResult] | None, Meta(description="To search: one a question, in their order.")
    ] = None


T = TypeVar("T")
M = TypeVar("M", bound=Message)
LONGEST_REPLY = 1 << 28
"""Maximum bytes of one reply, unpacked."""


class Messages:
    """Builds one client's requests about its current haystack, and checks the replies.

    `client` is unique: two workers of a run are two clients. `haystack` is the same for the same
    documents shown in the same way, in every run. Each message has a unique number.
    """

    def __init__(self) -> None:
        self._client, self._haystack = uuid.uuid4().hex, ""
        self._numbers = count(1)
        self._instance: int | str | None = None

    def reset(self, corpus: Corpus, key: str) -> Reset:
        """Starts a haystack; `key` identifies its index."""
        self._haystack = corpus.key.hex()
        return self._message(Reset, key=key, version=WIRE_VERSION, document_count=len(corpus))

    def batches(self, corpus: Corpus, size: int, changes: bool = False) -> Iterator[Message]:
        """Yields messages of `size` documents; one empty message for an empty corpus.

        With `changes`, yields updates and deletions between them, in time order.
        """
        if changes and corpus.changes:
            yield from self._in_time(corpus, size)
            return
        for start in range(0, max(len(corpus), 1), size):
            end = min(start + size, len(corpus))
            documents = [_document(corpus[i]) for i in range(start, end)]
            yield self._message(Index, documents=documents, last=end == len(corpus))
            current().taken_in(len(documents))

    def _in_time(self, corpus: Corpus, size: int) -> Iterator[Message]:
        left = len(corpus)
        for event in corpus.events():
            if isinstance(event, Changed):
                old, new = event.document, event.by
                if event.kind == "update":
                    yield self._message(Update, document=old, replacement=new)
                else:
                    yield self._message(Delete, document=old, requested_in=new)
                continue
            for start in range(0, len(event), size):
                documents = [_document(one) for one in event[start : start + size]]
                left -= len(documents)
                yield self._message(Index, documents=documents, last=left == 0)
                current().taken_in(len(documents))

    def search(self, queries: Sequence[Question], k: int) -> Search:
        """Asks questions, each with its time and user if known."""
        asked = [
            WireQuery(
                text=q.text, timestamp=iso_date(q.timestamp), user_id=q.user_id, groups=q.groups
            )
            for q in queries
        ]
        return self._message(Search, queries=asked, k=k)

    def ready(self) -> Ready:
        """Asks whether the indexed documents can be found."""
        return self._message(Ready)

    def close(self) -> Close:
        """Ends the haystack: no further questions follow."""
        return self._message(Close)

    def _message(self, kind: type[M], **content: Any) -> M:
        number = next(self._numbers)
        return kind(number=number, client=self._client, haystack=self._haystack, **content)

    def checked(self, content: object, message: Message) -> Reply:
        """Converts the JSON value of a reply to a message.

        Raises ValueError for a reply of another form, or with an error; NotTheReplyError for the
        reply to another message, or by another instance than the one that indexed the haystack.
        """
        header = _converted(content, ReplyHeader)
        if header.number not in (None, message.number):
            raise NotTheReplyError(
                f"this is the reply to message {header.number!r}, not to {message.number}"
            )
        if header.error is not None:
            raise ValueError(f"the system reports: {header.error}")
        if isinstance(message, Reset):
            self._instance = header.instance
        elif header.instance != self._instance and None not in (header.instance, self._instance):
            raise NotTheReplyError(
                "the system restarted after it ingested the haystack, and may have lost it"
            )
        return _converted(content, Reply)


def results(reply: Reply, n: int) -> list[Result]:
    """Returns the results in a reply to n questions. Raises ValueError for another number."""
    if reply.results is None or len(reply.results) != n:
        there = "none" if reply.results is None else len(reply.results)
        raise ValueError(f"expected {n} results, the reply has {there}")
    return [_result(one) for one in reply.results]


class WireRetriever:
    """Base class of retrievers that are services or commands.

    Subclasses implement `_exchange`, which sends a message and returns the `checked` reply, and
    `has_index`, which starts a haystack by `_reset`.
    """

    def __init__(self, documents: int, *system: str) -> None:
        """`documents` is the number per message; `system` identifies the service or command."""
        self._batch, self._system = documents, system
        self._messages = Messages()
        self._begun: Corpus | None = None
        self._is_ready = True
        self._changes = False
        self._usage = UsageTotals()

    def has_index(self, key: str, corpus: Corpus) -> bool:
        """Starts a haystack; returns whether the system has the index of this key."""
        raise NotImplementedError

    def index(self, corpus: Corpus) -> None:
        """Starts the haystack, if necessary, then sends the documents in order."""
        if self._begun is not corpus and is_measured():  # in a run, inside another retriever
            from harness.retrievers.index_cache import ingest_in_own_store

            ingest_in_own_store(self, corpus, self._own_key(corpus), require_cached=False)
            return
        if self._begun is not corpus and self.has_index(self._own_key(corpus), corpus):
            return
        self._begun = None
        for message in self._messages.batches(corpus, self._batch, self._changes):
            self._is_ready = self._exchange(message).ready

    def ready(self) -> bool:
        """Returns whether the documents can be found; asks if the last reply denied it."""
        if not self._is_ready:
            self._is_ready = self._exchange(self._messages.ready()).ready
        return self._is_ready

    def report(self) -> Counts:
        """Returns the sums of the usage in replies."""
        return self._usage.counts

    def _reset(self, corpus: Corpus, key: str) -> Reply:
        self._begun = None
        reply = self._exchange(self._messages.reset(corpus, key))
        self._changes = reply.changes
        self._begun, self._is_ready = corpus, reply.ready
        if reply.has_index:
            wait_until_ready(self)
        return reply

    def _exchange(self, message: Message) -> Reply:
        raise NotImplementedError

    def _checked(self, content: object, message: Message) -> Reply:
        self._usage.add(_converted(content, ReplyHeader))  # failed requests may cost too
        return self._messages.checked(content, message)

    def _own_key(self, corpus: Corpus) -> str:
        """Computes the key of a haystack's index from the corpus and the system."""
        whole = "\0".join([corpus.key.hex(), *self._system])
        return hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()


class NotTheReplyError(ValueError):
    """Raised for a reply to another message; later replies may be misplaced too."""


class UsageTotals:
    """Sums the `usage` of a system's replies: `calls`, `prompt_tokens`, ..."""

    def __init__(self) -> None:
        self.counts: Counts = {}

    def add(self, reply: ReplyHeader) -> None:
        """Adds a reply's `usage`."""
        for name, value in (reply.usage or {}).items():
            before = self.counts.get(name)
            if isinstance(value, dict):
                models = self.counts[name] = before if isinstance(before, dict) else {}
                for model, counts in value.items():
                    sums = models.setdefault(model, {})
                    for kind, number in counts.items():
                        sums[kind] = sums.get(kind, 0) + number
            else:
                self.counts[name] = value + (
                    0 if before is None or isinstance(before, dict) else before
                )


def _converted(content: object, kind: type[T]) -> T:
    try:
        return convert(content, kind, "the reply")
    except UsageError as error:
        raise ValueError(str(error)) from None


def _result(one: WireResult) -> Result:
    ids = [hit.id for hit in one.hits if hit.id is not None]
    scores = [hit.score for hit in one.hits if hit.score is not None]
    about = Result((), None, one.confidence, bool(one.abstain), None, one.answer, one.ranked_by)
    if len(ids) < len(one.hits) or any(hit.text or hit.sources for hit in one.hits):
        return replace(about, hits=[_hit(hit) for hit in one.hits])
    return replace(about, ids=ids, scores=scores if ids and len(scores) == len(ids) else None)


def _hit(hit: WireHit) -> Hit:
    sources = [*([hit.id] if hit.id is not None else []), *(hit.sources or [])]
    return Hit(hit.text or "", sources, hit.score)


def _document(document: Document) -> WireDocument:
    return WireDocument(
        id=document.id,
        text=document.text,
        title=document.title,
        timestamp=iso_date(document.timestamp),
        session=document.session,
        speaker=document.speaker,
        position=document.position,
        user_id=document.user_id,
    )


def iso_date(seconds: int | None) -> str | None:
    """Formats a timestamp as ISO 8601 in the dataset's own wall clock, without a time zone."""
    return None if seconds is None else as_datetime(seconds).isoformat()
