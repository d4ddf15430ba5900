"""Client of a model at an OpenAI-compatible endpoint, based on the `openai` package.

Every reply is cached before it is used (`replies`), so a repeated or restarted command pays for
no call twice. Each call sends its digest as Idempotency-Key; an endpoint that supports this header
bills a repeated call once.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from harness.errors import RunError, UsageError
from harness.extensions.answers.answering.call_costs import (
    CallBudget,
    calls_usd,
    with_model_prices,
)
from harness.extensions.answers.answering.replies import Call, ChatReply, Replies
from harness.extensions.answers.endpoint import Endpoint
from harness.io.masking import excerpt, redact, redact_texts
from harness.io.packages import require_packages
from harness.io.records import decode, to_plain
from harness.records.answers import (
    CallUsage,
    ChatCompletion,
    ClientUsage,
    ResponseMessage,
    TokenUsage,
)
from harness.retrievers.retry import retry
from harness.runs.usage import BudgetExceededError, Prices

_log = logging.getLogger(__name__)

_RETRIED = frozenset({408, 409, 425, 500, 502, 503, 504, 529})
_MAYBE_PROCESSED = frozenset({500, 502, 504})
"""Status codes of failures after which a call may have been processed, and billed."""
_REJECTED = frozenset({400, 413, 422})
"""Status codes of rejected calls: content filter, or prompt too long."""

_REASONS = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d))(?!.*chat)")
"""Names of OpenAI's models that take `max_completion_tokens` and no temperature."""
_REASONING_TOKENS = 8_000
"""Tokens added to the limit of a reply where it also counts the model's hidden reasoning."""

_MESSAGE_OVERHEAD = 16
"""Upper bound of the tokens that a message adds to its content: role and separators."""


@dataclass(frozen=True)
class RequestOptions:
    """Settings of calls to a model.

    `concurrency` is the number of parallel calls; `retries` the number of retries of a failed call,
    with back-off (waiting for a rate limit does not count); `timeout` is in seconds per call;
    `max_usd` limits the cost in US dollars, by `prices` (and `MODEL_PRICES` of call_costs.py).
    """

    model: str
    endpoint: str = ""
    concurrency: int = 4
    retries: int = 5
    timeout: float = 120.0
    max_usd: float | None = None
    prices: Prices | None = None


@dataclass(frozen=True)
class ModelResponse:
    """A reply. `new`: the call was made now, not read from the cache. `sent`: how often the call
    was sent; more than once if replies were lost."""

    reply: ChatReply
    new: bool
    sent: int = 1


@dataclass(frozen=True)
class CallEstimate:
    """Number of distinct calls and of those not cached, and an upper bound of the latter's cost in
    US dollars; None for a model without a price."""

    calls: int
    new_calls: int
    max_usd: float | None


class ModelClient:
    """A model at an endpoint. The key is read from OPENAI_API_KEY and never stored."""

    def __init__(
        self, options: RequestOptions, home: Path, command: str = "harness answer"
    ) -> None:
        """`home` is the folder of the cache. Raises UsageError for an invalid address or limit, for
        a limit without a price, if the client package is missing, or if OpenAI's own endpoint has
        no key."""
        require_packages(command, "openai")
        if options.concurrency < 1 or options.retries < 0 or not options.timeout > 0:
            raise UsageError(
                "--concurrency must be 1 or more, --retries 0 or more, --timeout above 0"
            )
        self._options = options
        self._endpoint = Endpoint(options.endpoint, options.timeout, 0, "--endpoint ")
        self._endpoint.check_key(f"{command} --model {options.model}")
        self.model = options.model
        self._prices = with_model_prices(options.prices or {})
        # Parameters that the model refuses, by its name or as its endpoint said.
        self._refused = {"max_tokens", "temperature"} if _REASONS.match(options.model) else set()
        self._has_price = self._cost(0, 0) is not None
        if options.max_usd is not None and not self._has_price:
            raise UsageError(
                f"--max-usd: {options.model} has no price of prompt_tokens and completion_tokens; "
                "say it with --prices"
            )
        self._budget = CallBudget(options.max_usd)
        self._sent: Counter[str] = Counter()  # by call key: how often it may have been billed
        self._replies = Replies(home)
        self._client: Any = None
        self.address: str = self._endpoint.address

    def complete(
        self, calls: Sequence[Call], on_replies: Callable[[int], None] = lambda n: None
    ) -> list[ModelResponse]:
        """Returns the reply to each call; equal calls are made once.

        `on_replies` is called with the number of replies that arrived. Raises RunError if the
        endpoint fails, UsageError if it rejects the key, the address or the model, and
        BudgetExceededError at the limit; replies received before the error stay cached.
        """
        keys = [call.key(self.address) for call in calls]
        different, times = dict(zip(keys, calls, strict=True)), Counter(keys)
        responses = {
            key: ModelResponse(reply, new=False)
            for key in different
            if (reply := self._replies.get(key)) is not None
        }
        on_replies(sum(times[key] for key in responses))
        missing = {key: call for key, call in different.items() if key not in responses}
        for key, reply in self._request(missing):
            responses[key] = ModelResponse(reply, new=True, sent=self._sent[key])
            on_replies(times[key])
        return [responses[key] for key in keys]

    def estimate(self, calls: Sequence[Call]) -> CallEstimate:
        """Estimates the number and the cost of calls without making them."""
        different = {call.key(self.address): call for call in calls}
        missing = [call for key, call in different.items() if self._replies.get(key) is None]
        usd = sum(map(self._max_cost, missing)) if self._has_price else None
        return CallEstimate(len(different), len(missing), usd)

    def usage(self) -> ClientUsage:
        """Returns calls and tokens of this process, and their cost for a model with a price."""
        meter = self._endpoint.meter
        return ClientUsage(
            calls=meter.calls,
            prompt_tokens=meter.prompt_tokens,
            completion_tokens=meter.completion_tokens,
            calls_without_usage=meter.without_usage,
            usd=self._budget.spent if self._has_price and not meter.without_usage else None,
        )

    def usage_of(self, responses: Sequence[ModelResponse]) -> CallUsage:
        """Sums the usage of responses, cached ones included, as billed: a call shared by several
        responses counts once, and each call as often as it was sent."""
        made = {id(one): one for one in responses}.values()
        replies = [one.reply for one in made for _ in range(one.sent)]
        prompt = sum(reply.prompt_tokens or 0 for reply in replies)
        completion = sum(reply.completion_tokens or 0 for reply in replies)
        silent = sum(None in (one.prompt_tokens, one.completion_tokens) for one in replies)
        return CallUsage(
            calls=len(replies),
            new_calls=sum(one.sent for one in made if one.new),
            prompt_tokens=prompt,
            completion_tokens=completion,
            calls_without_usage=silent,
            usd=None if silent else self._cost(prompt, completion, len(replies)),
        )

    def close(self) -> None:
        """Closes the connections and the cache."""
        if self._client is not None:
            self._client.close()
        self._replies.close()

    def _request(self, missing: Mapping[str, Call]) -> Iterator[tuple[str, ChatReply]]:
        """Yields each reply as it arrives. After the first error no new call is made; calls in
        flight are finished and cached."""
        if not missing:
            return
        rest = iter(missing.items())
        self._client = self._client or self._endpoint.client()
        with ThreadPoolExecutor(self._options.concurrency) as pool:
            in_flight: dict[Future[ChatReply], str] = {}
            error: BaseException | None = None
            while True:
                free = 0 if error is not None else self._options.concurrency - len(in_flight)
                for key, call in islice(rest, free):
                    in_flight[pool.submit(self._with_retries, key, call)] = key
                if not in_flight:
                    break
                try:
                    done, _ = wait(in_flight, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt:
                    pool.shutdown(wait=False, cancel_futures=True)
                    _log.warning(
                        "note: replies are cached, calls in flight are finished; run the same "
                        "command to resume"
                    )
                    raise
                for future in done:
                    key = in_flight.pop(future)
                    if (failed := future.exception()) is not None:
                        # An error of the endpoint is more informative than the exceeded budget.
                        if error is None or isinstance(error, BudgetExceededError):
                            error = failed
                        continue
                    yield key, future.result()
        if error is not None:
            raise error

    def _with_retries(self, key: str, call: Call) -> ChatReply:
        while True:
            sent = self._params(call)
            try:
                return retry(
                    lambda: self._within_budget(key, call), self._options.retries, _is_transient
                )
            except Exception as error:
                if not (self._adapts(error, sent) and self._params(call) != sent):
                    raise self._explained(error) from None

    def _params(self, call: Call) -> dict[str, object]:
        """Returns the parameters of a call as its model takes them.

        A model that refuses `max_tokens` gets `max_completion_tokens`, with room for the reasoning
        that it counts; one that refuses a temperature of 0 gets none.
        """
        params = dict(call.params)
        limit = params.get("max_tokens")
        if "max_tokens" in self._refused and isinstance(limit, int):
            del params["max_tokens"]
            params.setdefault("max_completion_tokens", limit + _REASONING_TOKENS)
        if "temperature" in self._refused and params.get("temperature") == 0:
            del params["temperature"]
        return params

    def _adapts(self, error: Exception, sent: Mapping[str, object]) -> bool:
        """Tests whether an error names a parameter that calls are then made without."""
        code, name = getattr(error, "code", None), getattr(error, "param", None)
        if code not in ("unsupported_parameter", "unsupported_value") or name not in sent:
            return False
        if name != "max_tokens" and not (name == "temperature" and sent[name] == 0):
            return False
        if name not in self._refused:
            self._refused.add(name)
            _log.warning(f"note: {self.model} refuses {name}: it is left out or replaced")
        return True

    def _within_budget(self, key: str, call: Call) -> ChatReply:
        """Makes one attempt. A call that was sent and not rejected may be billed even if its reply
        is lost; without token counts it costs its reservation."""
        import openai

        cost = reserved = self._max_cost(call)
        self._budget.reserve(reserved)
        self._sent[key] += 1
        try:
            reply = self._send(key, call)
            prompt, completion = reply.prompt_tokens, reply.completion_tokens
            if prompt is not None and completion is not None:
                cost = self._cost(prompt, completion) or 0.0
        except openai.APIStatusError as error:
            if error.status_code not in _MAYBE_PROCESSED:
                cost = 0.0
                self._sent[key] -= 1
            raise
        finally:
            self._budget.settle(reserved, cost)
        return reply

    def _cost(self, prompt: int, completion: int, calls: int = 1) -> float | None:
        """Returns the cost of tokens in US dollars; None without a price."""
        return calls_usd(self.model, calls, prompt, completion, self._prices)

    def _max_cost(self, call: Call) -> float:
        """Returns an upper bound of a call's cost in US dollars; 0 without a price.

        Counts one token per byte of the messages (byte-pair tokens are never shorter), and
        the limit of the reply.
        """
        prompt = sum(len(one.content.encode()) + _MESSAGE_OVERHEAD for one in call.messages)
        params = self._params(call)
        limits = (params.get(name) for name in ("max_tokens", "max_completion_tokens"))
        reply = next((limit for limit in limits if isinstance(limit, int | float) and limit), 0)
        return self._cost(prompt, int(reply)) or 0.0

    def _send(self, key: str, call: Call) -> ChatReply:
        import openai

        try:
            response = self._client.chat.completions.with_raw_response.create(
                model=call.model,
                messages=to_plain(call.messages),
                extra_headers={"Idempotency-Key": key},
                **self._params(call),
            )
        except openai.APIStatusError as error:
            if error.status_code in _REJECTED and _is_filtered(error):
                return ChatReply(
                    text="", prompt_tokens=0, completion_tokens=0, refused=_one_line(error)
                )
            raise
        reply = _reply(response.content, [one.content for one in call.messages])
        self._replies.put(key, reply, call.model)
        return reply

    def _explained(self, error: Exception) -> Exception:
        """Converts the error of a call that failed permanently into one for the user."""
        import openai

        if isinstance(error, RunError | UsageError):
            return error
        if isinstance(error, openai.APIStatusError):
            message = f"{self.address}: status {error.status_code}: {_one_line(error)}"
            if error.status_code in _RETRIED or error.status_code == 429:
                return RunError(message)
            return UsageError(f"{message}; check --endpoint, --model and the key in OPENAI_API_KEY")
        return RunError(f"{self.address}: no answer: {_one_line(error)}")


class _InvalidReplyError(Exception):
    """Raised for a response that is not a chat completion."""


def _is_transient(error: Exception) -> bool:
    """Tests whether a failed call may succeed when it is repeated."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in _RETRIED
    return isinstance(error, openai.APIConnectionError | _InvalidReplyError)


def _is_filtered(error: Any) -> bool:
    """Tests whether a call was rejected for its content or length; other calls may succeed."""
    message = f"{getattr(error, 'code', '')} {_one_line(error)}".lower()
    words = ("content_filter", "content filter", "content management", "context_length", "context")
    return any(word in message for word in words) or error.status_code == 413


def _reply(content: bytes, prompt: Sequence[str]) -> ChatReply:
    """Decodes a chat completion; masks secrets not in the prompt. Raises _InvalidReplyError."""
    try:
        completion = decode(content, ChatCompletion, "reply")
        choice = completion.choices[0]
    except (UsageError, IndexError):
        raise _InvalidReplyError(f"the answer is no chat completion: {excerpt(content)}") from None
    text, refusal = _text_and_refusal(choice.message)
    usage = completion.usage or TokenUsage()
    texts = text, refusal, str(choice.finish_reason or ""), str(completion.model or "")
    text, refusal, finish_reason, model = redact_texts(texts, lambda: prompt)
    return ChatReply(
        text=text,
        refused="" if text.strip() or not refusal else f"refused by the model: {refusal:.200}",
        finish_reason=finish_reason,
        model=model,
        prompt_tokens=_token_count(usage.prompt_tokens),
        completion_tokens=_token_count(usage.completion_tokens),
    )


def _text_and_refusal(message: ResponseMessage) -> tuple[str, str]:
    """Returns the joined text parts of a message, and the model's reason to refuse an answer.

    Skips parts of other types, such as reasoning. Raises _InvalidReplyError."""
    content = [] if message.content is None else message.content
    parts = content if isinstance(content, list) else [content]
    texts, refusals = [], [message.refusal]
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            raise _InvalidReplyError(f"the content of a reply is no text: {excerpt(str(part))}")
        elif part.get("type") in ("text", "output_text") and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            refusals.append(part.get("refusal"))
    return "".join(texts), " ".join(one for one in refusals if isinstance(one, str))


def _token_count(value: object) -> int | None:
    """Returns a token count; None for any other value, or one that exceeds int32."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < 2**31 else None


def _one_line(error: Exception) -> str:
    """Returns an error message in one line, with keys and addresses masked."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return redact(" ".join(str(message or error).split()))[:300]
