"""Prices of models: US dollars per million tokens."""

from __future__ import annotations

from dataclasses import dataclass

from harness.runs.answering.replies import Call
from harness.runs.money import Prices

PRICES: Prices = {
    "gpt-4o": {"prompt_tokens": 2.5, "completion_tokens": 10.0},
    "gpt-4o-2024-08-06": {"prompt_tokens": 2.5, "completion_tokens": 10.0},
    "gpt-4o-2024-11-20": {"prompt_tokens": 2.5, "completion_tokens": 10.0},
    "gpt-4o-mini": {"prompt_tokens": 0.15, "completion_tokens": 0.6},
    "gpt-4o-mini-2024-07-18": {"prompt_tokens": 0.15, "completion_tokens": 0.6},
    "gpt-4.1": {"prompt_tokens": 2.0, "completion_tokens": 8.0},
    "gpt-4.1-mini": {"prompt_tokens": 0.4, "completion_tokens": 1.6},
    "gpt-4.1-nano": {"prompt_tokens": 0.1, "completion_tokens": 0.4},
    "gpt-3.5-turbo": {"prompt_tokens": 0.5, "completion_tokens": 1.5},
}
"""Prices that OpenAI listed in 2025. Prices change; `--prices` overrides them."""

_MILLION = 1_000_000
_MESSAGE_OVERHEAD = 16
"""Upper bound of the tokens around a message: its role and separators."""


@dataclass(frozen=True)
class ModelPrice:
    """US dollars per million prompt and completion tokens of one model."""

    prompt_tokens: float
    completion_tokens: float

    def cost(self, prompt: int, completion: int) -> float:
        """Returns the cost of so many tokens in US dollars."""
        return (prompt * self.prompt_tokens + completion * self.completion_tokens) / _MILLION

    def max_cost(self, call: Call) -> float:
        """Returns an upper bound of a call's cost in US dollars.

        It counts a token per byte of the messages (byte-pair tokens are never shorter) and
        `max_tokens` of the reply.
        """
        prompt = sum(len(one.content.encode()) + _MESSAGE_OVERHEAD for one in call.messages)
        limits = (call.params.get(name) for name in ("max_tokens", "max_completion_tokens"))
        reply = next((limit for limit in limits if isinstance(limit, int | float) and limit), 0)
        return self.cost(prompt, int(reply))


def price_of(model: str, prices: Prices) -> ModelPrice | None:
    """Returns the price of a model, None if prompt or completion tokens have none.

    `prices` override PRICES; their entry `*` is for models without an entry in either.
    """
    price = {**PRICES, **prices}.get(model, prices.get("*", {}))
    if not {"prompt_tokens", "completion_tokens"} <= price.keys():
        return None
    return ModelPrice(price["prompt_tokens"], price["completion_tokens"])
