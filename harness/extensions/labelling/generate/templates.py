"""Generates queries from templates (`What do we know about {title}?`).

The seed assigns templates to documents, and each document's own fields fill them. A phrase cut
from the text is not used as a field, since it is seldom a whole noun phrase.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError, suggest
from harness.extensions.labelling.generate.write_project import (
    SetQuery,
    fraction,
    new_id,
    normalised,
)
from harness.extensions.labelling.project import LabelDocument, ProposalReason, QueryOrigin

DEFAULT = "What do we know about {title}?"

POINTING = re.compile(
    r"\b(?:this|the (?:above|given|following|provided)) "
    r"(?:document|text|passage|article|page|note|excerpt)\b|"
    r"\b(?:according to|in|does|says?) the (?:document|text|passage|excerpt)\b",
    re.IGNORECASE,
)
"""Phrases that no query may contain: the user does not know the document."""

_REVEALING = ("id", "_id", "text", "haystack")  # fields that would reveal the answer
_NO_FIELDS = ("haystack", "position", "metadata")  # fields that a template may not name

SHARED = 10
"""Maximum number of other documents that fit a query; with more, it is too unspecific."""


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


def field_names(text: str) -> tuple[str, ...]:
    """Returns the distinct names in braces. Raises ValueError for an unclosed brace."""
    names = (name for _, name, _, _ in string.Formatter().parse(text) if name is not None)
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class QueryTemplate:
    """A text with fields in braces. `fields` are their distinct names."""

    text: str
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> QueryTemplate:
        """Parses a template. Raises UsageError for one without a field, with invalid braces, or
        with a phrase such as "this document"."""
        try:
            parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
        except ValueError as error:
            raise UsageError(f"the template {text!r}: {error}; write {{{{ for a brace") from None
        for _, name, form, conversion in parts:
            if not str(name).replace("-", "_").isidentifier() or form or conversion:
                raise UsageError(
                    f"the template {text!r}: {{{name}}} is no field; a field is a name alone, as "
                    "{title} or {speaker}"
                )
            if name in _REVEALING:
                raise UsageError(f"the template {text!r}: {{{name}}} would give the answer away")
        if found := POINTING.search(text):
            raise UsageError(
                f"the template {text!r}: says {found[0]!r}, but who asks does not know the "
                f"document; write it as {DEFAULT!r}"
            )
        if not parts:
            raise UsageError(
                f"the template {text!r} has no field, so every document would get the same query; "
                f"write it as {DEFAULT!r}"
            )
        return cls(text, field_names(text))

    def fill(self, values: Mapping[str, str]) -> str:
        """Returns the query with these values. Raises KeyError for a field without a value."""
        return " ".join(self.text.format_map(values).split())


def check_fields(templates: Iterable[QueryTemplate], known: set[str]) -> None:
    """Raises UsageError for a field that no document has."""
    for template in templates:
        for name in template.fields:
            if name not in known:
                raise UsageError(
                    f"the template {template.text!r}: no document has a field {name!r}"
                    f"{suggest(name, sorted(known))}"
                    "; name another with --template, or ask a --model"
                )


class TemplateAssigner:
    """Assigns templates to documents; `excluded` counts documents without a query, by reason."""

    def __init__(
        self,
        documents: Sequence[LabelDocument],
        same: Sequence[int],
        templates: Sequence[QueryTemplate],
        seed: int,
    ) -> None:
        """`same` has, for each row, the first row with an equal text: a text counts once."""
        self._documents, self._same = documents, same
        self._templates, self._seed = templates, seed
        self._fields = [template_fields(document) for document in documents]
        self._texts = [f" {normalised(document.content)} " for document in documents]
        self._found: dict[tuple[object, ...], list[int]] = {}
        self.excluded: Counter[str] = Counter()

    def generate(self, rows: Sequence[int], each: int) -> list[SetQuery]:
        """Returns up to `each` queries for each of these documents, in their order."""
        return [query for row in rows for query in self._queries(row, each)]

    def fitting(self, names: Sequence[str], row: int) -> list[int]:
        """Returns the other documents that have a row's values of these fields, each in the same
        field or in the text. Stops when too many fit."""
        values = {name: self._fields[row].get(name, "") for name in names}
        haystack = next(iter(self._documents[row].haystacks), None)
        key = (haystack, *sorted(values.items()))
        if key not in self._found:
            self._found[key] = self._all_fitting(values, haystack)
        return [other for other in self._found[key] if other != row]

    def _all_fitting(self, values: Mapping[str, str], haystack: str | None) -> list[int]:
        wanted = [(name, value, f" {normalised(value)} ") for name, value in values.items()]
        found: list[int] = []
        texts: set[int] = set()
        for row, (fields, text) in enumerate(zip(self._fields, self._texts, strict=True)):
            if haystack is not None and haystack not in self._documents[row].haystacks:
                continue
            if all(fields.get(name) == value or words in text for name, value, words in wanted):
                found.append(row)
                texts.add(self._same[row])
            if len(texts) > SHARED + 1:
                break
        return found

    def _queries(self, row: int, each: int) -> list[SetQuery]:
        fields, n = self._fields[row], len(self._templates)
        start = int(fraction(self._seed, f"template\0{self._documents[row].key}") * n)
        order = [self._templates[(start + i) % n] for i in range(n)]
        fitting = [template for template in order if all(f in fields for f in template.fields)]
        if not fitting:
            self.excluded["documents that lack a field of every template"] += 1
            return []
        found = (self._query(row, template) for template in fitting)
        queries = [query for query in found if query is not None][:each]
        if not queries:
            crowded = f"documents that share what is asked with more than {SHARED} others"
            self.excluded[crowded] += 1
        return queries

    def _query(self, row: int, template: QueryTemplate) -> SetQuery | None:
        """Returns a query; None if too many other documents fit it."""
        others = self.fitting(template.fields, row)
        if len({self._same[other] for other in others} - {self._same[row]}) > SHARED:
            return None
        haystack = next(iter(self._documents[row].haystacks), None)
        origin = QueryOrigin(method="template", template=template.text)
        text = template.fill(self._fields[row])
        proposed: dict[int, ProposalReason] = dict.fromkeys(others, "field")
        id_ = new_id(text, haystack)
        return SetQuery(id_, text, haystack, None, (row,), origin=origin, proposed=proposed)
