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

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters import talks
from harness.datasets.adapters.raw_files import field, published_files, read_once
from harness.datasets.registry import register_adapter

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

SHIPPED = Path(__file__).parent

VARIANTS = (
    Variant(
        "",
        "321 questions over a year of twelve invented people's talks with an assistant; ships "
        "with the harness",
        "CC0-1.0",
        pinned={one.name: one.sha256 for one in published_files(SHIPPED / "published.sha256")},
        granularities=("turn", "session"),
        texts=("official", "dated"),
        k=100,
    ),
)


@register_adapter("sample")
class Sample:
    """The adapter of the shipped benchmark."""

    version: ClassVar[int] = 2
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
        """Write one haystack a person, and the questions.

        Raises UsageError for a field that is missing, a bad date, and evidence that is not there.
        """
        for path in raw.files.values():
            _write_person(path, config, out)


def _write_person(path: Path, config: DatasetConfig, out: DatasetWriter) -> None:
    record = read_once(path)
    person = field(record, "user", str, str(path))
    told = talks.write_talks(record, path, config, out)
    for number, question in enumerate(field(record, "questions", list, str(path))):
        where = f"{path}: question {number}"
        query = talks.write_question(question, person, out, where)
        places = told.places(question, "evidence", where)
        for row in dict.fromkeys(told.rows[place] for place in places):
            out.qrel(query, row)
