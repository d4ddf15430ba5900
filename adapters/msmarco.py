"""MS MARCO: passage ranking (dev, TREC DL 2019 and 2020) and the QA sets (see msmarco_qa).

Passage ranking comes through ir_datasets, or with `--source` from a folder that holds the official
files. Passages have no titles. About a fifth of the published passages hold UTF-8 that was once
read as Latin-1; ir_datasets mends them, and so does this adapter, so that both ways give the same
documents. Only queries with a judgement are kept, as in ir_datasets' `/judged` subsets; grades are
kept as they are (DL: 0 to 3, of which the track counts 2 and 3 as relevant in binary metrics).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters import msmarco_qa
from harness.datasets.adapters.formats import trec
from harness.datasets.adapters.formats.delimited import tsv_documents
from harness.datasets.adapters.formats.text import DocumentBatch, TextFile
from harness.datasets.adapters.ir import write_ir_dataset
from harness.datasets.adapters.one_corpus import judged, write_documents, write_judged_queries
from harness.datasets.registry import register_adapter
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

_PASSAGES = 8_841_823
_LICENCE = "MS MARCO, research"  # not for commercial use
_COLLECTION = ("collection.tsv",)
_LATIN1 = re.compile("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


@dataclass(frozen=True)
class _Passage:
    """A set of queries over the passages: its id in ir_datasets, and its files' usual names."""

    ir_id: str
    about: str
    queries: tuple[str, ...]
    qrels: tuple[str, ...]


_SETS = {
    "dev": _Passage(
        "msmarco-passage/dev/small",
        "6,980 questions to Bing, 8.8 million web passages, about one judged passage each",
        ("queries.dev.small.tsv", "topics.msmarco-passage.dev-subset.txt"),
        ("qrels.dev.small.tsv", "qrels.msmarco-passage.dev-subset.txt"),
    ),
    "dl19": _Passage(
        "msmarco-passage/trec-dl-2019",
        "TREC Deep Learning 2019: 43 judged questions, grades 0 to 3",
        ("msmarco-test2019-queries.tsv", "topics.dl19-passage.txt"),
        ("2019qrels-pass.txt", "qrels.dl19-passage.txt"),
    ),
    "dl20": _Passage(
        "msmarco-passage/trec-dl-2020",
        "TREC Deep Learning 2020: 54 judged questions of 200, grades 0 to 3",
        ("msmarco-test2020-queries.tsv", "topics.dl20.txt"),
        ("2020qrels-pass.txt", "qrels.dl20-passage.txt"),
    ),
}
# Topics and qrels as Anserini's tools hand them out; the two DL qrels are NIST's own files.
_PINNED = {
    "qrels.dl19-passage.txt": "8a1f10d550732e4cd91d7fc49846a3784de4040972f583e69285a88f3c5fee92",
    "qrels.dl20-passage.txt": "60d4c34561f9687f8f73e0a752ba80ab80159b3e9c1bedd0a351f747ed6f5684",
    "qrels.dev-subset.txt": "34ef51a24e049b3dd19b0a448b764f26b0def22ec42f421ecba2db91f82e7042",
    "topics.dl19-passage.txt": "518992da259fb61f64e4790791df91a7b42ea5773f374aed59220ebb51d58d90",
    "topics.dl20.txt": "726cb4018b85a335fcbe09004df7f084ec1bf20531961d9af7b0c71dd609e69b",
    "topics.dev-subset.txt": "f4f71fa87b6be4fb968cca2b8f8554c4ebd003e6c3488af3ac1cc5629c3de189",
}


@register_adapter("msmarco")
class MsMarco:
    """`msmarco/dev`, `/dl19`, `/dl20`, `/qa-v1.1`, `/qa-v2.1` and the pooled forms of the QA."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Passage ranking first, then QA."""
        for name, one in _SETS.items():
            yield Variant(
                name,
                one.about,
                _LICENCE,
                pinned=_PINNED,
                splits=("dev",) if name == "dev" else ("test",),
                k=1000,
            )
        yield from msmarco_qa.variants(_LICENCE)

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Collection, queries and qrels of a folder, by the names that they are published under."""
        if variant.name not in _SETS:
            return msmarco_qa.find_files(source, variant, config)
        one = _SETS[variant.name]
        if not source.is_dir():
            raise UsageError(f"{source}: a folder with {', '.join(_COLLECTION)} ... is needed")
        wanted = {"collection": _COLLECTION, "queries": one.queries, "qrels": one.qrels}
        return {role: _published(source, names) for role, names in wanted.items()}

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Read the files of a folder, or what ir_datasets or the hub has."""
        if raw.variant.name not in _SETS:
            msmarco_qa.convert(raw, config, out)
        elif raw.files:
            _write_passages(raw, out)
        else:
            write_ir_dataset(_SETS[raw.variant.name].ir_id, out, quiet=raw.quiet)


def _published(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise UsageError(f"{folder}: no {' or '.join(names)} (or .gz) in this folder; get it there")


def _write_passages(raw: SourceFiles, out: DatasetWriter) -> None:
    collection, queries, qrels = (
        TextFile(raw.files[role]) for role in ("collection", "queries", "qrels")
    )
    key = judged(trec.qrels(qrels), qrels, out)
    write_judged_queries(trec.topics(queries), queries, key, qrels, out)
    passages = _mended(tsv_documents(collection), out)
    again = tsv_documents(collection)
    n = write_documents(passages, collection, out, again=again, quiet=raw.quiet)
    if n != _PASSAGES:
        out.repair(
            f"a collection of another size than MS MARCO's {_PASSAGES:,} passages: its numbers do "
            "not compare with published ones",
            f"{n:,} passages",
        )


def _mended(batches: Iterable[DocumentBatch], out: DatasetWriter) -> Iterator[DocumentBatch]:
    for batch in batches:
        texts = [text if text.isascii() else mend(text) for text in batch.texts]
        for id_, old, new in zip(batch.ids, batch.texts, texts, strict=True):
            if old is not new and old != new:
                out.repair("passages with UTF-8 that had been read as Latin-1: mended", id_)
        yield replace(batch, texts=texts)


def mend(text: str) -> str:
    """`text` with every character that is UTF-8 read as Latin-1 put right, as ir_datasets does."""
    return _LATIN1.sub(_mend_one, text)


def _mend_one(match: re.Match[str]) -> str:
    try:
        return match[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return match[0]
