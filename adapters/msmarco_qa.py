"""MS MARCO QA, v1.1 and v2.1: questions to Bing with the ten or so passages that Bing gave.

The records are those of microsoft/ms_marco on the Hugging Face hub. Passages have no ids there.
In `qa-v1.1` and `qa-v2.1` each question is answered from its own passages, named
`{query_id}_{position}`; in the `-pooled` forms from all passages of the split, where equal texts
are one document, named by a hash of the text. `is_selected` marks the passages that an annotator
answered from; a question with none is an abstention question. The test splits do not say what is
selected, so they are not offered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.formats import jsonl, parquet
from harness.datasets.adapters.formats.text import TextFile
from harness.datasets.adapters.one_corpus import HAYSTACK, progress
from harness.datasets.adapters.raw_files import refuse_near
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

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


def variants(licence: str) -> Iterable[Variant]:
    """Both versions, each with a haystack a question and pooled."""
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
            licence,
            files=files,
            splits=splits,
            k=10,
        )
        yield Variant(
            f"qa-{version}-pooled",
            f"{about}, all their passages",
            licence,
            files=files,
            splits=splits,
        )


def find_files(source: Path, variant: Variant, config: DatasetConfig) -> Mapping[str, Path]:
    """A parquet or JSONL file, or the files of the split in a folder laid out as on the hub."""
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
        f"{config.split}.jsonl; lay it out as microsoft/ms_marco on the hub does"
    )


def convert(raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
    """Questions, passages and what was selected."""
    paths = list(raw.files.values())
    questions = (question for path in paths for question in _questions(path))
    write = _write_pooled if raw.variant.name.endswith("-pooled") else _write_apart
    with progress(quiet=raw.quiet) as bar:
        n_selected = write(_counted(questions, bar), out)
    if not n_selected:
        raise UsageError(
            f"{paths[0]}: no passage is marked is_selected; the test splits hide it, choose "
            "--split validation"
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
    """A haystack a question. Returns how many passages are selected."""
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
    """One corpus, where equal texts are one document. Returns how many passages are selected."""
    n = 0
    seen: set[bytes] = set()
    for question in questions:
        judged: set[str] = set()
        for text, selected in zip(question.passages, question.selected, strict=True):
            # 80 bits: among ten million texts, two share a name once in 10^10 corpora.
            key = hashlib.sha256(text.encode()).digest()[:10]
            if key in seen:
                out.repair("passages with the text of an earlier one: one document", key.hex())
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
    """The records of a parquet or JSONL file. Raises UsageError for one of another shape."""
    is_parquet = path.suffix == ".parquet"
    file = TextFile(path, unit="record" if is_parquet else "line")
    found = parquet.records(file, _BATCH) if is_parquet else jsonl.checked(file)
    for number, record in found:
        yield _question(record, file.place(number))


def _question(record: dict[str, Any], where: str) -> _Question:
    try:
        passages = record["passages"]
        if isinstance(passages, dict):  # as the hub has them: a column of each field
            texts, marks = passages["passage_text"], passages["is_selected"]
        else:  # as the JSON of the publisher has them: a record of each passage
            texts = [passage["passage_text"] for passage in passages]
            for passage in passages:
                refuse_near(passage, "is_selected", where)
            marks = [passage.get("is_selected", -1) for passage in passages]
        for name in ("answers", "query_type"):
            refuse_near(record, name, where)
        answers = record.get("answers") or []
        if not isinstance(answers, list):
            raise UsageError(f"{where}: the answers {answers!r:.60} are no list")
        texts_of = [record["query"], record.get("query_type") or "", *texts, *answers]
        if odd := [one for one in texts_of if not isinstance(one, str)]:
            raise UsageError(f"{where}: {odd[0]!r:.60} stands where a text must be")
        if type(record["query_id"]) not in (str, int):
            raise UsageError(f"{where}: the query_id {record['query_id']!r:.60} is no id")
        if odd := [mark for mark in marks if mark not in (0, 1, -1)]:
            raise UsageError(f"{where}: the is_selected {odd[0]!r:.60} is none of 0, 1 and -1")
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
