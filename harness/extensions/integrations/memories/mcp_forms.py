"""Converts documents and queries to tool arguments, and tool results to hits."""

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
"""Minimum length of a word that is searched by itself."""


class ToolSchema(Record, forbid_unknown_fields=False):
    """The parts of a tool's JSON Schema that are used."""

    properties: dict[str, object] | None = None
    required: list[str] | None = None
    additional_properties: object = msgspec.field(name="additionalProperties", default=None)


@dataclass(frozen=True)
class ToolCall:
    """A tool and a template of its arguments; None if its schema determines them."""

    tool: str
    arguments: Mapping[str, object] | None

    @classmethod
    def read(cls, given: Any, name: str, places: Sequence[str]) -> ToolCall:
        """Parses a parameter: `{"tool": {"argument": "{text}"}}`, or a tool's name.

        Raises ValueError for anything else, and for an unknown placeholder.
        """
        if isinstance(given, str) and given and not given.lstrip().startswith("{"):
            return cls(given, None)
        if not (
            isinstance(given, Mapping)
            and len(given) == 1
            and all(isinstance(arguments, Mapping) for arguments in given.values())
        ):
            raise ValueError(
                f'{name} must be a tool with its arguments, {{"tool": {{"argument": ...}}}}, or a '
                f"tool name, not {given!r}"
            )
        ((tool, arguments),) = given.items()
        for place in places_in(arguments):
            if place not in places:
                known = ", ".join(f"{{{one}}}" for one in places) or "none"
                raise ValueError(f"{name} has {{{place}}}; valid placeholders are {known}")
        return cls(tool, arguments)

    def by_schema(self, schema: ToolSchema, place: str) -> ToolCall:
        """Fills in arguments that the tool's schema determines.

        Raises ValueError if the schema is ambiguous, if an argument is unknown (many servers ignore
        it silently), and if a required one is missing.
        """
        properties, required = schema.properties or {}, schema.required or []
        takes = f"tool {self.tool!r} takes {', '.join(properties) or 'nothing'}"
        if self.arguments is not None:
            for name in self.arguments:
                if name not in properties and not schema.additional_properties:
                    raise ValueError(f"{takes}, and no {name!r}")
            for name in required:
                if name not in self.arguments:
                    raise ValueError(f"{takes}: {name!r} is required, but missing")
            return self
        texts = [one for one in required if _is_string(properties.get(one))]
        if len(texts) != 1 or len(required) != 1:
            raise ValueError(
                f"{takes}: name the arguments, as in "
                f"{json.dumps({self.tool: {(texts or ['...'])[0]: f'{{{place}}}'}})}"
            )
        return ToolCall(self.tool, {texts[0]: f"{{{place}}}"})


def _is_string(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"


def places_in(template: Any) -> set[str]:
    """Returns the placeholders in a template."""
    if isinstance(template, str):
        return set(_PLACE.findall(template))
    inner = template.values() if isinstance(template, Mapping) else template
    if not isinstance(template, Mapping | list):
        return set()
    return {name for one in inner for name in places_in(one)}


def filled(template: Any, values: Mapping[str, object]) -> Any:
    """Fills the placeholders of a template.

    A string that is a single placeholder becomes its value, whatever its type; None removes it from
    its object or list. Inside a longer string None becomes empty.
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
    """Returns the values of OF_DOCUMENT."""
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
    """Returns the values of OF_QUESTION, except `each_word`."""
    return {
        "query": question.text,
        "any_word": " OR ".join(f'"{word}"' for word in words(question.text)),
        "timestamp": iso_date(question.timestamp),
        "k": k,
    }


def words(text: str) -> list[str]:
    """Returns the unique words of a text in lower case."""
    return [*dict.fromkeys(re.findall(r"\w+", text.lower()))]


def long_words(text: str) -> list[str]:
    """Returns the words to search one by one; shorter ones match everything."""
    return [word for word in words(text) if len(word) >= _LEAST]


def items(structured: Any, texts: Sequence[str], results: str) -> list[Any]:
    """Yields the items of a tool's result: objects or texts.

    `results` is the path of the list in its JSON, such as `data.memories`; by default it is the
    result itself or the first list in it. Raises ValueError if the path is not found.
    """
    values = [_read(text) for text in texts] if structured is None else [structured]
    return [one for value in values for one in _listed(value, results)]


def _read(text: str) -> Any:
    """Parses a text to an object or a list; returns other text unchanged."""
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
    }:  # the SDK wraps values that are not objects
        value = value["result"]
        value = _read(value) if isinstance(value, str) else value
    if isinstance(value, Mapping) and _text_of(value) is None:
        value = next((one for one in value.values() if isinstance(one, list)), value)
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def hits(found: Sequence[Any], handles: Set[str] | None, nothing: re.Pattern[str]) -> list[Hit]:
    """Converts objects and texts to hits.

    `handles` are those of the haystack, if the tool received them. An item with a handle is a hit
    on that document, and a text with several handles is one hit for each. Then a text without a
    handle is ignored, as is any text that matches `nothing`.
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
    """Yields a hit for each handle in a text, with the lines up to the next one."""
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
        # A handle alone is a document, whatever its haystack; within a text it may be a word.
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
