"""Damages of files, drawn from a seed: what disks, copies and people do to a folder."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

ODD: tuple[Any, ...] = (None, [], {}, "x", -1, 1e308, 2**63, True, "", [[]], "\x1b[31m", {"a": []})
Damage = Callable[[random.Random, bytes], bytes]


def flipped(draw: random.Random, data: bytes) -> bytes:
    """One bit the other way."""
    changed = bytearray(data or b"\0")
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw: random.Random, data: bytes) -> bytes:
    """As a copy ends that was stopped."""
    return data[: draw.randrange(len(data) + 1)]


def zeroed(draw: random.Random, data: bytes) -> bytes:
    """A stretch that was never written."""
    at, size = draw.randrange(len(data) + 1), draw.randrange(1, 4096)
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def doubled(draw: random.Random, data: bytes) -> bytes:
    """A stretch twice."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + data[max(0, at - 300) : at] + data[at:]


def odd_value(draw: random.Random, data: bytes) -> bytes:
    """JSON with one value replaced or taken out, and without a seal, as by hand."""
    try:
        whole = orjson.loads(data)
    except orjson.JSONDecodeError:
        return flipped(draw, data)
    places = [*_places(whole)]
    if not places:
        return b"[]"
    inside, key = draw.choice(places)
    if draw.random() < 0.3:
        del inside[key]
    else:
        inside[key] = draw.choice(ODD)
    if isinstance(whole, dict):
        whole.pop("checksums", None)
    return orjson.dumps(whole)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        yield value, key
        if isinstance(one, dict | list):
            yield from _places(one)


DAMAGES: tuple[Damage, ...] = (flipped, cut, zeroed, doubled, odd_value)


def damage(folder: Path, seed: int) -> str:
    """Damage one file of a folder, or take it away; says what was done."""
    draw = random.Random(seed)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    path = draw.choice(files)
    return f"{path.name}: {damaged_file(path, draw)}"


def damaged_file(path: Path, draw: random.Random) -> str:
    """Damage a file, or take it away; says what was done."""
    if draw.random() < 0.06:
        path.unlink()
        return "taken away"
    how = draw.choice(DAMAGES if path.suffix == ".json" else DAMAGES[:-1])
    path.write_bytes(how(draw, path.read_bytes()))
    return how.__name__
