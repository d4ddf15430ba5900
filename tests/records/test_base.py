"""Records: what is decoded is checked, and an error is one line that a person can act on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from msgspec import field

from harness.errors import UsageError
from harness.io.checksums import (
    ChecksummedRecord,
    check_file,
    read_with_checksums,
    rewrite_with_checksums,
    write_with_checksums,
)
from harness.io.records import Record, decode, encode, json_schema, read_toml_record


class Part(Record):
    name: str
    weight: float = 1.0
    colour: Literal["red", "blue"] | None = None


class Whole(ChecksummedRecord):
    parts: list[Part]
    by_name: dict[str, Part] = field(default_factory=dict)


def test_a_record_is_the_same_after_writing_and_reading() -> None:
    whole = Whole(parts=[Part(name="a"), Part(name="b", weight=0.5)], by_name={"c": Part(name="c")})
    assert decode(encode(whole), Whole, "file") == whole


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"parts": [{"name": 1}]}', "f.json: parts[0].name: expected str, got int"),
        ('{"parts": [{}]}', "f.json: parts[0].name: is missing"),
        (
            '{"parts": [{"name": "a", "wieght": 2}]}',
            "f.json: parts[0].wieght: unknown field; did you mean weight?",
        ),
        (
            '{"parts": [{"name": "a", "colour": "green"}]}',
            "f.json: parts[0].colour: invalid enum value 'green'; choose one of red, blue",
        ),
        ('{"parts": [], "prats": 1}', "f.json: prats: unknown field; did you mean parts?"),
        ('{"parts": ', "f.json: not valid JSON (Input data was truncated)"),
        ("[1]", "f.json: expected object, got list"),
    ],
)
def test_an_error_names_the_file_the_field_and_the_expected_type(data: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        decode(data, Whole, "f.json")
    assert str(error.value) == message


def test_a_toml_file_is_checked_as_json_is(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('name = "a"\nweight = 2\n')
    assert read_toml_record(file, Part) == Part(name="a", weight=2.0)
    file.write_text('name = "a"\nweigth = 2\n')
    with pytest.raises(UsageError, match=r"weigth: unknown field; did you mean weight\?"):
        read_toml_record(file, Part, "--config")


def test_a_schema_forbids_unknown_fields() -> None:
    schema = json_schema(Whole, "A whole")
    assert schema["$defs"]["Part"]["additionalProperties"] is False


def test_a_changed_record_or_file_is_refused(tmp_path: Path) -> None:
    path, beside = tmp_path / "whole.json", tmp_path / "data.bin"
    beside.write_bytes(b"1")
    write_with_checksums(path, Whole(parts=[Part(name="a", weight=0.1)]), ["data.bin", "none"])
    record = read_with_checksums(path, Whole, required=True)
    assert check_file(beside, record) == beside
    rewrite_with_checksums(path, Whole(parts=[], checksums=record.checksums))
    assert check_file(beside, read_with_checksums(path, Whole)) == beside
    beside.write_bytes(b"2")
    with pytest.raises(UsageError, match="is not the file that was written with the record"):
        check_file(beside, record)
    path.write_text(path.read_text().replace("[]", '[{"name":"b"}]'))
    with pytest.raises(UsageError, match="was changed since it was written; get it again"):
        read_with_checksums(path, Whole, "get it again")
