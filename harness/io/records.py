"""The base of all typed records, and their conversion from and to JSON and TOML.

A record is a frozen `msgspec.Struct`. Decoding checks the type of every field and rejects unknown
fields; errors are one line that names the file, the field and what was expected.

    class RunCounts(Record):
        asked: int
        failed: int = 0

    decode(b'{"asked": 3}', RunCounts, "run.json")
    encode(RunCounts(asked=3))  # b'{"asked":3}': default values are omitted
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import msgspec

from harness.errors import UsageError
from harness.io.files import read_toml, write_bytes


class _RecordMeta(msgspec.StructMeta):
    """Makes the fields of every record keyword arguments, which msgspec does not inherit."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, object], **config: Any
    ) -> _RecordMeta:
        config.setdefault("kw_only", True)
        return super().__new__(mcs, name, bases, namespace, **config)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Record(
    msgspec.Struct,
    metaclass=_RecordMeta,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A record of a file or a message: typed, immutable, without unknown fields."""


class Checksums(Record):
    """The sha256 of the files that belong to a record, by name, and of the record itself."""

    files: dict[str, str]
    record: str


class ChecksummedRecord(Record):
    """A record with checksums; None if another program wrote it."""

    checksums: Checksums | None = None


T = TypeVar("T")


def decode(data: bytes | str, kind: type[T], where: str, remedy: str = "") -> T:
    """Decodes JSON as a record.

    `where` names the file or message in errors, `remedy` is the advice for a damaged one. Raises
    UsageError for invalid JSON and for values of another type.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _refusal(error, kind, where, remedy) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: not valid JSON ({error}){with_remedy(remedy)}") from None


def convert(values: Any, kind: type[T], where: str, remedy: str = "") -> T:
    """Converts plain values, as of a TOML file, to a record. Raises UsageError as `decode`."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise _refusal(error, kind, where, remedy) from None


def encode(record: Any, *, indent: bool = False) -> bytes:
    """Encodes a record as JSON with keys in the order of the fields; omits default values."""
    data = msgspec.json.encode(record)
    return msgspec.json.format(data, indent=2) + b"\n" if indent else data


def to_plain(record: Any) -> Any:
    """Converts a record to the dictionaries, lists, texts and numbers of its JSON."""
    return msgspec.to_builtins(record)


def to_tree(value: Any) -> Any:
    """Converts a record or dataclass to dictionaries and lists with every field."""
    if is_dataclass(value):
        return {one.name: to_tree(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {encoded: to_tree(getattr(value, name)) for name, encoded in names}
    if isinstance(value, dict):
        return {key: to_tree(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_tree(one) for one in value]
    return value


def read_json_record(path: Path, kind: type[T], remedy: str = "") -> T:
    """Reads a JSON file as a record. Raises UsageError as `decode`, and for a missing file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    return decode(data, kind, str(path), remedy)


def write_json_record(path: Path, record: Any) -> None:
    """Writes a record as indented JSON, atomically."""
    write_bytes(path, encode(record, indent=True))


def read_toml_record(path: Path, kind: type[T], option: str = "") -> T:
    """Reads a TOML file as a record; `option` is the command-line option that names the file.

    Raises UsageError as `read_toml` and `decode`.
    """
    return convert(read_toml(path, option), kind, f"{option} {path}".strip())


def json_schema(kind: Any, title: str) -> dict[str, Any]:
    """Generates the JSON Schema (2020-12) of a record."""
    schema = msgspec.json.schema(kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}


def _refusal(error: msgspec.ValidationError, kind: Any, where: str, remedy: str) -> UsageError:
    from harness.io.record_errors import explained

    return UsageError(f"{explained(error, kind, where)}{with_remedy(remedy)}")


def with_remedy(remedy: str) -> str:
    """Returns the advice that ends an error message, after a semicolon."""
    return f"; {remedy}" if remedy else ""


class OutputPart(Record, forbid_unknown_fields=False, omit_defaults=False):
    """An object inside an output; members may be added."""


class Output(OutputPart, tag_field="schema"):
    """Output of a command with `--json`: one object on one line.

    The member `schema` names its kind, for example `harness.runs/1`. Members may be added, so
    readers must ignore unknown ones; the number at the end increases when a member is removed or
    changes its meaning.
    """
