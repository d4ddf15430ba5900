"""Client of retrievers that are HTTP services, with the messages of wire.py."""

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
from harness.retrievers.retry import retry
from harness.retrievers.wire import Counts, Message, Reply, Reset, Search, message_type

if TYPE_CHECKING:
    import urllib3

TOKEN = "HARNESS_HTTP_TOKEN"
"""The environment variable with the bearer token, which is never written to files."""

_TRY_AGAIN = (429, 502, 503, 504)
"""Statuses of a service that is temporarily unable to answer."""

_CONNECTIONS = 16
"""Connections kept open for several threads; further ones are closed after use."""

_PIECE = 1 << 16
"""Bytes of a reply that are read at once."""


@dataclass(eq=False, repr=False)
class Http(wire.WireRetriever):
    """A service in any language: POST url/reset, url/index and url/search.

    Documents are sent in time order, `documents` per message, one message at a time; questions are
    sent `questions` per message, at most `concurrency` messages at once. Lost connections and
    statuses 502, 503 and 504 are retried `retries` times, after 0.5, 1, 2, ... s. Rate limits (429,
    or any of these with Retry-After) are waited out; the wait is excluded from latencies. `timeout`
    is the limit in seconds of a search, `index_timeout` that of other messages, `ready_timeout`
    that from the last document until all can be found. Searches that time out are retried;
    documents are not, since the service may still be processing, and charging for, them. Unless the
    service declares that it holds several haystacks, the processes of a machine use it in turn.
    `revision` is the version of the service; indexes of other versions are not reused.
    """

    # The index depends on the service, which reports by `has_index` whether it has it.
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
        """Raises ValueError or UsageError for an invalid parameter."""
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
        """Starts a haystack; returns whether the service has the index of this key.

        Waits while another process uses a service that holds one haystack at a time.
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
        """Sends at most `concurrency` messages at once; returns results in the questions' order."""
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
        """Returns the sums of the usage in replies, and the seconds waited for other processes."""
        waited = (
            {"waited_seconds": self._service_lock.waited}
            if self._service_lock.waited >= 0.1
            else {}
        )
        return {**super().report(), **waited}

    def release(self) -> bool:
        """Releases a service that holds one haystack; returns whether it must be indexed again."""
        if self._several:
            return False
        held, self._indexed = self._indexed, False
        self._service_lock.release()
        return held

    def close(self) -> None:
        """Ends the current haystack and closes the connections."""
        self._leave()
        self._pool.clear()

    def _leave(self) -> None:
        """Ends the haystack that was indexed last."""
        import urllib3

        if self._indexed and self._several and not self._gone:
            # Errors are ignored: if the service is gone, the next message reports it.
            with suppress(urllib3.exceptions.HTTPError, ValueError):
                self._exchange(self._messages.close())
        self._indexed = False
        self._service_lock.release()

    def _exchange(self, message: Message) -> Reply:
        """Returns the reply to a message. Raises RunError if the service was never reached."""
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
            # Avoids all the retries for every further question of the haystack.
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
            self._pool.clear()  # its connections may deliver further replies
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
    """A complete response of a service."""

    status: int
    headers: Any
    data: bytes


def _decoded(response: _Response, place: str) -> object:
    """Returns the JSON value of a response. Raises ValueError for errors and invalid JSON."""
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
        raise ValueError(f"{place}: the reply is not JSON: {excerpt(response.data)}")
    return content


class _EndlessError(ValueError):
    """Raised for a reply that exceeds LONGEST_REPLY after decompression."""


def _whole(answer: urllib3.BaseHTTPResponse, place: str) -> bytes:
    """Reads a reply in chunks, since a few compressed bytes may decompress to gigabytes."""
    parts, size = [], 0
    for part in answer.stream(_PIECE):
        parts.append(part)
        size += len(part)
        if size > wire.LONGEST_REPLY:
            answer.close()  # closes the connection: the rest is not read
            raise _EndlessError(
                f"{place}: the reply goes on for more than {wire.LONGEST_REPLY / 1e6:.0f} MB, "
                "unpacked"
            )
    return b"".join(parts)


class _RefusedError(Exception):
    """Raised for a response that asks the client to retry later."""

    def __init__(self, reply: _Response) -> None:
        super().__init__(f"status {reply.status}")
        self.reply, self.headers = reply, reply.headers
        # Retry-After marks a rate limit, not a failure.
        self.status = 429 if "Retry-After" in reply.headers else reply.status


def _reason(error: Exception) -> str:
    """Returns the message of the innermost of urllib3's nested errors."""
    inner = getattr(error, "reason", None)
    return _reason(inner) if isinstance(inner, Exception) else str(error).rpartition(": ")[2]
