"""The messages of the wire protocol (HTTP, and lines on stdin and stdout) as records.

Requests have the field `type`; each is answered by one `Reply`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from harness.io.records import Record

WIRE_VERSION = 1

Counts = dict[str, int | float | dict[str, dict[str, int | float]]]
"""Counts by name; below `models`, the counts of each model."""


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


class WireQuery(Record):
    """A question."""

    text: str
    timestamp: Annotated[
        str | None, Meta(description="When it is asked: ISO 8601 without a time zone.")
    ] = None


class Message(Record, tag_field="type", tag=str.lower):
    """What every request has."""

    number: Annotated[
        int, Meta(description="Number of the message, from 1. Repeat it in the reply.")
    ]
    client: Annotated[
        str,
        Meta(description="Opaque: one worker of a run. It uses one haystack at a time."),
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
    confidence: Annotated[
        float | None,
        Meta(description="How sure the system is that there is an answer; higher is surer."),
    ] = None
    abstain: Annotated[bool | None, Meta(description="True if there is no answer.")] = None
    answer: Annotated[str | None, Meta(description="The system's own answer.")] = None


class ReplyHeader(Record, forbid_unknown_fields=False):
    """What any reply may have; it says which message is answered, and by which process."""

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
        Meta(description="To reset: the index of this key exists; no documents are sent."),
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
    usage: Annotated[
        Counts | None,
        Meta(
            description="Cost of this message: counts such as calls, prompt_tokens, "
            "completion_tokens, embedded_tokens, usd; those of each model below models."
        ),
    ] = None
