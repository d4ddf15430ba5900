"""Options of a retriever as a dataclass, where its constructor would have too many parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def with_options(options: type) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a class whose `__init__` ends with `**options` of a dataclass.

    Its signature, by which `--param` is checked and listed, then names the fields.
    """

    def decorate(kind: type[T]) -> type[T]:
        init: Any = kind.__init__  # not the class: a subclass may have a constructor of its own
        own = [*inspect.signature(init).parameters.values()][:-1]
        init.__signature__ = inspect.Signature(
            [*own, *inspect.signature(options).parameters.values()]
        )
        return kind

    return decorate
