"""A small memory benchmark that comes with the harness: twelve people, a year of talks each.

Invented for this project, people and places of business included, and free to use for anything
(CC0). One JSON file a person stands beside this module: `sessions`, each with an id, a date and its
turns `[speaker, text]`, and `questions`, each with its answers and its `evidence`, places
`[session, turn]` counted from 0. Documents are called `session_turn`, so these places can be read
off them. The categories, by ability:

* lookup: `said-by-user`, `said-by-assistant` (and by nobody else), `look-alike` (a second person or
  thing close by has the same property);
* multi-hop: `bridge`, `comparison`, `count`, `sum`, `collect`; each needs several sessions;
* temporal: `date`, `interval`, `order`, `deadline`; dates are told relative to the session's own;
* knowledge-update: `changed-once`, `changed-twice`, `advice-changed` (the assistant's own); the
  evidence is what holds now and what it replaced, and the newest of it holds;
* abstention: `never-said`, `other-person`, `other-occasion`; no evidence and no answers, although
  the conversations use the question's words.
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
    """The adapter of the shipped benchmark."""

    version: ClassVar[int] = 2
    shipped = SHIPPED
    published = Variant(
        "",
        "321 questions over a year of twelve invented people's talks with an assistant; ships "
        "with the harness",
        "CC0-1.0",
        pinned={one.name: one.sha256 for one in published_files(SHIPPED / "published.sha256")},
        granularities=("turn", "session"),
        texts=("official", "dated"),
        k=100,
    )
