"""Asks an OpenAI-compatible endpoint: POST {base}/chat/completions, and counts what it cost."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from harness.errors import RunError, UsageError
from harness.retrievers.extras import need
from harness.retrievers.memories.endpoint import Endpoint
from harness.retrievers.stores.server import check_address

Message = dict[str, str]


@dataclass(frozen=True)
class Reply:
    """What the endpoint said. `refused`: why it did not take this very request, else empty."""

    text: str
    usage: dict[str, Any] | None
    refused: str = ""


class Chat:
    """A model at an endpoint. The key is OPENAI_API_KEY of the environment, never written down.

    Lost connections, silence beyond `timeout` seconds, and statuses 408, 429, 500, 502, 503, 504
    are tried again `retries` times, after growing pauses or what Retry-After says. A request holds
    the model and the messages alone, as servers differ in which other parameters they refuse.
    Raises UsageError for an address that is none.
    """

    def __init__(
        self, url: str, model: str, concurrency: int = 4, retries: int = 5, timeout: float = 120.0
    ) -> None:
        need("harness label generate --endpoint", "urllib3")
        import urllib3

        check_address("--endpoint", url)
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UsageError(
                f"--endpoint {url!r} is no address; write http://localhost:11434/v1 or the like"
            )
        self.model = model
        self._endpoint = Endpoint(url, timeout, retries)
        self._url = f"{self._endpoint.base_url.rstrip('/')}/chat/completions"
        self._answered = False
        headers = {"Content-Type": "application/json"}
        if os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        again = urllib3.Retry(
            retries,
            status_forcelist=(408, 429, 500, 502, 503, 504),
            allowed_methods=None,
            backoff_factor=0.5,
            raise_on_status=False,
            redirect=False,
        )
        self._pool = urllib3.PoolManager(
            maxsize=concurrency, block=True, timeout=timeout, retries=again, headers=headers
        )

    def ask(self, messages: list[Message]) -> Reply:
        """The reply to these messages; safe to call from several threads.

        Raises RunError where the endpoint cannot be reached or does not work, UsageError where it
        refuses the key, the address or the model. A request that it refuses although others were
        answered is no error: that lies with the document.
        """
        import orjson
        import urllib3

        body = orjson.dumps({"model": self.model, "messages": messages})
        try:
            answer = self._pool.request("POST", self._url, body=body)
        except urllib3.exceptions.HTTPError as error:
            raise RunError(f"{self._url}: no answer: {_reason(error)}") from None
        try:
            content = orjson.loads(answer.data)
        except orjson.JSONDecodeError:
            content = None
        if answer.status >= 300:
            said = f"status {answer.status}: {_said(content, answer.data)}"
            if answer.status in (400, 413, 422) and self._answered:
                return Reply("", None, said)
            if answer.status >= 500 or answer.status in (408, 429):
                raise RunError(f"{self._url}: {said}")
            raise UsageError(
                f"{self._url}: {said}; check --endpoint, --model and the key in OPENAI_API_KEY"
            )
        try:
            text = content["choices"][0]["message"]["content"]
        except (TypeError, LookupError):
            raise RunError(
                f"{self._url}: the answer is no chat completion: {answer.data[:200]!r}"
            ) from None
        self._answered = True
        usage = content.get("usage")
        usage = usage if isinstance(usage, dict) else None
        self._endpoint.meter.add(usage)
        return Reply(text if isinstance(text, str) else "", usage)

    def report(self) -> dict[str, Any]:
        """The endpoint without its password, the model, calls and tokens of this time."""
        counts = self._endpoint.report()
        counts = {k: v for k, v in counts.items() if not k.startswith("embed")}
        return {"model": self.model, **counts}

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _said(content: Any, data: bytes) -> str:
    """The message in an error, by OpenAI's form or another."""
    error = content.get("error") if isinstance(content, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    text = str(said) if said else data[:200].decode("utf-8", "replace")
    return " ".join(text.split())[:300]


def _reason(error: Exception) -> str:
    """What lies at the bottom of urllib3's nested errors."""
    inner = getattr(error, "reason", None)
    return _reason(inner) if isinstance(inner, Exception) else str(error).rpartition(": ")[2]
