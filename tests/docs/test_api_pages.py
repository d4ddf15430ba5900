"""The Python reference has every public name, each with a docstring, and no other."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from docs_blocks import ROOT

import harness
import harness.testing

PAGES = ROOT / "docs" / "reference" / "api"
_API = re.compile(r"<!-- generated: api ((?:[\w.]+ ?)+) -->")


def _named() -> list[str]:
    texts = (path.read_text("utf-8") for path in sorted(PAGES.glob("*.md")))
    return [name for text in texts for line in _API.findall(text) for name in line.split()]


def _value(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def test_every_public_name_is_on_one_page() -> None:
    public = {f"harness.testing.{name}" for name in harness.testing.__all__}
    of_testing = [_value(name) for name in public]  # `harness` exports one of them too
    public |= {f"harness.{n}" for n in harness.__all__ if getattr(harness, n) not in of_testing}
    named = _named()
    assert set(named) <= public
    assert len(named) == len(set(named))
    # What can be imported by two names stands under one of them. A new name? It goes behind
    # `generated: api` on the page that it belongs to.
    there = [_value(name) for name in named]
    assert [name for name in sorted(public) if not any(_value(name) is one for one in there)] == []


def test_every_public_name_says_what_it_is() -> None:
    for name in _named():
        value = _value(name)
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for member, one in vars(value).items():
                if inspect.isfunction(one) and not member.startswith("_"):
                    assert inspect.getdoc(one), f"{name}.{member}"
