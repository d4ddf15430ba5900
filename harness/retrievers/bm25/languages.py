"""Stemmers and stop words of languages other than English, and a long English list."""

from __future__ import annotations

from harness.errors import suggest
from harness.io.packages import require_packages

_NLTK = """
a about above after again against ain all am an and any are aren aren't as at be because been before
being below between both but by can couldn couldn't d did didn didn't do does doesn doesn't doing
don don't down during each few for from further had hadn hadn't has hasn hasn't have haven haven't
having he her here hers herself him himself his how i if in into is isn isn't it it's its itself
just ll m ma me mightn mightn't more most mustn mustn't my myself needn needn't no nor not now o of
off on once only or other our ours ourselves out over own re s same shan shan't she she's should
should've shouldn shouldn't so some such t than that that'll the their theirs them themselves then
there these they this those through to too under until up ve very was wasn wasn't we were weren
weren't what when where which while who whom why will with won won't wouldn wouldn't y you you'd
you'll you're you've your yours yourself yourselves
"""


ENGLISH_LONG = frozenset(_NLTK.split())
"""Stop words of the Natural Language Toolkit (nltk_data, stopwords, english) and of bm25s."""


def language_analysis(language: str, stemmer: str, stopwords: str) -> dict[str, str]:
    """Returns stemmer and stop words; `auto` are those of the language.

    A language without a Snowball stemmer or without a list of stop words has none. Raises
    ValueError for a language with neither.
    """
    import Stemmer

    stems = language in Stemmer.algorithms()
    stops = language == "none" or (stopwords == "auto" and language in _listed())
    if not (stems or stops):
        known = sorted({*Stemmer.algorithms(), *_listed(), "none"})
        raise ValueError(f"unknown language {language!r}{suggest(language, known)}")
    return {
        "stemmer": (language if stems else "none") if stemmer == "auto" else stemmer,
        "stopwords": (language if stops else "none") if stopwords == "auto" else stopwords,
    }


def stop_words(language: str) -> frozenset[str]:
    """Returns the stop words of a language in the package stop-words. Raises ValueError for an
    unknown language."""
    if language not in _listed():
        raise ValueError(f"unknown stopwords {language!r}{suggest(language, _listed())}")
    from stop_words import get_stop_words

    return frozenset(get_stop_words(language))


def _listed() -> list[str]:
    require_packages("a language other than english", "stop_words")
    from stop_words import AVAILABLE_LANGUAGES

    return [*AVAILABLE_LANGUAGES]
