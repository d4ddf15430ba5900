"""What must be true of the pages before the site is built: names, paths, pages of commands."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module

import pytest
from docs_blocks import PAGES, ROOT, read
from docs_commands import parsed, the_parser

REFERENCE = ROOT / "docs" / "reference"
_OURS = re.compile(r"`((?:examples|configs|harness|adapters|tests/benchmarks)/[\w./-]*)`")
_GENERATED = re.compile(r"<!-- generated: command (\w+) -->")


def _verbs() -> set[str]:
    choices = next(a.choices for a in the_parser()._actions if a.dest != "help" and a.choices)
    assert choices is not None
    return set(choices)


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    pages = {}
    for path in (REFERENCE / "commands").glob("*.md"):
        if path.stem != "index":
            pages[path.stem] = _GENERATED.findall(path.read_text("utf-8"))
    assert pages == {verb: [verb] for verb in _verbs()}


def test_every_command_page_shows_the_command_and_tells_its_exit_statuses() -> None:
    for path in (REFERENCE / "commands").glob("*.md"):
        if path.stem == "index":
            continue
        page = read(path)
        assert page.path.read_text("utf-8").startswith(f"# harness {path.stem}\n"), path
        assert "## Exit status" in page.prose, path
        code = " ".join(block.code for block in page.blocks if block.language == "sh")
        assert f"harness {path.stem}" in code, path


def test_every_path_of_the_repository_that_a_page_names_exists() -> None:
    named = {
        f"{path.name}: {found}"
        for path in PAGES
        for found in _OURS.findall("\n".join(read(path).prose))
        if not (ROOT / found).exists()
    }
    assert named == set()


def test_every_command_that_a_page_names_in_a_sentence_can_be_given() -> None:
    """`harness run --resume` in running text: the options exist, though others may be missing."""
    unknown = set()
    for path in PAGES:
        for span in re.findall(r"`(harness [a-z][^`]*)`", "\n".join(read(path).prose)):
            words = span.split()[1:]
            try:
                parsed([*words, "--help"])
            except ValueError as error:
                unknown.add(f"{path.name}: {span}: {error}")
            known = _help(words)
            unknown |= {
                f"{path.name}: {span}: {word}"
                for word in words
                if word.startswith("--") and word.partition("=")[0] not in known
            }
    assert unknown == set()


def _help(words: list[str]) -> str:
    """The help of the command that the words begin with."""
    one = the_parser()
    for word in words:
        choices = next((a.choices for a in one._actions if isinstance(a.choices, dict)), None)
        if choices is None or word not in choices:
            break
        one = choices[word]
    return one.format_help()


def test_the_table_of_test_kinds_has_every_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "machinery")
    table = import_module("testing_pages").kinds()
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    markers = {text.split(":")[0] for text in pyproject["tool"]["pytest"]["ini_options"]["markers"]}
    rows = dict(re.findall(r"^\| ([\w ]+) \|.*\| ([\d,]+) \|$", table, re.M))
    assert markers - {"extensions"} <= rows.keys()
    assert "0" not in rows.values()
