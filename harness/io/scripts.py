"""Splits texts of any script into terms.

The rule `words/2` (its number rises whenever terms change): a term is a run of letters, digits and
underscores. Scripts without spaces (Han, Kana, Thai, Lao, Khmer, Myanmar) and Hangul, whose words
carry particles, give each pair of neighbouring characters instead, as Lucene's CJKAnalyzer does for
Han, Kana and Hangul, or a character that stands alone. Full-width letters and half-width Kana are
folded. Vowel signs (Devanagari, Arabic, ...) belong to words in texts with more such letters than
a to z; elsewhere they end it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from unicodedata import category, name, normalize

SCRIPTS = {
    "Han": "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U000323af",
    "Kana": "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff",
    "Hangul": "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb",
    "Thai": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "Lao": "\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf",
    "Khmer": "\u1780-\u17d3\u17d7\u17dc\u17dd",
    "Myanmar": "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f",
}
"""Characters of the scripts that are split into pairs, as ranges of a regular expression."""
_PAIRED = "".join(SCRIPTS.values())
PAIRED = re.compile(f"[{_PAIRED}]")
"""Matches a character of a script that is split into pairs."""
_UNSPACED = re.compile(f"[{''.join(SCRIPTS[script] for script in SCRIPTS if script != 'Hangul')}]")

# Vowel signs and points, which \w lacks, and all characters of scripts that have them.
_SIGNS = "".join(
    character
    for character in map(chr, [*range(0x591, 0x1AB0), *range(0xA8E0, 0xAC00)])
    if category(character) in ("Mn", "Mc") and not PAIRED.match(character)
)
_SIGNED = re.compile("[\u0591-\u1aaf\ua8e0-\uabff]")
_ASCII = re.compile("[a-z]")
_TERM = re.compile(rf"([{_PAIRED}]+)|([^\W{_PAIRED}]+)")
_SIGNED_TERM = re.compile(rf"([{_PAIRED}]+)|((?:[^\W{_PAIRED}]|[{_SIGNS}])+)")
_WIDTH = {code: normalize("NFKC", chr(code)).lower() for code in range(0xFF01, 0xFFA0)}


def terms(text: str, shortest: int = 1) -> list[str]:
    """Returns the terms of a lower-case text; words have at least `shortest` characters."""
    signed = len(_SIGNED.findall(text)) > len(_ASCII.findall(text))
    found = []
    for run, word in (_SIGNED_TERM if signed else _TERM).findall(text.translate(_WIDTH)):
        if len(word) >= shortest:
            found.append(word)
        elif run:
            run = normalize("NFC", run)
            found += map("".join, pairwise(run)) if len(run) > 1 else [run]
    return found


def is_unspaced(texts: Sequence[str]) -> bool:
    """Tests whether a quarter of the characters of some texts are of scripts without spaces.

    Texts in such a script also contain numbers, addresses and names in Latin letters.
    """
    characters = sum(map(len, texts))
    # Such a character has three bytes or more, so few bytes rule them out.
    more = sum(len(text.encode(errors="surrogatepass")) for text in texts) - characters
    if 2 * more < characters:
        return False
    return 4 * sum(len(_UNSPACED.findall(text)) for text in texts) >= characters > 0


def main_script(texts: Iterable[str]) -> str:
    """Returns the most frequent script of the letters of some texts: `Latin`, `Thai`, `Han`."""
    counts = Counter(
        name(character, "?").partition(" ")[0]
        for text in texts
        for character in text
        if character.isalpha()
    )
    (script, _), *_ = counts.most_common(1) or [("none", 0)]
    return "Han" if script == "CJK" else script.capitalize()
