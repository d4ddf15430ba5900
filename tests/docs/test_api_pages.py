"""The Python reference has every public name, each with a docstring, and no other."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

from docs_blocks import ROOT

import harness
import harness.testing

PAGES = ROOT / "docs" / "reference" / "api"
_API = re.compile(r"<!-- generated: api ((?:[\w.]+ ?)+) -->")


def _named() -> list[str]:
    texts = (path.read_text("utf-8") for path in sorted(PAGES.glob("*.md")))
    return [name for text in texts for line in _API.findall(text) for name in line.split()]


def test_every_public_name_is_on_one_page() -> None:
    public = [f"harness.{name}" for name in harness.__all__]
    of_testing = [f"harness.testing.{name}" for name in harness.testing.__all__]
    # Another name? It goes behind `generated: api` on the page that it belongs to.
    assert sorted(_named()) == sorted([*public, *of_testing])


def test_every_public_name_says_what_it_is() -> None:
    for name in _named():
        module, _, last = name.rpartition(".")
        value = getattr(import_module(module), last)
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for member, one in vars(value).items():
                if inspect.isfunction(one) and not member.startswith("_"):
                    assert inspect.getdoc(one), f"{name}.{member}"
