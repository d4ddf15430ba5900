"""Constructor options of retrievers that are the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def with_options(options: type) -> Callable[[type[T]], type[T]]:
    """Returns a decorator for classes with an `__init__(..., **options)` of a dataclass's fields.

    It adds the fields to the signature, by which `--param` is checked and listed.
    """

    def decorate(kind: type[T]) -> type[T]:
        init: Any = kind.__init__  # not the class: subclasses may override the constructor
        own = [*inspect.signature(init).parameters.values()][:-1]
        init.__signature__ = inspect.Signature(
            [*own, *inspect.signature(options).parameters.values()]
        )
        return kind

    return decorate
