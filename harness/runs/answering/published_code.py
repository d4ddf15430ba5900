"""Prompts that stand in other people's published code, read out of it without running it.

The file is downloaded when it is used, or taken from a clone, and is held to its sha256 or commit;
nothing of it is in this repository. Its syntax tree is walked: branches are chosen by the
values of names that are given, constants that are assigned are what is wanted.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.dataset.adapter import RemoteFile
from harness.errors import UsageError
from harness.files import digest

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
"""Pinned by the commit that its address names; its sha256 stands in the signature."""


@dataclass(frozen=True)
class Code:
    """A published file and its syntax tree."""

    path: Path
    sha256: str
    tree: ast.Module

    def function(self, name: str) -> Sequence[ast.stmt]:
        """The statements of a function. Raises UsageError where there is none."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node.body
        raise UsageError(f"{self.path}: has no function {name}; is it the authors' file?")

    def constant(self, name: str) -> str:
        """A text that is assigned at the top of the file. Raises UsageError."""
        found = assigned(self.tree.body, name, {})
        if found is None:
            raise UsageError(f"{self.path}: has no text {name}; is it the authors' file?")
        return found

    def template(self, function: str, name: str, values: Mapping[str, Any], places: int) -> str:
        """The text that a variable of a function has where these are the values of other names.

        Raises UsageError where it has none, or not so many places to be filled in.
        """
        found = assigned(self.function(function), name, values)
        if found is None:
            chosen = ", ".join(f"{key} {value!r}" for key, value in values.items())
            raise UsageError(f"{self.path}: {function} has no {name} for {chosen}")
        fields = [field for _, field, _, _ in string.Formatter().parse(found) if field is not None]
        if fields != [""] * places:
            raise UsageError(f"{self.path}: {name} of {function} has not {places} places {{}}")
        return found

    def format_added(self, function: str, name: str, values: Mapping[str, Any], places: int) -> str:
        """The text with so many places that a loop of a function fills in and adds to a variable.

        Raises UsageError where none is added there, or several are.
        """
        found = {
            text
            for text in formats_added(self.function(function), name, values)
            if [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
            == [""] * places
        }
        if len(found) != 1:
            raise UsageError(f"{self.path}: {function} adds {len(found)} texts to {name}, not one")
        return found.pop()


def published_code(file: RemoteFile, source: Path | None) -> Code:
    """The file, of a clone or of one's own at `source`, else downloaded into the cache.

    Raises UsageError where it is not there or not the pinned one, RunError where it cannot be had.
    """
    if source is None:
        from filelock import FileLock

        from harness.dataset.download import downloads_folder, fetch
        from harness.dataset.prepare import home

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


def assigned(
    body: Sequence[ast.stmt], name: str, values: Mapping[str, Any], found: str | None = None
) -> str | None:
    """The text that a name has behind these statements, by the branches that `values` choose.

    `found` is what it has before them. Statements that do not assign it are passed over. None where
    nothing assigns it, or what is assigned or tested cannot be told.
    """
    for statement in body:
        if not _assigns(statement, name):
            continue
        if isinstance(statement, ast.If):
            test = _value(statement.test, values)
            if test is _UNKNOWN:
                return None
            found = assigned(statement.body if test else statement.orelse, name, values, found)
        elif isinstance(statement, ast.Assign):
            value = _value(statement.value, values)
            found = value if isinstance(value, str) else None
        elif isinstance(statement, ast.AugAssign) and found is not None:
            value = _value(statement.value, values)
            found = found + value if isinstance(value, str) else None
        else:
            return None
    return found


def formats_added(body: Sequence[ast.stmt], name: str, values: Mapping[str, Any]) -> Iterator[str]:
    """The texts whose `format` is added to a variable (`name += "...".format(...)`), in loops too,
    by the branches that `values` choose; of a test that cannot be told, both."""
    for statement in body:
        if isinstance(statement, ast.If):
            test = _value(statement.test, values)
            if test is _UNKNOWN or test:
                yield from formats_added(statement.body, name, values)
            if test is _UNKNOWN or not test:
                yield from formats_added(statement.orelse, name, values)
        elif isinstance(statement, ast.For | ast.While | ast.With | ast.Try):
            yield from formats_added(statement.body, name, values)
        elif (
            isinstance(statement, ast.AugAssign)
            and isinstance(statement.target, ast.Name)
            and statement.target.id == name
            and isinstance(statement.value, ast.Call)
            and isinstance(statement.value.func, ast.Attribute)
            and statement.value.func.attr == "format"
            and isinstance(statement.value.func.value, ast.Constant)
            and isinstance(statement.value.func.value.value, str)
        ):
            yield statement.value.func.value.value


_UNKNOWN = object()


def _assigns(statement: ast.stmt, name: str) -> bool:
    for node in ast.walk(statement):
        targets: Sequence[ast.expr] = ()
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = (node.target,)
        if any(isinstance(one, ast.Name) and one.id == name for one in targets):
            return True
    return False


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """What an expression of names, constants, comparisons and and, or, not is; else _UNKNOWN."""
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
        if left is _UNKNOWN or right is _UNKNOWN:
            return _UNKNOWN
        op = node.ops[0]
        if isinstance(op, ast.Eq | ast.Is):
            return left == right
        if isinstance(op, ast.NotEq | ast.IsNot):
            return left != right
        if isinstance(op, ast.In) and isinstance(right, list):
            return left in right
    return _UNKNOWN
