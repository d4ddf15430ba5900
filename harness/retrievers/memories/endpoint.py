"""An OpenAI-compatible endpoint: its address and key, and what was used there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from harness.errors import UsageError
from harness.retrievers.stores.server import check_address

OPENAI = "https://api.openai.com/v1"


@dataclass
class Meter:
    """Calls and tokens since the start, as the endpoint itself counts them (`usage`)."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    embedding_calls: int = 0
    embedded_tokens: int = 0
    without_usage: int = 0  # answers that do not say what they cost
    _lock: Lock = field(default_factory=Lock, repr=False)

    def report(self) -> dict[str, int]:
        """The counts; `calls_without_usage` only where the tokens are known to be too few."""
        counts = {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "embedding_calls": self.embedding_calls,
            "embedded_tokens": self.embedded_tokens,
        }
        return (
            {**counts, "calls_without_usage": self.without_usage} if self.without_usage else counts
        )

    def seen(self, response: Any) -> None:
        """An event hook of an HTTP client, called with each response."""
        response.read()
        self._count(response)

    async def seen_async(self, response: Any) -> None:
        """The same for an asynchronous client."""
        await response.aread()
        self._count(response)

    def _count(self, response: Any) -> None:
        if not response.is_success:
            return  # retried by the client, or raised by it
        try:
            used = response.json().get("usage")
        except (ValueError, AttributeError):
            used = None  # not JSON, or no object: whoever asked raises
        used = used if isinstance(used, dict) else None
        self.add(used, embedding=response.request.url.path.endswith("/embeddings"))

    def add(self, used: dict[str, Any] | None, *, embedding: bool = False) -> None:
        """Count one answer by its `usage`, None where it does not say."""
        with self._lock:
            self.without_usage += used is None
            prompt = int((used or {}).get("prompt_tokens") or 0)
            if embedding:
                self.embedding_calls += 1
                self.embedded_tokens += prompt
            else:
                self.calls += 1
                self.prompt_tokens += prompt
                self.completion_tokens += int((used or {}).get("completion_tokens") or 0)


class Endpoint:
    """Where the language model is. `base_url` empty: OPENAI_BASE_URL, else OpenAI's own.

    The key is OPENAI_API_KEY of the environment; a server of one's own may need none. `timeout` is
    seconds a request, `retries` how often one that failed is sent again, with growing pauses.
    Raises UsageError for an address that is none, and where OpenAI's own has no key.
    """

    def __init__(self, base_url: str, timeout: float, retries: int) -> None:
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        self.timeout = timeout
        self.retries = retries
        self.meter = Meter()
        if base_url:  # a parameter, which results record
            check_address("base_url", base_url)
        if urlsplit(self.base_url).scheme not in ("http", "https"):
            raise UsageError(f"base_url {self.base_url!r} is no address; it begins with http://")

    def check_key(self, what: str) -> None:
        """Raises UsageError where `what` would ask OpenAI without a key."""
        if self.base_url == OPENAI and not os.environ.get("OPENAI_API_KEY"):
            raise UsageError(
                f"{what} asks {OPENAI} and OPENAI_API_KEY is not set; set it, or name another "
                "server with --param base_url=http://localhost:11434/v1"
            )

    def report(self) -> dict[str, Any]:
        """Where it is, without what an address may hold of a password, and what was used there."""
        address = urlsplit(self.base_url)
        shown = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
        return {"endpoint": shown, **self.meter.report()}

    @property
    def key(self) -> str:
        """The key, or a word in its place for servers that need none (the client wants one)."""
        return os.environ.get("OPENAI_API_KEY") or "none"

    def client(self) -> Any:
        """An `openai.OpenAI` whose use is counted."""
        from openai import DefaultHttpxClient, OpenAI

        http = DefaultHttpxClient(event_hooks={"response": [self.meter.seen]})
        return OpenAI(http_client=http, **self._settings())

    def async_client(self) -> Any:
        """An `openai.AsyncOpenAI` whose use is counted."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        http = DefaultAsyncHttpxClient(event_hooks={"response": [self.meter.seen_async]})
        return AsyncOpenAI(http_client=http, **self._settings())

    def _settings(self) -> dict[str, Any]:
        return {
            "api_key": self.key,
            "base_url": self.base_url,
            "timeout": self.timeout,
            "max_retries": self.retries,
        }
