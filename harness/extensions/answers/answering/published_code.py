"""Reads prompts from published code without executing it.

The file is downloaded on use, or read from a clone, and is pinned by its sha256 or commit; this
repository contains no part of it. The syntax tree is evaluated: given values of names select the
branches, and the result is the constant that is assigned there.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.datasets.adapter import RemoteFile
from harness.errors import UsageError
from harness.io.files import digest

_LONGMEMEVAL = "https://raw.githubusercontent.com/xiaowu0162/LongMemEval/9e0b455/"
_LOCOMO = (
    "https://raw.githubusercontent.com/snap-research/locomo/"
    "3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376/"
)
GENERATION = RemoteFile(
    "src/generation/run_generation.py",
    f"{_LONGMEMEVAL}src/generation/run_generation.py",
    sha256="4f1eb3c69d7ad40f04065b9c0bc86f6582441018fc6ff751d162d66c95baf672",
)
EVALUATION = RemoteFile(
    "src/evaluation/evaluate_qa.py",
    f"{_LONGMEMEVAL}src/evaluation/evaluate_qa.py",
    sha256="ecce9c4c79dc89d99534ac17b383a5cbb5b9f0c69ee98adaf0684742e3d95251",
)
LOCOMO_PROMPTS = RemoteFile("task_eval/gpt_utils.py", f"{_LOCOMO}task_eval/gpt_utils.py")
"""Pinned by the commit in its address; its sha256 is in the signature."""


Choices = Mapping[str, str | bool]
"""Values of names, which select the branches of the code."""


@dataclass(frozen=True)
class Code:
    """A published file and its syntax tree."""

    path: Path
    sha256: str
    tree: ast.Module

    def function(self, name: str) -> Sequence[ast.stmt]:
        """Returns the statements of a function. Raises UsageError if there is none."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node.body
        raise UsageError(f"{self.path}: has no function {name}; is it the authors' file?")

    def constant(self, name: str) -> str:
        """Returns a text that is assigned at module level. Raises UsageError if there is none."""
        found = assigned(self.tree.body, name, {})
        if found is None:
            raise UsageError(f"{self.path}: has no text {name}; is it the authors' file?")
        return found

    def template(self, function: str, name: str, values: Choices, n_fields: int) -> str:
        """Returns the text of a variable of a function, given values of other names.

        Raises UsageError if it has none, or a different number of replacement fields.
        """
        found = assigned(self.function(function), name, values)
        if found is None:
            chosen = ", ".join(f"{key} {value!r}" for key, value in values.items())
            raise UsageError(f"{self.path}: {function} has no {name} for {chosen}")
        fields = [field for _, field, _, _ in string.Formatter().parse(found) if field is not None]
        if fields != [""] * n_fields:
            raise UsageError(f"{self.path}: {name} of {function} has not {n_fields} fields {{}}")
        return found

    def format_added(self, function: str, name: str, values: Choices, n_fields: int) -> str:
        """Returns the text with `n_fields` replacement fields that a loop of a function formats and
        appends to a variable.

        Raises UsageError if there is none, or more than one.
        """
        found = {
            text
            for text in formats_added(self.function(function), name, values)
            if [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
            == [""] * n_fields
        }
        if len(found) != 1:
            raise UsageError(f"{self.path}: {function} adds {len(found)} texts to {name}, not one")
        return found.pop()


def published_code(file: RemoteFile, source: Path | None) -> Code:
    """Reads a published file from `source` (the file or a clone), or downloads it into the cache.

    Raises UsageError if it is missing or not the pinned version, RunError if the download fails.
    """
    if source is None:
        from filelock import FileLock

        from harness.datasets.adapter import downloads_folder
        from harness.datasets.download import fetch
        from harness.datasets.registry import home

        folder = downloads_folder(home(), "published-code")
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            path = fetch(file, folder)
    else:
        path = source if source.is_file() else source / file.name
        if not path.is_file():
            raise UsageError(
                f"{path}: no such file; name a clone of the authors' repository with --source"
            )
    sha256 = digest(path)
    if file.sha256 and sha256 != file.sha256:
        raise UsageError(
            f"{path}: is not the authors' {Path(file.name).name} of sha256 {file.sha256[:12]}...; "
            "another version is another protocol"
        )
    try:
        return Code(path, sha256, ast.parse(path.read_bytes()))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: no Python that can be read ({error})") from None


def assigned(body: Sequence[ast.stmt], name: str, values: Choices) -> str | None:
    """Returns the text of a name after these statements, in the branches that `values` select.

    Returns None if nothing assigns it, or if an assigned value or a condition is unknown.
    """
    found: str | None = None
    for statement, known in _reached(body, values):
        value: object = None
        if isinstance(statement, ast.Assign):
            targets = statement.targets
            value = _value(statement.value, values)
        elif isinstance(statement, ast.AugAssign):
            targets = [statement.target]
            more = _value(statement.value, values)
            value = found + more if isinstance(more, str) and found is not None else None
        else:
            continue
        if any(isinstance(one, ast.Name) and one.id == name for one in targets):
            found = value if known and isinstance(value, str) else None
    return found


def formats_added(body: Sequence[ast.stmt], name: str, values: Choices) -> Iterator[str]:
    """Yields the texts in `name += "...".format(...)`, also in loops, in the branches that `values`
    select; an unknown condition selects both branches."""
    for statement, _ in _reached(body, values):
        match statement:
            case ast.AugAssign(
                target=ast.Name(id=target),
                value=ast.Call(
                    func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")
                ),
            ) if target == name:
                yield text


def _reached(
    body: Sequence[ast.stmt], values: Choices, known: bool = True
) -> Iterator[tuple[ast.stmt, bool]]:
    """Yields the simple statements that `values` reach, and whether they are certainly reached."""
    for statement in body:
        if isinstance(statement, ast.If):
            test = _value(statement.test, values)
            sure = known and test is not _UNKNOWN
            if test is _UNKNOWN or test:
                yield from _reached(statement.body, values, sure)
            if test is _UNKNOWN or not test:
                yield from _reached(statement.orelse, values, sure)
        elif isinstance(statement, ast.For | ast.While | ast.With | ast.Try):
            yield from _reached(statement.body, values, False)
        else:
            yield statement, known


_UNKNOWN = object()
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: left == right,
    ast.Is: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.IsNot: lambda left, right: left != right,
    ast.In: lambda left, right: isinstance(right, list) and left in right,
}


def _value(node: ast.expr, values: Choices) -> Any:
    """Evaluates names, constants, lists, comparisons, and, or, not; else returns _UNKNOWN."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values.get(node.id, _UNKNOWN)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = [_value(one, values) for one in node.elts]
        return _UNKNOWN if _UNKNOWN in items else items
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _value(node.operand, values)
        return _UNKNOWN if value is _UNKNOWN else not value
    if isinstance(node, ast.BoolOp):
        parts = [_value(one, values) for one in node.values]
        if _UNKNOWN in parts:
            return _UNKNOWN
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _value(node.left, values), _value(node.comparators[0], values)
        compare = _COMPARISONS.get(type(node.ops[0]))
        if compare is not None and left is not _UNKNOWN and right is not _UNKNOWN:
            return compare(left, right)
    return _UNKNOWN
