"""Reads the records of one large JSON array in constant memory; orjson parses each record.

The splitter only finds the commas at depth one, which end records. Quotes and backslashes separate
strings from the rest; NumPy then counts brackets and keys' colons in the few bytes outside strings,
one block at a time. orjson validates: an array is accepted exactly when it accepts all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from harness.errors import UsageError
from harness.io.files import doubled_key

BLOCK = 1 << 22
_BLANK = b" \t\r\n"
_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPEN, _CLOSE = b'"\\,:[]'

_IS_STRUCTURAL = np.zeros(256, bool)
_IS_STRUCTURAL[list(b"[]{},:")] = True
_STEP = np.zeros(256, np.int64)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1

Positions = npt.NDArray[np.int64]
Block = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class JsonElement:
    """One element of the array: its number from 0, its byte offset, its size, its value."""

    number: int
    offset: int
    size: int
    value: Any


def records(path: Path, *, block: int = BLOCK) -> Iterator[JsonElement]:
    """Yields the elements of the JSON array in `path`, one at a time.

    `block` is the number of bytes to scan at once. Raises UsageError with the file, the record and
    the byte when the file is missing, truncated, or not a JSON array.
    """
    for number, (offset, data, colons) in enumerate(split(path, block=block)):
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise UsageError(
                f"{path}: record {number} (from byte {offset}) is not valid JSON ({error}); the "
                "file is damaged, download it again"
            ) from None
        if (name := doubled_key(data, value, colons)) is not None:
            raise UsageError(f"{path}: duplicate key {name!r} in record {number}; keep one")
        yield JsonElement(number, offset, len(data), value)


def split(path: Path, *, block: int = BLOCK) -> Iterator[tuple[int, bytes | memoryview, int]]:
    """Yields offset, raw bytes and number of keys of each element of an array; see `records`."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below; the guard is for open alone
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    with file:
        yield from _split(file, path, block)


def _split(file: BinaryIO, path: Path, block: int) -> Iterator[tuple[int, bytes | memoryview, int]]:
    scanner = _Scanner()
    pieces: list[memoryview] = []  # of the open segment
    start = 0  # byte offset of its start in the file
    count = colons_before = 0
    place = "before"
    while data := file.read(block):
        base, view, done = scanner.offset, memoryview(data), 0
        for at, colons in scanner.boundaries(np.frombuffer(data, np.uint8)):
            mark = data[at]
            segment = _joined(pieces, view[done:at])
            if place == "before" and mark == _OPEN and _is_blank(segment):
                place = "inside"
            elif place == "inside" and mark in (_COMMA, _CLOSE):
                if mark == _CLOSE:
                    place = "after"
                if not (mark == _CLOSE and count == 0 and _is_blank(segment)):
                    count += 1
                    yield start, segment, colons - colons_before
            else:
                raise _not_an_array(path, base + at)
            pieces, done, start, colons_before = [], at + 1, base + at + 1, colons
        pieces.append(view[done:])
    if place == "inside":
        raise UsageError(
            f"{path}: the file ends at byte {scanner.offset}, inside record {count} (from byte "
            f"{start}); it is truncated, download it again"
        )
    if place == "before" or not all(_is_blank(piece) for piece in pieces):
        raise _not_an_array(path, start)


class _Scanner:
    """Finds the top-level boundaries in consecutive blocks of one JSON text.

    Its attributes hold all state that the next block depends on.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._in_string = False
        self._escaped = False  # the next byte follows an open backslash
        self._depth = 0
        self._colons = 0  # outside strings, one after each key

    def boundaries(self, block: Block) -> list[tuple[int, int]]:
        """Returns offsets of the array's brackets and the commas between elements in `block`, each
        with the number of colons before it."""
        positions = self._outside_strings(block)
        positions = positions[_IS_STRUCTURAL[block[positions]]]
        marks = block[positions]
        steps = _STEP[marks]
        depth = self._depth + np.cumsum(steps)
        # An opening bracket counts as inside, a closing one as outside: both get the outer level.
        boundary = np.where(steps != 0, depth == (steps > 0), (marks == _COMMA) & (depth == 1))
        colons = self._colons + np.cumsum(marks == _COLON)
        self.offset += len(block)
        if len(depth):
            self._depth, self._colons = int(depth[-1]), int(colons[-1])
        return list(zip(positions[boundary].tolist(), colons[boundary].tolist(), strict=True))

    def _outside_strings(self, block: Block) -> Positions:
        is_quote = block == _QUOTE
        is_quote[self._escaped_places(block)] = False
        quotes = np.flatnonzero(is_quote)
        starts_outside = not self._in_string
        self._in_string ^= bool(len(quotes) & 1)
        # Stretches outside strings run from after an even edge to before the next odd one.
        edges = np.concatenate(
            (
                np.array([-1] * starts_outside, np.int64),
                quotes,
                np.array([len(block)] * (not self._in_string), np.int64),
            )
        )
        starts, ends = edges[0::2] + 1, edges[1::2]
        lengths = ends - starts
        before = np.cumsum(lengths) - lengths
        outside: Positions = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return outside

    def _escaped_places(self, block: Block) -> Positions:
        """Returns escaped offsets, which follow a run of backslashes of odd length."""
        slashes = np.flatnonzero(block == _BACKSLASH)
        if not len(slashes):
            first, self._escaped = int(self._escaped), False
            return np.zeros(first, np.int64)  # offset 0, or no offset
        breaks = np.flatnonzero(np.diff(slashes) != 1)
        firsts = slashes[np.concatenate(([0], breaks + 1))]
        behind = slashes[np.concatenate((breaks, [len(slashes) - 1]))] + 1
        lengths = behind - firsts
        if self._escaped:
            if firsts[0] == 0:
                lengths[0] += 1  # the run started in the previous block
            else:
                lengths = np.concatenate(([1], lengths))
                behind = np.concatenate(([0], behind))
        escaped: Positions = behind[lengths & 1 == 1]
        self._escaped = bool(len(escaped)) and bool(escaped[-1] == len(block))
        return escaped[: len(escaped) - self._escaped]


def _joined(pieces: list[memoryview], last: memoryview) -> bytes | memoryview:
    """Joins the parts of one segment, without a copy if there is only one."""
    return b"".join([*pieces, last]) if pieces else last


def _is_blank(segment: bytes | memoryview) -> bool:
    return not bytes(segment).strip(_BLANK)


def _not_an_array(path: Path, offset: int) -> UsageError:
    return UsageError(
        f"{path}: not one JSON array (at byte {offset}); the file is damaged or in another "
        "format, download it again"
    )
