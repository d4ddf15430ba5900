"""BEIR: 18 retrieval benchmarks in one format (Thakur et al. 2021, arXiv:2104.08663).

The format is corpus.jsonl, queries.jsonl and qrels/<split>.tsv, in a folder or a zip archive. Sizes
and md5 checksums are those published in BEIR's wiki ("Datasets available") and verified by
ir_datasets 0.6.3 (etc/downloads.json). Titles and texts are stored separately, as in BEIR;
`Document.content` joins them with a space. A document with the id of the query is removed from its
ranking, as in BEIR's evaluation (`ignore_identical_ids`).
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.formats import trec
from harness.datasets.adapters.formats.jsonl import batches, optional_string, string, strings
from harness.datasets.adapters.formats.text import DocumentBatch, TextFile
from harness.datasets.adapters.misspelt import refuse_near
from harness.datasets.adapters.one_corpus import judged, write_documents, write_judged_queries
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.runfiles.raw import BOMB_BYTES, BOMB_RATIO
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


_KEPT = ("_id", "text", "metadata")
_ENCRYPTED = 0x1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
_BROKEN_INDEX = (struct.error, UnicodeDecodeError, OSError)
_URL = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/"
_LICENCE = "CC BY-SA 4.0"  # according to BEIR's cards on the hub; the original licences apply too


@dataclass(frozen=True)
class _Set:
    """A public dataset: archive (name, md5, size), splits (BEIR's first), description."""

    name: str
    md5: str
    bytes: int
    splits: tuple[str, ...]
    about: str
    licence: str = _LICENCE

    @property
    def zip(self) -> str:
        """Name of the archive, which is the first part of the dataset's name."""
        return self.name.partition("/")[0] + ".zip"


_TEST = ("test",)
_ALL = ("test", "dev", "train")
_SETS = (
    _Set("scifact", "5f7d1de60b170fc8027bb7898e2efca1", 2816079, ("test", "train"),
         "scientific claims, abstracts that support or refute them", "CC BY 4.0 / ODC-By"),
    _Set("nfcorpus", "a89dba18a62ef92f7d323ec890a0d38d", 2448432, _ALL, "nutrition and medicine"),
    _Set("arguana", "8ad3e3c2a5867cdced806d6503f29b99", 3773617, _TEST, "counter-arguments"),
    _Set("scidocs", "38121350fc3a4d2f48850f6aff52e4a9", 142471588, _TEST, "citations of papers"),
    _Set("fiqa", "17918ed23cd04fb15047f73e6c3bd9d9", 17948027, _ALL, "questions on finance"),
    _Set("trec-covid", "ce62140cb23feb9becf6270d0d1fe6d1", 73876720, _TEST, "papers on COVID-19"),
    _Set("webis-touche2020", "46f650ba5a527fc69e0a6521c5a23563", 227132363, _TEST,
         "arguments on controversial questions (version 2 of the archive)"),
    _Set("quora", "18fb154900ba42a600f84b839c173167", 15853968, ("test", "dev"),
         "duplicate questions"),
    _Set("nq", "d4d3d2e48787a744b6f6e691ff534307", 498307926, _TEST,
         "questions to Google, Wikipedia passages"),
    _Set("dbpedia-entity", "c2a39eb420a3164af735795df012ac2c", 639285131, ("test", "dev"),
         "entities of DBpedia"),
    _Set("hotpotqa", "f412724f78b0d91183a0e86805e16114", 654025350, _ALL,
         "questions that need two Wikipedia articles"),
    _Set("fever", "5a818580227bfb4b35bb6fa46d9b6c03", 1236988269, _ALL,
         "claims, Wikipedia articles that prove them right or wrong"),
    _Set("climate-fever", "8b66f0a9126c521bae2bde127b4dc99d", 1228666652, _TEST,
         "claims on the climate"),
    _Set("msmarco", "444067daf65d982533ea17ebd59501e4", 1082258632, ("dev", "test", "train"),
         "questions to Bing, web passages", "MS MARCO, research"),
    *(
        _Set(f"cqadupstack/{forum}", "4e41456d7df8ee7760a7f866133bda78", 5343728040, _TEST,
             f"duplicate questions of the forum {forum} (one archive for all forums)")
        for forum in ("android", "english", "gaming", "gis", "mathematica", "physics",
                      "programmers", "stats", "tex", "unix", "webmasters", "wordpress")
    ),
)  # fmt: skip
_BOUND = (
    ("bioasq", ("test", "train"), "questions on biomedicine; register at bioasq.org"),
    ("signal1m", _TEST, "tweets on news; from the Signal-1M publisher"),
    ("trec-news", _TEST, "background to news; the Washington Post collection, from NIST"),
    ("robust04", _TEST, "newswire; TREC disks 4 and 5, from NIST"),
)
# Files inside scifact.zip. The archive's qrels have CRLF line ends; copies that passed through git
# have LF and contain the same judgements.
_SCIFACT = {
    "corpus.jsonl": "dec31c8182f3d744c7d2c09423756fd1d17cbef75808db13ba01cc0aab4d1ac6",
    "queries.jsonl": "8ff84a7c903f722981cd8d595c022660140c51867b27608a6d4910db86080313",
    "qrels/test.tsv": "0864bb985e0ca2367ba217977e72004d549054b2b06666ed9d4825ac7c21284c",
    "qrels/test.tsv, LF": "68c0ac63f1c24b9e8ce497649694f09b2d0850bab7ec2b103cc66996f5f8b3a3",
    "qrels/train.tsv": "a53f2114831916c096b6c37d9e54da68cef4efdcdbd5ed46533601af972acf1d",
    "qrels/train.tsv, LF": "ac0902d9b1cb717df182aaff1306175877fdb8f55bb5c3e8597ad694fc8e539f",
}


@register_adapter("beir")
class BeirAdapter:
    """`beir/<set>`, read from the official archive or from a folder in BEIR's format."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Public datasets, then those with a licence that forbids downloads."""
        for one in _SETS:
            archive = RemoteFile(one.zip, _URL + one.zip, md5=one.md5, bytes=one.bytes)
            yield Variant(
                one.name,
                one.about,
                one.licence,
                files=(archive,),
                pinned=_SCIFACT if one.name == "scifact" else {},
                splits=one.splits,
                k=1000,
                exclude_self=True,
            )
        for name, splits, about in _BOUND:
            yield Variant(
                name,
                about + "; convert it to BEIR's format and pass the folder with --source",
                "publisher's",
                splits=splits,
                k=1000,
                exclude_self=True,
                needs_source=True,
            )

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds an archive (the file, or by name in a folder), or the files of a folder."""
        archive = variant.files[0].name if variant.files else f"{variant.name}.zip"
        if source.is_file():
            if source.suffix != ".zip":
                raise UsageError(f"{source}: not a .zip file or a folder; pass one of them")
            return {archive: source}
        for folder in (source, source / variant.name):
            if _plain_or_gz(folder / "corpus.jsonl") is not None:
                return _folder_files(folder, config.split)
        if (source / archive).is_file():
            return {archive: source / archive}
        raise UsageError(
            f"{source}: no BEIR dataset found; expected corpus.jsonl, queries.jsonl and "
            f"qrels/{config.split}.tsv, or {archive}"
        )

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes the corpus, and the judged queries of the split with their judgements."""
        files = _text_files(raw.files, raw.variant.name, config.split)
        ability = Ability.MULTI_HOP if raw.variant.name == "hotpotqa" else Ability.LOOKUP
        write_beir(files, config.split, out, ability, quiet=raw.quiet)


def write_beir(
    files: Mapping[str, TextFile], split: str, out: DatasetWriter, ability: Ability, *, quiet: bool
) -> None:
    """Writes a dataset in BEIR's format from its three files.

    Raises UsageError for invalid content.
    """
    corpus, queries, qrels = (files[name] for name in _names(split))
    key = judged(trec.qrels(qrels), qrels, out)
    write_judged_queries(queries_of(queries), queries, key, qrels, out, ability)
    write_documents(documents_of(corpus), corpus, out, again=documents_of(corpus), quiet=quiet)


def documents_of(file: TextFile) -> Iterator[DocumentBatch]:
    """Yields the documents of corpus.jsonl. Raises UsageError if `_id` or `text` is missing."""
    for lines, records in batches(file):
        titles: list[Any] = [record.get("title") for record in records]
        if set(map(type, titles)) - {str, type(None)}:
            titles = [
                optional_string(file, line, record, "title")
                for line, record in zip(lines, records, strict=True)
            ]
        if None in titles:
            for line, record in zip(lines, records, strict=True):
                refuse_near(record, "title", file.place(line), _KEPT)
        yield DocumentBatch(
            lines,
            strings(file, lines, records, "_id"),
            strings(file, lines, records, "text"),
            titles,
        )


def queries_of(file: TextFile) -> Iterator[tuple[int, str, str]]:
    """Yields line, id and text of each query. Raises UsageError if `_id` or `text` is missing."""
    for lines, records in batches(file):
        for line, record in zip(lines, records, strict=True):
            yield line, string(file, line, record, "_id"), string(file, line, record, "text")


def _names(split: str) -> tuple[str, ...]:
    return "corpus.jsonl", "queries.jsonl", f"qrels/{split}.tsv"


def _plain_or_gz(path: Path) -> Path | None:
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    return None


def _folder_files(folder: Path, split: str) -> dict[str, Path]:
    files = {}
    for name in _names(split):
        found = _plain_or_gz(folder / name)
        if found is None and name == "qrels/dev.tsv":
            found = _plain_or_gz(folder / "qrels" / "validation.tsv")
        if found is None:
            splits = sorted(path.name.partition(".")[0] for path in folder.glob("qrels/*.tsv*"))
            there = f" (there is: {', '.join(splits)})" if splits and "qrels" in name else ""
            raise UsageError(
                f"{folder / name}: no such file{there}; a BEIR folder needs it (for files of your "
                "own: --dataset labelled --source FOLDER)"
            )
        files[name] = found
    return files


def _text_files(files: Mapping[str, Path], name: str, split: str) -> dict[str, TextFile]:
    """Opens the files in a folder or, without unpacking it, in an archive."""
    if "corpus.jsonl" in files:
        return {name: TextFile(path) for name, path in files.items()}
    (archive,) = files.values()
    members = _members(archive)
    # BEIR's archives contain one folder; a hand-made archive may contain the files themselves.
    inside = f"{name}/" if f"{name}/corpus.jsonl" in members else ""
    for wanted in _names(split):
        if inside + wanted not in members:
            raise UsageError(
                f"{archive}: {name}/{wanted} not found; is this a complete BEIR archive?"
            )
        _require_readable(archive, members[inside + wanted])
    return {wanted: TextFile(archive, inside + wanted) for wanted in _names(split)}


def _members(archive: Path) -> dict[str, zipfile.ZipInfo]:
    """Maps names to members of an archive. Raises UsageError."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
    except (zipfile.BadZipFile, NotImplementedError, *_BROKEN_INDEX) as error:
        raise UsageError(f"{archive}: not a zip archive ({error}); download it again") from None
    for member in members:
        if member.filename.startswith("/") or ".." in member.filename.split("/"):
            raise UsageError(
                f"{archive}: contains {member.filename!r}, a path outside the archive; do not use "
                "this file"
            )
    return {member.filename: member for member in members}


def _require_readable(archive: Path, member: zipfile.ZipInfo) -> None:
    """Raises UsageError for a member that is not text or cannot be streamed."""
    where = f"{archive}: {member.filename}"
    if member.flag_bits & _ENCRYPTED:
        raise UsageError(f"{where} is encrypted; unpack it and pass the folder with --source")
    if member.compress_type not in _METHODS:
        raise UsageError(
            f"{where} uses compression method {member.compress_type}, which Python cannot read; "
            "unpack it and pass the folder with --source"
        )
    if member.file_size > max(BOMB_BYTES, BOMB_RATIO * member.compress_size):
        raise UsageError(
            f"{where} would expand from {member.compress_size:,} to {member.file_size:,} bytes, "
            "which is not plausible for text; do not use this archive"
        )
