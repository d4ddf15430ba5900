"""What a document or a question is to a tool, and what a tool's result is as hits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.extensions.integrations.frameworks.build import falling
from harness.extensions.integrations.memories.session_feed import line
from harness.io.records import Record
from harness.retrievers.contract import Hit, Question
from harness.retrievers.corpus import is_handle
from harness.retrievers.wire import iso_date
from harness.schema import Document

OF_DOCUMENT = (
    *("id", "text", "title", "content", "line"),
    *("timestamp", "speaker", "session", "position"),
)
OF_QUESTION = ("query", "any_word", "each_word", "timestamp", "k")

_PLACE = re.compile(r"\{([a-z_]+)\}")
_HANDLE = re.compile(r"\bd\d+\b")
_TEXTS = ("text", "memory", "content")
_LEAST = 4
"""Letters of a word that is asked for by itself."""


class ToolSchema(Record, forbid_unknown_fields=False):
    """What is read of the JSON Schema of a tool's arguments."""

    properties: dict[str, object] | None = None
    required: list[str] | None = None
    additional_properties: object = msgspec.field(name="additionalProperties", default=None)


@dataclass(frozen=True)
class ToolCall:
    """A tool, and a template of its arguments; None where its schema is to say what they are."""

    tool: str
    arguments: Mapping[str, object] | None

    @classmethod
    def read(cls, given: Any, name: str, places: Sequence[str]) -> ToolCall:
        """A parameter: `{"tool": {"argument": "{text}"}}`, or a tool's name.

        Raises ValueError for anything else, and for a place that there is not.
        """
        if isinstance(given, str) and given and not given.lstrip().startswith("{"):
            return cls(given, None)
        if not (
            isinstance(given, Mapping)
            and len(given) == 1
            and all(isinstance(arguments, Mapping) for arguments in given.values())
        ):
            raise ValueError(
                f'{name} names a tool with its arguments, as {{"tool": {{"argument": ...}}}}, or a '
                f"tool alone, not {given!r}"
            )
        ((tool, arguments),) = given.items()
        for place in places_in(arguments):
            if place not in places:
                known = ", ".join(f"{{{one}}}" for one in places) or "none"
                raise ValueError(f"{name} has {{{place}}}; there are {known}")
        return cls(tool, arguments)

    def by_schema(self, schema: ToolSchema, place: str) -> ToolCall:
        """With the arguments that the tool's own schema leaves no choice about.

        Raises ValueError where there is one, for an argument that the tool does not have, which
        many servers pass over in silence, and for one that is lacking.
        """
        properties, required = schema.properties or {}, schema.required or []
        takes = f"tool {self.tool!r} takes {', '.join(properties) or 'nothing'}"
        if self.arguments is not None:
            for name in self.arguments:
                if name not in properties and not schema.additional_properties:
                    raise ValueError(f"{takes}, and no {name!r}")
            for name in required:
                if name not in self.arguments:
                    raise ValueError(f"{takes}: {name!r} is required, and not given")
            return self
        texts = [one for one in required if _is_string(properties.get(one))]
        if len(texts) != 1 or len(required) != 1:
            raise ValueError(
                f"{takes}: say what is what, as "
                f"{json.dumps({self.tool: {(texts or ['...'])[0]: f'{{{place}}}'}})}"
            )
        return ToolCall(self.tool, {texts[0]: f"{{{place}}}"})


def _is_string(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"


def places_in(template: Any) -> set[str]:
    """The names in braces in a template."""
    if isinstance(template, str):
        return set(_PLACE.findall(template))
    inner = template.values() if isinstance(template, Mapping) else template
    if not isinstance(template, Mapping | list):
        return set()
    return {name for one in inner for name in places_in(one)}


def filled(template: Any, values: Mapping[str, object]) -> Any:
    """A template with its places filled in.

    A text that is one place becomes its value, a number too; with None it is left out of the
    object or the list that it stands in. Inside a longer text None is nothing.
    """
    if isinstance(template, str):
        alone = _PLACE.fullmatch(template)
        if alone and alone[1] in values:
            return values[alone[1]]
        return _PLACE.sub(
            lambda m: m[0] if m[1] not in values else str(_or_nothing(values[m[1]])), template
        )
    if isinstance(template, Mapping):
        given = {name: filled(one, values) for name, one in template.items()}
        return {name: one for name, one in given.items() if one is not None}
    if isinstance(template, list):
        return [one for one in (filled(one, values) for one in template) if one is not None]
    return template


def _or_nothing(value: Any) -> Any:
    return "" if value is None else value


def of_document(document: Document) -> dict[str, object]:
    """The values of OF_DOCUMENT."""
    return {
        "id": document.id,
        "text": document.text,
        "title": document.title or None,
        "content": document.content,
        "line": line(document),
        "timestamp": iso_date(document.timestamp),
        "speaker": document.speaker,
        "session": document.session,
        "position": document.position,
    }


def of_question(question: Question, k: int) -> dict[str, object]:
    """The values of OF_QUESTION, but for `each_word`."""
    return {
        "query": question.text,
        "any_word": " OR ".join(f'"{word}"' for word in words(question.text)),
        "timestamp": iso_date(question.timestamp),
        "k": k,
    }


def words(text: str) -> list[str]:
    """The words of a text in lower case, each once."""
    return [*dict.fromkeys(re.findall(r"\w+", text.lower()))]


def long_words(text: str) -> list[str]:
    """Those that are asked for one by one: shorter ones stand in everything."""
    return [word for word in words(text) if len(word) >= _LEAST]


def items(structured: Any, texts: Sequence[str], results: str) -> list[Any]:
    """What a tool returned, one by one: objects or texts.

    `results` is where in its JSON they stand, as `data.memories`; else they are the result itself
    where that is a list, or the first list in it. Raises ValueError where they are not there.
    """
    values = [_read(text) for text in texts] if structured is None else [structured]
    return [one for value in values for one in _listed(value, results)]


def _read(text: str) -> Any:
    """The object or the list that a text is, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text


def _listed(value: Any, results: str) -> list[Any]:
    for name in filter(None, results.split(".")):
        if not isinstance(value, Mapping) or name not in value:
            there = ", ".join(value) if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"results={results}: the tool's result has no {name!r}, but {there}")
        value = value[name]
    if isinstance(value, Mapping) and set(value) == {
        "result"
    }:  # as the SDK wraps what is no object
        value = value["result"]
        value = _read(value) if isinstance(value, str) else value
    if isinstance(value, Mapping) and _text_of(value) is None:
        value = next((one for one in value.values() if isinstance(one, list)), value)
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def hits(found: Sequence[Any], handles: Set[str] | None, nothing: re.Pattern[str]) -> list[Hit]:
    """Objects and texts as hits.

    `handles` are those of the haystack, where the tool was told them: what names one is that
    document, and a text that names several is one hit for each. A text that names none is no hit
    then, and never is one that says, as `nothing` does, that nothing was found.
    """
    made: list[Hit] = []
    for one in found:
        if isinstance(one, Mapping):
            made += _of_object(one, handles)
        elif isinstance(one, str) and one.strip() and not nothing.fullmatch(one.strip()):
            made += [Hit(one)] if handles is None else _of_text(one, handles)
    scores = [hit.score for hit in made]
    return made if falling(scores) else [Hit(hit.text, hit.sources) for hit in made]


def _of_text(text: str, handles: Set[str]) -> list[Hit]:
    """A hit for each document that a text names, with the lines from there to the next."""
    starts: dict[str, int] = {}
    for match in _HANDLE.finditer(text):
        if match[0] in handles and match[0] not in starts:
            starts[match[0]] = text.rfind("\n", 0, match.start()) + 1
    ends = [*starts.values(), len(text)][1:]
    return [
        Hit(text[start : max(start, end)].strip() or text.strip(), [handle])
        for (handle, start), end in zip(starts.items(), ends, strict=True)
    ]


def _of_object(item: Mapping[str, object], handles: Set[str] | None) -> list[Hit]:
    texts = [*_texts_in(item)]
    sources: list[str] = []
    if handles is not None:
        # One that stands alone is a document, of whatever haystack; within a text it may be a word.
        sources += [one for one in texts if is_handle(one)]
        sources += [h for one in texts for h in _HANDLE.findall(one) if h in handles]
    text = _text_of(item) or "\n".join(one for one in texts if not is_handle(one))
    score = item.get("score")
    known = float(score) if isinstance(score, int | float) else None
    return [Hit(text, [*dict.fromkeys(sources)], known)] if text or sources else []


def _text_of(item: Mapping[str, object]) -> str | None:
    texts = (item.get(name) for name in _TEXTS)
    return next((text for text in texts if isinstance(text, str)), None)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(one)
