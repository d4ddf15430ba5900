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

from harness.dataset.adapter import DatasetConfig, SourceFiles, Variant
from harness.dataset.adapters import talks
from harness.dataset.adapters.raw_files import field, read_once
from harness.dataset.registry import register_adapter

if TYPE_CHECKING:
    from harness.dataset.writer import DatasetWriter

SHIPPED = Path(__file__).parent

VARIANTS = (
    Variant(
        "",
        "321 questions over a year of twelve invented people's talks with an assistant; ships "
        "with the harness",
        "CC0-1.0",
        pinned={
            "adaeze.json": "9c6ba0c8de0e980b6fdf9ac8d8c38d81d37c55e1ad365e4a789142376a1d36b5",
            "bruno.json": "afcea23b3c8f414cc3b619eb760d3198ddde3dcfbef0103d005de2c39524f298",
            "farid.json": "1791c49b997e329d0f5fa2918194557f1c4c5a53f6a0cbeb2d2833d6b4a09432",
            "gudrun.json": "c7f652f87d611dca210680bb0ae5d2179f55e3ba1c3fa0fa87375c449be85f49",
            "keiko.json": "7b1c2f6a06841496163147d4c6b08e74b86a2d93f3d4dc101eab8d20ea4835fa",
            "mira.json": "2385a8e1490f68cb780a582d00ccb3d254797b6c492ad45025bd59254f843095",
            "nadia.json": "162d7f89b636f0022b98fcd90835083eced2507be48335f42f6fbe0199192d7d",
            "pilar.json": "54c04fd087632bc26fab9cbb33cfe7a99cb787a60aaa82a0ce45977bc1de4b3d",
            "rohan.json": "1b7b0e31b84a7f04c431924c09c44b64b0084e83c471ce5909bd0e347d96f68b",
            "samuel.json": "5198e96ef6e787d7c699219d333fab4d9d64b2de7feab5e3f027828bea1e83ce",
            "tobias.json": "1e510cc47af03e42be3c724192545baae9bf04ac32ada96e8fa5b9c5cd355b8f",
            "wanjiru.json": "eb60f4f450a9192f1e02a5319894e2ba5748e4e27f994debab2f01c5112c1ba4",
        },
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
