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

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters import talks
from harness.datasets.adapters.raw_files import field, published_files, read_once
from harness.datasets.registry import register_adapter
from harness.schema import Change

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

SHIPPED = Path(__file__).parent

VARIANTS = (
    Variant(
        "",
        "96 questions before and after facts were corrected, and told ones to be forgotten, in "
        "twelve invented people's talks; ships with the harness",
        "CC0-1.0",
        pinned={one.name: one.sha256 for one in published_files(SHIPPED / "published.sha256")},
        granularities=("turn",),
        texts=("official", "dated"),
        k=20,
    ),
)


@register_adapter("changes")
class Changes:
    """The adapter of the shipped benchmark of changes."""

    version: ClassVar[int] = 1
    shipped: ClassVar[Path] = SHIPPED

    def variants(self) -> Iterable[Variant]:
        """The one dataset there is."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """The JSON files of a folder, or one of them."""
        return talks.find_files(source)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Write one haystack a person, the questions, and the changes.

        Raises UsageError for a field that is missing, a bad date, and a place that is not there.
        """
        for path in raw.files.values():
            _write_person(path, config, out)


def _write_person(path: Path, config: DatasetConfig, out: DatasetWriter) -> None:
    record = read_once(path)
    person = field(record, "user", str, str(path))
    told = talks.write_talks(record, path, config, out)
    for number, change in enumerate(field(record, "changes", list, str(path))):
        where = f"{path}: change {number}"
        out.change(_change(change, person, told, where), where)
    for number, question in enumerate(field(record, "questions", list, str(path))):
        where = f"{path}: question {number}"
        query = talks.write_question(question, person, out, where)
        for name, grade in (("evidence", 1), ("no_longer", 0)):
            for place in told.places(question, name, where):
                out.qrel(query, told.rows[place], grade)


def _change(record: Any, person: str, told: talks.WrittenTalks, where: str) -> Change:
    document, by = (
        told.place(field(record, name, list, where), name, where) for name in ("document", "by")
    )
    kind = field(record, "kind", str, where)
    return Change(person, kind, told.ids[document], told.dates[by[0]], told.ids[by])
