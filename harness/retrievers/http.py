"""A retriever that is a service: messages of wire.py over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar
from urllib.parse import urlsplit

from harness.errors import RunError
from harness.retrievers import wire
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.extras import need

TOKEN = "HARNESS_HTTP_TOKEN"
"""The environment variable whose value is sent as bearer token; it is never written down."""


class Http:
    """A service in any language: POST url/reset, url/index and url/search, see wire.schema.json.

    Documents come in time order, `documents` a message, one message after the other; questions
    `questions` a message, at most `concurrency` messages at once. Lost connections and statuses
    429, 502, 503 and 504 are tried again `retries` times, after 0.5, 1, 2, ... s or what
    Retry-After says. `timeout` is seconds a message.
    """

    modules: ClassVar[tuple[str, ...]] = ("urllib3",)
    concurrent = True

    def __init__(
        self,
        url: str,
        timeout: float = 60.0,
        retries: int = 3,
        documents: int = 100,
        questions: int = 1,
        concurrency: int = 1,
    ) -> None:
        need("retriever 'http'", *self.modules)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must begin with http:// or https://, not {url!r}")
        if parts.username or parts.password or parts.query:
            raise ValueError(
                "url is written into results and must hold no user, password or ?query: give a "
                f"secret as {TOKEN}"
            )
        for name, number in (("documents", documents), ("questions", questions)):
            if number < 1:
                raise ValueError(f"{name} must be 1 or more, not {number}")
        if concurrency < 1 or retries < 0 or timeout <= 0:
            raise ValueError("concurrency must be 1 or more, retries 0 or more, timeout above 0")
        import urllib3

        self._url = url.rstrip("/")
        self._documents, self._questions, self._concurrency = documents, questions, concurrency
        self.batch_size = questions * concurrency
        self._usage = wire.Usage()
        self._reached = self._gone = False
        again = urllib3.Retry(
            retries,
            status_forcelist=(429, 502, 503, 504),
            allowed_methods=None,  # POST too: messages may come twice
            backoff_factor=0.5,
            raise_on_status=False,
            redirect=False,
        )
        headers = {"Content-Type": "application/json"}
        if os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {os.environ[TOKEN]}"
        self._pool = urllib3.PoolManager(
            maxsize=concurrency, block=True, timeout=timeout, retries=again, headers=headers
        )

    def index(self, corpus: Corpus) -> None:
        """Reset, then send the documents in their order."""
        self._gone = False
        self._post(wire.reset(corpus))
        for message in wire.batches(corpus, self._documents):
            self._post(message)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Ask, at most `concurrency` messages at once; answers in the order of the questions."""
        size = self._questions
        parts = [queries[start : start + size] for start in range(0, len(queries), size)]

        def ask(part: Sequence[Question]) -> list[Result]:
            return wire.results(self._post(wire.search(part, k)), len(part))

        if len(parts) == 1:
            return ask(parts[0])
        with ThreadPoolExecutor(self._concurrency) as threads:
            return [result for found in threads.map(ask, parts) for result in found]

    def report(self) -> dict[str, Any]:
        """What the service says that its replies have cost, summed."""
        return dict(self._usage.counts)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _post(self, message: dict[str, Any]) -> dict[str, Any]:
        """The reply to a message. Raises RunError where the service was never there."""
        import orjson
        import urllib3

        place = f"{self._url}/{message['type']}"
        if self._gone:
            raise ConnectionError(f"{place}: the service was gone before, see there")
        try:
            reply = self._pool.request("POST", place, body=orjson.dumps(message))
        except urllib3.exceptions.HTTPError as error:
            if not self._reached:
                raise RunError(
                    f"retriever 'http': nothing answers at {place}: {_reason(error)}; "
                    "start the service, or mend the url"
                ) from None
            # What is gone is not asked again, with all retries, for every question of a haystack.
            reason = getattr(error, "reason", None)
            self._gone = isinstance(reason, urllib3.exceptions.NewConnectionError)
            raise
        self._reached = True
        try:
            content = orjson.loads(reply.data) if reply.data else {}
        except orjson.JSONDecodeError:
            content = None
        if reply.status >= 300:
            said = content.get("error") if isinstance(content, dict) else None
            raise ValueError(f"{place}: status {reply.status}: {said or reply.data[:200]!r}")
        if content is None:
            raise ValueError(f"{place}: the reply is no JSON: {reply.data[:200]!r}")
        checked = wire.checked(content)
        self._usage.add(checked)
        return checked


def _reason(error: Exception) -> str:
    """What lies at the bottom of urllib3's nested errors."""
    inner = getattr(error, "reason", None)
    return _reason(inner) if isinstance(inner, Exception) else str(error).rpartition(": ")[2]
