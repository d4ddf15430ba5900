"""The metrics of answer evaluation: of a text against reference answers.

They are on 0 to 1 and pure functions of two texts; of several references the best counts. A
query without references (abstention) has no value: NaN. So has a reference of which nothing is left
as a metric reads it (`the` once articles are gone; a Chinese answer in ROUGE's ASCII words): a text
cannot be measured against nothing, so it is left out, and where none remains the value is NaN. The
tests hold the metrics against rouge_score and sacrebleu, which are no dependencies of ours.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

from harness.errors import UsageError, near

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
    """Words as SQuAD's script compares them: lower case, no ASCII punctuation, no a, an, the."""
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def ascii_words(text: str) -> list[str]:
    """Words as rouge_score cuts them."""
    return _ASCII_WORD.findall(text.lower())


def tokens_13a(text: str) -> list[str]:
    """Tokens of mteval-v13a, the standard of WMT: marks apart, but points and commas in numbers."""
    text = text.rstrip()
    for old, new in _BEFORE_13A + _ENTITIES:
        text = text.replace(old, new)
    text = _MARK.sub(r" \1 ", f" {text} ")
    text = _POINT_AFTER_OTHER.sub(r"\1 \2 ", text)
    text = _POINT_BEFORE_OTHER.sub(r" \1 \2", text)
    return _DASH_AFTER_DIGIT.sub(r"\1 \2 ", text).split()


class Text:
    """A text cut up in every way that a metric asks for, each once."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def normalised(self) -> list[str]:
        """See `normalised`."""
        return normalised(self.text)

    @cached_property
    def run(self) -> str:
        """The normalised words with a space around each."""
        return f" {' '.join(self.normalised)} "

    @cached_property
    def bag(self) -> Counter[str]:
        """How often it has each normalised word."""
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
    """SQuAD's (Rajpurkar et al. 2016, evaluate-v1.1.py): 1 where the normalised words are equal."""
    return float(text.normalised == answer.normalised) if answer.normalised else math.nan


def _token_f1(text: Text, answer: Text) -> float:
    """SQuAD's: harmonic mean of precision and recall of the normalised words, as a bag."""
    if not answer.normalised:
        return math.nan
    same = sum(min(n, text.bag[word]) for word, n in answer.bag.items())
    return 2 * same / (len(text.normalised) + len(answer.normalised))


def _containment(text: Text, answer: Text) -> float:
    """1 where the answer's normalised words stand in the text one behind the other."""
    return float(answer.run in text.run) if answer.normalised else math.nan


def _rouge_l(text: Text, answer: Text) -> float:
    """F-measure of the longest common subsequence of words (Lin 2004), as rouge_score has it.

    Words are runs of ASCII letters and digits in lower case; no stemming, sentences not split.
    """
    if not answer.ascii_words:
        return math.nan
    common = common_subsequence(answer.ascii_words, text.ascii_words)
    return 2 * common / (len(text.ascii_words) + len(answer.ascii_words))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    Bit-parallel (Crochemore et al. 2001): bit i of `row` is 0 where the i-th word of `a` makes the
    subsequence with what was seen of `b` longer; one addition is a whole row of the usual table.
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
    """Sentence BLEU as sacrebleu's `sentence_bleu` (Post 2018) has it, over 100.

    13a tokens, case kept: geometric mean of the clipped precisions of one to four words times the
    brevity penalty. The i-th precision of zero counts 1 / (2^i candidates) (sacrebleu's `exp`);
    orders longer than the text are left out.
    """
    return _sentence_bleu(text.tokens, answer.tokens, 4)


def _bleu1(text: Text, answer: Text) -> float:
    """Clipped precision of single words times the brevity penalty, 13a tokens in lower case.

    What papers on LoCoMo print as BLEU-1 (they cut words with NLTK, which differs in a few marks).
    """
    return _sentence_bleu(text.lower_tokens, answer.lower_tokens, 1)


def _sentence_bleu(text: list[str], answer: list[str], longest: int) -> float:
    if not answer:
        return math.nan
    words = set(answer)
    starts = [i for i, word in enumerate(text) if word in words]  # of all that can be met
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
"""Name -> value of a text against one reference."""


def answer_score(metric: str, text: str, answers: Sequence[str]) -> float:
    """The best value of `metric` over the references; NaN where none can be measured against.

    Raises UsageError for a metric of no such name.
    """
    check_metrics([metric])
    return best_of(METRICS[metric], Text(text), [Text(answer) for answer in answers])


def best_of(metric: Callable[[Text, Text], float], text: Text, answers: Sequence[Text]) -> float:
    """The best value of `metric` over the references; NaN where none can be measured against."""
    values = [value for answer in answers if not math.isnan(value := metric(text, answer))]
    return max(values, default=math.nan)


def check_metrics(metrics: Sequence[str]) -> None:
    """Raises UsageError for a metric of no such name."""
    for name in metrics:
        if name not in METRICS:
            raise UsageError(f"unknown answer metric {name!r}{near(name, list(METRICS))}")
