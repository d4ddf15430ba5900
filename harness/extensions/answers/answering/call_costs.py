"""Cost of model calls, and a budget shared by concurrent calls."""

from __future__ import annotations

from threading import Condition

from harness.runs.usage import TOKENS_A_PRICE, Budget, Prices, price_of

MODEL_PRICES: Prices = {
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
"""OpenAI's list prices of 2025. Prices change; `--prices` overrides them."""
"""Returns `prices` merged with MODEL_PRICES; `prices` takes precedence."""


def with_model_prices(prices: Prices) -> Prices:
    """Return the prices, with those of MODEL_PRICES for models that they do not name."""
    return {**MODEL_PRICES, **prices}


def calls_usd(model: str, calls: int, prompt: int, completion: int, prices: Prices) -> float | None:
    """Returns the cost of calls in US dollars; None if prompt or completion tokens have no
    price."""
    of_prompt = price_of(f"prompt_tokens@{model}", prices)
    of_completion = price_of(f"completion_tokens@{model}", prices)
    if of_prompt is None or of_completion is None:
        return None
    of_calls = price_of(f"calls@{model}", prices) or 0.0
    return (calls * of_calls + prompt * of_prompt + completion * of_completion) / TOKENS_A_PRICE


class CallBudget(Budget):
    """Keeps the cost of concurrent calls below a limit. Thread-safe.

    A caller reserves an upper bound of the cost before the call and settles the real cost after it.
    """

    def __init__(self, limit: float | None) -> None:
        super().__init__(limit)
        self._reserved = 0.0
        self._open = 0  # reservations; a float sum may not return to 0
        self._changed = Condition()
        self._exhausted = False

    def reserve(self, amount: float) -> None:
        """Reserves an amount; waits for open reservations to settle if necessary.

        Raises BudgetExceededError if the amount exceeds the limit even without open reservations;
        all later reservations then fail too.
        """
        with self._changed:
            while self.exceeded_by(self._reserved + amount):
                if self._exhausted or not self._open:
                    self._exhausted = True
                    self._changed.notify_all()
                    raise self.error(amount)
                self._changed.wait()
            self._reserved += amount
            self._open += 1

    def settle(self, reserved: float, cost: float) -> None:
        """Replaces a reservation by the real cost."""
        with self._changed:
            self._open -= 1
            self._reserved = self._reserved - reserved if self._open else 0.0
            self.spent += cost
            self._changed.notify_all()
