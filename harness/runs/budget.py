"""A spending limit in US dollars that is enforced before money is spent."""

from __future__ import annotations

from threading import Condition

from harness.errors import RunError, UsageError


class BudgetExceededError(RunError):
    """Raised when the spending limit is reached."""


class Budget:
    """Keeps spending below a limit, concurrent calls included; safe for threads.

    A caller reserves the most that a call can cost before the call, and settles what it did cost
    afterwards.
    """

    def __init__(self, limit: float | None) -> None:
        """`limit`: US dollars, None for no limit. Raises UsageError if it is not positive."""
        if limit is not None and not limit > 0:
            raise UsageError(f"--max-usd must be above 0, not {limit:g}")
        self.limit = limit
        self.spent = 0.0
        self._reserved = 0.0
        self._open = 0  # reservations; their sum in floats need not return to 0
        self._changed = Condition()
        self._exhausted = False

    def require(self, upcoming: float) -> None:
        """Raises BudgetExceededError if `upcoming` US dollars more would exceed the limit."""
        if self._exceeded_by(upcoming):
            raise self._error(upcoming)

    def reserve(self, amount: float) -> None:
        """Reserves an amount, waiting for open reservations to settle where necessary.

        Raises BudgetExceededError if the amount is too high even without them; afterwards every
        other amount is refused as well.
        """
        with self._changed:
            while self._exceeded_by(self._reserved + amount):
                if self._exhausted or not self._open:
                    self._exhausted = True
                    self._changed.notify_all()
                    raise self._error(amount)
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

    def _exceeded_by(self, upcoming: float) -> bool:
        return self.limit is not None and self.spent + upcoming > self.limit

    def _error(self, upcoming: float) -> BudgetExceededError:
        return BudgetExceededError(
            f"--max-usd {self.limit:g}: {self.spent:.4f} USD are spent, and the next step may cost "
            f"{upcoming:.4f}"
        )
