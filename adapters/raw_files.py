"""Helpers for adapters of JSON files: raw files, record fields, the `dated` text form.

The `dated` form of a conversation adds date and speaker to every text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.datasets.adapter import RemoteFile, SourceFiles, Variant
from harness.errors import UsageError
from harness.io.files import doubled_key, read_json
from harness.schema import as_datetime

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

T = TypeVar("T")

_FIELDS = {
    "longmemeval": {"question_id", "haystack_sessions"},
    "locomo": {"sample_id", "conversation"},
}
"""Fields by which the records of a dataset can be recognised."""

_KINDS = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def published_files(list_of: Path, url: str = "") -> tuple[RemoteFile, ...]:
    """Reads a list of published files below `url`: sha256, bytes and name per line."""
    rows = (line.split(maxsplit=2) for line in list_of.read_text(encoding="utf-8").splitlines())
    return tuple(
        RemoteFile(name, url + name, sha256=sha256, bytes=int(size)) for sha256, size, name in rows
    )


def read_once(path: Path) -> Any:
    """Reads a JSON file. Raises UsageError as `read_json` does, and for a duplicate key."""
    value = read_json(path)
    if (name := doubled_key(path.read_bytes(), value)) is not None:
        raise UsageError(f"{path}: duplicate key {name!r} in one object; keep one")
    return value


def one_file(source: Path, variant: Variant, *folders: str) -> Mapping[str, Path]:
    """Returns the only raw file of `variant`: `source` itself, or the file of that name in it.

    `folders` are subfolders to search too. Raises UsageError if the file is not found.
    """
    (file,) = variant.files
    if source.is_file():
        return {file.name: source}
    for folder in ("", *folders):
        if (path := source / folder / file.name).is_file():
            return {file.name: path}
    raise UsageError(
        f"{source}: no {file.name} in this folder; pass the file, or get it from {file.url}"
    )


def all_files(source: Path, variant: Variant, *, folder: str, of: str) -> dict[str, Path]:
    """Returns every raw file of `variant`, by name.

    `source` is the folder with all of them, or a clone of the repository `of`, which has them in
    `folder`. Raises UsageError if neither has all.
    """
    for place in (source, source / folder):
        found = {file.name: place / file.name for file in variant.files}
        if all(path.is_file() for path in found.values()):
            return found
    names = " and ".join(file.name for file in variant.files)
    raise UsageError(f"{source}: no {names} in this folder; pass their folder, or a clone of {of}")


def parts_in(
    source: Path, variant: Variant, *, folder: str, pattern: str, of: str
) -> dict[str, Path]:
    """Returns the files that match a pattern, by name, in the published order.

    `source` is one of them, their folder, or a clone of the repository `of`, which has them in
    `folder`. Raises UsageError if there is none, and as `refuse_a_part` does.
    """
    files: list[Path] = [source] if source.is_file() else []
    for place in (source / folder, source):
        files = files or sorted(place.glob(pattern))
    if not files:
        raise UsageError(
            f"{source}: no {pattern} in this folder; pass their folder, or a clone of {of}"
        )
    order = {file.name: place for place, file in enumerate(variant.files)}
    files.sort(key=lambda path: order.get(path.name, len(order)))
    found = {path.name: path for path in files}
    refuse_a_part(found, variant, source)
    return found


def note_a_part(raw: SourceFiles, out: DatasetWriter, what: str) -> None:
    """Records each published file that is missing; `what` describes the missing part."""
    for file in raw.variant.files:
        if file.name not in raw.files:
            out.repair(what, file.name)


def refuse_a_part(files: Mapping[str, Path], variant: Variant, source: Path) -> None:
    """Raises UsageError for an incomplete set of published files.

    Their hashes are correct, so results would pass for those of the whole dataset.
    """
    sizes = {file.name: file.bytes for file in variant.files if file.sha256}
    missing = sorted(sizes.keys() - files.keys())
    if missing and all(path.stat().st_size == sizes.get(name) for name, path in files.items()):
        raise UsageError(
            f"{source}: {len(files)} of the {len(sizes)} published files; {missing[0]} is "
            "missing. Results on a part are not comparable: download all files"
        )


def field(record: Any, name: str, kind: type[T], where: str) -> T:
    """Returns the field `name` of a JSON object, of type `kind` (str, int, list or dict).

    `where` names the file and the record. Raises UsageError if the record is not an object, or if
    the field is missing or of another type.
    """
    if not isinstance(record, dict):
        raise UsageError(f"{where}: not an object; the file is damaged or in another format")
    if name not in record:
        dataset = next((d for d, fields in _FIELDS.items() if fields <= record.keys()), "")
        advice = (
            f"this looks like a file for --dataset {dataset} --source FILE"
            if dataset
            else "add it, or get the file again"
        )
        raise UsageError(f"{where}: the field {name!r} is missing; {advice}")
    value = record[name]
    if not isinstance(value, kind):
        raise UsageError(f"{where}: the field {name!r} must be {_KINDS[kind]}, not {value!r:.60}")
    return value


class DayClock:
    """Assigns timestamps, in file order, to texts that only have a date.

    Texts of one day are a second apart, starting at 00:00:01, so midnight precedes all of them.
    This keeps the order and claims no hour.
    """

    def __init__(self) -> None:
        self._said: dict[int, int] = {}

    def next(self, day: int) -> int:
        """Returns the next timestamp of a day (given as the schema timestamp of its midnight)."""
        self._said[day] = self._said.get(day, 0) + 1
        return day + self._said[day]


def day(timestamp: int) -> str:
    """Formats a schema timestamp as `[2023-05-08]`, if the hour is unknown."""
    return f"[{as_datetime(timestamp):%Y-%m-%d}]"


def date(timestamp: int) -> str:
    """Formats a schema timestamp as `[2023-05-08 13:56]`."""
    return f"[{as_datetime(timestamp):%Y-%m-%d %H:%M}]"


def dated_turn(timestamp: int, speaker: str, text: str) -> str:
    """Formats one turn as `[date] speaker: text`."""
    return f"{date(timestamp)} {speaker}: {text}"


def dated_session(timestamp: int, turns: Iterable[tuple[str, str]]) -> str:
    """Formats a session as a line with its date and a line `speaker: text` per turn."""
    return "\n".join([date(timestamp), *(f"{speaker}: {text}" for speaker, text in turns)])
