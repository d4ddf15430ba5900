"""An OpenAI-compatible endpoint: its address and key, and what was used there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock, local
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from harness.errors import UsageError
from harness.io.masking import from_environment, refuse_address
from harness.retrievers.timing import current

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
    models: dict[str, dict[str, int]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)
    _refused: local = field(default_factory=local, repr=False)

    def report(self) -> dict[str, object]:
        """The counts, and those of each model; `calls_without_usage` only where the tokens are
        known to be too few."""
        counts: dict[str, object] = {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "embedding_calls": self.embedding_calls,
            "embedded_tokens": self.embedded_tokens,
        }
        if self.models:
            counts["models"] = {model: {**used} for model, used in self.models.items()}
        if self.without_usage:
            counts["calls_without_usage"] = self.without_usage
        return counts

    def seen(self, response: Any) -> None:
        """An event hook of an HTTP client, called with each response."""
        response.read()
        self._count(response)

    def sent(self, request: Any) -> None:
        """An event hook of an HTTP client, called with each request.

        What passed since a refusal for its rate was not the system's time.
        """
        refused, self._refused.at = getattr(self._refused, "at", None), None
        if refused is not None:
            current().exclude(perf_counter() - refused)

    async def seen_async(self, response: Any) -> None:
        """The same for an asynchronous client."""
        await response.aread()
        self._count(response)

    def _count(self, response: Any) -> None:
        if response.status_code == 429:
            self._refused.at = perf_counter()
        if not response.is_success:
            return  # retried by the client, or raised by it
        try:
            used = response.json().get("usage")
        except (ValueError, AttributeError):
            used = None  # not JSON, or no object: whoever asked raises
        used = used if isinstance(used, dict) else None
        embedding = response.request.url.path.endswith("/embeddings")
        self.add(used, embedding=embedding, model=_model(response.request))

    def add(
        self, used: Mapping[str, object] | None, *, embedding: bool = False, model: str = ""
    ) -> None:
        """Counts one response by its `usage`; None if it reports none."""
        prompt, completion = (
            int(n) if isinstance(n := (used or {}).get(name), int | float) else 0
            for name in ("prompt_tokens", "completion_tokens")
        )
        with self._lock:
            self.without_usage += used is None
            if embedding:
                self.embedding_calls += 1
                self.embedded_tokens += prompt
            else:
                self.calls += 1
                self.prompt_tokens += prompt
                self.completion_tokens += completion
            if not model:
                return
            rises = {"prompt_tokens": prompt, "completion_tokens": completion}
            mine = self.models.setdefault(model, {})
            for name, n in ({"embedded_tokens": prompt} if embedding else rises).items():
                mine[name] = mine.get(name, 0) + n


def _model(request: Any) -> str:
    """Which model was asked, by the name that whoever asked has for it; empty if unknown."""
    try:
        return str(json.loads(request.content)["model"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


class Endpoint:
    """Where the language model is. `base_url` empty: OPENAI_BASE_URL, else OpenAI's own.

    The key is OPENAI_API_KEY of the environment; a server of one's own may need none. `timeout` is
    seconds a request, `retries` how often one that failed is sent again, with growing pauses;
    `option` is how a user names the address.
    Raises UsageError for an address that is none, and where OpenAI's own has no key.
    """

    def __init__(
        self, base_url: str, timeout: float, retries: int, option: str = "--param base_url="
    ) -> None:
        self._option = option
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        self.timeout = timeout
        self.retries = retries
        self.meter = Meter()
        if base_url:  # a parameter, which results record
            refuse_address(option.removeprefix("--param ").rstrip("= "), base_url)
        address = urlsplit(self.base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            name = option.removeprefix("--param ").rstrip("= ") if base_url else "OPENAI_BASE_URL"
            said = self.base_url.rpartition("@")[2]  # a password may stand before it
            raise UsageError(
                f"{name} {said!r} is no address; write http://localhost:11434/v1 or the like"
            )

    def check_key(self, what: str) -> None:
        """Raises UsageError where `what` would ask OpenAI without a key."""
        if self.base_url == OPENAI and not os.environ.get("OPENAI_API_KEY"):
            raise UsageError(
                f"{what} asks {OPENAI} and OPENAI_API_KEY is not set; set it, or name another "
                f"server with {self._option}http://localhost:11434/v1"
            )

    def report(self) -> dict[str, object]:
        """Where it is, and what was used there."""
        return {"endpoint": self.address, **self.meter.report()}

    @property
    def address(self) -> str:
        """The address, without a password that it may hold."""
        address = urlsplit(self.base_url)
        return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"

    @property
    def key(self) -> str:
        """The key, or a word in its place for servers that need none (the client wants one)."""
        return from_environment("OPENAI_API_KEY") or "none"

    def client(self) -> Any:
        """An `openai.OpenAI` whose use is counted."""
        from openai import DefaultHttpxClient, OpenAI

        http = DefaultHttpxClient(
            event_hooks={"request": [self.meter.sent], "response": [self.meter.seen]}
        )
        return OpenAI(http_client=http, **self._settings())

    def async_client(self) -> Any:
        """An `openai.AsyncOpenAI` whose use is counted."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        http = DefaultAsyncHttpxClient(event_hooks={"response": [self.meter.seen_async]})
        return AsyncOpenAI(http_client=http, **self._settings())

    def _settings(self) -> dict[str, object]:
        return {
            "api_key": self.key,
            "base_url": self.base_url,
            "timeout": self.timeout,
            "max_retries": self.retries,
        }
