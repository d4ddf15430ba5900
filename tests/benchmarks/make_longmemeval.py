"""Writes synthetic LongMemEval files of full size, in the official format.

The shape comes from the real sample at run time: turns a session, words a turn, word frequencies by
role, all punctuation and line breaks. Every word is replaced by an invented one of its length, and
words are drawn one by one, so nothing of the sample's text is copied. What the facts say of the
whole S file is met exactly: 500 questions by type with their `_abs`, 23,867 slots holding 19,195
different sessions, 13 haystacks with one session twice, 51 questions whose evidence stands on the
assistant's side alone. The same seed gives the same bytes.

    python tests/benchmarks/make_longmemeval.py OUT.json [--variant s|m] [--questions N] [--seed N]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

SAMPLE = Path("longmemeval") / "longmemeval_s_sample.json"
TYPES = (  # type, questions, `_abs` among them, evidence sessions of each
    ("single-session-user", 70, 6, 1),
    ("multi-session", 133, 12, 3),
    ("single-session-preference", 30, 0, 1),
    ("temporal-reasoning", 133, 6, 2),
    ("knowledge-update", 78, 6, 2),
    ("single-session-assistant", 56, 0, 1),
)
ASSISTANT_SIDE_ONLY = 51
TWICE = 13
SIZES = {"s": (23_867, 19_195), "m": (237_500, 51_500)}
"""Slots and different sessions. M's number of different ones is not known; it is what the same pool
of fillers would give, going by how often S repeats them."""

_STREAM_WORDS = 6_000  # a question, of each role
_LENGTH = 0.97  # the sample's sessions are that much longer than those of the whole file
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Question:
    """What a record is made of, before its haystack is dealt. Evidence sessions are ids."""

    id: str
    kind: str
    evidence: list[str]
    assistant_side: bool


class Words:
    """An endless text of one role: invented words with the sample's frequencies and lengths."""

    def __init__(self, tokens: list[str], n: int, rng: random.Random) -> None:
        """`n` is how many words are invented before they are cut out again and again."""
        counts = Counter(tokens)
        invented: dict[str, str] = {}
        common = [token for token, n in counts.items() if n > 1]
        weights = [counts[token] for token in common]
        rare = [token for token, n in counts.items() if n == 1]
        common = [_disguised(token, invented, rng) for token in common]
        # A word seen once stands for all the words the sample did not happen to hold.
        drawn = rng.choices([*common, None], [*weights, len(rare)], k=n)
        self._words = [word or _disguised(rng.choice(rare), {}, rng) for word in drawn]
        self.frequent = [word for word, _ in Counter(self._words).most_common(80)]

    def text(self, n: int, rng: random.Random) -> str:
        """`n` consecutive words from anywhere, joined by spaces."""
        start = rng.randrange(len(self._words) - n)
        return " ".join(self._words[start : start + n])


class Sessions:
    """Makes a session from its id alone, so that none need be kept."""

    def __init__(self, sample: list[dict[str, Any]], words: int, seed: int) -> None:
        rng = random.Random(f"{seed} words")
        turns = [t for record in sample for s in record["haystack_sessions"] for t in s]
        tokens = {
            role: [w for t in turns if t["role"] == role for w in t["content"].split(" ")]
            for role in ("user", "assistant")
        }
        self.words = {role: Words(tokens[role], words, rng) for role in tokens}
        self._fillers = _shapes(sample, evidence=False)
        self._evidence = _shapes(sample, evidence=True)
        self._seed = seed

    def filler(self, id_: str) -> list[dict[str, Any]]:
        """The turns of a filler session."""
        rng = random.Random(f"{self._seed} {id_}")
        return [
            {"role": role, "content": self.words[role].text(n, rng)}
            for role, n in rng.choice(self._fillers)
        ]

    def evidence(self, id_: str, *, marked: str) -> list[dict[str, Any]]:
        """The turns of an evidence session; one turn of the role `marked` has the answer."""
        rng = random.Random(f"{self._seed} {id_}")
        shape = rng.choice(self._evidence)
        turns: list[dict[str, Any]] = [
            {"role": role, "content": self.words[role].text(n, rng), "has_answer": False}
            for role, n in shape
        ]
        rng.choice([turn for turn in turns if turn["role"] == marked])["has_answer"] = True
        return turns


def records(
    sample: list[dict[str, Any]], variant: str = "s", questions: int = 500, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """The records of a file, in the official order: by type, `_abs` last in each.

    Fewer than 500 questions leave out the rest of every type evenly; sizes shrink with them.
    """
    sessions = Sessions(sample, max(questions, 10) * _STREAM_WORDS, seed)
    rng = random.Random(f"{seed} haystacks")
    asked = _questions(rng)
    asked = [asked[i * len(asked) // questions] for i in range(questions)]
    fillers = _dealt(asked, variant, rng)
    for question, haystack in zip(asked, fillers, strict=True):
        yield _record(question, haystack, sessions, random.Random(f"{seed} {question.id}"))


def _questions(rng: random.Random) -> list[Question]:
    made = []
    for kind, n, abstentions, evidence in TYPES:
        assistant_side = 0
        for i in range(n):
            abstention = "_abs" * (i >= n - abstentions)
            name = f"{rng.getrandbits(32):08x}"
            side = kind == "single-session-assistant" and assistant_side < ASSISTANT_SIDE_ONLY
            assistant_side += side
            ids = [f"answer_{name}{abstention}_{j + 1}" for j in range(evidence)]
            made.append(Question(name + abstention, kind, ids, side))
    return made


def _dealt(asked: list[Question], variant: str, rng: random.Random) -> list[list[str]]:
    """Filler ids of each haystack: every filler at least once, some again, 13 twice in one."""
    evidence = sum(len(question.evidence) for question in asked)
    slots, different = (n * len(asked) // 500 - evidence for n in SIZES[variant])
    unique: dict[str, None] = {}
    while len(unique) < different:
        unique[_filler_id(rng)] = None
    ids = list(unique)
    twice = min(TWICE, len(asked) // 2)
    again = slots - different - twice
    deck = ids + [ids[i % different] for i in range(again)]
    haystacks: list[dict[str, None]] = [{} for _ in asked]
    for place, id_ in enumerate(deck):
        at = place % len(asked)
        while id_ in haystacks[at]:
            at = rng.randrange(len(asked))
        haystacks[at][id_] = None
    dealt = [rng.sample(list(haystack), len(haystack)) for haystack in haystacks]
    for at in rng.sample(range(len(asked)), twice):
        dealt[at].append(dealt[at][0])
    return dealt


def _record(
    question: Question, fillers: list[str], sessions: Sessions, rng: random.Random
) -> dict[str, Any]:
    marked = "assistant" if question.assistant_side else "user"
    made = [(id_, sessions.filler(id_)) for id_ in fillers]
    made += [(id_, sessions.evidence(id_, marked=marked)) for id_ in question.evidence]
    rng.shuffle(made)
    asked = datetime(2023, 1, 1) + timedelta(minutes=rng.randrange(500_000))
    dates = sorted(asked - timedelta(minutes=rng.randrange(60, 90_000)) for _ in made)
    said = [t["content"] for _, turns in made for t in turns if t.get("has_answer")]
    needles = rng.sample(said[0].split(), min(4, len(said[0].split())))
    frame = rng.choices(sessions.words["user"].frequent, k=8)
    return {
        "question_id": question.id,
        "question_type": question.kind,
        "question": " ".join(rng.sample(needles + frame, len(needles) + len(frame))) + "?",
        "answer": needles[0] if rng.random() < 0.94 else rng.randrange(100),
        "question_date": f"{asked:%Y/%m/%d (%a) %H:%M}",
        "haystack_dates": [f"{date:%Y/%m/%d (%a) %H:%M}" for date in dates],
        "haystack_session_ids": [id_ for id_, _ in made],
        "haystack_sessions": [turns for _, turns in made],
        "answer_session_ids": question.evidence,
    }


def _shapes(sample: list[dict[str, Any]], *, evidence: bool) -> list[list[tuple[str, int]]]:
    """Role and number of words of each turn, for each session of the sample."""
    return [
        [(turn["role"], round(_LENGTH * len(turn["content"].split(" "))) or 1) for turn in session]
        for record in sample
        for id_, session in zip(
            record["haystack_session_ids"], record["haystack_sessions"], strict=True
        )
        if (id_ in record["answer_session_ids"]) == evidence
    ]


def _filler_id(rng: random.Random) -> str:
    letters = string.ascii_letters + string.digits
    return rng.choice(
        (
            f"sharegpt_{''.join(rng.choices(letters, k=7))}_{rng.randrange(99)}",
            f"ultrachat_{rng.randrange(600_000)}{rng.randrange(100)}",
            f"{rng.getrandbits(32):08x}_{rng.randrange(1, 6)}",
        )
    )


def _disguised(token: str, invented: dict[str, str], rng: random.Random) -> str:
    """The token with every word replaced by invented letters of its length; the rest stays."""

    def invent(match: re.Match[str]) -> str:
        word = match[0]
        low = word.lower()
        if low not in invented:
            invented[low] = "".join(rng.choices(string.ascii_lowercase, k=len(low)))
        made = invented[low]
        return made.capitalize() if word[0].isupper() else made

    return _WORD.sub(invent, token)


def write(path: Path, sample: Path, variant: str, questions: int, seed: int) -> None:
    """Stream the file to `path`, a record at a time."""
    from tqdm import tqdm

    source = orjson.loads(sample.read_bytes())
    with open(path, "wb") as file:
        between = b"["
        for record in tqdm(
            records(source, variant, questions, seed), total=questions, disable=None
        ):
            file.write(between)
            file.write(orjson.dumps(record))
            between = b", "
        file.write(b"]")


def main() -> None:
    """Command line."""
    data = os.environ.get("HARNESS_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--variant", choices=sorted(SIZES), default="s")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=Path, default=Path(data) / SAMPLE)
    asked = parser.parse_args()
    write(asked.out, asked.sample, asked.variant, asked.questions, asked.seed)


if __name__ == "__main__":
    main()
