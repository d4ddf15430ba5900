"""What tables of the reference document, and what files really hold, in a form that compares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docs_blocks import read

_ROW = re.compile(r"\| *(.*?) *(?<!\\)\|")
_CODE = re.compile(r"`([^`]+)`")


def documented(page: Path, heading: str) -> list[str]:
    """The names in code in the first column of the tables below a heading, in order.

    Raises AssertionError for a heading that the page does not have, or has no table below it.
    """
    lines = read(page).prose
    heads = {i: line.lstrip("#").strip(" `") for i, line in enumerate(lines) if line[:1] == "#"}
    starts = [i for i, head in heads.items() if head == heading]
    assert starts, f"{page.name} has no heading {heading!r}"
    level = len(lines[starts[0]]) - len(lines[starts[0]].lstrip("#"))
    names: list[str] = []
    for line in lines[starts[0] + 1 :]:
        if line.startswith("#") and len(line) - len(line.lstrip("#")) <= level:
            break
        if row := _ROW.match(line):
            names += _CODE.findall(row[1])
    assert names, f"{page.name} has no table below {heading!r}"
    return names


def paths(value: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where each leaf of a JSON value stands: names of objects' keys, `[]` for items of lists."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from paths(one, (*before, key))
    elif isinstance(value, list) and value:
        for one in value:
            yield from paths(one, (*before, "[]"))
    else:
        yield before


def differences(written: Iterable[str], found: Iterable[tuple[str, ...]]) -> set[str]:
    """What stands in the tables and in no file, and what stands in a file and in no table.

    A documented `a.b[].*.c` is a leaf, or an object or list that is described as a whole. `*` is
    any name.
    """
    wanted = {name: tuple(name.replace("[]", ".[]").split(".")) for name in written}
    seen: set[str] = set()
    odd: set[str] = set()
    for path in set(found):
        fitting = [name for name, parts in wanted.items() if _begins(path, parts)]
        # Null, or an empty object, in place of what is described piece by piece.
        inside = [name for name, parts in wanted.items() if _begins(parts, path)]
        if fitting:
            seen.update(fitting)
        elif not inside:
            odd.add(f"not in the table: {'.'.join(path)}")
    return odd | {f"in no file: {name}" for name in wanted if name not in seen}


def _begins(path: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether a path is what the parts lead to, or stands below it."""
    return len(path) >= len(parts) and all(
        "*" in (one, part) or one == part for one, part in zip(path, parts, strict=False)
    )
