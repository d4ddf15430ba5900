"""Asks a model at an OpenAI-compatible endpoint, through the official client.

Every reply is kept before it is used (`replies`), so that what was answered once is never paid
again, be it by the next command or by the same one after it was killed. A call carries its own
digest as Idempotency-Key, by which an endpoint that knows it bills a repeated one once.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from harness.errors import RunError, UsageError
from harness.masking import all_without_known, excerpt, masked
from harness.retrievers.extras import need
from harness.retrievers.memories.endpoint import Endpoint
from harness.retrievers.retry import retry
from harness.runs.answering.purse import Purse, SpentError
from harness.runs.answering.replies import Call, Replies, Reply
from harness.runs.money import Prices

_AGAIN = frozenset({408, 409, 425, 500, 502, 503, 504, 529})
_NOT_TAKEN = frozenset({400, 413, 422})
"""Statuses of a call that the endpoint does not take: a filter, or too long a prompt."""


@dataclass(frozen=True)
class Way:
    """How an endpoint is asked.

    `concurrency` calls at once; `retries` of a call that failed, with growing pauses (a rate limit
    is waited for and is no failure); `timeout` seconds a call; at most `max_usd` US dollars, by
    `prices` (those of `purse.PRICES` where it has none).
    """

    model: str
    endpoint: str = ""
    concurrency: int = 4
    retries: int = 5
    timeout: float = 120.0
    max_usd: float | None = None
    prices: Prices | None = None


@dataclass(frozen=True)
class Asked:
    """A reply, and whether it was paid for now (`new`) or is of an earlier time."""

    reply: Reply
    new: bool


class Asker:
    """A model at an endpoint. The key is OPENAI_API_KEY of the environment, never written down."""

    def __init__(self, way: Way, home: Path, what: str = "harness answer") -> None:
        """`home`: where replies are kept. Raises UsageError for an address or a limit that is none,
        where the client is not installed, and where OpenAI's own endpoint has no key."""
        need(what, "openai")
        if way.concurrency < 1 or way.retries < 0 or not way.timeout > 0:
            raise UsageError(
                "--concurrency must be 1 or more, --retries 0 or more, --timeout above 0"
            )
        self._way = way
        self._endpoint = Endpoint(way.endpoint, way.timeout, 0, "--endpoint ")
        self._endpoint.check_key(f"{what} --model {way.model}")
        self._purse = Purse(way.model, way.prices or {}, way.max_usd)
        self._replies = Replies(home)
        self._client: Any = None
        self.model = way.model
        self.address = self._endpoint.address

    def all(
        self, calls: Sequence[Call], done: Callable[[int], None] = lambda n: None
    ) -> list[Asked]:
        """The reply to each call, each different one asked once; `done` is told how many came.

        Raises RunError where the endpoint does not work, UsageError where it refuses the key, the
        address or the model, SpentError where the limit is reached: what came until then is kept,
        and is not asked again.
        """
        keys = [call.key(self.address) for call in calls]
        different, times = dict(zip(keys, calls, strict=True)), Counter(keys)
        kept = {key: self._replies.get(key) for key in different}
        found = {key: Asked(reply, new=False) for key, reply in kept.items() if reply is not None}
        done(sum(times[key] for key in found))
        for key, reply in self._ask({k: c for k, c in different.items() if k not in found}):
            found[key] = Asked(reply, new=True)
            done(times[key])
        return [found[key] for key in keys]

    def plan(self, calls: Sequence[Call]) -> tuple[int, int, float]:
        """How many different calls there are, how many of them are to be paid, and the most US
        dollars that these can cost (0 without a price)."""
        different = {call.key(self.address): call for call in calls}
        missing = [call for key, call in different.items() if self._replies.get(key) is None]
        return len(different), len(missing), sum(map(self._purse.most_of, missing))

    @property
    def priced(self) -> bool:
        """Whether the model has a price."""
        return self._purse.spent is not None

    def used(self) -> dict[str, Any]:
        """Calls and tokens that the endpoint counted this time, and US dollars if known."""
        meter = self._endpoint.meter
        found: dict[str, Any] = {
            "calls": meter.calls,
            "prompt_tokens": meter.prompt_tokens,
            "completion_tokens": meter.completion_tokens,
        }
        if meter.without_usage:
            found["calls_without_usage"] = meter.without_usage
        if self._purse.spent is not None:
            found["usd"] = self._purse.spent
        return found

    def close(self) -> None:
        """Close the connections and the file."""
        if self._client is not None:
            self._client.close()
        self._replies.close()

    def _ask(self, missing: Mapping[str, Call]) -> Iterator[tuple[str, Reply]]:
        """Each call's reply as it comes. After the first error nothing new is asked, and what is in
        the air is waited for and kept."""
        if not missing:
            return
        rest = iter(missing.items())
        self._client = self._client or self._endpoint.client()
        with ThreadPoolExecutor(self._way.concurrency) as pool:
            flying: dict[Future[Reply], str] = {}
            error: BaseException | None = None
            while True:
                free = 0 if error is not None else self._way.concurrency - len(flying)
                for key, call in islice(rest, free):
                    flying[pool.submit(self._one, key, call)] = key
                if not flying:
                    break
                try:
                    came, _ = wait(flying, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt:
                    pool.shutdown(wait=False, cancel_futures=True)
                    print(
                        "note: what came is kept, and what is in the air is waited for; the same "
                        "command goes on",
                        file=sys.stderr,
                        flush=True,
                    )
                    raise
                for future in came:
                    key = flying.pop(future)
                    if (failed := future.exception()) is not None:
                        # What the limit stops is less to say than what does not work.
                        if error is None or isinstance(error, SpentError):
                            error = failed
                        continue
                    yield key, future.result()
        if error is not None:
            raise error

    def _one(self, key: str, call: Call) -> Reply:
        try:
            return retry(lambda: self._once(key, call), self._way.retries, _passing)
        except Exception as error:
            raise self._said(error) from None

    def _once(self, key: str, call: Call) -> Reply:
        """One attempt. What was sent and not refused may be billed, whatever came of it."""
        import openai

        aside, reply = self._purse.take(call), Reply("")
        cost: tuple[int | None, int | None] = (None, None)
        try:
            reply = self._sent(key, call)
            cost = reply.prompt_tokens, reply.completion_tokens
        except openai.APIStatusError:
            cost = 0, 0
            raise
        finally:
            self._purse.settle(aside, *cost)
        return reply

    def _sent(self, key: str, call: Call) -> Reply:
        import openai
        import orjson

        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=call.model,
                messages=[dict(message) for message in call.messages],
                extra_headers={"Idempotency-Key": key},
                **call.params,
            )
        except openai.APIStatusError as error:
            if error.status_code in _NOT_TAKEN and _filtered(error):
                return Reply("", "", "", 0, 0, _line(error))
            raise
        try:
            reply = _reply(orjson.loads(raw.content))
        except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
            said = excerpt(raw.content)
            raise _NoReplyError(f"the answer is no chat completion: {said}") from None
        self._replies.put(key, reply, call.model)
        return reply

    def _said(self, error: Exception) -> Exception:
        """What is told of a call that failed for good."""
        import openai

        if isinstance(error, RunError | UsageError):
            return error
        if isinstance(error, openai.APIStatusError):
            said = f"{self.address}: status {error.status_code}: {_line(error)}"
            if error.status_code in _AGAIN or error.status_code == 429:
                return RunError(said)
            return UsageError(f"{said}; check --endpoint, --model and the key in OPENAI_API_KEY")
        return RunError(f"{self.address}: no answer: {_line(error)}")


class _NoReplyError(Exception):
    """Something came that is no chat completion."""


def _passing(error: Exception) -> bool:
    """Whether a call that failed so may work the next time."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in _AGAIN
    return isinstance(error, openai.APIConnectionError | _NoReplyError)


def _filtered(error: Any) -> bool:
    """Whether a call was refused for what it says, or how long it is: others may be taken."""
    said = f"{getattr(error, 'code', '')} {_line(error)}".lower()
    words = ("content_filter", "content filter", "content management", "context_length", "context")
    return any(word in said for word in words) or error.status_code == 413


def _reply(content: Any) -> Reply:
    choice = content["choices"][0]
    given = choice["message"].get("content")
    usage = content.get("usage") or {}
    said = (
        given if isinstance(given, str) else "",
        choice.get("finish_reason") or "",
        content.get("model") or "",
    )
    text, finish, model = all_without_known(map(str, said))
    return Reply(
        text,
        finish,
        model,
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )


def _count(value: Any) -> int | None:
    """A count of tokens; None for what is none, or is beyond what a column of them holds."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**31 else None


def _line(error: Exception) -> str:
    """The message of an error, in one line, without what a key or an address may hold."""
    body = getattr(error, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    return masked(" ".join(str(said or error).split()))[:300]
