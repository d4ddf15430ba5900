"""The entities that a text mentions, found by rules, and a corpus as a graph of them (graph.py).

* A *word* is a run of two or more letters, in lower case and stemmed, unless it is a function word
  ("the", "what"). A capitalised word is a *name*, except at the beginning of a sentence, where
  every word is capitalised.
* A *name* of several words ("Grand Canyon") is an additional entity. Its words are adjacent and
  capitalised; function words at its ends are excluded.
* A *number* is a run of letters and digits with a digit in it.
* A *date* is a month of a year ("2023-05"), or a day ("2023-05-07"), written in English with the
  month's name or in ISO form; a day also gives its month.

Scripts without capitals or spaces give the terms of bm25, which count as words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.io.scripts import terms
from harness.retrievers.bm25.languages import ENGLISH_LONG
from harness.retrievers.bm25.tokenizer import OTHER_SCRIPT
from harness.retrievers.contract import Corpus
from harness.schema import as_datetime

_TOKEN = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"[.!?:\n\"“”]")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_DATES = [
    re.compile(rf"\b{_DAY} (?:of )?{_MONTH},? {_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH} {_DAY},? {_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH},? (?:of )?{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_YEAR}-(?P<number>[01]\d)(?:-(?P<day>[0-3]\d))?\b"),
]

Stem = Callable[[str], str]

K1, B = 1.2, 0.75
"""BM25's usual constants: saturation of repeated mentions, and length normalisation."""


def entities(text: str, stem: Stem, words: bool = True) -> list[str]:
    """Returns the entities that `text` mentions, once per mention.

    `words`: include words that are not names. Names, numbers and dates are always included.
    """
    found = dates(text)
    if OTHER_SCRIPT.search(text):
        found += [term for term in terms(text.lower(), 2) if OTHER_SCRIPT.search(term)]
        text = OTHER_SCRIPT.sub(" ", text)
    span: list[str] = []
    end = 0
    for token in _TOKEN.finditer(text):
        word, gap = token[0], text[end : token.start()]
        end = token.end()
        if gap not in (" ", "-") or not word[0].isupper():
            found += _span(span)
            span = []
        if word[0].isupper():
            span.append(word)
        lowered = word.lower()
        if any(character.isdigit() for character in word):
            found.append(lowered)
        elif len(word) > 1 and lowered not in ENGLISH_LONG:
            begins = token.start() == len(gap) or bool(_SENTENCE_END.search(gap))
            if words or (word[0].isupper() and not begins):
                found.append(stem(lowered))
    return found + _span(span)


def speaker(name: str, stem: Stem) -> list[str]:
    """Returns the entities of a speaker's name: its words, and the whole name."""
    words = _TOKEN.findall(name.lower())
    whole = [" ".join(words)] if len(words) > 1 else []
    return [*(stem(word) for word in words), *whole]


def day(iso: str) -> list[str]:
    """Returns the entities of a day such as `2023-05-07`: the day and its month."""
    return [iso, iso[:7]]


def dates(text: str) -> list[str]:
    """Returns the days and months that `text` mentions with their year."""
    return [entity for date in _written_dates(text) for entity in date]


def _written_dates(text: str) -> Iterator[list[str]]:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            name = parts.get("month")
            number = _MONTHS.index(name.lower()) + 1 if name else int(parts["number"])
            if not 1 <= number <= 12:
                continue
            month = f"{parts['year']}-{number:02}"
            yield day(f"{month}-{int(parts['day']):02}") if parts.get("day") else [month]


def _span(words: list[str]) -> list[str]:
    """Returns the name made of adjacent capitalised words; none if it is a single word."""
    lowered = [word.lower() for word in words]
    while lowered and lowered[0] in ENGLISH_LONG:
        lowered.pop(0)
    while lowered and lowered[-1] in ENGLISH_LONG:
        lowered.pop()
    return [" ".join(lowered)] if len(lowered) > 1 else []


# -- A corpus as the nodes and edges of a graph, in columns ----------------------------------------


@dataclass(frozen=True)
class Columns:
    """Nodes and edges of a graph.

    `norms` (n,): length of each document's vector of mention weights. `names` and `rarities` (e,):
    the entities, and ln(1 + (n - df + 0.5) / (df + 0.5)) for document frequency df. Row i of
    `turns`, `mentioned` and `weights` is an edge: document `turns[i]` mentions entity
    `mentioned[i]`, with BM25's weight. Row j of `before` and `after` is a pair of consecutive
    documents of a session.
    """

    norms: npt.NDArray[np.float64]
    names: list[str]
    rarities: npt.NDArray[np.float64]
    turns: npt.NDArray[np.int64]
    mentioned: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]


def columns(corpus: Corpus, stem: Stem, words: bool) -> Columns:
    """Builds the graph of a corpus. Weights of mentions are BM25's."""
    number: dict[str, int] = {}
    turns: list[int] = []
    mentioned: list[int] = []
    counts: list[int] = []
    for position, document in enumerate(corpus):
        found = entities(document.content, stem, words)
        if document.speaker:
            found += speaker(document.speaker, stem)
        if document.timestamp is not None:
            found += day(as_datetime(document.timestamp).date().isoformat())
        for name, count in Counter(found).items():
            turns.append(position)
            mentioned.append(number.setdefault(name, len(number)))
            counts.append(count)
    n, edges = len(corpus), (np.array(turns, np.int64), np.array(mentioned, np.int64))
    rarities, weights = _bm25(n, len(number), *edges, np.array(counts, np.float64))
    norms = np.sqrt(np.bincount(edges[0], weights**2, n))
    before, after = _neighbours(corpus)
    return Columns(norms, list(number), rarities, *edges, weights, before, after)


def _bm25(
    n: int,
    names: int,
    turns: npt.NDArray[np.int64],
    mentioned: npt.NDArray[np.int64],
    counts: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the rarity of each entity, and the weight of each mention."""
    documents = np.bincount(mentioned, minlength=names)
    rarities = np.log1p((n - documents + 0.5) / (documents + 0.5))
    lengths = np.bincount(turns, counts, n)
    mean = lengths.mean() if n else 1.0
    slowed = K1 * (1 - B + B * lengths[turns] / (mean or 1.0))
    return rarities, rarities[mentioned] * counts * (K1 + 1) / (counts + slowed)


def _neighbours(corpus: Corpus) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns pairs of consecutive documents of a session; others have no neighbours."""
    last: dict[str, int] = {}
    pairs = []
    for position, document in enumerate(corpus):
        if document.session is None:
            continue
        if document.session in last:
            pairs.append((last[document.session], position))
        last[document.session] = position
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
