"""Protocol of adapters, which convert the raw files of a family of datasets.

An adapter lists its datasets (`variants`, which is fast), finds the raw files of a local copy
(`find_files`), and converts them to documents, queries and qrels (`convert`). It is independent of
retrievers and metrics. `docs/how-to/write-an-adapter.md` shows one in 30 lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.datasets.manifest import AS_OF, base_split

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


@dataclass(frozen=True)
class RemoteFile:
    """A published raw file, pinned by its hash.

    `url` is https://..., or hf://datasets/OWNER/NAME@REVISION/PATH for the Hugging Face hub. `md5`
    is for publishers that give no sha256. `splits`: the splits that need the file (empty: all).
    """

    name: str
    url: str
    sha256: str = ""
    md5: str = ""
    bytes: int = 0
    splits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variant:
    """One dataset of a family; plain data, so that listing all of them costs nothing.

    The first of `granularities`, `texts` and `splits` is the default. `pinned` holds the sha256 of
    files inside an archive, or of a local copy's files, by name. `k` is the default depth of a
    ranking, `depths` overrides it by granularity. `exclude_self`: removes a document with the id of
    the query from its ranking, as BEIR does. `unknown_documents`: `keep` or `refuse` judgements of
    documents that the corpus lacks. `as_of`: questions always see only earlier documents.
    `without_source`: the error message for a missing `--source`. `mean_over`: `categories` if the
    publisher reports the mean of the category means.
    """

    name: str
    about: str
    licence: str
    files: tuple[RemoteFile, ...] = ()
    pinned: Mapping[str, str] = field(default_factory=dict)
    granularities: tuple[str, ...] = ("passage",)
    texts: tuple[str, ...] = ("official",)
    splits: tuple[str, ...] = ("test",)
    k: int = 100
    depths: Mapping[str, int] = field(default_factory=dict)
    exclude_self: bool = False
    needs_source: bool = False
    unknown_documents: str = "keep"
    as_of: bool = False
    without_source: str = ""
    mean_over: str = ""

    @property
    def bytes(self) -> int:
        """Size of the download in bytes; 0 if unknown."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class DatasetConfig:
    """Granularity, text form and split: one way to make documents of the raw files."""

    granularity: str
    text: str
    split: str

    @property
    def as_of(self) -> bool:
        """True if questions only see undated documents and those dated up to their own time."""
        return self.split.endswith(AS_OF)

    @property
    def for_adapter(self) -> DatasetConfig:
        """The same config with the split's name as the adapter knows it."""
        return replace(self, split=base_split(self.split))


@dataclass(frozen=True)
class SourceFiles:
    """The raw files that `convert` reads, by name, and a folder for the adapter's own downloads."""

    files: Mapping[str, Path]
    variant: Variant
    downloads: Path
    quiet: bool = True


class Adapter(Protocol):
    """A family of datasets. Increase the version whenever `convert` gives other content.

    Optional: `variant(name)`, if unlisted names are valid too (returns None for unknown names);
    `shipped`, the folder of raw files that are part of the adapter;
    `remote_files(variant, config, downloads)`, the files to download if only the publisher knows
    their names, under the names that `find_files` uses.
    """

    version: ClassVar[int]

    def variants(self) -> Iterable[Variant]:
        """Returns the listed datasets of the family; the first is the default."""
        ...

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Returns the raw files of a local copy (a file or a folder), by name.

        `source` is the argument of `--source`, or the folder of the downloaded files. Raises
        UsageError that names missing files.
        """
        ...

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Converts the raw files to documents, haystacks, queries, qrels and, if there are any,
        changes of documents (`out.change`).
        """
        ...


def by_name(variants: Iterable[Variant], name: str) -> Variant | None:
    """Returns the variant called `name`; the first one for an empty name."""
    listed = list(variants)
    if not name:
        return listed[0]
    return next((variant for variant in listed if variant.name == name), None)


def downloads_folder(home: Path, name: str) -> Path:
    """Returns the folder of the raw files of the dataset `name`."""
    return home / "downloads" / name.replace("/", "__")
