"""Tokens of scripts without spaces and of Hangul, by rates of published tokenizers.

A run of such characters is as many tokens as its characters divided by the rate of its script,
rounded, and at least one.
"""

from __future__ import annotations

import re
from functools import cache

from harness.io.scripts import SCRIPTS

_PER_TOKEN = {
    ("Han", "Kana"): 1.35,
    ("Hangul",): 1.3,
    ("Thai",): 2.1,
    ("Lao",): 0.65,
    ("Khmer",): 1.2,
    ("Myanmar",): 1.15,
}
"""Characters per token: between those of o200k_base (GPT-4o) and Qwen2.5 on the Universal
Declaration of Human Rights."""


@cache
def _runs() -> tuple[re.Pattern[str], re.Pattern[str], list[float]]:
    """Returns patterns of a run of any script and of each script, and the rates of the latter."""
    marks = "\u3000-\u303f\uff01-\uff65"  # ideographic and full-width punctuation
    groups = ["".join(SCRIPTS[name] for name in names) for names in _PER_TOKEN]
    groups[0] += marks
    of_each = "|".join(f"([{group}]+)" for group in groups)
    return re.compile(f"([{''.join(groups)}]+)"), re.compile(of_each), [*_PER_TOKEN.values()]


def without_runs(text: str) -> tuple[str, int]:
    """Returns a text without its runs of the scripts in `_PER_TOKEN`, and their tokens."""
    of_any, of_each, rates = _runs()
    parts = of_any.split(text)  # one set of characters is found faster than one of six
    runs = [run for part in parts[1::2] for run in of_each.finditer(part)]
    tokens = [max(1, round(len(run[0]) / rates[(run.lastindex or 1) - 1])) for run in runs]
    return " ".join(parts[::2]), sum(tokens)
