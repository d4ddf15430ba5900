"""The files of a user's own labelled set: which are accepted, their records, and their fields.

Records have the same field names whatever the format of their file:

* documents: id, text; title, timestamp, session, speaker, position, haystack
* queries: id, text; haystack, ability, category, timestamp, answers, split
* judgements: query, document; grade, unit, key, missing
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from harness import schema
from harness.dataset.adapters.formats import jsonl, trec
from harness.dataset.adapters.formats.delimited import csv_records, tsv
from harness.dataset.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.schema import Ability

Records = Iterator[tuple[int, dict[str, Any]]]
Reader = Callable[[TextFile], Records]

ACCEPTED = (
    "documents.jsonl, .csv, .tsv or .trec (or BEIR's corpus.jsonl); queries.jsonl, .csv or .tsv "
    "(or TREC's topics.*); judgements.jsonl or .csv (or TREC's qrels.*, or BEIR's qrels/*.tsv)"
)


def _from_jsonl(file: TextFile) -> Records:
    for line, record in jsonl.records(file):
        if "_id" in record and "id" not in record:  # as BEIR names it
            record["id"] = record["_id"]
        yield line, record


def _documents_from_csv(file: TextFile) -> Records:
    return csv_records(file, ("id", "text"))


def _judgements_from_csv(file: TextFile) -> Records:
    return csv_records(file, ("query", "document"))


def _documents_from_tsv(file: TextFile) -> Records:
    for line, (id_, text) in tsv(file, ("document id", "text")):
        yield line, {"id": id_, "text": text}


def _documents_from_trec(file: TextFile) -> Records:
    for document in trec.documents(file):
        line, id_, title, text = document
        yield line, {"id": id_, "title": title, "text": text}


def _queries_from_topics(file: TextFile) -> Records:
    for line, id_, text in trec.topics(file):
        yield line, {"id": id_, "text": text}


def _judgements_from_qrels(file: TextFile) -> Records:
    for line, query, document, grade in trec.qrels(file):
        yield line, {"query": query, "document": document, "grade": grade}


_READERS: Mapping[str, tuple[tuple[str, Reader], ...]] = {
    "documents": (
        ("documents.jsonl", _from_jsonl),
        ("corpus.jsonl", _from_jsonl),
        ("documents.csv", _documents_from_csv),
        ("documents.tsv", _documents_from_tsv),
        ("docs.tsv", _documents_from_tsv),
        ("collection.tsv", _documents_from_tsv),
        ("documents.trec", _documents_from_trec),
        ("docs.trec", _documents_from_trec),
    ),
    "queries": (
        ("queries.jsonl", _from_jsonl),
        ("queries.csv", _documents_from_csv),
        ("queries.tsv", _queries_from_topics),
        ("topics.*", _queries_from_topics),
    ),
    "judgements": (
        ("judgements.jsonl", jsonl.records),
        ("judgments.jsonl", jsonl.records),
        ("judgements.csv", _judgements_from_csv),
        ("judgments.csv", _judgements_from_csv),
        ("qrels.*", _judgements_from_qrels),
    ),
}


def find(folder: Path, split: str) -> dict[str, Path]:
    """The files of a folder by role: `documents`, `queries`, and one or more `judgements`.

    Raises UsageError when a role has no file or several, and for a split that is not there.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: a folder is needed, with {ACCEPTED}")
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    found = {}
    for role in ("documents", "queries"):
        found[role] = folder / _only(folder, role, names)
    if (folder / "qrels").is_dir():
        return found | _splits(folder / "qrels", split)
    if split not in ("test", "all"):
        raise UsageError(f"{folder}: has no splits, so no {split!r}; leave out --split")
    return found | {"judgements": folder / _only(folder, "judgements", names)}


def records(role: str, path: Path) -> Records:
    """The records of a file in its role. Raises UsageError for a line that cannot be read."""
    if path.parent.name == "qrels":
        return _judgements_from_qrels(TextFile(path))
    return _reader(role, path.name)(TextFile(path))


def _reader(role: str, name: str) -> Reader:
    plain = name.removesuffix(".gz")
    return next(reader for pattern, reader in _READERS[role] if fnmatch(plain, pattern))


def documents_name(folder: Path, name: str = "") -> str | None:
    """The file of a folder that holds the documents; None where there is none.

    With `name`, that file if its name is one of those accepted. Raises UsageError for several.
    """
    names = [name] if name else sorted(path.name for path in folder.iterdir() if path.is_file())
    found = _fitting("documents", names)
    return _only(folder, "documents", names) if found else None


def _only(folder: Path, role: str, names: list[str]) -> str:
    fitting = _fitting(role, names)
    if not fitting:
        raise UsageError(f"{folder}: no file with the {role}; accepted are {ACCEPTED}")
    if len(fitting) > 1:
        raise UsageError(
            f"{folder}: several files could be the {role}: {', '.join(fitting)}; leave one"
        )
    return fitting[0]


def _fitting(role: str, names: list[str]) -> list[str]:
    """The names that a file in this role may have."""
    patterns = [pattern for pattern, _ in _READERS[role]]
    return [n for n in names if any(fnmatch(n.removesuffix(".gz"), p) for p in patterns)]


def _splits(folder: Path, split: str) -> dict[str, Path]:
    there = {
        path.name.removesuffix(".gz").removesuffix(".tsv"): path
        for path in sorted(folder.iterdir())
    }
    wanted = list(there) if split == "all" else [split]
    if split not in ("all", *there):
        raise UsageError(
            f"{folder}: no {split}.tsv; there is {', '.join(there) or 'nothing'}: choose with "
            "--split"
        )
    return {f"judgements/{name}": there[name] for name in wanted}


# -- Fields that are more than a string ------------------------------------------------------------


def haystacks(
    file: TextFile, line: int, record: Mapping[str, Any]
) -> Mapping[str, int | None] | None:
    """Haystacks of a document, each with its own time there; None where it names none.

    A name, a list of names, or an object of names and times (null: the document's own). Raises
    UsageError for anything else.
    """
    value = record.get("haystack")
    if value is None or value == "":
        return None
    if isinstance(value, dict):
        return {name: timestamp(file, line, said) for name, said in value.items()}
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name for name in names):
        raise file.error(line, f"the haystack {value!r} is neither a name nor a list of names")
    return dict.fromkeys(names)


def ability(file: TextFile, line: int, record: Mapping[str, Any]) -> Ability:
    """What a query asks; lookup where it does not say. Raises UsageError for an unknown one."""
    value = record.get("ability") or Ability.LOOKUP
    try:
        return Ability(value)
    except ValueError:
        raise file.error(
            line, f"the ability {value!r} is none of {', '.join(Ability)}; choose one"
        ) from None


def answers(file: TextFile, line: int, record: Mapping[str, Any]) -> list[str]:
    """Reference answers: a string, or a list of them. Raises UsageError for anything else."""
    value = record.get("answers") or []
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(answer, str) for answer in found):
        raise file.error(line, f"the answers {value!r:.60} are neither a string nor a list of them")
    return found


def timestamp(file: TextFile, line: int, value: object) -> int | None:
    """ISO 8601, or whole seconds since 1970, as the schema's timestamp. Raises UsageError."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    text = str(value).strip()
    if text.removeprefix("-").isdecimal() and len(text) > 8:  # 8 digits are a date: 20230508
        return int(text)
    try:
        return schema.timestamp(datetime.fromisoformat(text))
    except ValueError:
        raise file.error(
            line,
            f"the timestamp {value!r} is neither ISO 8601 (2023-05-08T13:56:00) nor whole seconds "
            "since 1970; mend it",
        ) from None
