"""A small benchmark of changing facts: twelve people correct statements or ask to forget them.

All people and places of business are invented, and the data is free to use (CC0). Each person has
one JSON file in this folder, in the format of talks.py with a list of `changes`. A change has a
kind (`update` or `forget`) and two places: the outdated turn (`document`) and the turn that
outdates it (`by`), at the date of the change. Questions are asked between and after the sessions.
Their `evidence` (grade 1) is what holds at that time; `no_longer` (grade 0) is what
was stated and no longer holds. Categories by ability:

* lookup: `before-update` and `before-forget` (the fact changes later), `unchanged` (a fact that
  stays, asked at the end: a system that forgets everything misses it);
* knowledge-update: `after-update`, the question of `before-update` asked again, or once more after
  a second change;
* temporal: `what-was` (the outdated fact is the evidence), `when-changed`;
* abstention: `after-forget`, the question of `before-forget` asked when nothing may be returned.

A document is a turn: a session holds several facts, so it has no single validity.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from harness.datasets.adapter import Variant
from harness.datasets.adapters.raw_files import published_files
from harness.datasets.adapters.talks import ShippedTalks
from harness.datasets.registry import register_adapter

SHIPPED = Path(__file__).parent


@register_adapter("changes")
class Changes(ShippedTalks):
    """Adapter of the shipped benchmark of changing facts."""

    version: ClassVar[int] = 1
    shipped = SHIPPED
    published = Variant(
        "",
        "96 questions before and after facts were corrected or forgotten, in twelve invented "
        "people's talks; ships with the harness",
        "CC0-1.0",
        pinned={one.name: one.sha256 for one in published_files(SHIPPED / "published.sha256")},
        granularities=("turn",),
        texts=("official", "dated"),
        k=20,
    )
    grades: ClassVar = {"evidence": 1, "no_longer": 0}
    has_changes = True
