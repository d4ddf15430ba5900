"""Saves the parts of a monitor to its state file, and continues from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_type_hints

import msgspec


class Saved:
    """A part of a monitor whose attributes `STATE` are in the state file, by their types."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Returns the attributes to be encoded, and the states of the parts in them."""
        values = {name: getattr(self, name) for name in self.STATE}
        return {n: v.state() if isinstance(v, Saved) else v for n, v in values.items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continues from a decoded state."""
        kinds = get_type_hints(type(self))
        for name in self.STATE:
            mine = getattr(self, name)
            if isinstance(mine, Saved):
                mine.resume(state[name])
            else:
                setattr(self, name, msgspec.convert(state[name], kinds[name], str_keys=True))
