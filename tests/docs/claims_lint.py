"""Figures that pages state about systems, held against claims and boards.

A figure is a number from 0 to 1 with two decimals or more, a per cent, or a number up to 100 with
decimals beside the name of a measure (`R@10 88.9`). It is about a system that its sentence names,
or its row of a table, or else the head of its column. It must be, at the precision in which it is
written, the value of a claim of that system, what our instrument gives for it, or a number of its
entry on a board: a value over all questions or, from four decimals on, the bounds of its interval
and values by ability.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.analysis.board.records import Board, Entry
from harness.analysis.claims import Claim

_MEASURE = r"[A-Za-z][\w-]*@\d+"
_UNIT = r"(?!\s?(?:[mµn]?s|seconds?|minutes?|hours?|[KMG]B|tokens?)\b)"
_FIGURE = re.compile(
    # No part of a word, a version, an address; no difference, which has a sign; no price.
    r"(?<![\w.,/#:$+−-])(?:"
    rf"(?P<share>0?\.\d{{2,}}|1\.0{{2,}})(?![\w/%]|\.\d|\s?per\s?cent){_UNIT}"
    r"|(?P<percent>\d{1,3}(?:\.\d+)?)\s?(?:%|per\s?cent\b)"
    rf"|(?P<named>\d{{1,3}}\.\d+)(?=\s{_MEASURE})"
    rf"|(?:{_MEASURE})[\s|=*:]{{1,4}}(?P<measured>[1-9]\d{{0,2}}\.\d+)(?![\w/%]|\.\d|\s?per\s?cent)"
    r")"
)
_FENCE = re.compile(r"^\s*(```|~~~)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(*`\[])")
_COMMON = {"bm25", "bm25s", "grep", "contriever"}
"""Names of methods, which every page names, with figures of its own."""
_COARSE = 3
"""Up to so many decimals an entry's intervals and abilities hold a good part of all numbers."""


@dataclass(frozen=True)
class Stated:
    """A figure on a page, and the systems that it is about."""

    page: Path
    line: int
    figure: str
    systems: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.page}:{self.line}: {self.figure} of {' or '.join(self.systems)} is in no claim "
            "and on no board"
        )


@dataclass
class _Known:
    """The numbers of a system: `exact` at any precision, `fine` where more than three decimals are
    written."""

    exact: set[float] = field(default_factory=set)
    fine: set[float] = field(default_factory=set)

    def has(self, value: float, decimals: int) -> bool:
        numbers = self.exact if decimals <= _COARSE else self.exact | self.fine
        return any(abs(one - value) <= 0.5 * 10**-decimals + 1e-12 for one in numbers)


def unfounded(
    pages: Iterable[Path], claims: Sequence[Claim], boards: Iterable[Board] = ()
) -> tuple[int, list[Stated]]:
    """How many figures the pages state about claimed systems, and those that nothing holds.

    `pages` are files of Markdown. What stands in a fenced block is a command's output, which is
    held to elsewhere.
    """
    known = _known(claims, boards)
    longest_first = sorted(known.keys() - _COMMON, key=len, reverse=True)
    if not longest_first:
        return 0, []
    names = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")
    n, found = 0, []
    for page in pages:
        for line, about, text in _stated(page.read_text(encoding="utf-8"), names):
            for figure, value, decimals in _figures(text):
                n += 1
                if not any(known[name].has(value, decimals) for name in about):
                    found.append(Stated(page, line, figure, tuple(sorted(about))))
    return n, found


def family(system: str) -> str:
    """What a system and its variants are called together: the words before the first that has no
    capital. `MemPalace hybrid v4` and `MemPalace raw` are MemPalace; `Quantum Memory Graph` is one
    name."""
    first, *others = system.split()
    end = next((i for i, one in enumerate(others) if not one[0].isupper()), len(others))
    return " ".join([first, *others[:end]])


def _known(claims: Sequence[Claim], boards: Iterable[Board]) -> dict[str, _Known]:
    known: dict[str, _Known] = {}
    families: dict[str, str] = {}
    for claim in claims:
        name, together = claim.system.casefold(), family(claim.system).casefold()
        families[name] = together
        for one in {name, together}:
            numbers = known.setdefault(one, _Known())
            numbers.exact.add(claim.value)
            if claim.rescored is not None:
                numbers.exact.add(claim.rescored.value)
    for board in boards:
        for entry in board.entries:
            name = (entry.name or entry.system).casefold()
            for one in {name, families.get(name, name)} & known.keys():
                values, others = _numbers(entry)
                known[one].exact.update(values)
                known[one].fine.update(others)
    return known


def _stated(text: str, names: re.Pattern[str]) -> Iterator[tuple[int, set[str], str]]:
    """Passages that are about systems: the line, the systems, the words."""
    for line, passage, head in _passages(text):
        about = set(names.findall(passage.casefold()))
        if about:
            yield line, about, passage
            continue
        for name, cell in zip(head, _cells(passage) if head else (), strict=False):
            if about := set(names.findall(name.casefold())):
                yield line, about, cell


def _figures(text: str) -> Iterator[tuple[str, float, int]]:
    """Each figure as it is written, its value as a share, and to how many decimals."""
    for match in _FIGURE.finditer(text):
        share = match["share"]
        if share is not None:
            yield share, float(share), len(share.partition(".")[2])
            continue
        hundredths = match["percent"] or match["named"] or match["measured"]
        if float(hundredths) <= 100:
            decimals = len(hundredths.partition(".")[2]) + 2
            yield match[0], float(hundredths) / 100, decimals


def _passages(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Sentences of paragraphs, and rows of tables, each with the line on which it begins and, for
    rows, the head of its table."""
    gathered: list[str] = []
    head: list[str] = []
    first, fenced = 1, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if _FENCE.match(line):
            fenced = not fenced
        plain = not fenced and not _FENCE.match(line) and line.strip()
        if plain and not line.lstrip().startswith("|"):
            head = []
            if not gathered or re.match(r"\s*([*-]|\d+\.)\s", line):
                yield from _split(first, gathered)
                gathered, first = [], number
            gathered.append(line)
            continue
        yield from _split(first, gathered)
        gathered, first = [], number + 1
        if plain:
            yield number, line, head
            head = head or _cells(line)
        else:
            head = []


def _cells(row: str) -> list[str]:
    return row.strip().strip("|").split("|")


def _split(first: int, lines: Sequence[str]) -> Iterator[tuple[int, str, list[str]]]:
    text, at = "\n".join(lines), 0
    for part in _SENTENCE.split(text):
        begin = text.index(part, at)
        yield first + text.count("\n", 0, begin), part.replace("\n", " "), []
        at = begin + len(part)


def _numbers(entry: Entry) -> tuple[set[float], set[float]]:
    """The values of an entry over all questions; their intervals, and values by ability."""
    values: set[float] = set()
    others: set[float] = set()
    for protocol in entry.protocols:
        for name, results in protocol.slices.items():
            for result in results.values():
                if result.value is not None:
                    (values if name == "all" else others).add(result.value)
                if name == "all" and result.interval is not None:
                    others |= {result.interval.low, result.interval.high}
    return values, others
