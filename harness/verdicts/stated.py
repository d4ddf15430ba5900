"""Figures that pages state about systems, held against claims and boards.

A figure is a number from 0 to 1 with two decimals or more, or a per cent, that stands in the same
sentence or the same cells of a table's row as the name of a system that a claim is about. It must
be, at the precision in which it is written, the value of a claim of that system, what our
instrument gives for it, or a number of its entry on a board.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.verdicts.claims import Claim

_FIGURE = re.compile(
    r"(?<![\w.,/#:-])(?:([01]?\.\d{2,})|(\d{1,3}(?:\.\d+)?)\s?(?:%|per cent))(?![\w/])"
)
_FENCE = re.compile(r"^\s*(```|~~~)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(*`\[])")
_COMMON = {"bm25", "grep", "dragon", "contriever", "bm25s", "cortex", "engram", "deus", "mem0"}
"""Names that are words, methods, or systems that are run here too: too common to be held to."""


@dataclass(frozen=True)
class Stated:
    """A figure on a page, and the systems of its sentence."""

    page: Path
    line: int
    figure: str
    systems: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.page}:{self.line}: {self.figure} of {' or '.join(self.systems)} is in no claim "
            "and on no board"
        )


def unfounded(
    pages: Iterable[Path], claims: Sequence[Claim], boards: Iterable[Mapping[str, Any]] = ()
) -> tuple[int, list[Stated]]:
    """How many figures the pages state about claimed systems, and those that nothing holds.

    `pages` are files of Markdown. What stands in a fenced block is a command's output, which is
    held to elsewhere.
    """
    known: dict[str, set[float]] = {}
    for claim in claims:
        values = known.setdefault(claim.system.casefold(), set())
        values.add(claim.value)
        if claim.ours is not None:
            values.add(claim.ours.value)
    for board in boards:
        for entry in board["entries"]:
            name = str(entry.get("name") or entry["system"]).casefold()
            if name in known:
                known[name].update(_numbers(entry))
    names = {name for name in known if name not in _COMMON}
    n, found = 0, []
    for page in pages:
        for line, text in _sentences(page.read_text(encoding="utf-8")):
            here = [name for name in names if _names(text, name)]
            here = [one for one in here if not any(one != o and one in o for o in here)]
            if not here:
                continue
            values = {value for name in here for value in known[name]}
            for figure, value, decimals in _figures(text):
                n += 1
                if not any(round(one, decimals) == round(value, decimals) for one in values):
                    found.append(Stated(page, line, figure, tuple(sorted(here))))
    return n, found


def _figures(text: str) -> Iterator[tuple[str, float, int]]:
    """Each figure as it is written, its value as a share, and to how many decimals."""
    for match in _FIGURE.finditer(text):
        share, per_cent = match.groups()
        if share is not None:
            yield share, float(share), len(share.partition(".")[2])
        else:
            yield match[0], float(per_cent) / 100, len(per_cent.partition(".")[2]) + 2


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text.casefold()) is not None


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Sentences of paragraphs, and rows of tables, each with the line on which it begins."""
    gathered: list[str] = []
    first, fenced = 1, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if _FENCE.match(line):
            fenced = not fenced
        plain = not fenced and not _FENCE.match(line) and line.strip()
        if plain and not line.lstrip().startswith("|"):
            if not gathered or re.match(r"\s*([*-]|\d+\.)\s", line):
                yield from _split(first, gathered)
                gathered, first = [], number
            gathered.append(line)
            continue
        yield from _split(first, gathered)
        gathered, first = [], number + 1
        if plain:
            yield number, line


def _split(first: int, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    text, at = "\n".join(lines), 0
    for part in _SENTENCE.split(text):
        begin = text.index(part, at)
        yield first + text.count("\n", 0, begin), part.replace("\n", " ")
        at = begin + len(part)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from _numbers(one)
