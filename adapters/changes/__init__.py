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

from harness.dataset.adapter import DatasetConfig, SourceFiles, Variant
from harness.dataset.adapters import talks
from harness.dataset.adapters.raw_files import field, read_once
from harness.dataset.registry import register_adapter
from harness.schema import Change

if TYPE_CHECKING:
    from harness.dataset.writer import DatasetWriter

SHIPPED = Path(__file__).parent

VARIANTS = (
    Variant(
        "",
        "96 questions before and after facts were corrected, and told ones to be forgotten, in "
        "twelve invented people's talks; ships with the harness",
        "CC0-1.0",
        pinned={
            "aino.json": "309f9f18e540f3db2150fcc8a1e10db9116e110f0712eb2f2e2691bb73f70b83",
            "benedikt.json": "e17ee426a5e2e5a3fa3cabbafd3872f729b6426ab1badd2ef7934b22882e2b71",
            "chiara.json": "90ce33e8afe0790336a24fdf22317e26604bbe6e05dffd0ebccf20e3d26abbbe",
            "dembe.json": "8cd7cc2440ee8de990c1158adf9b45b13da827016d6d07ea219340a82df47958",
            "esra.json": "53877cfe26ec7549c7e2ac0b93c87b4ce0202f0a0ee3e6acffc1c33c423c17c0",
            "fionn.json": "3253063d7c2ffc270f0cccf30a06088605e04bc92a4cf856ad0b27dc3bd0d24e",
            "hana.json": "0b1d5e62287961895be4815f7fa9b6f756bc16e1bbee386bc2b7ff70fa304d41",
            "ilse.json": "dc38d0a6f7ca8ad123c2abc338e3b9ab9727176697873ed17a71b896505ef36b",
            "joaquim.json": "c3e36b36d67b78084329ed2f3c9f8bedec08f5743420dd500322ef7232c91c69",
            "noor.json": "4579782536adacf9914f61d83eb192af249d4f8a1731916abaaab6465bf2ff29",
            "oskar.json": "dd15cbb5d9fa33132a97d0c3bfb1bd76bb08b43bdc0f22163091e787ab5f6b84",
            "tamsin.json": "52c512cc313cbbd69be03ddd2dfc792877cfa532e9f5b478ae73204748ec5224",
        },
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
