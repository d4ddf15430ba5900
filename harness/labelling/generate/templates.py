"""Queries from templates: every document's own topics and fields, dealt out by the seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.labelling.generate.generate_templates import TOPIC, Template
from harness.labelling.generate.made import Made
from harness.labelling.generate.sources import Source
from harness.labelling.generate.splits import fraction
from harness.labelling.generate.topics import Topic, Topics

SHARED = 10
"""How many other documents may fit a query: with more, it tells no document apart."""

Int64 = npt.NDArray[np.int64]


class Dealer:
    """Deals templates and topics to documents; `left_out` counts, by reason, who got no query."""

    def __init__(
        self, sources: Sequence[Source], same: Int64, templates: list[Template], seed: int
    ) -> None:
        self._sources, self._same = sources, same
        self._templates, self._seed = templates, seed
        self._topics = Topics([s.title for s in sources], [s.content for s in sources], same)
        self._having = _having(sources, {name for t in templates for name in t.fields})
        self._haystacks = [frozenset(source.haystacks) for source in sources]
        self.left_out: Counter[str] = Counter()

    def deal(self, rows: Sequence[int], each: int) -> list[Made]:
        """Up to `each` queries of each of these documents, in their order."""
        # Twice as many, since some stand in too many documents.
        topics = self._topics.of(np.array(rows, np.int64), 2 * each)
        return [
            made
            for row, of_row in zip(rows, topics, strict=True)
            for made in self._of(row, of_row, each)
        ]

    def _of(self, row: int, topics: list[Topic], each: int) -> list[Made]:
        source, n = self._sources[row], len(self._templates)
        start = int(fraction(self._seed, f"template\0{source.key}") * n)
        order = [self._templates[(start + i) % n] for i in range(n)]
        fitting = [t for t in order if all(f == TOPIC or f in source.fields for f in t.fields)]
        if not fitting:
            self.left_out["documents that lack a field of every template"] += 1
            return []
        made, tried = list[Made](), 0
        for template, topic in _turns(fitting, topics):
            one = self._made(row, template, topic)
            tried += 1
            if one is not None:
                made.append(one)
            if len(made) == each:
                break
        if not made:
            crowded = f"documents that share what is asked with more than {SHARED} others"
            self.left_out[crowded if tried else "documents without a topic"] += 1
        return made

    def _made(self, row: int, template: Template, topic: Topic | None) -> Made | None:
        """A query; None where too many other documents fit it."""
        source = self._sources[row]
        values = {name: source.fields[name] for name in template.fields if name != TOPIC}
        origin: dict[str, str] = {"by": "template", "template": template.text}
        holders = [self._having[pair] for pair in values.items()]
        if topic is not None:
            values[TOPIC] = origin["topic"] = topic.text
            holders.append(set(topic.holders.tolist()))
        haystack = source.haystacks[0] if source.haystacks else None
        others = sorted(
            other
            for other in set.intersection(*holders)
            if other != row and (haystack is None or haystack in self._haystacks[other])
        )
        if len({int(self._same[other]) for other in others}) > SHARED:
            return None
        why = {"by": "topic"} if topic is not None else {"by": "field"}
        return Made(template.fill(values), haystack, (row,), origin, dict.fromkeys(others, why))


def _turns(
    templates: list[Template], topics: list[Topic]
) -> Iterator[tuple[Template, Topic | None]]:
    """Templates in turn, each with the next topic; one without {topic} has one turn alone."""
    unused, plain = iter(topics), set[str]()
    for turn in range(len(templates) * (len(topics) + 1)):
        template = templates[turn % len(templates)]
        if TOPIC not in template.fields:
            if template.text not in plain:
                plain.add(template.text)
                yield template, None
        elif (topic := next(unused, None)) is not None:
            yield template, topic


def _having(sources: Sequence[Source], fields: Iterable[str]) -> Mapping[tuple[str, str], set[int]]:
    """The rows that have each value of each field."""
    found: dict[tuple[str, str], set[int]] = {}
    for row, source in enumerate(sources):
        of_row = source.fields
        for name in fields:
            if name in of_row:
                found.setdefault((name, of_row[name]), set()).add(row)
    return found
