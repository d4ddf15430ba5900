"""`labelled`: your own documents, queries and judgements, from a folder of files.

The names of the files select the format (BEIR, JSONL, JSON, CSV, Parquet or TREC, see
labelled_files); formats may be mixed. Without haystacks every query is answered from all documents.
A document's `haystack` is a name, a list of names, or an object that maps names to the document's
time in each; ids must be unique within a haystack. A query's `haystack` is one name. Timestamps are
ISO 8601 or whole seconds since 1970. A file of changes lists outdated and forgotten documents.
`labelled/NAME` is the same dataset under your own name, which refers to the files last prepared
under it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters import labelled_fields, labelled_files
from harness.datasets.adapters.formats.jsonl import optional_string, string
from harness.datasets.adapters.formats.text import TextFile
from harness.datasets.adapters.labelled_fields import LabelledQrel
from harness.datasets.adapters.labelled_files import Records
from harness.datasets.adapters.one_corpus import (
    HAYSTACK,
    drop_repeated,
    progress,
    without_unknown_queries,
)
from harness.datasets.registry import register_adapter
from harness.datasets.writer import NOT_HELD, Repeated
from harness.errors import UsageError
from harness.schema import Ability, Change

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

_NAME = re.compile(r"[^\W_][\w.+\-]{0,63}")
_VARIANT = Variant(
    "",
    "your own documents, queries and judgements (BEIR, JSONL, CSV, Parquet or TREC files)",
    "yours",
    granularities=("document",),
    splits=("test", "dev", "validation", "train", "all"),
    needs_source=True,
    unknown_documents="refuse",
)


@register_adapter("labelled")
class Labelled:
    """The user's own files, by `--source`."""

    version: ClassVar[int] = 4
    needs_qrels: ClassVar[bool] = True

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return [_VARIANT]

    def variant(self, name: str) -> Variant | None:
        """Returns the only variant, under any name."""
        if not name:
            return _VARIANT
        return replace(_VARIANT, name=name) if _NAME.fullmatch(name) else None

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds the files of a folder, by role."""
        if (source / "haystacks.jsonl").is_file():
            raise UsageError(
                f"{source / 'haystacks.jsonl'}: BEIR's and TREC's formats cannot store which "
                "documents a query is answered from; export the dataset as jsonl"
            )
        return labelled_files.find(source, config.split)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes everything in the files, except queries of other splits."""
        unread: dict[str, set[str]] = {role: set() for role in labelled_files.FIELDS}
        key = _read_qrels(raw.files, unread["qrels"], needed=self.needs_qrels)
        splits = {role.partition("/")[2] for role in raw.files} - {""}
        queries = labelled_files.records("queries", raw.files["queries"], unread["queries"])
        haystacks = _write_queries(raw.files["queries"], queries, key, out, splits)
        documents = labelled_files.records("documents", raw.files["documents"], unread["documents"])
        places = _write_documents(
            raw.files["documents"], documents, key, haystacks, out, quiet=raw.quiet
        )
        _write_qrels(key, haystacks, places, out)
        if "changes" in raw.files:
            _write_changes(
                raw.files["changes"], unread["changes"], out, of_all=None in haystacks.values()
            )
        for role, names in unread.items():
            for name in sorted(names):
                out.repair(f"unknown fields of {role}: ignored", name)


@dataclass
class _Key:
    """Judgements by (query, qrels name), then by document and evidence item."""

    qrels: dict[tuple[str, str], dict[tuple[str, str | None], LabelledQrel]] = field(
        default_factory=dict
    )

    @property
    def queries(self) -> set[str]:
        return {query for query, _ in self.qrels}

    @property
    def documents(self) -> set[str]:
        return {document for of in self.qrels.values() for document, _ in of}


@dataclass(frozen=True)
class _Place:
    """A document's row and its haystacks; None if it names none."""

    row: int
    haystacks: Mapping[str, int | None] | None


@dataclass
class _Contents:
    """Contents of a haystack: rows and their timestamps.

    `own_times` is true if a document has a timestamp for this haystack alone.
    """

    rows: list[int] = field(default_factory=list)
    stamps: list[int | None] = field(default_factory=list)
    own_times: bool = False

    def add(self, row: int, stamp: int | None, said: int | None) -> None:
        self.rows.append(row)
        self.stamps.append(stamp if said is None else said)
        self.own_times = self.own_times or said is not None


def _read_qrels(files: Mapping[str, Path], unread: set[str], *, needed: bool) -> _Key:
    """Reads the judgements. Raises UsageError if there are none and some are `needed`."""
    key = _Key()
    for one in labelled_fields.qrels(files, unread, needed=needed):
        of_query = key.qrels.setdefault((one.query, one.qrels_set), {})
        before = of_query.setdefault((one.document, one.evidence_id), one)
        if before.grade != one.grade:
            where = "" if before.file == one.file else f" of {before.file}"
            raise one.file.error(
                one.line,
                f"the document {one.document!r} has grade {one.grade} here and {before.grade} on "
                f"{before.file.at(before.line)}{where}; keep one",
            )
    return key


def _write_queries(
    path: Path, records: Records, key: _Key, out: DatasetWriter, splits: Collection[str]
) -> dict[str, str | None]:
    """Writes the queries; returns the haystack of each.

    `splits` are the chosen splits, or empty. A query that names another split is skipped; this
    matters for unanswerable queries, which need no judgement.
    """
    file, judged = labelled_files.opened(path), key.queries
    lines: dict[str, int] = {}
    haystacks: dict[str, str | None] = {}
    for line, record in records:
        id_ = string(file, line, record, "id")
        if id_ in lines:
            raise file.error(
                line, f"the query id {id_!r} is already used on {file.at(lines[id_])}; rename one"
            )
        lines[id_] = line
        if id_ not in judged and splits and record.get("split") not in (None, "", *splits):
            continue
        ability = labelled_fields.ability(file, line, record)
        if id_ not in judged and ability is not Ability.ABSTENTION:
            if splits:
                out.repair("queries without a judgement in the split: excluded", id_)
                continue
            if judged:  # a pool has no judgements yet
                out.repair("queries without a judgement: kept, but they cannot be scored", id_)
        haystacks[id_] = optional_string(file, line, record, "haystack")
        out.query(
            id_,
            string(file, line, record, "text"),
            haystacks[id_] or HAYSTACK,
            ability=ability,
            category=optional_string(file, line, record, "category") or "",
            timestamp=labelled_fields.timestamp(file, line, record.get("timestamp")),
            answers=labelled_fields.texts(file, line, record, "answers"),
            user_id=optional_string(file, line, record, "user_id"),
            groups=labelled_fields.groups(file, line, record),
        )
    if not lines:
        raise UsageError(f"{file}: contains no queries")
    if key.qrels:
        first = next(iter(next(iter(key.qrels.values())).values()))
        queries = dict.fromkeys(query for query, _ in key.qrels)
        known = {*without_unknown_queries(queries, lines, file, first.file, out)}
        key.qrels = {(q, name): of for (q, name), of in key.qrels.items() if q in known}
    return haystacks


def _write_documents(
    path: Path,
    records: Records,
    key: _Key,
    wanted: dict[str, str | None],
    out: DatasetWriter,
    *,
    quiet: bool,
) -> dict[str, list[_Place]]:
    """Writes documents and haystacks; returns the places of the judged documents."""
    file, judged = labelled_files.opened(path), key.documents
    places: dict[str, list[_Place]] = {}
    contents: dict[str, _Contents] = {}
    repeated, n = Repeated(), 0
    with progress(quiet=quiet) as bar:
        for line, record in records:
            id_ = string(file, line, record, "id")
            haystacks = labelled_fields.haystacks(file, line, record)
            repeated.add((name, id_) for name in haystacks or (HAYSTACK,))
            stamp = labelled_fields.timestamp(file, line, record.get("timestamp"))
            row = out.document(
                id_,
                string(file, line, record, "text"),
                title=optional_string(file, line, record, "title") or "",
                timestamp=stamp,
                session=optional_string(file, line, record, "session"),
                speaker=optional_string(file, line, record, "speaker"),
                position=labelled_fields.position(file, line, record.get("position")),
                user_id=optional_string(file, line, record, "user_id"),
            )
            if id_ in judged:
                places.setdefault(id_, []).append(_Place(row, haystacks))
            for name, said in (haystacks or {}).items():
                contents.setdefault(name, _Contents()).add(row, stamp, said)
            n += 1
            bar.update(1)
    if not n:
        raise UsageError(f"{file}: contains no documents")
    if candidates := repeated.candidates():
        what = "the haystack and document id"
        gone = {*drop_repeated(_keys(path, file), candidates, file, what, out)}
        _move_up(gone, n, places, contents)
    _write_haystacks(contents, wanted, path, out)
    return places


def _move_up(
    gone: set[int],
    n: int,
    places: dict[str, list[_Place]],
    contents: Mapping[str, _Contents],
) -> None:
    """Updates rows in places and haystacks after the documents in `gone` are removed."""
    if not gone:
        return
    rows = (np.cumsum(~np.isin(np.arange(n), list(gone))) - 1).tolist()
    for id_, at in places.items():
        places[id_] = [replace(one, row=rows[one.row]) for one in at if one.row not in gone]
    for of in contents.values():
        kept = [i for i, row in enumerate(of.rows) if row not in gone]
        of.rows = [rows[of.rows[i]] for i in kept]
        of.stamps = [of.stamps[i] for i in kept]


def _write_haystacks(
    contents: Mapping[str, _Contents],
    wanted: Mapping[str, str | None],
    path: Path,
    out: DatasetWriter,
) -> None:
    for query, name in wanted.items():
        if name is not None and name not in contents:
            raise UsageError(
                f"{path}: no document is in the haystack {name!r} of the query {query!r}; assign "
                "its documents to it"
            )
    for name, of in contents.items():
        dated = [stamp for stamp in of.stamps if stamp is not None]
        if of.own_times and len(dated) < len(of.rows):
            raise UsageError(
                f"{path}: in the haystack {name!r} some documents have a time, but "
                f"{len(of.rows) - len(dated)} have none; give a time to all or to none"
            )
        out.haystack(name, of.rows, dated if of.own_times else None)
    if None in wanted.values():
        out.haystack(HAYSTACK)


def _write_qrels(
    key: _Key,
    haystacks: Mapping[str, str | None],
    places: Mapping[str, list[_Place]],
    out: DatasetWriter,
) -> None:
    if key.documents and not places:
        first = next(iter(next(iter(key.qrels.values())).values()))
        if not first.missing:
            raise first.file.error(
                first.line,
                f"neither the document {first.document!r} nor any other judged document is in the "
                "documents; are the ids the same?",
            )
    rows = {id_: _first_rows(at) for id_, at in places.items()}
    for (query, name), of_query in key.qrels.items():
        haystack = haystacks[query]
        for one in of_query.values():
            row = rows.get(one.document, {}).get(haystack)
            if row is None and one.document in places and not one.missing:
                raise one.file.error(
                    one.line,
                    f"the document {one.document!r} is not in the haystack {haystack!r}; add it, "
                    "or remove this line",
                )
            if row is None and not one.missing:
                out.repair(NOT_HELD, f"{query} {one.document}")
            out.qrel(
                query,
                -1 if row is None else row,
                one.grade,
                evidence_id=one.evidence_id,
                document_id=one.document,
                qrels_set=name,
            )


def _first_rows(places: Iterable[_Place]) -> dict[str | None, int]:
    """Returns the first row of a document id in each haystack; of None, in all of them."""
    rows: dict[str | None, int] = {}
    for place in places:
        for name in (None, *(place.haystacks or ())):
            rows.setdefault(name, place.row)
    return rows


def _write_changes(path: Path, unread: set[str], out: DatasetWriter, *, of_all: bool) -> None:
    """Writes the changes; with `of_all`, a change without a haystack applies to all documents."""
    file = labelled_files.opened(path)
    for line, record in labelled_files.records("changes", path, unread):
        haystack = optional_string(file, line, record, "haystack")
        if haystack is None and not of_all:
            raise file.error(line, "haystack missing, but the queries name haystacks; add it")
        when = labelled_fields.timestamp(file, line, record["timestamp"])
        if when is None:
            raise file.error(line, "the timestamp is empty; enter the time of the change")
        change = Change(
            haystack or HAYSTACK,
            string(file, line, record, "kind"),
            string(file, line, record, "document"),
            when,
            optional_string(file, line, record, "by"),
        )
        out.change(change, file.place(line))


def _keys(path: Path, file: TextFile) -> Iterator[tuple[int, list[tuple[str, str]], object]]:
    """Yields line, unique keys (each haystack with the id) and content of documents."""
    for line, record in labelled_files.records("documents", path):
        id_ = string(file, line, record, "id")
        names = labelled_fields.haystacks(file, line, record) or (HAYSTACK,)
        yield line, [(name, id_) for name in names], record
