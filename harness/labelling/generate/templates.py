"""Generates queries from templates (`What does this document say about {topic}?`).

Templates are filled with each document's own topics and fields, assigned by the seed.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError, near
from harness.labelling.generate.sources import SourceDocument
from harness.labelling.generate.splits import fraction
from harness.labelling.generate.topics import Topic, Topics
from harness.labelling.generate.write_project import GeneratedQuery
from harness.labelling.records import Proposal, QueryOrigin

DEFAULT = "What does this document say about {topic}?"
TOPIC = "topic"
_REVEALING = ("id", "_id", "text", "haystack")  # fields that would give the answer away

SHARED = 10
"""How many other documents may fit a query: with more, it tells no document apart."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Template:
    """A text with fields in braces. `fields` are their names, each once."""

    text: str
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Raises UsageError for one that has no field, or braces that are none."""
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise UsageError(f"the template {text!r}: {error}; write {{{{ for a brace") from None
        names = [name for _, name, _, _ in parts if name is not None]
        for name, (_, _, form, conversion) in zip(
            names, (part for part in parts if part[1] is not None), strict=True
        ):
            if not name.replace("-", "_").isidentifier() or form or conversion:
                raise UsageError(
                    f"the template {text!r}: {{{name}}} is no field; a field is a name alone, as "
                    "{topic} or {title}"
                )
            if name in _REVEALING:
                raise UsageError(f"the template {text!r}: {{{name}}} would give the answer away")
        if not names:
            raise UsageError(
                f"the template {text!r} has no field, so every document would get the same query; "
                f"write it as {DEFAULT!r}"
            )
        return cls(text, tuple(dict.fromkeys(names)))

    def fill(self, values: Mapping[str, str]) -> str:
        """The query with these values in it. Raises KeyError for a field that has none."""
        return " ".join(
            "".join(
                literal + (values[name] if name is not None else "")
                for literal, name, _, _ in string.Formatter().parse(self.text)
            ).split()
        )


def templates(texts: list[str], file: Path | None) -> list[Template]:
    """Those of the command line and of a file (one a line, # begins a comment), or the default.

    Raises UsageError for a file that cannot be read or holds none.
    """
    every = list(texts)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"--templates {file}: cannot be read: {said}") from None
        found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not found:
            raise UsageError(f"--templates {file}: holds no template; write one a line")
        every += found
    return [Template.parse(text) for text in dict.fromkeys(every or [DEFAULT])]


def check_fields(every: list[Template], known: set[str]) -> None:
    """Raises UsageError for a field that no document has."""
    for template in every:
        for name in template.fields:
            if name != TOPIC and name not in known:
                raise UsageError(
                    f"the template {template.text!r}: no document has a field {name!r}"
                    f"{near(name, [TOPIC, *known])}"
                )


class TemplateAssigner:
    """Assigns templates and topics to documents; `excluded` counts documents without a query, by
    reason."""

    def __init__(
        self, sources: Sequence[SourceDocument], same: Int64, templates: list[Template], seed: int
    ) -> None:
        self._sources, self._same = sources, same
        self._templates, self._seed = templates, seed
        self._topics = Topics([s.title for s in sources], [s.content for s in sources], same)
        self._having = _having(sources, {name for t in templates for name in t.fields})
        self._haystacks = [frozenset(source.haystacks) for source in sources]
        self.excluded: Counter[str] = Counter()

    def generate(self, rows: Sequence[int], each: int) -> list[GeneratedQuery]:
        """Returns up to `each` queries of each of these documents, in their order."""
        # Twice as many, since some stand in too many documents.
        topics = self._topics.of(np.array(rows, np.int64), 2 * each)
        return [
            made
            for row, of_row in zip(rows, topics, strict=True)
            for made in self._of(row, of_row, each)
        ]

    def _of(self, row: int, topics: list[Topic], each: int) -> list[GeneratedQuery]:
        source, n = self._sources[row], len(self._templates)
        start = int(fraction(self._seed, f"template\0{source.key}") * n)
        order = [self._templates[(start + i) % n] for i in range(n)]
        fitting = [t for t in order if all(f == TOPIC or f in source.fields for f in t.fields)]
        if not fitting:
            self.excluded["documents that lack a field of every template"] += 1
            return []
        made, tried = list[GeneratedQuery](), 0
        for template, topic in _turns(fitting, topics):
            one = self._made(row, template, topic)
            tried += 1
            if one is not None:
                made.append(one)
            if len(made) == each:
                break
        if not made:
            crowded = f"documents that share what is asked with more than {SHARED} others"
            self.excluded[crowded if tried else "documents without a topic"] += 1
        return made

    def _made(self, row: int, template: Template, topic: Topic | None) -> GeneratedQuery | None:
        """A query; None where too many other documents fit it."""
        source = self._sources[row]
        values = {name: source.fields[name] for name in template.fields if name != TOPIC}
        holders = [self._having[pair] for pair in values.items()]
        if topic is not None:
            values[TOPIC] = topic.text
            holders.append(set(topic.holders.tolist()))
        haystack = source.haystacks[0] if source.haystacks else None
        others = sorted(
            other
            for other in set.intersection(*holders)
            if other != row and (haystack is None or haystack in self._haystacks[other])
        )
        if len({int(self._same[other]) for other in others}) > SHARED:
            return None
        origin = QueryOrigin(
            method="template", template=template.text, topic=topic.text if topic else None
        )
        proposal = Proposal(reason="topic" if topic is not None else "field")
        return GeneratedQuery(
            template.fill(values), haystack, (row,), origin, dict.fromkeys(others, proposal)
        )


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


def _having(
    sources: Sequence[SourceDocument], fields: Iterable[str]
) -> Mapping[tuple[str, str], set[int]]:
    """The rows that have each value of each field."""
    found: dict[tuple[str, str], set[int]] = {}
    for row, source in enumerate(sources):
        of_row = source.fields
        for name in fields:
            if name in of_row:
                found.setdefault((name, of_row[name]), set()).add(row)
    return found
