"""Measures the matching of texts with documents on LoCoMo: what is found, what is found wrongly.

    python -m tests.benchmarks.matching --source PATH/locomo10.json [--half rules] [--sessions PATH]

Turns are cut, mixed and rephrased (tests/scoring/matching/rewrites.py, seeded) as systems do it,
and looked for among the turns of their conversation, or of another one, where nothing is right. The
facts that LoCoMo's authors had a language model note, with the turns that each is from, are the one
real rewriting. The rules of harness/scoring/matching were chosen on every other conversation
(`--half rules`); what is printed is of the rest. `--sessions` names LongMemEval's file, for the
times.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tabulate import tabulate

from harness import open_dataset
from harness.scoring.matching.matcher import Match, Matcher, Matching
from harness.scoring.matching.words import Way
from tests.benchmarks.measure import median, timed
from tests.scoring.matching.rewrites import KINDS, REPHRASED, Talk, Turn, words

SAMPLES = 60  # turns of a conversation that each kind is tried on
FACTS = "facts by a language model"
THRESHOLDS = (0.1, 0.3, 0.5)


@dataclass(frozen=True)
class Probe:
    """A text, the turns that it is from, and turns that are neither right nor wrong."""

    kind: str
    text: str
    right: frozenset[int]
    open: frozenset[int]


@dataclass(frozen=True)
class Conversation:
    """Its turns, the texts that are indexed for them, and the model's facts with their turns."""

    talk: Talk
    texts: list[str]
    facts: list[tuple[str, list[int]]]

    @cached_property
    def words(self) -> list[tuple[str, ...]]:
        return [tuple(words(turn.text)) for turn in self.talk]

    @property
    def speakers(self) -> list[str]:
        return sorted({turn.speaker for turn in self.talk})


def conversations(source: Path) -> list[Conversation]:
    """LoCoMo's ten."""
    dataset = open_dataset("locomo", source=source, granularity="turn")
    raw = {record["sample_id"]: record for record in json.loads(source.read_text())}
    made = []
    for haystack, name in enumerate(dataset.haystack_ids):
        documents = [dataset.documents[int(row)] for row in dataset.haystack_rows(haystack)]
        said = {
            turn["dia_id"]: turn["text"]
            for session in raw[name]["conversation"].values()
            if isinstance(session, list)
            for turn in session
        }
        talk = [Turn(d.speaker, said[d.id], d.timestamp) for d in documents]
        place = {document.id: i for i, document in enumerate(documents)}
        facts = []
        for people in raw[name]["observation"].values():
            for text, turns in (fact for noted in people.values() for fact in noted):
                ids = turns.split(",") if isinstance(turns, str) else turns
                known = [place[i.strip()] for i in ids if i.strip() in place]
                if known:
                    facts.append((text, known))
        made.append(Conversation(talk, [d.text for d in documents], facts))
    return made


def probes(of: Conversation, seed: int) -> Iterator[Probe]:
    """Texts made of the conversation's turns, the same for the same seed."""
    for kind, rewrite in KINDS.items():
        random_ = random.Random(f"{kind} {seed}")
        for start in random_.sample(range(len(of.talk)), min(SAMPLES, len(of.talk))):
            made = rewrite(of.talk, start, random_)
            if made is not None:
                text, right, touched = made
                yield Probe(kind, text, frozenset(right), same(of, right, of) | set(touched))
    for text, turns in random.Random(seed).sample(of.facts, min(4 * SAMPLES, len(of.facts))):
        yield Probe(FACTS, text, frozenset(turns), same(of, turns, of))


def same(of: Conversation, turns: Iterable[int], where: Conversation) -> frozenset[int]:
    """Turns of `where` that have the very same words as one of the given turns."""
    wanted = {of.words[turn] for turn in turns}
    return frozenset(i for i, its in enumerate(where.words) if its in wanted)


@dataclass
class Count:
    """What was found of the texts of one kind; texts, and documents."""

    texts: int = 0
    wrong_texts: int = 0
    found: int = 0
    right: int = 0
    wanted: int = 0
    ways: Counter[Way] = field(default_factory=Counter)

    def add(self, probe: Probe, match: Match) -> None:
        found = set(match.positions.tolist())
        right = len(found & probe.right)
        wrong = len(found - probe.right - probe.open)
        self.texts += 1
        self.wrong_texts += wrong > 0
        self.found += right + wrong
        self.right += right
        self.wanted += len(probe.right)
        self.ways[match.way] += 1

    def row(self) -> dict[str, str]:
        share = {way: self.ways[way] / self.texts for way in Way}
        contained = (Way.EXACT, Way.ESCAPED, Way.NORMALISED)
        return {
            "n": str(self.texts),
            **{way: percent(share[way]) for way in contained},
            "F1": percent(share[Way.F1]),
            "none": percent(share[Way.NONE]),
            "precision": percent(self.right / self.found) if self.found else "",
            "recall": percent(self.right / self.wanted) if self.wanted else "",
            "with a wrong one": percent(self.wrong_texts / self.texts),
        }


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def measure(
    all_: list[Conversation], half: list[int], threshold: float
) -> tuple[dict[str, Count], dict[str, Count]]:
    """Counts by kind, looked for in their own conversation, and in the next of the half."""
    own: dict[str, Count] = defaultdict(Count)
    foreign: dict[str, Count] = defaultdict(Count)
    for place, i in enumerate(half):
        here, there = all_[i], all_[half[(place + 1) % len(half)]]
        tried = list(probes(here, i))
        texts = [probe.text for probe in tried]
        for where, counts in ((here, own), (there, foreign)):
            matcher = Matcher(where.texts, Matching(threshold), speakers=where.speakers)
            for probe, match in zip(tried, matcher.find(texts), strict=True):
                if where is there:
                    probe = Probe(
                        probe.kind, probe.text, frozenset(), same(here, probe.right, there)
                    )
                counts[probe.kind].add(probe, match)
    return own, foreign


def table(rows: dict[str, dict[str, str]]) -> str:
    """Rows by their name, as Markdown."""
    cells = [[name, *row.values()] for name, row in rows.items()]
    headers = ["text", *next(iter(rows.values()))]
    return tabulate(
        cells, headers, tablefmt="pipe", colalign=["left"] + ["right"] * len(headers[1:])
    )


def rates(all_: list[Conversation], half: list[int]) -> str:
    """The tables of what was found."""
    counts = {threshold: measure(all_, half, threshold) for threshold in THRESHOLDS}
    own, foreign = counts[0.3]
    elsewhere = {kind: count.row() for kind, count in foreign.items()}
    for row in elsewhere.values():
        del row["precision"], row["recall"]
    rows: dict[str, dict[str, str]] = {}
    for kind in [*REPHRASED, FACTS]:
        rows[kind] = {}
        for threshold, (here, there) in counts.items():
            row = here[kind].row()
            found = 1 - there[kind].ways[Way.NONE] / there[kind].texts
            rows[kind][f"precision, {threshold}"] = row["precision"]
            rows[kind][f"recall, {threshold}"] = row["recall"]
            rows[kind][f"elsewhere, {threshold}"] = percent(found)
    parts = [
        "## In their own conversation",
        table({kind: count.row() for kind, count in own.items()}),
        "## In another conversation, where nothing is right",
        table(elsewhere),
        "## By the threshold of token F1",
        table(rows),
    ]
    return "\n\n".join(parts)


def sessions(all_: list[Conversation], source: Path, longmemeval: Path) -> str:
    """Whole sessions as documents: what becomes of the facts there, and the times."""
    dataset = open_dataset("locomo", source=source, granularity="session")
    ways: Counter[Way] = Counter()
    for haystack, conversation in enumerate(all_):
        rows = dataset.haystack_rows(haystack)
        matcher = Matcher(dataset.documents.contents(rows), speakers=conversation.speakers)
        ways.update(match.way for match in matcher.find([text for text, _ in conversation.facts]))
    texts = dataset.documents.contents() + [
        "\n".join(f"{turn['role']}: {turn['content']}" for turn in session)
        for record in json.loads(longmemeval.read_text())
        for session in record["haystack_sessions"]
    ]
    pick = random.Random(0)
    hits = [text for text, _ in pick.sample(all_[0].facts, 25)]
    for text in pick.sample(texts, 25):
        start = pick.randrange(max(1, len(text) - 400))
        hits.append(text[start : start + 400])
    speakers = sorted({name for conversation in all_ for name in conversation.speakers})
    built = [timed(lambda: Matcher(texts, speakers=speakers)) for _ in range(5)]
    matcher = built[0][1]
    together = [timed(lambda: matcher.find(hits))[0] for _ in range(5)]
    alone = [timed(lambda: [matcher.find([hit]) for hit in hits])[0] for _ in range(5)]
    count = sum(len(text.split()) for text in texts)
    none = percent(ways[Way.NONE] / ways.total())
    return f"""## Whole sessions

Of the {ways.total()} facts {none} percent are not found where the documents are LoCoMo's whole
sessions: a sentence shares no 0.3 of its words and a session's.

Times over {len(texts)} sessions of LoCoMo and LongMemEval's sample ({count:,} words), medians:

| | processor s |
|---|---:|
| the index | {median([cost for cost, _ in built]).cpu:.3f} |
| 50 hits (25 facts, 25 pieces of 400 letters) at once | {median(together).cpu:.4f} |
| the same one by one | {median(alone).cpu:.4f} |"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, help="locomo10.json")
    parser.add_argument("--half", choices=["rules", "report"], default="report")
    parser.add_argument("--sessions", type=Path, help="longmemeval_s_sample.json, for the times")
    arguments = parser.parse_args()
    all_ = conversations(arguments.source)
    half = list(range(0 if arguments.half == "rules" else 1, len(all_), 2))
    print(rates(all_, half))
    if arguments.sessions:
        print("\n" + sessions(all_, arguments.source, arguments.sessions))


if __name__ == "__main__":
    main()
