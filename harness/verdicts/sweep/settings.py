"""Settings to try: a grid, or a list."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from harness.errors import UsageError

Setting = dict[str, Any]
"""Parameters of the retriever, and `k`, the cut-off, if it is swept over."""


def grid(axes: Sequence[str]) -> list[Setting]:
    """Every combination of `name=value,value,...`. Raises UsageError for another form."""
    parsed: dict[str, list[Any]] = {}
    for axis in axes:
        name, equals, values = axis.partition("=")
        if not equals or not name or not values:
            raise UsageError(f"--grid takes name=value,value,..., not {axis!r}")
        if name in parsed:
            raise UsageError(f"--grid {name} stands there twice")
        parsed[name] = _values(values)
    return [dict(zip(parsed, chosen, strict=True)) for chosen in product(*parsed.values())]


def listed(settings: Sequence[str]) -> list[Setting]:
    """`name=value name=value`, one text a setting. Raises UsageError for another form."""
    from harness.cli.options import parameters

    return [parameters(setting.split()) for setting in settings]


def _values(text: str) -> list[Any]:
    """As JSON where it is (`[[1,2],[2,1]]` for lists), else texts between commas."""
    import orjson

    try:
        found = orjson.loads(text if text.startswith("[") else f"[{text}]")
        return found if isinstance(found, list) and found else [text]
    except orjson.JSONDecodeError:
        return [_value(part) for part in text.split(",")]


def _value(text: str) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def cut_off(setting: Setting) -> int | None:
    """Its `k`. Raises UsageError for what is no cut-off."""
    k = setting.get("k")
    if k is not None and (type(k) is not int or k < 1):
        raise UsageError(f"k must be a whole number of 1 or more, not {k!r}")
    return k


def said(setting: Setting) -> str:
    """As people type it."""
    return " ".join(f"{name}={value}" for name, value in setting.items()) or "defaults"
