"""A small benchmark of what changes: twelve people correct what they said, and wish some forgotten.

Invented for this project, people and places of business included, and free to use for anything
(CC0). One JSON file a person stands beside this module, in the form of talks.py, and `changes`:
each has its kind (`update` or `forget`) and two places, the turn that no longer holds
(`document`) and the turn that says so (`by`), from whose date on it does not. Questions are asked
between the sessions and after them. Their `evidence` is what holds when they are asked, grade 1;
`no_longer`, grade 0, what was said and does not hold any more. The categories, by ability:

* lookup: `before-update` and `before-forget` (what holds now was changed later), `unchanged` (a
  fact that stayed, asked at the end: who forgets everything misses it);
* knowledge-update: `after-update`, the question of `before-update` asked again, or once more after
  a second change;
* temporal: `what-was` (what no longer holds is asked for, and is evidence), `when-changed`;
* abstention: `after-forget`, the question of `before-forget` asked when nothing may come of it.

A document is a turn: a session of several facts neither holds nor does not.
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
    """The adapter of the shipped benchmark of changes."""

    version: ClassVar[int] = 1
    shipped = SHIPPED
    published = Variant(
        "",
        "96 questions before and after facts were corrected, and told ones to be forgotten, in "
        "twelve invented people's talks; ships with the harness",
        "CC0-1.0",
        pinned={one.name: one.sha256 for one in published_files(SHIPPED / "published.sha256")},
        granularities=("turn",),
        texts=("official", "dated"),
        k=20,
    )
    grades: ClassVar = {"evidence": 1, "no_longer": 0}
    has_changes = True
