"""Files that are damaged on purpose, each by one fault that a seed chooses; for any file format.

`mutants(name, data, n, seed)` yields the fault's name and the damaged bytes. A JSON or Parquet file
is also damaged in what it holds, not only in its bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TOKENS = [
    *("", "0", "-1", "1.5", "1e999", "-1e999", "NaN", "inf", "-Infinity", "1_0", "0x10", "١"),
    *(str(2**31), str(2**32), str(2**63), str(2**64), "9" * 400, "9" * 5000, "-" + "9" * 20),
    *("true", "null", "None", "[]", "{}", '"', "''", "#", "\t", " ", "\\", "\x00", "\x1b[31m"),
    *("q1", "d1", "Q0", "2023-13-45", "0000-00-00", "é", "𝄞", "\u2028", "n" * 5000, "<DOC>"),
    *("</DOC>", "<TEXT>", "</top>", "99999-01-01", "1:56 pm on 8 May, 99999", "../../x", "x/y"),
]
"""What stands in place of a value in a text."""

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e300, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63), 2**64),
    *("", " ", "x", "NaN", "1e999", "9" * 400, "n" * 5000, "\x00", "\x1b[2J", "d1", "q1"),
    *([], {}, [[]], [None], [1], ["x"], [{}], {"a": 1}, {"": None}, [["a", "b"]], ["d1", "d1"]),
]
"""What stands in place of a value in JSON."""

RAW = [b"NaN", b"1e999", b"-Infinity", b"9" * 5000, b'"\\ud800"', b"[" * 3000, b'"\xff"', b"{"]
"""The same as bytes, of which no JSON is made."""


def mutants(name: str, data: bytes, n: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """`n` damaged copies of a file; packed (`.gz`) and Parquet files are known by their names."""
    rng = random.Random(f"{name} {seed}")
    packed = name.endswith(".gz")
    whole = gzip.decompress(data) if packed else data
    inside = _inside(name.removesuffix(".gz"), whole)
    for _ in range(n):
        if packed and rng.random() < 0.3:
            yield _of_bytes(rng, data)
        else:
            fault, found = (rng.choice(inside) if inside else _of_bytes)(rng, whole)
            yield fault, gzip.compress(found, mtime=0) if packed else found


Fault = Callable[[random.Random, bytes], tuple[str, bytes]]


def _inside(name: str, data: bytes) -> list[Fault]:
    if name.endswith(".parquet"):
        return [_of_bytes, _of_table, _of_table, _of_table]
    if name.endswith(".zip"):
        return [_of_bytes]
    text: list[Fault] = [_of_bytes, _of_lines, _of_cells]
    return [*text, _of_json, _of_json, _of_json] if data.lstrip()[:1] in (b"{", b"[") else text


def harmless(name: str, data: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """Copies of a file that say the same, or what no reader may take for something else: it is
    read with the same numbers, or refused.

    Marks and ends of lines, a name nearly right, a name or a column twice, lines run together.
    """
    rng = random.Random(f"{name} {seed}")
    if name.endswith(".parquet"):
        yield from _harmless_table(rng, data)
        return
    if name.endswith((".gz", ".zip")):
        return
    lines = data.rstrip(b"\n").split(b"\n")
    yield "a byte-order mark", b"\xef\xbb\xbf" + data
    yield "CRLF", data.replace(b"\n", b"\r\n")
    yield "no last line end", data.rstrip(b"\n")
    yield "blank lines at the end", data + b"\n\n"
    if len(lines) > 1 and b"\t" not in data:  # what follows a tab may be a text
        yield "a line end missing", b"\n".join([*lines[:-2], lines[-2] + lines[-1]]) + b"\n"
    if name.endswith((".json", ".jsonl")):
        yield from _harmless_json(rng, lines, data)
    elif name.endswith((".csv", ".tsv")) and not _ID.search(lines[0].decode()):
        tab = "\t" if b"\t" in lines[0] else ","
        cells = lines[0].decode().split(tab)
        for at, cell in enumerate(cells):
            for head in (misspelt(rng, cell), cells[at - 1]):
                first = tab.join([*cells[:at], head, *cells[at + 1 :]]).encode()
                yield f"column {cell} is {head}", b"\n".join([first, *lines[1:]]) + b"\n"


def _harmless_table(rng: random.Random, data: bytes) -> Iterator[tuple[str, bytes]]:
    table = pq.read_table(io.BytesIO(data))
    for at, name in enumerate(table.column_names):
        names = [*table.column_names]
        names[at] = misspelt(rng, name)
        yield f"column {name} is {names[at]}", _parquet(table.rename_columns(names))
        yield f"column {name} twice", _parquet(table.append_column(name, table.column(at)))


def _harmless_json(
    rng: random.Random, lines: list[bytes], data: bytes
) -> Iterator[tuple[str, bytes]]:
    by_line = len(lines) > 1
    value = json.loads(lines[-1] if by_line else data)
    before = b"".join(line + b"\n" for line in lines[:-1]) if by_line else b""
    for at, (parent, key) in enumerate(_places(value)):
        if not isinstance(parent, dict) or _ID.fullmatch(key):
            continue
        for name in (misspelt(rng, key), key):
            copy = json.loads(json.dumps(value))
            held, _ = [*_places(copy)][at]
            if name == key:
                held[key] = _HERE
                twice = f"{json.dumps(parent[key])}, {json.dumps(key)}: null".encode()
                text = json.dumps(copy).encode().replace(json.dumps(_HERE).encode(), twice)
                yield f"{key!r} doubled", before + text + b"\n"
            elif name not in held:
                renamed = {name if one == key else one: of for one, of in held.items()}
                held.clear()
                held.update(renamed)
                yield f"{key!r} is {name!r}", before + json.dumps(copy).encode() + b"\n"


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


# -- any file --------------------------------------------------------------------------------------


def _of_bytes(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    at, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    small = min(end, at + 1 + rng.randrange(8))
    flipped = bytearray(data)
    if flipped:
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    junk = rng.choice([b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\n", b"\r", b"\t"])
    return rng.choice(
        [
            ("cut off", data[:at]),
            ("cut off at the front", data[at:]),
            ("a bit", bytes(flipped)),
            ("bytes missing", data[:at] + data[small:]),
            ("bytes twice", data[:end] + data[at:]),
            ("a byte too much", data[:at] + junk + data[at:]),
            ("noise", data[:at] + rng.randbytes(small - at) + data[small:]),
            ("empty", b""),
            ("another file", rng.choice([b"PAR1", b"\x1f\x8b\x08", b"PK\x03\x04", b"%PDF-1.4\n"])),
            ("UTF-16", data.decode(errors="replace").encode("utf-16")),
        ]
    )


def _of_lines(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    swapped = list(lines)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return rng.choice(
        [
            ("a line missing", b"\n".join(lines[:one] + lines[one + 1 :])),
            ("a line twice", b"\n".join([*lines[:one], lines[one], *lines[one:]])),
            ("lines swapped", b"\n".join(swapped)),
            ("a line end missing", data.replace(b"\n", b"", 1)),
            ("no last line end", data.rstrip(b"\n")),
            ("CRLF", data.replace(b"\n", b"\r\n")),
            ("CR", data.replace(b"\n", b"\r")),
            ("a byte-order mark", b"\xef\xbb\xbf" + data),
            ("blank lines", data.replace(b"\n", b"\n\n")),
            ("one line", data.replace(b"\n", b" ")),
            ("twice without a line end", data.rstrip(b"\n") + data),
        ]
    )


def _of_cells(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    breaks = [i for i, byte in enumerate(data) if byte in b" \t,;:\n\"<>'|"]
    if len(breaks) < 2:
        return _of_bytes(rng, data)
    at = rng.randrange(len(breaks) - 1)
    start, end = breaks[at] + 1, breaks[at + 1]
    token = rng.choice(TOKENS).encode() if rng.random() < 0.8 else rng.choice(RAW)
    return f"{token[:20]!r} for {data[start:end][:20]!r}", data[:start] + token + data[end:]


# -- JSON ------------------------------------------------------------------------------------------


def _of_json(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """A value, a name or an item of a JSON text, or of a line of one."""
    lines = data.split(b"\n")
    by_line = sum(bool(line.strip()) for line in lines) > 1
    at = rng.choice([i for i, line in enumerate(lines) if line.strip()]) if by_line else 0
    try:
        value = json.loads(lines[at] if by_line else data)
    except ValueError:
        return _of_bytes(rng, data)
    fault, found = _spoilt(rng, value)
    if not by_line:
        return fault, found
    return fault, b"\n".join([*lines[:at], found, *lines[at + 1 :]])


_ID = re.compile(r"\b[a-z][0-9]\b")  # of a query or a document: any other is as good
_HERE = "here the raw bytes stand"


def _spoilt(rng: random.Random, value: Any) -> tuple[str, bytes]:
    places = [*_places(value)]
    if not places:
        return "another value", json.dumps(rng.choice(VALUES)).encode()
    parent, key = rng.choice(places)
    kind = rng.randrange(6)
    raw = b""
    if kind == 0 and isinstance(parent, dict):
        fault, name = f"{key!r} renamed", misspelt(rng, str(key))
        parent[name] = parent.pop(key)
    elif kind == 1:
        fault = f"{key!r} missing"
        del parent[key]
    elif kind == 2 and isinstance(parent, list):
        fault = f"{key!r} twice"
        parent.append(parent[key])
    elif kind == 3:
        raw = rng.choice(RAW)
        fault, parent[key] = f"{raw[:20]!r} for {key!r}", _HERE
    elif kind == 4 and isinstance(parent, dict):
        fault, raw = f"{key!r} doubled", json.dumps(parent[key]).encode()
        raw += b", " + json.dumps(key).encode() + b": " + json.dumps(rng.choice(VALUES)).encode()
        parent[key] = _HERE
    else:
        new = rng.choice(VALUES)
        fault, parent[key] = f"{new!r:.30} for {key!r}", new
    return fault, json.dumps(value).encode().replace(json.dumps(_HERE).encode(), raw)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (object or list, key) of a JSON value."""
    for key, held in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(held, dict | list):
            yield from _places(held)


def misspelt(rng: random.Random, name: str) -> str:
    """A name with one letter less, more, changed or moved, or in capitals."""
    if not name:
        return "x"
    at = rng.randrange(len(name))
    swapped = name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :]
    spoilt = [name[:at] + name[at + 1 :], name + "s", name[:at] + "x" + name[at + 1 :], swapped]
    return rng.choice([*spoilt, name.upper(), f" {name}"])


# -- Parquet ---------------------------------------------------------------------------------------

_ARRAYS: list[Callable[[int], pa.Array]] = [
    lambda n: pa.array([2**63] * n, pa.uint64()),
    lambda n: pa.array([-(2**63)] * n, pa.int64()),
    lambda n: pa.array([float("nan")] * n),
    lambda n: pa.array([float("inf")] * n),
    lambda n: pa.array([1.5] * n, pa.float32()),
    lambda n: pa.array([b"\xff"] * n, pa.binary()),
    lambda n: pa.array([b"d1"] * n, pa.binary()),
    lambda n: pa.array(["x"] * n, pa.large_string()),
    lambda n: pa.array(["q1"] * n).dictionary_encode(),
    lambda n: pa.array([True] * n),
    lambda n: pa.array([10**17] * n, pa.timestamp("us")),
    lambda n: pa.array([2**31 - 1] * n, pa.date32()),
    lambda n: pa.array([2**62] * n, pa.duration("s")),
    lambda n: pa.array(["1.5"] * n).cast(pa.float64()).cast(pa.decimal128(38, 10)),
    lambda n: pa.array([["x"]] * n),
    lambda n: pa.array([[None]] * n, pa.list_(pa.int64())),
    lambda n: pa.array([{"a": 1}] * n),
    lambda n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    lambda n: pa.nulls(n),
    lambda n: pa.nulls(n, pa.string()),
]


def _of_table(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """A column of a Parquet file: of another type, missing, twice, renamed, with a null."""
    table = pq.read_table(io.BytesIO(data))
    at = rng.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    kind = rng.randrange(6)
    if kind == 0:
        fault, table = f"column {name} missing", table.remove_column(at)
    elif kind == 1:
        fault, table = f"column {name} twice", table.append_column(name, column)
    elif kind == 2:
        other = misspelt(rng, name)
        names = [*table.column_names[:at], other, *table.column_names[at + 1 :]]
        fault, table = f"column {name} is {other}", table.rename_columns(names)
    elif kind == 3:
        null = pa.concat_arrays([column.combine_chunks().slice(1), pa.nulls(1, column.type)])
        fault, table = f"a null in {name}", table.set_column(at, name, null)
    elif kind == 4:
        fault, table = "no rows", table.slice(0, 0)
    else:
        array = rng.choice(_ARRAYS)(len(table))
        fault, table = f"column {name} of {array.type}", table.set_column(at, name, array)
    return fault, _parquet(table)


def as_csv(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    """Records as a table with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*rows[0]], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
