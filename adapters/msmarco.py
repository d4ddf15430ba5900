"""MS MARCO: passage ranking (dev, TREC DL 2019 and 2020) and the QA sets.

Passage ranking is read through ir_datasets, or with `--source` from a folder with the official
files. Passages have no titles. About a fifth of the published passages contain UTF-8 that was
decoded as Latin-1; ir_datasets and this adapter correct it, so both ways give the same documents.
Only judged queries are kept, as in ir_datasets' `/judged` subsets. Grades are unchanged (DL: 0 to
3; in binary metrics the track counts 2 and 3 as relevant).

QA, v1.1 and v2.1, has questions to Bing with about ten passages each from Bing, as in
microsoft/ms_marco on the Hugging Face hub, where passages have no ids. In `qa-v1.1` and `qa-v2.1`
each question is answered from its own passages, named `{query_id}_{position}`. In the `-pooled`
variants it is answered from all passages of the split; equal texts are one document, named by a
hash of the text. `is_selected` marks the passages that an annotator used for the answer; a question
without any is an abstention question. The test splits hide this mark and are not offered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.formats import jsonl, parquet, trec
from harness.datasets.adapters.formats.delimited import tsv_documents
from harness.datasets.adapters.formats.text import DocumentBatch, TextFile
from harness.datasets.adapters.ir import write_ir_dataset
from harness.datasets.adapters.misspelt import refuse_near
from harness.datasets.adapters.one_corpus import (
    HAYSTACK,
    judged,
    progress,
    write_documents,
    write_judged_queries,
)
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


_PASSAGES = 8_841_823
_LICENCE = "MS MARCO, research"  # not for commercial use
_COLLECTION = ("collection.tsv",)
_LATIN1 = re.compile("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


@dataclass(frozen=True)
class _Passage:
    """Passage ranking queries: their id in ir_datasets and their usual file names."""

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
# Topics and qrels as distributed with Anserini's tools; the two DL qrels are NIST's files.
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
    """`msmarco/dev`, `/dl19`, `/dl20`, `/qa-v1.1`, `/qa-v2.1` and the pooled QA variants."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns passage ranking first, then QA."""
        for name, one in _SETS.items():
            yield Variant(
                name,
                one.about,
                _LICENCE,
                pinned=_PINNED,
                splits=("dev",) if name == "dev" else ("test",),
                k=1000,
            )
        yield from _qa_variants()

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds collection, queries and qrels in a folder, by their published names."""
        if variant.name not in _SETS:
            return _find_qa_files(source, variant, config)
        one = _SETS[variant.name]
        if not source.is_dir():
            raise UsageError(f"{source}: not a folder with {', '.join(_COLLECTION)} ...; pass one")
        wanted = {"collection": _COLLECTION, "queries": one.queries, "qrels": one.qrels}
        return {role: _published(source, names) for role, names in wanted.items()}

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Reads the files of a folder, ir_datasets or the hub."""
        if raw.variant.name not in _SETS:
            _write_qa(raw, config, out)
        elif raw.files:
            _write_passages(raw, out)
        else:
            write_ir_dataset(_SETS[raw.variant.name].ir_id, out, quiet=raw.quiet)


def _published(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise UsageError(f"{folder}: no {' or '.join(names)} (or .gz); download it to this folder")


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
            f"collection size differs from MS MARCO's {_PASSAGES:,} passages: not comparable with "
            "published results",
            f"{n:,} passages",
        )


def _mended(batches: Iterable[DocumentBatch], out: DatasetWriter) -> Iterator[DocumentBatch]:
    for batch in batches:
        texts = [text if text.isascii() else mend(text) for text in batch.texts]
        for id_, old, new in zip(batch.ids, batch.texts, texts, strict=True):
            if old is not new and old != new:
                out.repair("passages with UTF-8 decoded as Latin-1: corrected", id_)
        yield replace(batch, texts=texts)


def mend(text: str) -> str:
    """Corrects characters of UTF-8 decoded as Latin-1, as ir_datasets does."""
    return _LATIN1.sub(_mend_one, text)


def _mend_one(match: re.Match[str]) -> str:
    try:
        return match[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return match[0]


_HUB = "hf://datasets/microsoft/ms_marco@a47ee7aae8d7d466ba15f9f0bfac3b3681087b3a"
_SHARDS = {
    ("v1.1", "validation"): 1,
    ("v1.1", "train"): 1,
    ("v2.1", "validation"): 1,
    ("v2.1", "train"): 7,
}
_NO_ANSWER = "No Answer Present."
_BATCH = 256


@dataclass(frozen=True)
class _Question:
    """One record; `passages` and `selected` are aligned."""

    id: str
    text: str
    category: str
    answers: tuple[str, ...]
    passages: tuple[str, ...]
    selected: tuple[bool, ...]


def _qa_variants() -> Iterable[Variant]:
    """Returns both versions, with one haystack per question and pooled."""
    for version, questions in (("v1.1", "10,047"), ("v2.1", "101,093")):
        about = f"MS MARCO QA {version}: {questions} questions to Bing"
        splits = ("validation", "train")
        files = tuple(
            RemoteFile(name, f"{_HUB}/{name}", splits=(split,))
            for split in splits
            for name in _names(version, split)
        )
        yield Variant(
            f"qa-{version}",
            f"{about}, ten passages each",
            _LICENCE,
            files=files,
            splits=splits,
            k=10,
        )
        yield Variant(
            f"qa-{version}-pooled",
            f"{about}, all their passages",
            _LICENCE,
            files=files,
            splits=splits,
        )


def _find_qa_files(source: Path, variant: Variant, config: DatasetConfig) -> Mapping[str, Path]:
    """Finds a parquet or JSONL file, or the files of the split in the layout of the hub."""
    if source.is_file():
        return {source.name: source}
    version = _version(variant)
    for folder in (source / version, source):
        found = sorted(folder.glob(f"{config.split}*.parquet")) or sorted(
            folder.glob(f"{config.split}*.jsonl*")
        )
        if found:
            return {path.relative_to(source).as_posix(): path for path in found}
    raise UsageError(
        f"{source}: no {version}/{config.split}-00000-of-....parquet in this folder, nor "
        f"{config.split}.jsonl; use the layout of microsoft/ms_marco on the hub"
    )


def _write_qa(raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
    """Writes questions, passages and selected passages."""
    paths = list(raw.files.values())
    questions = (question for path in paths for question in _questions(path))
    write = _write_pooled if raw.variant.name.endswith("-pooled") else _write_apart
    with progress(quiet=raw.quiet) as bar:
        n_selected = write(_counted(questions, bar), out)
    if not n_selected:
        raise UsageError(
            f"{paths[0]}: no passage has is_selected; the test splits hide it, choose --split "
            "validation"
        )


def _version(variant: Variant) -> str:
    return variant.name.removeprefix("qa-").removesuffix("-pooled")


def _names(version: str, split: str) -> list[str]:
    n = _SHARDS[version, split]
    return [f"{version}/{split}-{i:05}-of-{n:05}.parquet" for i in range(n)]


def _counted(questions: Iterable[_Question], bar: Any) -> Iterator[_Question]:
    for question in questions:
        bar.update(len(question.passages))
        yield question


def _write_apart(questions: Iterable[_Question], out: DatasetWriter) -> int:
    """Writes one haystack per question. Returns the number of selected passages."""
    n = 0
    for question in questions:
        rows = [
            out.document(f"{question.id}_{position}", text)
            for position, text in enumerate(question.passages)
        ]
        out.haystack(question.id, rows)
        _write_query(question, question.id, out)
        for row, selected in zip(rows, question.selected, strict=True):
            if selected:
                out.qrel(question.id, row)
        n += sum(question.selected)
    return n


def _write_pooled(questions: Iterable[_Question], out: DatasetWriter) -> int:
    """Writes one corpus without duplicate texts. Returns the number of selected passages."""
    n = 0
    seen: set[bytes] = set()
    for question in questions:
        judged: set[str] = set()
        for text, selected in zip(question.passages, question.selected, strict=True):
            # 80 bits: in a corpus of ten million texts, a collision has probability 10^-10.
            key = hashlib.sha256(text.encode()).digest()[:10]
            if key in seen:
                out.repair("passages with the text of an earlier one: merged", key.hex())
            else:
                seen.add(key)
                out.document(key.hex(), text)
            if selected and key.hex() not in judged:
                judged.add(key.hex())
                out.qrel(question.id, key.hex())
        _write_query(question, HAYSTACK, out)
        n += len(judged)
    out.haystack(HAYSTACK)
    return n


def _write_query(question: _Question, haystack: str, out: DatasetWriter) -> None:
    answerable = any(question.selected)
    if not answerable and question.answers:
        out.repair("questions with an answer but no selected passage: abstention", question.id)
    out.query(
        question.id,
        question.text,
        haystack,
        ability=Ability.LOOKUP if answerable else Ability.ABSTENTION,
        category=question.category,
        answers=question.answers,
    )


def _questions(path: Path) -> Iterator[_Question]:
    """Yields the records of a parquet or JSONL file. Raises UsageError for an invalid record."""
    is_parquet = path.suffix == ".parquet"
    file = TextFile(path, unit="record" if is_parquet else "line")
    found = parquet.records(file, _BATCH) if is_parquet else jsonl.checked(file)
    for number, record in found:
        yield _question(record, file.place(number))


def _question(record: dict[str, Any], where: str) -> _Question:
    try:
        passages = record["passages"]
        if isinstance(passages, dict):  # the hub's layout: one column per field
            texts, marks = passages["passage_text"], passages["is_selected"]
        else:  # the publisher's JSON: one record per passage
            texts = [passage["passage_text"] for passage in passages]
            for passage in passages:
                refuse_near(passage, "is_selected", where)
            marks = [passage.get("is_selected", -1) for passage in passages]
        for name in ("answers", "query_type"):
            refuse_near(record, name, where)
        answers = record.get("answers") or []
        if not isinstance(answers, list):
            raise UsageError(f"{where}: the answers {answers!r:.60} are not a list")
        texts_of = [record["query"], record.get("query_type") or "", *texts, *answers]
        if odd := [one for one in texts_of if not isinstance(one, str)]:
            raise UsageError(f"{where}: {odd[0]!r:.60} is not a text")
        if type(record["query_id"]) not in (str, int):
            raise UsageError(f"{where}: the query_id {record['query_id']!r:.60} is not an id")
        if odd := [mark for mark in marks if mark not in (0, 1, -1)]:
            raise UsageError(f"{where}: the is_selected {odd[0]!r:.60} is not 0, 1 or -1")
        if len(texts) != len(marks):
            raise UsageError(f"{where}: {len(texts)} passages but {len(marks)} is_selected marks")
        return _Question(
            str(record["query_id"]),
            record["query"],
            record.get("query_type") or "",
            tuple(answer for answer in answers if answer != _NO_ANSWER),
            tuple(texts),
            tuple(mark == 1 for mark in marks),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{where}: not a record of MS MARCO QA (query_id, query, passages with passage_text "
            f"and is_selected): {type(error).__name__} {error}"
        ) from None
