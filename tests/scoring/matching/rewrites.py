"""Turns of a talk as systems hand them back: cut, joined, escaped, rephrased; all by a seed.

Every kind is a function of the talk, the number of a turn and a random generator. It returns the
text, the turns that it is from, and those that it only touches (neither right nor wrong to find);
or None where the turn does not lend itself to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from tests.scoring.matching.other_words import COMMON, SYNONYMS, THIRD_PERSON


@dataclass(frozen=True)
class Turn:
    """What a person said, and when (seconds)."""

    speaker: str
    text: str
    timestamp: int


Talk = Sequence[Turn]
Made = tuple[str, list[int], list[int]] | None
Kind = Callable[["Talk", int, Random], Made]


def words(text: str) -> list[str]:
    """Lower-cased words, for telling turns of the same words."""
    return re.findall(r"[^\W_]+", text.lower())


def as_said(turn: Turn) -> str:
    """Speaker and text."""
    return f"{turn.speaker}: {turn.text}"


def day(turn: Turn, form: str) -> str:
    """The turn's date."""
    return datetime.fromtimestamp(turn.timestamp, UTC).strftime(form)


def alone(talk: Talk, i: int, random: Random) -> Made:
    return talk[i].text, [i], []


def prefixed(talk: Talk, i: int, random: Random) -> Made:
    turn = talk[i]
    form = random.choice(
        [
            lambda: f"[{day(turn, '%Y-%m-%d %H:%M')}] {as_said(turn)}",
            lambda: f"Date: {day(turn, '%d %B, %Y')}\n{as_said(turn)}",
            lambda: f"[{day(turn, '%Y-%m-%d')}] user: {turn.text}",
            lambda: f"{day(turn, '%I:%M %p on %d %B, %Y')} - {turn.speaker}: {turn.text}",
            lambda: f"assistant: {turn.text}",
            lambda: f"Session date: {day(turn, '%Y/%m/%d (%a) %H:%M')}\n{as_said(turn)}",
            lambda: f"**{turn.speaker}** ({day(turn, '%B %d, %Y')}): {turn.text}",
        ]
    )
    return form(), [i], []


def nicknamed(talk: Talk, i: int, random: Random) -> Made:
    """With a label that nobody announced."""
    label = random.choice([talk[i].speaker[:3], "Memory 12", "Note", "Fact"])
    return f"{label}: {talk[i].text}", [i], []


def other_letters(talk: Talk, i: int, random: Random) -> Made:
    change = random.choice(
        [
            str.upper,
            lambda t: t.lower().replace(",", "").replace(".", ""),
            lambda t: t.replace("'", "’").replace(" ", "  "),
            lambda t: re.sub(r"[^\w\s']", "", t),
            lambda t: t.replace(" ", "\n"),
        ]
    )
    return change(talk[i].text), [i], []


def cut_words(talk: Talk, i: int, random: Random, least: int = 8, most: int = 99) -> Made:
    parts = talk[i].text.split()
    if len(parts) < least + 2:
        return None
    length = random.randint(least, min(most, len(parts) - 1))
    start = random.randint(0, len(parts) - length)
    return " ".join(parts[start : start + length]), [i], []


def cut_short(talk: Talk, i: int, random: Random) -> Made:
    return cut_words(talk, i, random, 4, 7)


def cut_letters(talk: Talk, i: int, random: Random) -> Made:
    text = talk[i].text
    if len(text) < 60:
        return None
    length = random.randint(40, len(text) - 4)
    start = random.randint(0, len(text) - length)
    return text[start : start + length], [i], []


def _span(talk: Talk, i: int, random: Random) -> list[int]:
    return list(range(i, min(len(talk), i + random.randint(2, 4))))


def lines(talk: Talk, i: int, random: Random) -> Made:
    span = _span(talk, i, random)
    return "\n".join(as_said(talk[t]) for t in span), span, []


def one_line(talk: Talk, i: int, random: Random) -> Made:
    span = _span(talk, i, random)
    return " ".join(as_said(talk[t]) for t in span), span, []


def unnamed(talk: Talk, i: int, random: Random) -> Made:
    span = _span(talk, i, random)
    return " ".join(talk[t].text for t in span), span, []


def dated_lines(talk: Talk, i: int, random: Random) -> Made:
    span = _span(talk, i, random)
    return (
        "\n".join(f"[{day(talk[t], '%Y-%m-%d')}] {as_said(talk[t])}" for t in span),
        span,
        [],
    )


def messages(talk: Talk, i: int, random: Random) -> Made:
    """A list of messages, as JSON."""
    span = _span(talk, i, random)
    made = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": talk[t].text}
        for n, t in enumerate(span)
    ]
    return json.dumps(made), span, []


def escaped(talk: Talk, i: int, random: Random) -> Made:
    made = lines(talk, i, random)
    assert made
    return json.dumps(made[0])[1:-1], *made[1:]


def window(talk: Talk, i: int, random: Random) -> Made:
    """Three hundred letters of the talk as it is written down."""
    written, owner = "", []
    for t in range(i, min(len(talk), i + 12)):
        line = as_said(talk[t]) + "\n"
        written += line
        owner += [t] * len(line)
    start = random.randint(0, max(0, min(200, len(written) - 300)))
    stop = min(len(written), start + 300)
    right, touched = [], []
    for t in dict.fromkeys(owner[start:stop]):
        inside = "".join(written[p] for p in range(start, stop) if owner[p] == t)
        said = talk[t].text
        enough = said in inside or len(inside.removeprefix(f"{talk[t].speaker}: ").split()) >= 6
        (right if enough else touched).append(t)
    return written[start:stop], right, touched


def _changed(
    change: Callable[[list[str], Random], list[str]],
) -> Kind:
    def made(talk: Talk, i: int, random: Random) -> Made:
        parts = talk[i].text.split()
        return (" ".join(change(parts, random)), [i], []) if len(parts) >= 8 else None

    return made


def _without(share: float) -> Callable[[list[str], Random], list[str]]:
    return lambda parts, random: [p for p in parts if random.random() >= share] or parts


def _other_words(parts: list[str], random: Random) -> list[str]:
    return [SYNONYMS.get(part.lower().strip(".,!?"), part) for part in parts]


def _other_order(parts: list[str], random: Random) -> list[str]:
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(parts))
    random.shuffle(sentences)
    made = []
    for sentence in sentences:
        inside = sentence.split()
        for at in range(0, len(inside) - 1, 3):
            if random.random() < 0.5:
                inside[at], inside[at + 1] = inside[at + 1], inside[at]
        made += inside
    return made


def _keywords(parts: list[str], random: Random) -> list[str]:
    return [p for p in parts if p.lower().strip(".,!?'").replace("'", "") not in COMMON] or parts


def third_person(turn: Turn, other: str, random: Random, whole: bool = True) -> str | None:
    """What somebody else would note of it: no greeting, no question, names for pronouns."""
    sentences = re.split(r"(?<=[.!?])\s+", turn.text)
    said = [s for s in sentences if not s.endswith("?") and len(s.split()) > 3]
    if not said:
        return None
    if not whole:
        said = [max(said, key=len)]
    you = {"you": other, "your": f"{other}'s", "you're": f"{other} is", "you've": f"{other} has"}
    made = []
    for part in " ".join(said).split():
        bare = part.lower().strip(".,!?")
        change = you.get(bare) or THIRD_PERSON.get(bare) or SYNONYMS.get(bare, "")
        end = part[len(part.rstrip(".,!?")) :]
        made.append(change + end if change else part)
    verb = random.choice(["said that", "mentioned that", f"told {other} that", "shared that"])
    return f"{turn.speaker} {verb} {' '.join(made).rstrip('!.')}."


def _noted(whole: bool) -> Kind:
    def made(talk: Talk, i: int, random: Random) -> Made:
        text = third_person(talk[i], _other(talk, i), random, whole)
        return (text, [i], []) if text else None

    return made


def _other(talk: Talk, i: int) -> str:
    return next((t.speaker for t in talk if t.speaker != talk[i].speaker), "somebody")


def _two(within: int) -> Kind:
    def made(talk: Talk, i: int, random: Random) -> Made:
        j = (
            min(len(talk) - 1, i + random.randint(1, within))
            if within
            else random.randrange(len(talk))
        )
        facts = [third_person(talk[t], _other(talk, t), random, False) for t in (i, j)]
        if i == j or not all(facts):
            return None
        return f"{facts[0].rstrip('.')}, and {facts[1]}", [i, j], []

    return made


VERBATIM: dict[str, Kind] = {
    "a turn": alone,
    "with date, role, name": prefixed,
    "with an unknown label": nicknamed,
    "case, marks, spaces changed": other_letters,
    "8 and more of its words": cut_words,
    "4 to 7 of its words": cut_short,
    "cut inside words": cut_letters,
    "2-4 turns, a line each": lines,
    "2-4 turns, dated lines": dated_lines,
    "2-4 turns, one line": one_line,
    "2-4 turns, no names": unnamed,
    "2-4 turns, escaped": escaped,
    "2-4 turns, JSON messages": messages,
    "300 letters from anywhere": window,
}
REPHRASED: dict[str, Kind] = {
    "a tenth of the words left out": _changed(_without(0.1)),
    "a third of the words left out": _changed(_without(0.33)),
    "synonyms": _changed(_other_words),
    "other order": _changed(_other_order),
    "only the rarer words": _changed(_keywords),
    "third person": _noted(True),
    "third person, one sentence": _noted(False),
    "a fact of two turns nearby": _two(3),
    "a fact of two turns anywhere": _two(0),
}
KINDS = VERBATIM | REPHRASED
