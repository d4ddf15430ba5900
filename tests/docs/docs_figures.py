"""Numbers in prose, and the files that the page says they come from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs_blocks import ROOT, Page

from harness.datasets.registry import iter_configs

_CODE = re.compile(r"`[^`]*`")
_ADDRESS = re.compile(r"\]\([^)]*\)|https?://\S+")
_FROM = re.compile(r"<!-- from: (.*?) -->", re.S)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_NUMBER = re.compile(
    r"(?<![\w.])(?P<number>\d[\d,]*(?:\.\d+)?|\.\d+)"
    r"(?P<percent>(?: (?:to|and) \d+)? ?(?:%|per cent))?(?!\w|\.\d)"
)
_ANY_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+")
_VERSIONED = ("Python", "version", "BY", "NC", "SA", ">=", "Apache", "SQuAD")
_LEVELS = ("interval", "confidence", "power")  # 95% intervals, 80% power
_WITHOUT_FILE = ("arithmetic", "definition", "the paper ")


def unfounded(page: Page) -> Iterator[str]:
    """One line for every measured number of the page that no file it names holds."""
    for at, text in _paragraphs(page.prose):
        sources = [" ".join(found.split()) for found in _FROM.findall(text)]
        for number, shown, percent in measured(text):
            place = f"{page.path.name}, line {at}: {shown.strip()}"
            if not sources:
                yield f"{place} does not say where it comes from"
            elif not any(_holds(source, number, percent) for source in sources):
                yield f"{place} is not in {', '.join(sources)}"


def measured(text: str) -> Iterator[tuple[str, str, bool]]:
    """(digits, as printed, per cent?) of numbers that somebody measured: decimals and shares."""
    plain = _COMMENT.sub(" ", _CODE.sub("` `", _ADDRESS.sub("](", text)))
    for found in _NUMBER.finditer(plain):
        before = plain[: found.start()].rstrip()
        version = before.endswith(_VERSIONED)
        named = plain[found.end() :].lstrip().startswith(_LEVELS)
        if named or found[0] == "95%":
            continue
        if ("." in found["number"] or found["percent"]) and not version:
            yield found["number"].replace(",", ""), found[0], bool(found["percent"])


def _paragraphs(prose: list[str]) -> list[tuple[int, str]]:
    """(line, text); a paragraph of comments alone belongs to the one before it."""
    found: list[tuple[int, str]] = []
    lines: list[str] = []
    for at, line in enumerate([*prose, ""]):
        if line.strip() and not line.lstrip().startswith("#"):
            lines.append(line)
        elif lines:
            text = "\n".join(lines)
            if found and not _COMMENT.sub("", text).strip():
                found[-1] = (found[-1][0], f"{found[-1][1]}\n{text}")
            else:
                found.append((at - len(lines) + 1, text))
            lines = []
    return found


def _holds(source: str, number: str, percent: bool) -> bool:
    """Whether a source holds the number, rounded as it is printed. Raises for a missing file."""
    if source.startswith(_WITHOUT_FILE):
        return True
    decimals = len(number.partition(".")[2])
    wanted = format(float(number), f".{decimals}f")
    values = _values(source)
    if percent:
        values = [*values, *(100 * value for value in values)]
    return any(format(value, f".{decimals}f") == wanted for value in values)


def _values(source: str) -> list[float]:
    """The numbers of a source: `FILE.json#key.key`, `FILE.md: words of the line`, sizes."""
    if source == "harness datasets":
        sizes = [variant.bytes for _, variant in iter_configs() if variant.bytes]
        return [size / unit for size in sizes for unit in (1e3, 1e6, 1e9)]
    place, _, words = source.partition(": ")
    name, _, key = place.partition("#")
    file = ROOT / name
    if not file.is_file():
        raise AssertionError(f"{source}: there is no file {name}")
    if file.suffix == ".json":
        return list(_leaves(_below(json.loads(file.read_text("utf-8")), key, source)))
    lines = [line for line in file.read_text("utf-8").splitlines() if words in line]
    text = "\n".join(lines)
    return [float(found.replace(",", "").rstrip(".")) for found in _ANY_NUMBER.findall(text)]


def _below(value: Any, key: str, source: str) -> Any:
    for part in filter(None, key.split(".")):
        if not isinstance(value, dict) or part not in value:
            known = ", ".join(value) if isinstance(value, dict) else "nothing"
            raise AssertionError(f"{source}: no {part!r} there; known: {known}")
        value = value[part]
    return value


def _leaves(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def load(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text("utf-8"))
