"""The splitter of huge JSON arrays, held against orjson on the whole file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.datasets.adapters.json_stream import records
from harness.errors import UsageError

_TEXT = st.text(alphabet=st.sampled_from('ab"\\[]{},: \n\t/ué😀'), max_size=12)
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_INDENT = st.sampled_from([None, 0, 2])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stream") / "file.json"


def _accepted(file: Path, data: bytes, block: int) -> list[Any] | None:
    file.write_bytes(data)
    try:
        return [record.value for record in records(file, block=block)]
    except UsageError:
        return None


def _accepted_by_orjson(data: bytes) -> list[Any] | None:
    """Parses the whole file with orjson; None for an error or a duplicate key."""
    try:
        whole = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    keys: list[list[str]] = []
    json.loads(data, object_pairs_hook=lambda pairs: keys.append([key for key, _ in pairs]))
    unique = all(len(set(one)) == len(one) for one in keys)
    return whole if unique and isinstance(whole, list) else None


@pytest.mark.slow
@given(st.lists(_VALUE, max_size=5), _INDENT, st.booleans(), st.integers(1, 40))
def test_the_records_of_any_array_are_what_orjson_reads(
    file: Path, array: list[Any], indent: int | None, ascii: bool, block: int
) -> None:
    data = json.dumps(array, indent=indent, ensure_ascii=ascii).encode()
    assert _accepted(file, data, block) == array


@given(st.lists(_VALUE, max_size=3), st.data(), st.integers(1, 40))
def test_a_damaged_array_is_refused_exactly_when_orjson_refuses_it(
    file: Path, array: list[Any], data: st.DataObject, block: int
) -> None:
    text = bytearray(json.dumps(array).encode())
    at = data.draw(st.integers(0, len(text)))
    remove = data.draw(st.integers(0, 3))
    text[at : at + remove] = data.draw(st.sampled_from([b"", b'"', b"\\", b"[", b"]", b"}", b","]))
    assert _accepted(file, bytes(text), block) == _accepted_by_orjson(bytes(text))


def test_each_record_says_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(b' [ {"a": "],["} ,[1, 2] ]\n')
    found = [(r.number, r.offset, r.size) for r in records(path, block=4)]
    data = path.read_bytes()
    assert [orjson.loads(data[offset : offset + size]) for _, offset, size in found] == [
        {"a": "],["},
        [1, 2],
    ]


def test_a_truncated_file_is_an_error_that_names_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(b'[{"a": 1}, {"a": "half')
    stream = records(path)
    assert next(stream).value == {"a": 1}
    with pytest.raises(UsageError, match=r"cut\.json: .*byte 22, inside record 1 \(from byte 10\)"):
        next(stream)
