"""Which arm a unit belongs to: a function of its id, the same on every machine, for ever."""

from __future__ import annotations

import hashlib
from typing import Literal

from harness.errors import UsageError

Arm = Literal["a", "b"]


class Router:
    """Deals units to arms: BLAKE2b of the unit, keyed by the test's name and salt, as a number.

    Another name or salt deals the same units independently.
    """

    def __init__(self, name: str, salt: str = "", split: float = 0.5) -> None:
        self._split = split
        key = hashlib.blake2b(name.encode() + b"\0" + salt.encode(), digest_size=32).digest()
        self._keyed = hashlib.blake2b(key=key, digest_size=8)

    def arm(self, unit: str) -> Arm:
        """The unit's arm."""
        return "a" if self.share(unit) < self._split else "b"

    def share(self, text: str) -> float:
        """A number from 0 to below 1 that is as good as drawn for this text, and never changes."""
        state = self._keyed.copy()
        state.update(text.encode())
        # 53 bits are what a float holds exactly: 1 itself is never reached.
        return (int.from_bytes(state.digest(), "big") >> 11) / 2**53


def unit_id(unit: object) -> str:
    """A unit's id as text; whole numbers are taken as they are written. Raises UsageError."""
    if isinstance(unit, int) and not isinstance(unit, bool):
        return str(unit)
    if not isinstance(unit, str) or not unit:
        raise UsageError(f"a unit is a text (or whole number) that says who it is, not {unit!r}")
    try:
        unit.encode()
    except UnicodeEncodeError:
        raise UsageError(f"unit {unit!r} holds half a character, which no file can keep") from None
    return unit
