"""Readers and judges as TOML files of templates: the project's own, and anybody's.

A text in braces is a place that is filled in (`{question}`); every other brace stays as it is. Each
file has a name and a version, and its signature holds a digest of the file unless it is our own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import known_keys, read_toml

_PLACE = re.compile(r"\{(\w+)\}")
_ORDERS = ("time", "rank")
_OWN = Path(__file__).with_name("own")


@dataclass(frozen=True)
class Template:
    """What a template file says.

    `prompt` and `system` are filled in and sent; `params` go with every call. Of readers:
    `document` is one document's text, `separator` stands between them, `nothing` in their place
    where there are none, `order` is that of `time` or of `rank`. Of judges: `unanswerable` is the
    prompt of questions without an answer, `right` and `wrong` find the verdict in the reply.
    """

    name: str
    version: int
    digest: str
    prompt: str
    system: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    document: str = "{text}"
    separator: str = "\n\n"
    nothing: str = ""
    order: str = "time"
    unanswerable: str = ""
    right: str = ""
    wrong: str = ""

    @property
    def signature(self) -> str:
        """`plain/1`; of somebody's own file with the first digits of its sha256."""
        return f"{self.name}/{self.version}{f'#{self.digest}' if self.digest else ''}"

    def messages(self, prompt: str, values: Mapping[str, str]) -> tuple[dict[str, str], ...]:
        """The messages of a call, `prompt` filled in."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return (*system, {"role": "user", "content": fill(prompt, values)})


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put each value in its place; what is no place stays."""
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), template)


def own_template(kind: str, name: str) -> Path | None:
    """The file of a reader or judge of this project's own, `kind` being which."""
    path = _OWN / f"{kind}-{name}.toml"
    return path if path.is_file() else None


def read_template(path: Path, kind: str) -> Template:
    """Read a file of the `kind` "reader" or "judge". Raises UsageError, naming what is wrong."""
    values = read_toml(path)
    texts = ["prompt", "system"]
    texts += (
        ["document", "separator", "nothing", "order"]
        if kind == "reader"
        else ["unanswerable", "right", "wrong"]
    )
    known_keys(path, values, ["name", "version", "params", *texts])
    for name in ("name", *texts):
        if name in values and not isinstance(values[name], str):
            raise UsageError(f"{path}: {name} must be a text")
    if not values.get("name", "").strip() or not values.get("prompt", "").strip():
        raise UsageError(f"{path}: name and prompt are missing")
    version, params = values.get("version", 1), values.get("params", {})
    if not isinstance(version, int) or isinstance(version, bool):
        raise UsageError(f"{path}: version must be a whole number")
    if not isinstance(params, dict) or {"model", "messages", "stream"} & params.keys():
        raise UsageError(f"{path}: params must be a table, without model, messages and stream")
    given = {name: values[name] for name in texts if name in values}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.parent != _OWN else ""
    template = Template(values["name"], version, digest, **{**given, "params": params})
    if kind == "reader":
        _check_places(path, "prompt", template.prompt, {"documents", "question"}, {"date"})
        of_one = {"date", "speaker", "number"}
        _check_places(path, "document", template.document, {"text"}, of_one)
        if template.order not in _ORDERS:
            raise UsageError(f"{path}: order must be {' or '.join(_ORDERS)}")
    else:
        asked = {"question", "answer", "response"}
        _check_places(path, "prompt", template.prompt, asked, {"date"})
        if template.unanswerable:
            _check_places(path, "unanswerable", template.unanswerable, asked - {"answer"}, asked)
        for name in ("right", "wrong"):
            _check_pattern(path, name, getattr(template, name))
    return template


def _check_places(
    path: Path, name: str, text: str, needed: Collection[str], others: Collection[str]
) -> None:
    found = {*_PLACE.findall(text)}
    if missing := sorted({*needed} - found):
        raise UsageError(f"{path}: {name} lacks the place {{{missing[0]}}}")
    if unknown := sorted(found - {*needed} - {*others}):
        known = ", ".join(sorted({*needed, *others}))
        raise UsageError(f"{path}: {name} has a place {{{unknown[0]}}} that nothing fills: {known}")


def _check_pattern(path: Path, name: str, pattern: str) -> None:
    if not pattern:
        raise UsageError(f"{path}: {name} is missing: the expression that finds it in a reply")
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{path}: {name} is no regular expression ({error})") from None
