"""Base class of the clients of hosted memories in this folder: requests, price and batches.

Needs only urllib3, which the harness brings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any
from urllib.parse import quote

import urllib3

from harness import Hit, with_retries
from harness.retrievers.contract import Corpus, Question
from harness.schema import Document, as_datetime


class StatusError(Exception):
    """Raised for a response with an error status; `with_retries` reads status and headers."""

    def __init__(self, request: str, response: urllib3.BaseHTTPResponse) -> None:
        super().__init__(f"{request}: status {response.status}: {response.data[:200]!r}")
        self.status, self.headers = response.status, response.headers


class HostedMemory:
    """A memory behind a REST API. `usd_per_call` is the price of a call that is not a poll.

    `batch`: send a turn or a session at a time. A fact of a turn names the turn as its source, a
    fact of a session names the session.
    """

    thread_safe = True

    def __init__(
        self, url: str, authorization: str, batch: str = "turn", usd_per_call: float = 0.0
    ) -> None:
        if batch not in ("turn", "session"):
            raise ValueError(f"batch must be turn or session, not {batch!r}")
        self._url, self._batch, self._price = url.rstrip("/"), batch, usd_per_call
        self._pool = urllib3.PoolManager(
            maxsize=16, retries=False, headers={"Authorization": authorization}, timeout=300.0
        )
        self._calls, self._lock = 0, Lock()
        self._pending: list[str] = []

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """Asks one question at a time; an empty one, which services reject, finds nothing."""
        return [self.recall(query, k) if query.text.strip() else [] for query in queries]

    def recall(self, query: Question, k: int) -> list[Hit]:
        """Returns at most k facts for one question."""
        raise NotImplementedError

    def is_done(self, pending: str) -> bool:
        """Asks whether the service has processed something that was sent."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Asks for one pending id after the other until one is not done."""
        while self._pending and self.is_done(self._pending[0]):
            self._pending.pop(0)
        return not self._pending

    def report(self) -> dict[str, float]:
        """Returns the number of paid calls, and their price if it is known."""
        usd = {"usd": self._calls * self._price} if self._price else {}
        return {"calls": self._calls, **usd}

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()

    def batches(self, corpus: Corpus) -> Iterator[tuple[list[Document], str]]:
        """Yields turns that are sent together, and the handle of their turn or session."""
        for session in corpus.sessions():  # in order of time
            if self._batch == "session":
                yield session, session[0].session or session[0].id
            else:
                yield from (([turn], turn.id) for turn in session)

    def call(
        self,
        method: str,
        *path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        once: bool = False,
        paid: bool = True,
    ) -> Any:
        """Returns the JSON value of a response; None for 404. Rate limits are waited out.

        `once`: not repeated after a failure, since the service may have stored and charged it.
        """
        url = "/".join([self._url, *(quote(part, safe="/") for part in path)])

        def send() -> Any:
            more = {"json": body} if body is not None else {"fields": query}
            charged = paid  # also if the answer is lost
            try:
                response = self._pool.request(method, url, **more)
                charged = paid and response.status != 429
            finally:
                with self._lock:
                    self._calls += charged
            if response.status == 404:
                return None
            if response.status >= 300:
                raise StatusError(f"{method} {url}", response)
            return response.json() if response.data else None

        return with_retries(retries=0 if once else 5)(send)()


def line(turn: Document) -> str:
    """Formats a turn with its speaker."""
    return f"{turn.speaker}: {turn.content}" if turn.speaker else turn.content


def iso_date(turn: Document) -> dict[str, str]:
    """Returns `{"created_at": DATE}` of a dated turn, in ISO 8601, as UTC."""
    if turn.timestamp is None:
        return {}
    return {"created_at": f"{as_datetime(turn.timestamp).isoformat()}Z"}
