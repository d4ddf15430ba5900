"""Signatures of results.

A signature is a short string with everything that could change a value:
`recall@10|protocol:memory/1|data:locomo#ff853148|level:turn|text:official|split:test|slice:all|
n:1982|queries:all|ties:order|depth:50|missing:zero|v:0.1.0`. Two numbers compare when their
signatures agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from harness.records.scores import quote_part


@dataclass(frozen=True)
class Signature:
    """The parts of a signature, in the order in which they are printed."""

    metric: str
    protocol: str
    data: str
    level: str
    text: str
    split: str
    slice: str
    n: int
    queries: str
    ties: str
    depth: int
    missing: str
    v: str
    match: str = ""
    reader: str = ""
    judge: str = ""

    def __str__(self) -> str:
        parts = [f"{f.name}:{quote_part(str(getattr(self, f.name)))}" for f in self.parts()[1:]]
        return "|".join([quote_part(self.metric), *parts])

    @property
    def template(self) -> str:
        """This signature with placeholders for metric, slice and n; see `fill_signature`."""
        parts = {"metric": "{metric}", "slice": "{slice}", "n": "{n}"}
        return "|".join(
            (parts[f.name] if f.name == "metric" else f"{f.name}:{parts[f.name]}")
            if f.name in parts
            else f"{f.name}:{quote_part(str(getattr(self, f.name)))}"
            for f in self.parts()
        )

    def parts(self) -> list[Field[Any]]:
        """Returns the fields of the signature; omits optional ones that are empty."""
        return [f for f in fields(self) if f.default is MISSING or getattr(self, f.name)]


def digest(ids: Sequence[str]) -> str:
    """An 8-digit hexadecimal hash of the ids in this order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:8]
