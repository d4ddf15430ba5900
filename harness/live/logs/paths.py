"""Dotted paths into JSON: `request.text`, `results[].id`, `choices[0].text`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from harness.errors import UsageError

MISSING: Any = object()
"""What a path gives that leads nowhere; None is a null that stands there."""

Get = Callable[[Any], Any]

_STEP = re.compile(r"([^\[\]]*)((?:\[\d*\])*)", re.ASCII)


def compile_path(text: str) -> Get:
    """A function from a JSON value to what stands at the path, or MISSING.

    `a.b` is a field of a field; where an object has a key `a.b`, with the point in it, that is
    taken first (OpenTelemetry names attributes so). `[]` takes each item of a list and gives a list
    (MISSING for items without the rest), `[0]` the first. Raises UsageError for what is no path.
    """
    steps: list[str | int | None] = []
    rest = text
    while rest:
        found = _STEP.match(rest)
        if found is None or not found[0]:
            raise UsageError(f"{text!r} is no path; write a.b, a[].b or a[0].b")
        name, brackets = found[1].strip("."), found[2]
        if name:
            steps.append(name)
        steps += [int(i) if i else None for i in re.findall(r"\[(\d*)\]", brackets)]
        rest = rest[found.end() :]
        if rest and not rest.startswith("."):
            raise UsageError(f"{text!r} is no path; write a.b, a[].b or a[0].b")
    if not steps:
        raise UsageError("a path is empty; write the name of a field")
    return _chain(steps)


def first_name(text: str) -> str:
    """The field of the record itself that a path begins with."""
    return re.split(r"[.\[]", text, maxsplit=1)[0]


def _chain(steps: list[str | int | None]) -> Get:
    step, rest = steps[0], steps[1:]
    then = _chain(rest) if rest else None
    if step is None:
        return lambda value: _each(value, then)
    if isinstance(step, int):
        return lambda value: _item(value, step, then)
    return lambda value: _field(value, step, then)


def _field(value: Any, name: str, then: Get | None) -> Any:
    if not isinstance(value, dict):
        return MISSING
    found = value.get(name, MISSING)
    if found is MISSING and "." in name:
        head, _, tail = name.rpartition(".")
        while head:
            inner = value.get(head, MISSING)
            if inner is not MISSING:
                found = _field(inner, tail, None)
                break
            head, _, more = head.rpartition(".")
            tail = f"{more}.{tail}"
    return found if then is None or found is MISSING else then(found)


def _item(value: Any, at: int, then: Get | None) -> Any:
    if not isinstance(value, list) or at >= len(value):
        return MISSING
    return value[at] if then is None else then(value[at])


def _each(value: Any, then: Get | None) -> Any:
    if value is None:
        return []
    if not isinstance(value, list):
        return MISSING
    return value if then is None else [then(one) for one in value]
