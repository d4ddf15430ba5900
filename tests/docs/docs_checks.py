"""A block held against what is known without running it, and against what was printed."""

from __future__ import annotations

import difflib
import json
import re
import tomllib

import docs_commands
from docs_blocks import ROOT, Block

UNKNOWN = "?"
"""The output of a block that is not run."""


class PageError(AssertionError):
    """A block does not do what its page says."""


def check_unrun(block: Block) -> None:
    """What can be said of a block that is not run: it parses. Raises PageError."""
    lines = block.language == "jsonl" or block.file.endswith(".jsonl")
    try:
        if block.language == "sh":
            for line in docs_commands.logical_lines(block.code):
                check_line(block, line)
        elif block.language == "python":
            compile(block.code, str(block), "exec")
        elif block.language == "toml":
            tomllib.loads(block.code)
        elif lines:
            for line in block.code.splitlines():
                json.loads(line)
        elif block.language == "json":
            json.loads(block.code)
    except (SyntaxError, ValueError) as error:
        raise PageError(f"{block}: {error}") from error


def check_line(block: Block, line: str) -> bool:
    """Whether a line of shell goes on until it is stopped. Raises PageError for unknown options."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in docs_commands.extras(line):
        if extra not in known:
            raise PageError(f"{block}: there is no extra [{extra}]")
    forever = False
    for arguments in docs_commands.ours(line):
        try:
            options = docs_commands.parsed(arguments)
        except ValueError as error:
            raise PageError(f"{block}: {error}") from error
        forever |= docs_commands.goes_on(arguments, options)
    return forever


def check_output(block: Block, output: str | None) -> None:
    """Raises PageError where the block is not what was printed: now, or into a file of old.

    `output` None: nothing was run before it, and the block is an illustration.
    """
    if kept := block.marks.get("output in"):
        held = set(printed_lines((ROOT / kept).read_text("utf-8")))
        for line in printed_lines(block.code):
            if line != "..." and line not in held:
                raise PageError(f"{block}: not in {kept}: {line}")
    elif output is UNKNOWN:
        raise PageError(f"{block}: of a block that is not run: say where it is from, `output in:`")
    elif output is not None:
        compare(block, output)


def compare(block: Block, output: str) -> None:
    """Raises PageError, with both texts, where the block is not what was printed.

    A line `...` stands for any lines, `...` within a line for any characters.
    """
    expected, found = printed_lines(block.code), printed_lines(output)
    pattern = "".join(
        "(?:.*\n)*?" if line.strip() == "..." else line_pattern(line) + "\n" for line in expected
    )
    if not re.fullmatch(pattern, "".join(f"{line}\n" for line in found)):
        shown = difflib.unified_diff(expected, found, "the page", "printed", lineterm="", n=30)
        raise PageError(f"{block}: is not what was printed\n" + "\n".join(shown))


def line_pattern(line: str) -> str:
    """A line of a block as a pattern of what may be printed."""
    return re.escape(line).replace(r"\.\.\.", ".*?")


def printed_lines(text: str) -> list[str]:
    """The lines of an output that count: without trailing blanks, and empty ones at both ends."""
    lines = [line.rstrip() for line in text.replace("\r", "\n").split("\n")]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return lines
