"""Generates queries from templates (`What does this document say about {topic}?`).

Templates are filled with each document's own topics and fields, assigned by the seed.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError, near
from harness.extensions.labelling.generate.splits import fraction
from harness.extensions.labelling.generate.topics import Topic, Topics
from harness.extensions.labelling.generate.write_project import GeneratedQuery
from harness.extensions.labelling.project import LabelDocument, ProposalReason, QueryOrigin

DEFAULT = "What does this document say about {topic}?"
TOPIC = "topic"
_REVEALING = ("id", "_id", "text", "haystack")  # fields that would give the answer away
_NO_FIELDS = ("haystack", "position", "metadata")  # of a document, which no template may name

SHARED = 10
"""How many other documents may fit a query: with more, it tells no document apart."""


def template_fields(document: LabelDocument) -> dict[str, str]:
    """Returns the values that a template may name: title, speaker, session, metadata."""
    metadata = document.extra.get("metadata")
    own = {name: getattr(document, name) for name in ("title", "timestamp", "session", "speaker")}
    every = {**(metadata if isinstance(metadata, dict) else {}), **document.extra, **own}
    return {
        str(name): " ".join(str(value).split())
        for name, value in every.items()
        if name not in _NO_FIELDS and isinstance(value, str | int | float) and str(value).strip()
    }


@dataclass(frozen=True)
class QueryTemplate:
    """A text with fields in braces. `fields` are their names, each once."""

    text: str
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> QueryTemplate:
        """Raises UsageError for one that has no field, or braces that are none."""
        try:
            parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
        except ValueError as error:
            raise UsageError(f"the template {text!r}: {error}; write {{{{ for a brace") from None
        for _, name, form, conversion in parts:
            if not str(name).replace("-", "_").isidentifier() or form or conversion:
                raise UsageError(
                    f"the template {text!r}: {{{name}}} is no field; a field is a name alone, as "
                    "{topic} or {title}"
                )
            if name in _REVEALING:
                raise UsageError(f"the template {text!r}: {{{name}}} would give the answer away")
        if not parts:
            raise UsageError(
                f"the template {text!r} has no field, so every document would get the same query; "
                f"write it as {DEFAULT!r}"
            )
        return cls(text, tuple(dict.fromkeys(str(name) for _, name, _, _ in parts)))

    def fill(self, values: Mapping[str, str]) -> str:
        """Returns the query with these values in it. Raises KeyError for a field without one."""
        parts = string.Formatter().parse(self.text)
        filled = "".join(
            literal + (values[name] if name is not None else "") for literal, name, _, _ in parts
        )
        return " ".join(filled.split())


def check_fields(templates: Iterable[QueryTemplate], known: set[str]) -> None:
    """Raises UsageError for a field that no document has."""
    for template in templates:
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
        self,
        documents: Sequence[LabelDocument],
        same: Sequence[int],
        templates: Sequence[QueryTemplate],
        seed: int,
    ) -> None:
        self._documents, self._same = documents, same
        self._templates, self._seed = templates, seed
        titles = [document.title or "" for document in documents]
        self._topics = Topics(titles, [document.content for document in documents], same)
        self._fields = [template_fields(document) for document in documents]
        self._having: dict[tuple[str, str], set[int]] = {}
        for row, fields in enumerate(self._fields):
            for pair in fields.items():
                self._having.setdefault(pair, set()).add(row)
        self.excluded: Counter[str] = Counter()

    def generate(self, rows: Sequence[int], each: int) -> list[GeneratedQuery]:
        """Returns up to `each` queries of each of these documents, in their order."""
        # Twice as many, since some are in too many documents.
        topics = self._topics.find(rows, 2 * each)
        return [
            query
            for row, of_row in zip(rows, topics, strict=True)
            for query in self._queries(row, of_row, each)
        ]

    def _queries(self, row: int, topics: Sequence[Topic], each: int) -> list[GeneratedQuery]:
        fields, n = self._fields[row], len(self._templates)
        start = int(fraction(self._seed, f"template\0{self._documents[row].key}") * n)
        order = [self._templates[(start + i) % n] for i in range(n)]
        fitting = [t for t in order if all(f == TOPIC or f in fields for f in t.fields)]
        if not fitting:
            self.excluded["documents that lack a field of every template"] += 1
            return []
        queries: list[GeneratedQuery] = []
        tried = 0
        for template, topic in _turns(fitting, topics):
            query = self._query(row, template, topic)
            tried += 1
            if query is not None:
                queries.append(query)
            if len(queries) == each:
                break
        if not queries:
            crowded = f"documents that share what is asked with more than {SHARED} others"
            self.excluded[crowded if tried else "documents without a topic"] += 1
        return queries

    def _query(
        self, row: int, template: QueryTemplate, topic: Topic | None
    ) -> GeneratedQuery | None:
        """Returns a query; None where too many other documents fit it."""
        document = self._documents[row]
        values = {name: self._fields[row][name] for name in template.fields if name != TOPIC}
        holders = [self._having[pair] for pair in values.items()]
        if topic is not None:
            values[TOPIC] = topic.text
            holders.append(set(topic.holders))
        haystack = document.haystacks[0] if document.haystacks else None
        others = sorted(
            other
            for other in set.intersection(*holders) - {row}
            if haystack is None or haystack in self._documents[other].haystacks
        )
        if len({self._same[other] for other in others}) > SHARED:
            return None
        origin = QueryOrigin(
            method="template", template=template.text, topic=topic.text if topic else None
        )
        reason: ProposalReason = "topic" if topic is not None else "field"
        proposed = dict.fromkeys(others, reason)
        return GeneratedQuery(template.fill(values), haystack, (row,), origin, proposed)


def _turns(
    templates: Sequence[QueryTemplate], topics: Sequence[Topic]
) -> Iterator[tuple[QueryTemplate, Topic | None]]:
    """Yields templates in turn, each with the next topic; one without {topic} has one turn."""
    unused = iter(topics)
    plain: set[str] = set()
    for turn in range(len(templates) * (len(topics) + 1)):
        template = templates[turn % len(templates)]
        if TOPIC not in template.fields:
            if template.text not in plain:
                plain.add(template.text)
                yield template, None
        elif (topic := next(unused, None)) is not None:
            yield template, topic
