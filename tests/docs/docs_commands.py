"""The commands of a shell block: which are ours, whether they parse, which go on for ever."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache

from harness.cli.parser import build_parser

_OURS = re.compile(r"(?:.*/)?harness")
_PYTHON = re.compile(r"(?:.*/)?python3?(?:\.\d+)?")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_SETUP = re.compile(r"\bpip install\b|-m venv\b|\bvenv/bin/activate\b")


@cache
def the_parser() -> argparse.ArgumentParser:
    """The parser of all commands, made once."""
    return build_parser(load_all=True)


def logical_lines(code: str) -> list[str]:
    """Lines as the shell sees them: continuations joined, a here-document with its command."""
    lines: list[str] = []
    waiting = ""
    for line in code.split("\n"):
        if waiting:
            lines[-1] += f"\n{line}"
            waiting = "" if line.strip() == waiting else waiting
        elif lines and lines[-1].endswith("\\"):
            lines[-1] += f"\n{line}"
        else:
            lines.append(line)
        if not waiting and (heredoc := _HEREDOC.search(line)):
            waiting = heredoc[1]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def is_setup(line: str) -> bool:
    """Whether the line makes an environment or installs into it, which no test does."""
    return bool(_SETUP.search(line))


def extras(line: str) -> list[str]:
    """The extras that an install line names: of `.[a,b]` and of our package's name."""
    found = re.findall(r"(?:\.|memory-retrieval-harness)\[([\w,-]+)\]", line)
    return [extra for names in found for extra in names.split(",")]


def ours(line: str) -> Iterator[list[str]]:
    """The arguments of each `harness` command in a line."""
    for words in _simple_commands(line.partition("<<")[0]):
        while words and re.fullmatch(r"\w+=.*", words[0], re.S):
            words = words[1:]
        if words and _OURS.fullmatch(words[0]):
            yield words[1:]
        elif len(words) > 2 and _PYTHON.fullmatch(words[0]) and words[1:3] == ["-m", "harness"]:
            yield words[3:]


def parsed(arguments: list[str]) -> argparse.Namespace | None:
    """The options as the command would have them; None for `--help` and `--version`.

    Raises ValueError with what the parser says.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            return the_parser().parse_args(arguments)
    except SystemExit as end:
        if end.code:
            raise ValueError(said.getvalue().strip()) from None
        return None


def goes_on(arguments: list[str], options: argparse.Namespace | None) -> bool:
    """Whether the command ends only when it is stopped: those that serve a page."""
    if options is None or not arguments:
        return False
    if arguments[0] == "serve":
        return True
    if arguments[0] == "monitor":
        return not options.once
    judging = arguments[0] == "label" and arguments[1] in ("start", "open", "adjudicate")
    return judging and not getattr(options, "pool_only", False)


def _simple_commands(line: str) -> Iterator[list[str]]:
    """Words of each command between `&&`, `|`, `;` and the like, without redirections."""
    tokens = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    words: list[str] = []
    redirected = False
    for token in tokens:
        if set(token) <= set("<>&|") and set(token) & set("<>"):
            if words and words[-1] in ("1", "2"):
                words.pop()
            redirected = True
        elif set(token) <= set("&|;()"):
            yield words
            words, redirected = [], False
        elif redirected:
            redirected = False
        else:
            words.append(token)
    yield words
