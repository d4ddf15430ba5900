"""The files of a prepared dataset: the columns of its tables, and the manifest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa

from harness.errors import UsageError
from harness.io.checksums import (
    BLOCK_SUMS,
    ChecksummedRecord,
    check_file,
    read_with_checksums,
    write_with_checksums,
)
from harness.io.records import Record
from harness.schema import SCHEMA_VERSION

DOCUMENTS = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("title", pa.string()),
        ("timestamp", pa.int64()),
        ("session", pa.string()),
        ("speaker", pa.string()),
        ("position", pa.int32()),
    ]
)
QUERIES = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("haystack", pa.int32()),
        ("ability", pa.string()),
        ("category", pa.string()),
        ("timestamp", pa.int64()),
        ("answers", pa.list_(pa.string())),
    ]
)
QRELS = pa.schema(
    [
        ("qrels_set", pa.string()),
        ("query", pa.int32()),
        ("document", pa.int32()),  # row; -1 if the corpus lacks the document
        ("document_id", pa.string()),
        ("grade", pa.int32()),
        ("evidence_id", pa.string()),
    ]
)
HAYSTACKS = pa.schema(
    [
        ("id", pa.string()),
        ("rows", pa.list_(pa.int32())),  # null: every document
        ("timestamps", pa.list_(pa.int64())),  # null: the documents' own
    ]
)
CHANGES = pa.schema(
    [
        ("haystack", pa.int32()),
        ("kind", pa.string()),
        ("document", pa.int32()),  # row
        ("timestamp", pa.int64()),
        ("by", pa.int32()),  # row; null: no document states the change
    ]
)
SCOPES = pa.schema(
    [
        ("kind", pa.string()),  # document or query
        ("row", pa.int32()),  # of the table of this kind
        ("user_id", pa.string()),
        ("groups", pa.list_(pa.string())),  # of a query
    ]
)
FILES = {
    "documents.arrow": DOCUMENTS,
    "queries.arrow": QUERIES,
    "qrels.arrow": QRELS,
    "haystacks.arrow": HAYSTACKS,
}
"""The tables of every dataset."""
CHANGES_FILE = "changes.arrow"
"""The table of changes of documents; only in datasets that have changes."""
SCOPES_FILE = "scopes.arrow"
"""The table of the users of documents and queries; only in datasets that have users."""
TABLES = {**FILES, CHANGES_FILE: CHANGES, SCOPES_FILE: SCOPES}

NAME = "manifest.json"
_AGAIN = "remove its folder, and the dataset is prepared again"

IDS_ONLY = "ids-only"
"""The text form of datasets that only have ids: rankings can be scored on them, but nothing can be
run. Their haystacks contain only the judged documents; all others are unknown."""

AS_OF = "-as-of"
"""Suffix of splits in which questions only see documents dated up to their own time."""

INJECT = "-inject-"
"""In the name of a split, precedes the documents that were added to each haystack (inject.py)."""


def base_split(split: str) -> str:
    """Returns the name of a split as its adapter knows it."""
    return split.removesuffix(AS_OF).partition(INJECT)[0]


def injected_part(split: str) -> str:
    """Returns the documents that were added to each haystack, as `imitate-1`; empty for none."""
    return split.removesuffix(AS_OF).partition(INJECT)[2]


class Repair(Record):
    """A kind of oddity that an adapter repaired, kept or excluded; with the first examples."""

    kind: str
    count: int
    examples: list[str]


class RawFile(Record):
    """A raw file that the dataset was made from.

    `status`: `pinned` (hash as published), `revision` (from a pinned revision of the hub, where no
    hash is published), `unchecked` (a local copy where no hash is published), or `unknown` (another
    hash than the published one).
    """

    name: str
    path: str
    bytes: int
    modified_ns: int
    sha256: str
    status: str


class Manifest(ChecksummedRecord, omit_defaults=False):
    """All metadata of a prepared dataset; its tables hold the rest.

    `raw`: the files that were read; `origin`: content loaded by another package, which checks its
    own files. `own_files`: the dataset was prepared from the user's own data. `mean_over`:
    `categories` if the publisher reports the mean of the category means. `adapter_version`
    increases when the adapter would write other content. `files`: bytes of each table.
    `fingerprint`: sha256 of their content. `exclude_self`: a query's own document is excluded from
    its ranking. `k`: default depth of rankings.
    """

    name: str
    granularity: str
    text: str
    split: str
    licence: str
    source: str
    adapter_version: int
    raw: list[RawFile]
    repairs: list[Repair]
    counts: dict[str, int]
    files: dict[str, int]
    fingerprint: str
    created: str
    exclude_self: bool = False
    k: int = 100
    qrels_sets: list[str] = msgspec.field(default_factory=list)
    origin: list[str] = msgspec.field(default_factory=list)
    own_files: bool = False
    mean_over: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def official(self) -> bool:
        """True if every raw file is the publisher's."""
        return all(raw.status in ("pinned", "revision") for raw in self.raw)

    @property
    def published(self) -> bool | None:
        """`official`; None for the user's own files, and for files without a published hash."""
        states = {raw.status for raw in self.raw}
        if self.own_files or ("unchecked" in states and "unknown" not in states):
            return None
        return self.official

    @property
    def ids_only(self) -> bool:
        """True if the dataset has no texts and only judged documents."""
        return self.text == IDS_ONLY

    @property
    def as_of(self) -> bool:
        """True if questions only see undated documents and those dated up to them (AsOfWriter)."""
        return self.split.endswith(AS_OF)

    @property
    def injected(self) -> str:
        """The documents added to each haystack, as `imitate-1`; empty for none (inject.py)."""
        return injected_part(self.split)

    def write(self, folder: Path) -> None:
        """Writes it into the dataset's folder."""
        write_with_checksums(folder / NAME, self, [BLOCK_SUMS])

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads it. Raises UsageError if it is missing, damaged, or of another schema version."""
        manifest = read_with_checksums(folder / NAME, cls, _AGAIN, required=True)
        check_file(folder / BLOCK_SUMS, manifest, _AGAIN)
        if manifest.schema_version != SCHEMA_VERSION:
            raise UsageError(f"{folder / NAME}: of another schema version; prepare it again")
        return manifest

    def matches(self, folder: Path) -> bool:
        """True when every file is there with the size that was written."""
        return set(FILES) <= set(self.files) <= set(TABLES) and all(
            (folder / name).is_file() and (folder / name).stat().st_size == size
            for name, size in self.files.items()
        )
