"""The Python reference: which names stand where. mkdocstrings replaces the `:::` directives.

What a page names is public (`harness.run`); where a returned class or the functions of a package
are defined is asked of the code, so that pages stay as they are when files move.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any, get_type_hints

import harness


def vocabulary() -> str:
    """A table of the names that `harness` exports, with the first sentence of each."""
    rows = [
        f"| [`{name}`][harness.{name}] | {_first_sentence(getattr(harness, name))} |"
        for name in sorted(harness.__all__, key=str.lower)
    ]
    return "\n".join(["| name | what |", "|---|---|", *rows])


def api(*names: str) -> str:
    """Names such as `harness.run` or `harness.testing.evaluate`, as they are imported."""
    return _directives(names)


def returned(*names: str) -> str:
    """The classes that these functions return, which nobody makes by hand."""
    found = []
    for name in names:
        module, _, function = name.rpartition(".")
        made = getattr(import_module(module), function)
        # Of the other annotations some can be read by type checkers alone.
        only = SimpleNamespace(__annotations__={"return": made.__annotations__["return"]})
        kind = get_type_hints(only, made.__globals__)["return"]
        found.append(f"{kind.__module__}.{kind.__qualname__}")
    return _directives(dict.fromkeys(found))


def module(*names: str) -> str:
    """What these modules define for others; what `harness` exports stands elsewhere."""
    exported = [getattr(harness, name) for name in harness.__all__]
    return _directives(
        f"{name}.{public}"
        for name in names
        for public, value in _defined(import_module(name))
        if not any(value is one for one in exported)
    )


def package(name: str) -> str:
    """Every module of a package with a heading, its docstring and what it defines."""
    parts = []
    for info in pkgutil.iter_modules(import_module(name).__path__, f"{name}."):
        one = import_module(info.name)
        defined = [f"{info.name}.{public}" for public, _ in _defined(one)]
        if defined:
            said = inspect.getdoc(one) or ""
            parts += [f"## {info.name.rpartition('.')[2]}", "", said, "", _directives(defined)]
    return "\n".join(parts)


def _directives(names: Any) -> str:
    return "\n".join(f"::: {name}\n" for name in names)


def _defined(one: Any) -> Iterator[tuple[str, Any]]:
    """Public classes and functions that a module defines itself, in their order."""
    for name, value in vars(one).items():
        own = getattr(value, "__module__", "") == one.__name__
        if (
            own
            and not name.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
        ):
            yield name, value


def _first_sentence(value: Any) -> str:
    paragraph = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return (paragraph.partition(". ")[0].rstrip(".") + ".").replace("|", "\\|")
