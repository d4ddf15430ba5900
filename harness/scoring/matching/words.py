"""A text as lines and the numbers of their words, so that case, marks and spaces do not matter.

Dates, roles and speaker names at the start of a line are removed from it and stored separately.

A word is a run of letters and digits, with apostrophes inside it; scripts that are written without
spaces give a word a character. Words are compared in Unicode's compatibility form (NFKC), lower
case, without apostrophes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_WEEKDAY = r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?"
_DATE = "|".join(
    (
        r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}",
        r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}",
        rf"\d{{1,2}}(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH},?\s+\d{{4}}",
        rf"{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}",
    )
)
_TIME = (
    r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[ap]\.?m\b\.?)?(?:\s*(?:z\b|utc|[+-]\d{2}:?\d{2}))?"
)
_MOMENT = (
    rf"(?:{_WEEKDAY},?\s+)?(?:{_TIME},?\s+(?:on\s+)?)?(?:{_DATE})"
    rf"(?:\s*\({_WEEKDAY}\))?(?:(?:t|,?\s+(?:at\s+)?){_TIME})?"
)
_BRACKETED = rf"(?i:[\[(]\s*{_MOMENT}\s*[\])])"
_LABEL = r"(?:session[\s_]+)?(?:date(?:[\s_-]*time)?|time|timestamp|when)"
_ROLE = r"(?:user|assistant|system|human|ai|bot|agent|chatbot|model|speaker)"

# Kana, ideographs, Thai and Lao, Myanmar, Khmer; Hangul is written with spaces.
_UNSPACED = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
)
WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*")
_ESCAPES = re.compile(r'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))+')


class Way(StrEnum):
    """How the documents of a system's text were found, the most certain first."""

    SOURCES = "sources"
    """The system named them."""
    EXACT = "exact"
    """Equal text without prefixes; one contains the other."""
    ESCAPED = "json-escaped"
    """Equal text after JSON's escapes are resolved in one of the two."""
    NORMALISED = "normalised"
    """Equal words, ignoring case, punctuation and spaces; or a long quote."""
    F1 = "token-f1"
    """Token F1 of the words reaches the threshold."""
    SEMANTIC = "semantic"
    """Cosine of the vectors reaches the threshold."""
    NONE = "none"
    """Not found, so not measurable."""


class TextLine(NamedTuple):
    """A line without its prefix, and the prefix."""

    prefix: str
    text: str


class Prefixes:
    """Matches prefixes of a line: dates, roles, and the given speakers' names.

    Only text that is certainly not content is removed: a separate date (in brackets, after `Date:`
    or similar, or before a colon or dash), a chat role, and a given speaker's name. Any other word
    before a colon stays (`My favourite: pizza`), and so does everything after it (`Note: user:
    hello`). Speakers are case-sensitive (`Will:` is one, `will:` is not), roles are not.
    """

    def __init__(self, speakers: Sequence[str] = ()) -> None:
        names = sorted({s.strip() for s in speakers if s.strip()}, key=len, reverse=True)
        name = "|".join(map(re.escape, names))
        who = rf"(?:(?i:{_ROLE})|{name})" if name else rf"(?i:{_ROLE})"
        date = (
            rf"(?i:{_BRACKETED}|{_LABEL}\s*:\s*(?:{_BRACKETED}|{_MOMENT})(?=[\s,;|]|$)"
            rf"|{_MOMENT}(?=\s*(?:[:|–—]|-\s|$)))[\s:,;|–—-]*"
        )
        said = rf"\*{{0,2}}{who}\*{{0,2}}(?:\s*{_BRACKETED})?\s*:(?!//)\*{{0,2}}\s*"
        quoted = (
            rf"(?:{name})\s+(?:said|says|asked|replied)\s*[,:]\s*(?=[\"“])" if name else r"(?!)"
        )
        self._prefix = re.compile(rf"\s*(?:{date}|{said}|{quoted})+")
        # A turn that begins inside a line, after a chunker replaced line breaks by spaces.
        self._turn = re.compile(rf"(?<=[.!?…\"”'’)])\s+(?=(?:{_BRACKETED}\s*)?(?:{said}|{quoted}))")

    def lines(self, text: str) -> list[TextLine]:
        """Splits a text into lines, also before a turn inside a line; omits empty lines.

        A line of only prefixes (a date above a session) applies to the lines below it. A text of
        only prefixes is kept whole.
        """
        lines, above = [], ""
        for written in text.splitlines():
            for turn in self._turn.split(written):
                found = self._prefix.match(turn)
                prefix = found[0] if found else ""
                if rest := turn[len(prefix) :].strip():
                    lines.append(TextLine(f"{above} {prefix}" if above else prefix, rest))
                elif prefix.strip():
                    above = prefix
        return lines or [TextLine("", text.strip())]


@lru_cache(1 << 16)
def plain(word: str) -> str:
    """Returns the form in which a word is compared."""
    return unicodedata.normalize("NFKC", word).lower().replace("'", "").replace("’", "")


class WordVocabulary(dict[str, int]):
    """Maps words as written to numbers; words with equal compared forms have one number.

    `numbers` maps compared forms to numbers. A lookup adds an unknown word.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        number = self.numbers.setdefault(plain(word), len(self.numbers))
        self[word] = number
        return number


def unescaped(text: str) -> str:
    """Resolves JSON's escapes in a text, also if it was escaped repeatedly.

    It is applied to documents and chunks, so a genuine backslash (`\\nabla`) is lost on both sides.
    """
    while "\\" in text:
        resolved = _ESCAPES.sub(lambda found: json.loads(f'"{found[0]}"'), text)
        if resolved == text:
            break
        text = resolved
    return text


@dataclass(frozen=True, slots=True)
class Written:
    """A parsed text. `text` has its lines without prefixes, in canonical form (NFC).

    `words` are as written; `line_starts` has the number of the first word of each of `lines`;
    `escaped` is true if JSON's escapes were resolved.
    """

    text: str
    words: list[str]
    lines: list[TextLine]
    line_starts: list[int]
    escaped: bool

    def prefix(self, word: int) -> frozenset[str]:
        """Returns the words of the prefix of the line that contains the word of this number."""
        line = bisect_right(self.line_starts, word) - 1
        return frozenset(map(plain, WORD.findall(self.lines[line].prefix)))


def cut(text: str, prefixes: Prefixes) -> Written:
    """Splits a text into lines and words."""
    canonical = text if text.isascii() else unicodedata.normalize("NFC", text)
    resolved = unescaped(canonical)
    lines = prefixes.lines(resolved)
    words = [WORD.findall(line.text) for line in lines]
    return Written(
        "\n".join(line.text for line in lines),
        [word for line in words for word in line],
        lines,
        [0, *accumulate(map(len, words))][:-1],
        resolved != canonical,
    )


class Chunk:
    """A text to be matched, as the numbers of its words in a haystack.

    `numbers` are its words, -1 for those that no document has; `known` are the numbers of the
    others, each once; `size` is how many different words it has.
    """

    def __init__(self, written: Written, vocabulary: WordVocabulary) -> None:
        self.written = written
        self.words = [plain(word) for word in written.words]
        get = vocabulary.numbers.get
        self.numbers = np.array([get(word, -1) for word in self.words], np.int64)
        self.known = np.unique(self.numbers[self.numbers >= 0])
        self.size = len(set(self.words))

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Start and end of each word in the text."""
        return [found.span() for found in WORD.finditer(self.written.text)]
