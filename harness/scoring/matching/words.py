"""A text as the numbers of its words, so that case, marks and spaces make no difference.

A word is a run of letters and digits, with apostrophes inside it; scripts that are written without
spaces give a word a character. Words are compared in Unicode's compatibility form (NFKC), lower
case, without apostrophes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from harness.scoring.matching.prefixes import Line, Prefixes

# Kana, ideographs with their extensions; Hangul is written with spaces.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*")
_ESCAPES = re.compile(r'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))+')


@lru_cache(1 << 16)
def plain(word: str) -> str:
    """A word as it is compared."""
    return unicodedata.normalize("NFKC", word).lower().replace("'", "").replace("’", "")


class Vocabulary(dict[str, int]):
    """The number of each word as written; words that are compared as equal share one.

    `numbers` has the numbers by the words as compared. Asking for a new word makes it known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        number = self.numbers.setdefault(plain(word), len(self.numbers))
        self[word] = number
        return number


def unescaped(text: str) -> str:
    """The text with JSON's escapes resolved, however often it was escaped.

    Documents and chunks both go through this, so a text that holds a backslash of its own
    (`\\nabla`) loses it on both sides.
    """
    while "\\" in text:
        resolved = _ESCAPES.sub(lambda found: json.loads(f'"{found[0]}"'), text)
        if resolved == text:
            break
        text = resolved
    return text


@dataclass(frozen=True, slots=True)
class Written:
    """A text cut up. `text` is what its lines hold without prefixes, in canonical form (NFC).

    `words` are as written; `line_starts` has the number of the first word of each of `lines`;
    `escaped` says that JSON's escapes were resolved.
    """

    text: str
    words: list[str]
    lines: list[Line]
    line_starts: list[int]
    escaped: bool

    def prefix(self, word: int) -> frozenset[str]:
        """Words of the prefix of the line in which the word of that number stands."""
        line = bisect_right(self.line_starts, word) - 1
        return frozenset(map(plain, WORD.findall(self.lines[line].prefix)))


def cut(text: str, prefixes: Prefixes) -> Written:
    """The text cut into lines and words."""
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
    """A text whose documents are looked for, in the words of a haystack.

    `numbers` are its words, -1 for those that no document has; `known` are the numbers of the
    others, each once; `size` is how many different words it has.
    """

    def __init__(self, written: Written, vocabulary: Vocabulary) -> None:
        self.written = written
        self.words = [plain(word) for word in written.words]
        get = vocabulary.numbers.get
        self.numbers = np.array([get(word, -1) for word in self.words], np.int64)
        self.known = np.unique(self.numbers[self.numbers >= 0])
        self.size = len(set(self.words))

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Where each word begins and ends in the text."""
        return [found.span() for found in WORD.finditer(self.written.text)]
