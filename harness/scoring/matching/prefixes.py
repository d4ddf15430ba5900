"""Dates, roles and names in front of what was said: taken off a line, and kept beside it.

Only what is known to be no content is taken off: a date that stands apart (in brackets, after
`Date:` or the like, or before a colon or dash), a role of a chat, and a speaker whom the caller
names. Any other word before a colon stays (`My favourite: pizza`), and so does everything behind
it (`Note: user: hello`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

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


class Line(NamedTuple):
    """A line without what stood in front of it, and that."""

    prefix: str
    text: str


class Prefixes:
    """What may stand in front of a line: dates, roles, and the given speakers' names.

    Speakers are told by case (`Will:` is one, `will:` is not), roles are not.
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
        # A turn that begins within a line, where a chunker made spaces of line breaks.
        self._turn = re.compile(rf"(?<=[.!?…\"”'’)])\s+(?=(?:{_BRACKETED}\s*)?(?:{said}|{quoted}))")

    def lines(self, text: str) -> list[Line]:
        """The lines of a text, a turn within a line on its own; empty ones are left out.

        A line of prefixes alone (a date above a session) belongs to those below it. A text that is
        nothing but prefixes is kept whole.
        """
        lines, above = [], ""
        for written in text.splitlines():
            for turn in self._turn.split(written):
                found = self._prefix.match(turn)
                prefix = found[0] if found else ""
                if rest := turn[len(prefix) :].strip():
                    lines.append(Line(f"{above} {prefix}" if above else prefix, rest))
                elif prefix.strip():
                    above = prefix
        return lines or [Line("", text.strip())]
