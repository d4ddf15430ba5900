"""Tokenizer of the lexical retrievers: converts texts to numbered terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import suggest
from harness.runfiles.arrow import to_numpy

_LUCENE = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
ENGLISH = frozenset(_LUCENE.split())
"""The 33 stop words of Lucene's EnglishAnalyzer."""

Ints = npt.NDArray[np.int64]
Terms = npt.NDArray[np.int32]

_WORD, _SHORT_WORD = re.compile(r"(?u)\b\w\w+\b"), re.compile(r"\w+")
OTHER_SCRIPT = re.compile("[\u0591-\u1aaf\u3005-\ufaff\uff01-\uff9f\U00020000-\U000323af]")
"""Matches a character for which harness/io/scripts.py has a rule."""

TERMS = "words/2"
"""Name of the rule of harness/io/scripts.py, recorded as the revision of lexical retrievers."""

_KEPT_TERMS = 1 << 27  # 0.5 GiB, in addition to the texts

_LETTER = np.zeros(256, np.uint8)
"""Byte translation table: lower-cases letters, keeps digits and _, maps word boundaries to zero.
Keeps non-ASCII bytes; see _only_words."""
for _byte in (*b"abcdefghijklmnopqrstuvwxyz0123456789_", *range(128, 256)):
    _LETTER[_byte] = _byte
_LETTER[65:91] = np.arange(97, 123)
_LETTERS = _LETTER.tobytes()


class Tokenizer:
    """Splits texts into terms; a text in many haystacks is tokenised once.

    Tokens are runs of two or more letters and digits, in lower case; see harness/io/scripts.py for
    other scripts. `stemmer`: a Snowball language, or none. `stopwords`: english, another language
    of the package stop-words, or none. Raises ValueError for any other.
    """

    def __init__(self, stemmer: str = "english", stopwords: str = "english") -> None:
        self._stem = _stemmer(stemmer)
        self._stopwords = ENGLISH if stopwords == "english" else frozenset[str]()
        if stopwords not in ("english", "none"):
            from harness.retrievers.bm25.languages import stop_words

            self._stopwords = stop_words(stopwords)
        self._vocabulary: dict[str, int] = {}  # word as written -> term, -1 for a stop word
        self._terms: dict[str, int] = {}  # stem -> term
        self._texts: dict[str, Terms] = {}
        self._kept = 0

    @property
    def stems(self) -> list[str]:
        """Stems of the terms, by number."""
        return [*self._terms]

    def term_of(self, stem: str) -> int | None:
        """Returns the number of a stem; None if no text had it."""
        return self._terms.get(stem)

    def terms(self, text: str) -> Terms:
        """Returns the numbers of the text's terms in order, without stop words."""
        found = self._numbers(split_words(text))
        return found[found >= 0]

    def stem_text(self, text: str) -> list[str]:
        """Returns the stems of a question, without stop words; does not extend the vocabulary."""
        words = [w for w in split_words(text) if w not in self._stopwords]
        return [self._stem(word) for word in words] if self._stem else words

    def encode(self, texts: Sequence[str]) -> list[Terms]:
        """Returns the terms of each text; new texts are tokenised together and cached."""
        new = list(dict.fromkeys(text for text in texts if text not in self._texts))
        if new:
            terms, lengths = self.encode_column(pa.array(new, pa.large_string()))
            if self._kept > _KEPT_TERMS:
                self._texts = {t: self._texts[t] for t in {*texts}.difference(new)}
                self._kept = sum(map(len, self._texts.values()))
            self._kept += len(terms)
            parts = np.split(terms, np.cumsum(lengths)[:-1])
            self._texts.update(zip(new, parts, strict=True))
        return [self._texts[text] for text in texts]

    def encode_column(self, texts: pa.Array) -> tuple[Terms, Ints]:
        """Returns all terms, text by text, and their number per text; does not cache texts."""
        tokens, counts = tokenize_column(texts)
        codes = tokens.dictionary_encode()
        term = self._numbers(codes.dictionary.to_pylist())
        terms = term[to_numpy(codes.indices)] if len(term) else term
        kept = terms >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        return terms[kept], np.diff(before[np.concatenate([[0], np.cumsum(counts)])])

    def _numbers(self, words: list[str]) -> Terms:
        """Returns the term of each word, -1 for a stop word; new stems get new terms."""
        vocabulary = self._vocabulary
        found = [*map(vocabulary.get, words)]
        if None in found:
            for word in words:
                if word not in vocabulary:
                    vocabulary[word] = self._term(word)
            found = [*map(vocabulary.get, words)]
        return np.array(found, np.int32)

    def _term(self, word: str) -> int:
        if word in self._stopwords:
            return -1
        stem = self._stem(word) if self._stem else word
        return self._terms.setdefault(stem, len(self._terms))


def split_words(text: str, shortest: int = 2) -> list[str]:
    """Returns the words of a text, in lower case, of at least 1 or 2 characters (`shortest`)."""
    text = text.lower()
    if text.isascii() or not OTHER_SCRIPT.search(text):
        return (_WORD if shortest == 2 else _SHORT_WORD).findall(text)
    from harness.io.scripts import terms

    return terms(text, shortest)


def tokenize_column(texts: pa.Array) -> tuple[pa.Array, Ints]:
    """Returns the tokens of all texts, text by text, and their number per text.

    The tokens equal those of `split_words`, but are found by operations on columns of bytes, nine
    times as fast. Non-ASCII texts are split by it first.
    """
    data, starts = _only_words(texts)
    # bytes.translate takes a quarter of the time of NumPy.
    letters = np.frombuffer(data.tobytes().translate(_LETTERS), np.uint8)
    inside = letters != 0
    # A run ends at a byte that is not part of a word, and at the end of each text.
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    filled = starts[:-1][np.diff(starts) > 0]
    begins[filled] = inside[filled]
    first = np.flatnonzero(begins)
    ends = inside
    ends[:-1] &= ~inside[1:] | begins[1:]
    lengths = np.flatnonzero(ends) + 1 - first
    inside = letters != 0
    long = lengths > 1
    inside[first[~long]] = False
    first, lengths = first[long], lengths[long]
    offsets = np.zeros(len(first) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters[inside])]
    tokens = pa.Array.from_buffers(pa.large_string(), len(first), buffers)
    return tokens, np.diff(np.searchsorted(first, starts))


def _only_words(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Returns the bytes and start offsets of all texts; of non-ASCII texts, only the tokens."""
    data, starts = _utf8(texts)
    high = np.flatnonzero(data > 127)
    foreign = np.unique(np.searchsorted(starts, high, side="right") - 1)
    other = high[(data[high] >= 0xD6) & (data[high] != 0xE2)]  # OTHER_SCRIPT may match these
    scripts = {*(np.searchsorted(starts, other, side="right") - 1).tolist()}
    if not len(foreign):
        return data, starts
    parts: list[npt.NDArray[np.uint8]] = []
    lengths = np.diff(starts)
    done = 0
    for row in foreign.tolist():
        text = bytes(data[starts[row] : starts[row + 1]]).decode()
        found = split_words(text) if row in scripts else _WORD.findall(text.lower())
        words = " ".join(found).encode()
        parts += [data[done : starts[row]], np.frombuffer(words, np.uint8)]
        lengths[row], done = len(words), starts[row + 1]
    return np.concatenate([*parts, data[done:]]), np.concatenate([[0], np.cumsum(lengths)])


def _utf8(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Returns the bytes and start offsets of a column of strings without nulls."""
    wide = pa.types.is_large_string(texts.type)
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    starts = np.frombuffer(offsets, np.int64 if wide else np.int32)
    starts = starts[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[starts[0] : starts[-1]], starts - starts[0]


def analysis(language: str, stemmer: str, stopwords: str) -> dict[str, str]:
    """Returns stemmer and stop words; `auto` are those of the language."""
    if language != "english":
        from harness.retrievers.bm25.languages import language_analysis

        return language_analysis(language, stemmer, stopwords)
    chosen = {"stemmer": stemmer, "stopwords": stopwords}
    return {name: language if value == "auto" else value for name, value in chosen.items()}


def _stemmer(language: str) -> Callable[[str], str] | None:
    if language == "none":
        return None
    import Stemmer

    if language not in Stemmer.algorithms():
        raise ValueError(f"unknown stemmer {language!r}{suggest(language, Stemmer.algorithms())}")
    # Without the stemmer's cache of 10,000 words, since each word is stemmed once.
    stem: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord
    return stem


def stemmer_version() -> str:
    """Returns the version of the stemmer; other versions may stem words differently."""
    import Stemmer

    return str(Stemmer.version())
