"""The code blocks of a Markdown page, in order, with what the page says of each to its test."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))

_FENCE = re.compile(r"( *)(`{3,}|~{3,}) *([\w.+-]*)(.*)")
_TITLE = re.compile(r'title="([^"]+)"')
_NAMED = re.compile(r"(?:#|//) ([\w./-]+\.(\w+))")
_SNIPPET = re.compile(r'^( *)--8<-- "([^"]+)"$', re.M)
_MARKS = ("not run", "not output", "output in", "status", "by hand", "needs")
_OF_PROSE = ("generated", "from")
SUFFIXES = {"python": "py", "sh": "sh", "toml": "toml", "json": "json", "yaml": "yml"}


@dataclass
class Block:
    """One block: its language, its code, the file it is shown as, and the page's words about it.

    `language` is `by hand` for commands that stand in for what a reader does by hand.
    """

    page: Path
    line: int
    language: str
    code: str
    file: str = ""
    marks: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        name = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page.name
        return f"{name}, line {self.line}"


@dataclass
class Page:
    """A page: its blocks, and its prose with everything else blanked out, line for line."""

    path: Path
    blocks: list[Block]
    prose: list[str]
    needs: tuple[str, ...]


class PageFormError(AssertionError):
    """A page breaks a rule of how pages are written."""


def read(path: Path, *, included: bool = True) -> Page:
    """The page's blocks, `included` files in place of their names.

    Raises PageFormError for an unknown mark and a fence left open.
    """
    text = path.read_text("utf-8")
    lines = (_SNIPPET.sub(_file, text) if included else text).split("\n")
    page = Page(path, [], [""] * len(lines), ())
    marks: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.fullmatch(line):
            end = _end(path, lines, at, fence[2])
            page.blocks.append(_block(path, at, fence, lines[at + 1 : end], marks))
            marks, at = {}, end + 1
        elif line.lstrip().startswith("<!--"):
            end = next((i for i in range(at, len(lines)) if "-->" in lines[i]), len(lines) - 1)
            _comment(page, at, "\n".join(lines[at : end + 1]), marks)
            at = end + 1
        else:
            if line.strip() and marks:
                raise PageFormError(f"{path.name}, line {at + 1}: {marks} stands before no block")
            page.prose[at] = line
            at += 1
    return page


def _block(
    path: Path, at: int, fence: re.Match[str], lines: list[str], marks: dict[str, str]
) -> Block:
    code = dedent("\n".join(line.removeprefix(fence[1]) for line in lines))
    title = _TITLE.search(fence[4])
    named = _NAMED.match(code)
    file = title[1] if title else ""
    if not file and named and named[2] == SUFFIXES.get(fence[3], named[2]):
        file = named[1]
    return Block(path, at + 1, fence[3], code, file, marks)


def _comment(page: Page, at: int, text: str, marks: dict[str, str]) -> None:
    """A comment of the page: what it says of the next block, or commands of its own."""
    inner = text[text.index("<!--") + 4 : text.index("-->")].strip()
    name, _, said = inner.partition(":")
    if inner.startswith("status "):
        name, said = "status", inner.removeprefix("status ")
    if name not in _MARKS:
        if name == "fmt":  # for the formatter, which takes an included file for Python
            return
        if name not in _OF_PROSE:
            raise PageFormError(f"{page.path.name}, line {at + 1}: no mark is called {name!r}")
        page.prose[at] = text.replace("\n", " ")
        return
    if name == "by hand":
        page.blocks.append(Block(page.path, at + 1, "by hand", dedent(said.strip("\n")).strip()))
    elif name == "needs":
        page.needs = (*page.needs, *said.split())
    elif not said.strip():
        raise PageFormError(f"{page.path.name}, line {at + 1}: {name!r} says no reason")
    else:
        marks[name] = " ".join(said.split())


def _end(path: Path, lines: list[str], at: int, fence: str) -> int:
    for i in range(at + 1, len(lines)):
        if lines[i].strip() == fence:
            return i
    raise PageFormError(f"{path.name}, line {at + 1}: the block has no end")


def _file(found: re.Match[str]) -> str:
    """A file of the repository in place of its name."""
    text = (ROOT / found[2]).read_text("utf-8").rstrip("\n")
    return "\n".join(f"{found[1]}{line}" if line else "" for line in text.split("\n"))
