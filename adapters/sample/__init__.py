"""A small memory benchmark that ships with the harness: one year of conversations of twelve people.

All people and places of business are invented, and the data is free to use (CC0). Each person has
one JSON file in this folder: `sessions`, each with an id, a date and turns `[speaker, text]`, and
`questions`, each with answers and `evidence`, places `[session, turn]` counted from 0. Document ids
are `session_turn`, which matches these places. Categories by ability:

* lookup: `said-by-user`, `said-by-assistant` (and by no one else), `look-alike` (a second person or
  thing nearby has the same property);
* multi-hop: `bridge`, `comparison`, `count`, `sum`, `collect`; each needs several sessions;
* temporal: `date`, `interval`, `order`, `deadline`; dates are relative to that of the session;
* knowledge-update: `changed-once`, `changed-twice`, `advice-changed` (by the assistant); the
  evidence is the current fact and those it replaced;
* abstention: `never-said`, `other-person`, `other-occasion`; no evidence and no answers, although
  the conversations contain the question's words.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from harness.datasets.adapter import Variant
from harness.datasets.adapters.raw_files import published_files
from harness.datasets.adapters.talks import ShippedTalks
from harness.datasets.registry import register_adapter

SHIPPED = Path(__file__).parent


@register_adapter("sample")
class Sample(ShippedTalks):
    """Adapter of the shipped sample."""

    version: ClassVar[int] = 2
    shipped = SHIPPED
    published = Variant(
        "",
        "321 questions over one year of twelve invented people's conversations with an "
        "assistant; ships with the harness",
        "CC0-1.0",
        pinned={one.name: one.sha256 for one in published_files(SHIPPED / "published.sha256")},
        granularities=("turn", "session"),
        texts=("official", "dated"),
        k=100,
    )
