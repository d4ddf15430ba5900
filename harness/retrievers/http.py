"""A retriever that is a service: messages of wire.py over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from harness.errors import RunError
from harness.io.masking import excerpt, from_environment
from harness.io.records import encode
from harness.retrievers import timing, wire
from harness.retrievers.calls import READY_TIMEOUT
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.locks import ServiceLock, check_url
from harness.retrievers.registry import need
from harness.retrievers.retry import retry
from harness.retrievers.wire import Counts, Message, Reply, Reset, Search, message_type

if TYPE_CHECKING:
    import urllib3

TOKEN = "HARNESS_HTTP_TOKEN"
"""The environment variable whose value is sent as bearer token; it is never written down."""

_TRY_AGAIN = (429, 502, 503, 504)
"""Statuses of a service that is there and does not answer now."""

_CONNECTIONS = 16
"""Kept open for calls of several threads; more are opened, and closed again."""

_PIECE = 1 << 16
"""Bytes that are read at once of a reply."""


@dataclass(eq=False, repr=False)
class Http(wire.WireRetriever):
    """A service in any language: POST url/reset, url/index and url/search.

    Documents come in time order, `documents` a message, one message after the other; questions
    `questions` a message, at most `concurrency` messages at once. Lost connections and statuses
    502, 503 and 504 are tried again `retries` times, after 0.5, 1, 2, ... s; a refusal for the rate
    (429, or any of these with Retry-After) is waited for, and charged to nobody. `timeout` is
    seconds a search, `index_timeout` those of any other message, `ready_timeout` those from the
    final document to the answer that all can be found. A search that took too long is tried again
    too, documents that took too long are not: the service may be at them still, and charge for
    them. A service that does not say that it holds several haystacks is used by one process of this
    machine after the other. `revision` names the version of the service: what it kept of another is
    not asked for.
    """

    modules: ClassVar[tuple[str, ...]] = ("urllib3",)
    # What it takes in depends on the service, which says by `has_index` whether it has it.
    search_params: ClassVar[tuple[str, ...]] = (
        *("url", "timeout", "index_timeout", "retries", "documents", "questions", "concurrency"),
        "ready_timeout",
    )
    thread_safe: ClassVar[bool] = True

    url: str
    timeout: float = 60.0
    retries: int = 3
    documents: int = 100
    questions: int = 1
    concurrency: int = 1
    ready_timeout: float = READY_TIMEOUT
    index_timeout: float = 600.0
    revision: str | None = ""

    def __post_init__(self) -> None:
        need("retriever 'http'", *self.modules)
        self._check()
        import urllib3

        super().__init__(self.documents, self.revision or "")
        self._url = self.url.rstrip("/")
        self.batch_size = self.questions * self.concurrency
        self.revision = self.revision or None
        self.address = self._url.replace("://localhost", "://127.0.0.1", 1)
        self._service_lock = ServiceLock(self.address)
        self._several = self._indexed = self._is_ready = False
        self._reached = self._gone = False
        headers = {"Content-Type": "application/json"}
        if token := from_environment(TOKEN):
            headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(
            maxsize=max(self.concurrency, _CONNECTIONS), retries=False, headers=headers
        )

    def _check(self) -> None:
        """Raises ValueError or UsageError for a parameter that cannot be."""
        check_url("retriever 'http'", self.url, TOKEN)
        for name, number in (("documents", self.documents), ("questions", self.questions)):
            if number < 1:
                raise ValueError(f"{name} must be 1 or more, not {number}")
        least = min(self.timeout, self.index_timeout, self.ready_timeout)
        if self.concurrency < 1 or self.retries < 0 or least <= 0:
            raise ValueError(
                "concurrency must be 1 or more, retries 0 or more, the time-outs above 0"
            )

    def has_index(self, key: str, corpus: Corpus) -> bool:
        """Reset; whether the service still has what it was sent under this key.

        Waits for a service that holds one haystack at a time, where another process uses it.
        """
        self._leave()
        self._gone, self._begun = False, None
        self._service_lock.acquire()
        self._indexed = True
        reply = self._reset(corpus, key)
        self._several = reply.concurrent_haystacks
        if self._several:
            self._service_lock.release()
        return reply.has_index

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Ask, at most `concurrency` messages at once; answers in the order of the questions."""
        if not self._several and not self._service_lock.owned:
            raise RuntimeError(
                f"{self._url} may have been given another haystack since, by another retriever or "
                "run: index again, or let the service hold several and answer /reset with "
                '{"concurrent_haystacks": true}'
            )
        size = self.questions
        parts = [queries[start : start + size] for start in range(0, len(queries), size)]

        def ask(part: Sequence[Question]) -> list[Result]:
            return wire.results(self._exchange(self._messages.search(part, k)), len(part))

        if len(parts) == 1:
            return ask(parts[0])
        measured = timing.current()

        def ask_beside_others(part: Sequence[Question]) -> list[Result]:
            with measured.in_parallel():
                return ask(part)

        try:
            with ThreadPoolExecutor(self.concurrency) as threads:
                return [one for found in threads.map(ask_beside_others, parts) for one in found]
        finally:
            measured.join()

    def report(self) -> Counts:
        """What the service says that its replies have cost, summed; seconds waited for others."""
        waited = (
            {"waited_seconds": self._service_lock.waited}
            if self._service_lock.waited >= 0.1
            else {}
        )
        return {**super().report(), **waited}

    def release(self) -> bool:
        """Let others use a service that holds one haystack; whether it is to be indexed again."""
        if self._several:
            return False
        held, self._indexed = self._indexed, False
        self._service_lock.release()
        return held

    def close(self) -> None:
        """Leave the service, and close the connections."""
        self._leave()
        self._pool.clear()

    def _leave(self) -> None:
        """Be done with the haystack that was indexed last."""
        import urllib3

        if self._indexed and self._several and not self._gone:
            # Whether it minds is its own affair; that it is gone will be seen at the next message.
            with suppress(urllib3.exceptions.HTTPError, ValueError):
                self._exchange(self._messages.close())
        self._indexed = False
        self._service_lock.release()

    def _exchange(self, message: Message) -> Reply:
        """Returns the reply to a message. Raises RunError where the service was never there."""
        import urllib3

        place = f"{self._url}/{message_type(message)}"
        if self._gone:
            raise ConnectionError(f"{place}: the service was gone before, see there")
        try:
            response, was_away = self._send(message, place)
        except urllib3.exceptions.HTTPError as error:
            if not self._reached:
                raise RunError(
                    f"retriever 'http': nothing answers at {place}: {_reason(error)}; "
                    "start the service, or correct the url"
                ) from None
            # What is gone is not asked again, with all retries, for every question of a haystack.
            gone = isinstance(error, urllib3.exceptions.NewConnectionError)
            self._gone = self._gone or (gone and not timing.current().given_up)
            raise
        self._reached = True
        if was_away and not isinstance(message, Reset):
            self._gone = True
            raise ConnectionError(
                f"{place}: the service was gone and came back since it took the haystack in, and "
                "may have lost it"
            )
        try:
            return self._checked(_decoded(response, place), message)
        except wire.NotTheReplyError:
            self._gone = True
            self._pool.clear()  # whatever else may come on its connections
            raise

    def _send(self, message: Message, place: str) -> tuple[_Response, bool]:
        """Returns the response, and whether no connection could be made at first."""
        import urllib3

        body, was_away = encode(message), False
        searching = isinstance(message, Search)
        limit = self.timeout if searching else self.index_timeout

        def attempt() -> _Response:
            nonlocal was_away
            try:
                answer = self._pool.request(
                    "POST", place, body=body, timeout=limit, preload_content=False
                )
            except urllib3.exceptions.NewConnectionError:
                was_away = True
                raise
            reply = _Response(answer.status, answer.headers, _whole(answer, place))
            if reply.status in _TRY_AGAIN:
                raise _RefusedError(reply)
            return reply

        def may_repeat(error: Exception) -> bool:
            if isinstance(error, _EndlessError):
                return False
            late = isinstance(error, urllib3.exceptions.ReadTimeoutError)
            return not late or searching

        try:
            return retry(attempt, self.retries, may_repeat), was_away
        except _RefusedError as error:
            return error.reply, was_away


class _Response(NamedTuple):
    """What a service answered, read to its end."""

    status: int
    headers: Any
    data: bytes


def _decoded(response: _Response, place: str) -> object:
    """Returns the JSON value of a response. Raises ValueError for an error and for no JSON."""
    import orjson

    try:
        content = orjson.loads(response.data) if response.data else {}
    except orjson.JSONDecodeError:
        content = None
    if response.status >= 300:
        said = content.get("error") if isinstance(content, dict) else None
        shown = excerpt(str(said or "") or response.data)
        raise ValueError(f"{place}: status {response.status}: {shown}")
    if content is None:
        raise ValueError(f"{place}: the reply is no JSON: {excerpt(response.data)}")
    return content


class _EndlessError(ValueError):
    """A reply that goes on beyond all measure, if only when it is unpacked."""


def _whole(answer: urllib3.BaseHTTPResponse, place: str) -> bytes:
    """All that a service answers, unpacked, in pieces: a few bytes may stand for gigabytes."""
    parts, size = [], 0
    for part in answer.stream(_PIECE):
        parts.append(part)
        size += len(part)
        if size > wire.LONGEST_REPLY:
            answer.close()  # with its connection: nobody reads the rest
            raise _EndlessError(
                f"{place}: the reply goes on for more than {wire.LONGEST_REPLY / 1e6:.0f} MB, "
                "unpacked"
            )
    return b"".join(parts)


class _RefusedError(Exception):
    """A reply by which the service asks to be asked again later."""

    def __init__(self, reply: _Response) -> None:
        super().__init__(f"status {reply.status}")
        self.reply, self.headers = reply, reply.headers
        # Who says when to come again is not failing.
        self.status = 429 if "Retry-After" in reply.headers else reply.status


def _reason(error: Exception) -> str:
    """What lies at the bottom of urllib3's nested errors."""
    inner = getattr(error, "reason", None)
    return _reason(inner) if isinstance(inner, Exception) else str(error).rpartition(": ")[2]
