"""An OpenAI-compatible endpoint: its address and key, and a meter of its use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from harness.errors import UsageError
from harness.io.masking import from_environment, refuse_address
from harness.retrievers.timing import Clock, current

OPENAI = "https://api.openai.com/v1"

_refused: ContextVar[tuple[Clock, float] | None] = ContextVar("refused", default=None)
"""The clock and the time of the last response with status 429, in a thread or an async task."""


@dataclass
class Meter:
    """Calls and tokens since the start, from the endpoint's `usage` fields."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    embedding_calls: int = 0
    embedded_tokens: int = 0
    without_usage: int = 0  # responses without `usage`
    models: dict[str, dict[str, int]] = field(default_factory=dict)
    _excluded: tuple[Clock | None, float] = (None, 0.0)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def report(self) -> dict[str, object]:
        """Returns the counts, in total and by model; includes `calls_without_usage` only if some
        responses had no `usage`, so that the token counts are too low."""
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
        """Response hook of an HTTP client: counts a response."""
        response.read()
        self._count(response)

    def sent(self, request: Any) -> None:
        """Request hook of an HTTP client: excludes rate-limit waits from the measured latency.

        The time since a response with status 429 is not the system's own.
        """
        refused = _refused.get()
        _refused.set(None)
        if refused is not None and refused[0] is current():
            clock, since, now = *refused, perf_counter()
            with self._lock:  # of tasks that wait at the same time, each second counts once
                before, until = self._excluded
                self._excluded = clock, now
            clock.exclude(now - (max(since, until) if before is clock else since))

    async def seen_async(self, response: Any) -> None:
        """Response hook of an asynchronous client."""
        await response.aread()
        self._count(response)

    def _count(self, response: Any) -> None:
        if response.status_code == 429:
            _refused.set((current(), perf_counter()))
        if not response.is_success:
            return  # retried or raised by the client
        try:
            used = response.json().get("usage")
        except (ValueError, AttributeError):
            used = None  # not a JSON object: the caller raises
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
    """Returns the model name in a request; empty if unknown."""
    try:
        return str(json.loads(request.content)["model"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


class Endpoint:
    """Address and key of a language model; `base_url` defaults to OPENAI_BASE_URL, else OpenAI's.

    The key is OPENAI_API_KEY of the environment; a local server may need none. Azure's addresses
    (`?api-version=...`, or a host of azure.com) get it in the header `api-key`. `timeout` is in
    seconds per request, `retries` the number of retries of a failed request, with back-off;
    `option` is the option that sets the address, for messages.
    Raises UsageError for an invalid address; `check_key` raises it for OpenAI without a key.
    """

    def __init__(
        self, base_url: str, timeout: float, retries: int, option: str = "--param base_url="
    ) -> None:
        self._option = option
        whole = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        self.base_url, _, query = whole.partition("?")
        self._query = dict(parse_qsl(query))
        self.timeout = timeout
        self.retries = retries
        self.meter = Meter()
        if base_url:  # a parameter, which results record
            shown = self.base_url if self._query.keys() == {"api-version"} else base_url
            refuse_address(option.removeprefix("--param ").rstrip("= "), shown)
        address = urlsplit(self.base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            name = option.removeprefix("--param ").rstrip("= ") if base_url else "OPENAI_BASE_URL"
            said = self.base_url.rpartition("@")[2]  # a password may precede the @
            raise UsageError(
                f"{name} {said!r} is no address; write http://localhost:11434/v1 or the like"
            )

    def check_key(self, what: str) -> None:
        """Raises UsageError if the address is OpenAI's and the key is missing."""
        if self.base_url == OPENAI and not os.environ.get("OPENAI_API_KEY"):
            raise UsageError(
                f"{what} asks {OPENAI} and OPENAI_API_KEY is not set; set it, or name another "
                f"server with {self._option}http://localhost:11434/v1"
            )

    def report(self) -> dict[str, object]:
        """Returns the address and the counts of its use."""
        return {"endpoint": self.address, **self.meter.report()}

    @property
    def address(self) -> str:
        """The address without user name and password, and without a query but its api-version."""
        address = urlsplit(self.base_url)
        version = self._query.get("api-version")
        query = f"?api-version={version}" if version else ""
        return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}{query}"

    @property
    def key(self) -> str:
        """The key; a placeholder for servers that need none, as the client requires a value."""
        return from_environment("OPENAI_API_KEY") or "none"

    def client(self) -> Any:
        """Creates an `openai.OpenAI` that counts its use."""
        from openai import DefaultHttpxClient, OpenAI

        http = DefaultHttpxClient(
            event_hooks={"request": [self._prepare], "response": [self.meter.seen]}
        )
        return OpenAI(http_client=http, **self._settings())

    def async_client(self) -> Any:
        """Creates an `openai.AsyncOpenAI` that counts its use."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        http = DefaultAsyncHttpxClient(
            event_hooks={"request": [self._prepare_async], "response": [self.meter.seen_async]}
        )
        return AsyncOpenAI(http_client=http, **self._settings())

    @property
    def _is_azure(self) -> bool:
        host = urlsplit(self.base_url).hostname or ""
        return "api-version" in self._query or host.endswith(".azure.com")

    def _prepare(self, request: Any) -> None:
        if self._is_azure:  # takes the key in another header, and a token here
            request.headers.pop("Authorization", None)
        self.meter.sent(request)

    async def _prepare_async(self, request: Any) -> None:
        self._prepare(request)

    def _settings(self) -> dict[str, object]:
        return {
            "default_headers": {"api-key": self.key} if self._is_azure else {},
            "default_query": self._query,
            "api_key": self.key,
            "base_url": self.base_url,
            "timeout": self.timeout,
            "max_retries": self.retries,
        }
