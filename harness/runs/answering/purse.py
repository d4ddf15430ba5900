"""What calls may cost: a limit that is kept before a call, not found out after it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Condition

from harness.errors import RunError, UsageError
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
"""US dollars a million tokens, as OpenAI listed them in 2025; prices change, and yours win."""

_MILLION = 1_000_000
_FRAME = 16
"""Tokens around a message, generously: its role and the marks between messages."""


class SpentError(RunError):
    """As much is spent as may be."""


class Purse:
    """Keeps calls of one model below a limit, those that are in the air included.

    Before a call the most that it can cost is set aside: a token for each byte of its messages
    (no token of a byte-pair vocabulary is shorter) and `max_tokens` of the reply. What it did cost
    takes the place of that when the reply is there.
    """

    def __init__(self, model: str, prices: Prices, most: float | None) -> None:
        """Raises UsageError for a limit on a model that has no price."""
        table = {**PRICES, **prices}
        price: Mapping[str, float] | None = table.get(model, prices.get("*"))
        known = price is not None and {"prompt_tokens", "completion_tokens"} <= price.keys()
        if most is not None and not known:
            raise UsageError(
                f"--max-usd: {model} has no price of prompt_tokens and completion_tokens; say it "
                "with --prices"
            )
        if most is not None and not most > 0:
            raise UsageError(f"--max-usd must be above 0, not {most:g}")
        self._price = price if known else None
        self._most = most
        self._spent = self._aside = 0.0
        self._flying = 0  # calls: what is set aside is not quite 0 when they are, in floats
        self._changed = Condition()
        self._empty = False

    def most_of(self, call: Call) -> float:
        """US dollars that a call can cost at the most; 0 where nobody knows a price."""
        if self._price is None:
            return 0.0
        prompt = sum(len(m["content"].encode()) + _FRAME for m in call.messages)
        limits = (call.params.get(name) for name in ("max_tokens", "max_completion_tokens"))
        reply = int(next((limit for limit in limits if limit), 0))
        return self._cost(prompt, reply)

    def take(self, call: Call) -> float:
        """Set aside what a call can cost, waiting for others that are in the air if need be.

        Raises SpentError where even without them it would be too much.
        """
        wanted = self.most_of(call)
        with self._changed:
            while self._most is not None and self._spent + self._aside + wanted > self._most:
                if self._empty or not self._flying:
                    self._empty = True  # a cheaper call is not let through either
                    self._changed.notify_all()
                    raise SpentError(
                        f"--max-usd {self._most:g}: {self._spent:.4f} USD are spent, and the next "
                        f"call may cost {wanted:.4f}"
                    )
                self._changed.wait()
            self._aside += wanted
            self._flying += 1
        return wanted

    def settle(self, aside: float, prompt: int | None, completion: int | None) -> None:
        """Put what a call did cost in the place of what was set aside; where the endpoint does not
        say, that is the cost."""
        said = prompt is not None and completion is not None
        with self._changed:
            self._flying -= 1
            self._aside = self._aside - aside if self._flying else 0.0
            self._spent += self._cost(prompt or 0, completion or 0) if said else aside
            self._changed.notify_all()

    @property
    def spent(self) -> float | None:
        """US dollars of this time; None where the model has no price."""
        return None if self._price is None else self._spent

    def _cost(self, prompt: int, completion: int) -> float:
        if self._price is None:
            return 0.0
        per = self._price
        return (prompt * per["prompt_tokens"] + completion * per["completion_tokens"]) / _MILLION
