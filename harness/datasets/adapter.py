"""The contract of an adapter: a family of datasets, and the conversion of its raw files.

An adapter lists its datasets (`variants`, which costs nothing), finds the raw files of a local copy
(`find_files`), and converts them to documents, queries and qrels (`convert`). It knows no retriever
and no metric. `adapters/README.md` shows one in 30 lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.datasets.manifest import AS_OF

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
        """Size of the download; 0 where it is not known."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class DatasetConfig:
    """Granularity, text form and split: one way to make documents of the raw files."""

    granularity: str
    text: str
    split: str

    @property
    def as_of(self) -> bool:
        """Whether questions see undated documents and those dated up to them only."""
        return self.split.endswith(AS_OF)

    @property
    def without_as_of(self) -> DatasetConfig:
        """The same config with the split's name as the adapter knows it."""
        return replace(self, split=self.split.removesuffix(AS_OF))


@dataclass(frozen=True)
class SourceFiles:
    """The raw files that `convert` reads, by name, and a folder for the adapter's own downloads."""

    files: Mapping[str, Path]
    variant: Variant
    downloads: Path
    quiet: bool = True


class Adapter(Protocol):
    """A family of datasets. Raise the version whenever `convert` gives other content.

    Optional: `variant(name)`, where names that are not listed work too (None: no such name);
    `shipped`, the folder of raw files that come with the adapter itself;
    `remote_files(variant, config, downloads)`, the files to download where only the publisher knows
    their names, each called as `find_files` will call it.
    """

    version: ClassVar[int]

    def variants(self) -> Iterable[Variant]:
        """The datasets of the family that can be listed; the first is the family's default."""
        ...

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """The raw files of a local copy (a file or a folder), by name.

        `source` is what `--source` named, or the folder that holds the downloaded files. Raises
        UsageError that names what is missing.
        """
        ...

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Convert the raw files to documents, haystacks, queries, judgements and, if there are any,
        changes of documents (`out.change`).
        """
        ...


def by_name(variants: Iterable[Variant], name: str) -> Variant | None:
    """The variant called `name`; the first one for an empty name."""
    listed = list(variants)
    if not name:
        return listed[0]
    return next((variant for variant in listed if variant.name == name), None)


def downloads_folder(home: Path, name: str) -> Path:
    """Return the folder in which the raw files of the dataset `name` are kept."""
    return home / "downloads" / name.replace("/", "__")
