"""JSON Schemas of records, and names that logs have, as tables."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

from command_pages import text
from listing_pages import table

import harness
from harness.io.records import OutputPart, json_schema

PACKAGE = Path(harness.__file__).parent
_BOARD = "harness.analysis.board.records"
_LABELLING = "harness.extensions.labelling"
RECORDS = {
    "run": ("harness.records.run", ("RunRecord",)),
    "scores": ("harness.records.scores", ("ScoreReport",)),
    "answers": ("harness.records.answers", ("AnswersRecord", "JudgeRecord")),
    "annotation": (f"{_LABELLING}.annotations", ("Annotation",)),
    "exported-labels": (f"{_LABELLING}.reports", ("ExportManifest",)),
    "label": (f"{_LABELLING}.project", ("LabelSettings", "Candidate")),
    "manifest": ("harness.datasets.manifest", ("Manifest",)),
    "history": ("harness.extensions.site.history", ("ScoredLine", "FailedLine")),
    "nightly": ("harness.extensions.site.nightly.summary", ("NightlySummary",)),
    "wire": ("harness.retrievers.wire", ("Request", "Reply")),
    "leaderboard": (_BOARD, ("Leaderboard",)),
    "board": (_BOARD, ("Board",)),
    "pairs": (_BOARD, ("PairedTests",)),
    "claims": ("harness.analysis.claims", ("ClaimsFile",)),
}
"""Modules and records from which the schemas of pages are generated."""
_MOST_TYPES = 4
"""Of a value that may have more types than these, the pages name none."""


def schema(name: str, *above: str) -> str:
    """Describes the records of RECORDS: a section for each, with a row for each of its keys.

    Records that are also in the schemas `above` on the page are skipped.
    """
    if name == "output":
        return _outputs()
    shown = {title for one in above for title in _definitions(one)}
    found = {title: one for title, one in _definitions(name).items() if title not in shown}
    return "\n".join(line for title, one in found.items() for line in _object(title, one))


def _definitions(name: str) -> dict[str, Any]:
    module, kinds = RECORDS[name]
    found: dict[str, Any] = {}
    for kind in kinds:
        found |= json_schema(getattr(import_module(module), kind), kind)["$defs"]
    return found


def _outputs() -> str:
    """Describes each kind of output and its parts; records of files have other pages."""
    # Of tests/output.py, as only these pages and tests need the schema of all outputs.
    sys.path.append(str(PACKAGE.parent / "tests"))
    records = import_module("output").output_schema()["$defs"]
    tags = {title: one.get("properties", {}).get("schema", {}) for title, one in records.items()}
    kinds = sorted((tag["enum"][0], title) for title, tag in tags.items() if tag)
    parts = [one.__name__ for one in _subclasses(OutputPart) if not tags.get(one.__name__)]
    shown = [title for title in records if title in parts]
    sections = [*kinds, *((title, title) for title in shown)]
    text = "\n".join(line for head, title in sections for line in _object(head, records[title]))
    return re.sub(r"\[([\w.]+)\]\(#.*?\)", lambda m: m[0] if m[1] in shown else f"`{m[1]}`", text)


def _subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def log_names() -> str:
    """Fields of a recall and the names under which they are found in a line."""
    fields = _module_with("IN_DOCUMENT").FIELDS
    rows = [(f"`{name}`", _codes(paths)) for name, paths in fields.items()]
    return table(("field", "names"), rows)


def log_document_names() -> str:
    """The same inside an object of the list of returned documents."""
    fields = _module_with("IN_DOCUMENT").IN_DOCUMENT
    rows = [(f"`{name}`", _codes(paths)) for name, paths in fields.items()]
    return table(("what", "names"), rows)


def _codes(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _module_with(constant: str) -> Any:
    """Finds the module that defines a constant."""
    files = (one for one in sorted(PACKAGE.rglob("*.py")) if f"\n{constant} = " in one.read_text())
    return import_module(".".join(next(files).relative_to(PACKAGE.parent).with_suffix("").parts))


def _object(kind: str, one: dict[str, Any]) -> Iterator[str]:
    yield f"### {kind}"
    yield ""
    if "description" in one:
        yield re.sub(r"\bNone\b", "null", text(cleandoc(one["description"])))
        yield ""
    rows = list(_rows(one, ""))
    if rows:
        described = 4 if any(row[3] for row in rows) else 3
        head = ("key", "type", "", "what")
        yield table(head[:described], [row[:described] for row in rows])
        yield ""
    elif "enum" in one:
        yield f"One of {_type(one)}."
        yield ""
    elif "additionalProperties" in one:
        yield f"Any names; each value is {_type(one['additionalProperties'])}."
        yield ""


def _rows(one: dict[str, Any], before: str) -> Iterator[tuple[str, str, str, str]]:
    needed = one.get("required", ())
    for key, value in one.get("properties", {}).items():
        said = text(value.get("description", ""))
        if said or not isinstance(value.get("additionalProperties"), dict):
            yield f"`{before}{key}`", _type(value), "needed" if key in needed else "", said
        yield from _rows(value, f"{before}{key}.")
        if isinstance(value.get("items"), dict):
            yield from _rows(value["items"], f"{before}{key}[].")
    more = one.get("additionalProperties")
    if isinstance(more, dict) and before:
        yield f"`{before}*`", _type(more), "", text(more.get("description", ""))
        yield from _rows(more, f"{before}*.")


def _type(one: Any) -> str:
    """Describes the type of a value in a few words, with a link to its section."""
    if not isinstance(one, dict):
        return "anything"
    if "$ref" in one:
        name = one["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in one:
        return f"`{json.dumps(one['const'])}`"
    if "enum" in one:
        return ", ".join(f"`{json.dumps(value)}`" for value in one["enum"])
    for several in ("oneOf", "anyOf"):
        if several in one:
            kinds = [_type(each) for each in one[several]]
            return "anything" if len(kinds) > _MOST_TYPES else " or ".join(kinds)
    kinds = one.get("type", "anything")
    if kinds == "array":
        item = _type(one.get("items", {}))
        return f"list of ({item})" if " or " in item else f"list of {item}"
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
