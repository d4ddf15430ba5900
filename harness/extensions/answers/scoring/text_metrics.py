"""Answer metrics: a text against reference answers.

Values are from 0 to 1, and pure functions of two texts; with several references the best counts.
A query without references (abstention) has the value NaN. A reference without words in a metric's
tokenization (`the` without articles; a Chinese answer in ROUGE's ASCII words) is excluded, and if
none remains the value is NaN. Tests compare the metrics with rouge_score and sacrebleu, which are
not dependencies.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

from harness.errors import UsageError, suggest

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_BEFORE_13A = (("<skipped>", ""), ("-\n", ""), ("\n", " "))
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_MARK = re.compile(r"([!-&(-+:-@\[-`{-~/ ])")
_POINT_AFTER_OTHER = re.compile(r"([^0-9])([.,])")
_POINT_BEFORE_OTHER = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")


def normalised(text: str) -> list[str]:
    """Splits into words like SQuAD's script: lower case, no ASCII punctuation, no a, an, the."""
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def ascii_words(text: str) -> list[str]:
    """Splits into words like rouge_score."""
    return _ASCII_WORD.findall(text.lower())


def tokens_13a(text: str) -> list[str]:
    """Tokenizes by mteval-v13a, WMT's standard: splits punctuation, except . and , in numbers."""
    text = text.rstrip()
    for old, new in _BEFORE_13A + _ENTITIES:
        text = text.replace(old, new)
    text = _MARK.sub(r" \1 ", f" {text} ")
    text = _POINT_AFTER_OTHER.sub(r"\1 \2 ", text)
    text = _POINT_BEFORE_OTHER.sub(r" \1 \2", text)
    return _DASH_AFTER_DIGIT.sub(r"\1 \2 ", text).split()


class Text:
    """A text with cached tokenizations for all metrics."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def normalised(self) -> list[str]:
        """See `normalised`."""
        return normalised(self.text)

    @cached_property
    def run(self) -> str:
        """The normalised words, each surrounded by a space."""
        return f" {' '.join(self.normalised)} "

    @cached_property
    def bag(self) -> Counter[str]:
        """Counts of the normalised words."""
        return Counter(self.normalised)

    @cached_property
    def ascii_words(self) -> list[str]:
        """See `ascii_words`."""
        return ascii_words(self.text)

    @cached_property
    def tokens(self) -> list[str]:
        """See `tokens_13a`."""
        return tokens_13a(self.text)

    @cached_property
    def lower_tokens(self) -> list[str]:
        """13a tokens of the text in lower case."""
        return tokens_13a(self.text.lower())


def _exact_match(text: Text, answer: Text) -> float:
    """SQuAD's (Rajpurkar et al. 2016, evaluate-v1.1.py): 1 if the normalised words are equal."""
    return float(text.normalised == answer.normalised) if answer.normalised else math.nan


def _token_f1(text: Text, answer: Text) -> float:
    """SQuAD's: harmonic mean of precision and recall of the bags of normalised words."""
    if not answer.normalised:
        return math.nan
    same = sum(min(n, text.bag[word]) for word, n in answer.bag.items())
    return 2 * same / (len(text.normalised) + len(answer.normalised))


def _containment(text: Text, answer: Text) -> float:
    """1 if the text contains the answer's normalised words as a contiguous sequence."""
    return float(answer.run in text.run) if answer.normalised else math.nan


def _rouge_l(text: Text, answer: Text) -> float:
    """F-measure of the longest common subsequence of words (Lin 2004), like rouge_score.

    Words are runs of ASCII letters and digits in lower case; no stemming, no sentence splitting.
    """
    if not answer.ascii_words:
        return math.nan
    common = common_subsequence(answer.ascii_words, text.ascii_words)
    return 2 * common / (len(text.ascii_words) + len(answer.ascii_words))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Returns the length of the longest common subsequence.

    Bit-parallel (Crochemore et al. 2001): bit i of `row` is 0 if the i-th word of `a` extends the
    subsequence with the words of `b` so far; one addition computes a row of the usual table.
    """
    places: dict[str, int] = {}
    for i, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << i
    every = (1 << len(a)) - 1
    row = every
    for word in b:
        if at := places.get(word):
            hit = row & at
            row = ((row + hit) | (row - hit)) & every
    return len(a) - row.bit_count()


def _bleu(text: Text, answer: Text) -> float:
    """Sentence BLEU like sacrebleu's `sentence_bleu` (Post 2018), divided by 100.

    13a tokens, case-sensitive: geometric mean of the clipped precisions of 1- to 4-grams times the
    brevity penalty. The i-th precision of zero is replaced by 1 / (2^i candidates) (sacrebleu's
    `exp`); orders longer than the text are skipped.
    """
    return _sentence_bleu(text.tokens, answer.tokens, 4)


def _bleu1(text: Text, answer: Text) -> float:
    """Clipped unigram precision times the brevity penalty, 13a tokens in lower case.

    Papers on LoCoMo call this BLEU-1 (their NLTK tokenization splits some marks differently).
    """
    return _sentence_bleu(text.lower_tokens, answer.lower_tokens, 1)


def _sentence_bleu(text: list[str], answer: list[str], longest: int) -> float:
    if not answer:
        return math.nan
    words = set(answer)
    starts = [i for i, word in enumerate(text) if word in words]  # starts of possible matches
    if not starts:
        return 0.0
    logs, zeros = 0.0, 0
    orders = min(longest, len(text))
    for n in range(1, orders + 1):
        wanted = Counter(tuple(answer[i : i + n]) for i in range(len(answer) - n + 1))
        met = Counter(tuple(text[i : i + n]) for i in starts)
        correct = sum(min(count, met[gram]) for gram, count in wanted.items())
        zeros += correct == 0
        logs += math.log((correct or 0.5**zeros) / (len(text) - n + 1))
    return math.exp(logs / orders + min(0.0, 1 - len(answer) / len(text)))


METRICS: dict[str, Callable[[Text, Text], float]] = {
    "exact_match": _exact_match,
    "token_f1": _token_f1,
    "containment": _containment,
    "rouge_l": _rouge_l,
    "bleu": _bleu,
    "bleu1": _bleu1,
}
"""Metric name -> function of a text and one reference."""


def best_of(metric: Callable[[Text, Text], float], text: Text, answers: Sequence[Text]) -> float:
    """Returns the best value of `metric` over the references; NaN without a usable reference."""
    values = [value for answer in answers if not math.isnan(value := metric(text, answer))]
    return max(values, default=math.nan)


def check_metrics(metrics: Sequence[str]) -> None:
    """Raises UsageError for an unknown metric."""
    for name in metrics:
        if name not in METRICS:
            raise UsageError(f"unknown answer metric {name!r}{suggest(name, list(METRICS))}")
