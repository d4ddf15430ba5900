"""Rows and numbers out of Arrow columns, against Arrow's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from harness.runfiles.arrow import flags, integers, strings, take, to_numpy

texts = st.lists(st.lists(st.text(max_size=3) | st.none(), max_size=5), min_size=1, max_size=6)


@given(texts, st.data())
def test_rows_of_a_chunked_column_are_those_that_arrow_takes(
    chunks: list[list[str | None]], data: st.DataObject
) -> None:
    # A slice of each, since a chunk may begin anywhere in its buffers.
    arrays = [pa.array(["x", *chunk], pa.string()).slice(1) for chunk in chunks]
    column = pa.chunked_array(arrays)
    rows = data.draw(st.lists(st.integers(0, max(len(column) - 1, 0)), max_size=9))
    if len(column) == 0:
        rows = []
    found = take(column, np.array(rows, np.int64))
    assert found.to_pylist() == column.take(pa.array(rows, pa.int64())).to_pylist()


@given(st.lists(st.booleans() | st.none()), st.integers(0, 9))
def test_flags_are_the_trues(values: list[bool | None], start: int) -> None:
    column = pa.array(values, pa.bool_()).slice(start)
    assert flags(column).tolist() == [bool(value) for value in values[start:]]
    twice = pa.chunked_array([column, column])
    assert flags(twice).tolist() == [bool(value) for value in values[start:]] * 2


@given(st.lists(st.integers(-9, 9)), st.integers(0, 9))
def test_numbers_go_there_and_back(values: list[int], start: int) -> None:
    for kind in (np.int32, np.int64):
        column = integers(np.array(values, kind)).slice(start)
        assert to_numpy(column).tolist() == values[start:]
        assert to_numpy(column).dtype == kind
        assert to_numpy(pa.chunked_array([column, column])).tolist() == values[start:] * 2
    for type_ in (pa.float32(), pa.float64()):
        column = pa.array(values, type_).slice(start)
        assert to_numpy(column).tolist() == values[start:]


@given(st.lists(st.text(max_size=5)))
def test_strings_are_what_arrow_makes_of_them(values: list[str]) -> None:
    assert strings(values).equals(pa.array(values, pa.string()))
