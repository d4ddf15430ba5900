"""Query templates: `What does this document say about {topic}?`"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError, near

DEFAULT = "What does this document say about {topic}?"
TOPIC = "topic"
_TELLS = ("id", "_id", "text", "haystack")


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
            if name in _TELLS:
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
