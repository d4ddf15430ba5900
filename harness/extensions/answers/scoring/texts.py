"""Detects answers that abstain: what a person would read as "that is not known".

It matches English expressions, without a model, and errs; tests hold how often on sentences of
both kinds.
"""

from __future__ import annotations

import re

_PHRASES = (
    r"no information (?:is )?(?:available|provided|given|about|on|regarding)",
    r"not (?:mentioned|specified|stated|provided|given|available|discussed|known|clear)\b",
    r"(?:isn't|is not|wasn't|was not|aren't|are not) (?:any )?(?:mention|information|enough|"
    r"sufficient|record)",
    r"(?:do|does|did|could|can|would)(?:n't| not) (?:\w+ ){0,2}?(?:know|find|answer|determine|say|"
    r"tell|have (?:any |enough |that )?information|mention|contain|include|specify|provide)\b",
    r"cannot (?:\w+ )?(?:answer|determine|find|say|tell|be (?:answered|determined))",
    r"can't (?:\w+ )?(?:answer|determine|find|say|tell|be (?:answered|determined))",
    r"unable to (?:answer|determine|find|say|tell)",
    r"(?:insufficient|not enough|lack of|no) (?:information|evidence|context|details?|mention|"
    r"record|data)\b",
    r"(?:un|not )answerable",
    r"\A\W*(?:unknown|n/?a|none|i don't know|no answer|not sure)\W*\Z",
    r"there (?:is|was|are|were) no (?:\w+ )?(?:mention|information|record|indication|details?)",
)
_REFUSAL = re.compile("|".join(f"(?:{one})" for one in _PHRASES), re.IGNORECASE)


def abstains(answer: str) -> bool:
    """Tests whether an answer says that it is not known; an empty one does."""
    text = answer.replace("\u2019", "'").strip()
    return not text or _REFUSAL.search(text) is not None
