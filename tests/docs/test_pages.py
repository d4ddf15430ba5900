"""Every page does what it says: its blocks are run in order, and print what stands below them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from docs_blocks import PAGES, ROOT, read
from docs_checks import PageError
from docs_running import PageRun

README = ROOT / "README.md"
DAILY = (README, ROOT / "docs" / "tutorials" / "first-number.md")
"""What a newcomer reads first is run with all tests; the other pages take minutes: -m docs."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=str(path.relative_to(ROOT)),
            marks=[] if path in DAILY else [pytest.mark.docs],
        )
        for path in (*PAGES, README)
        if read(path).blocks
    ],
)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(
    path: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    page = read(path)
    data = request.getfixturevalue("data") if {*page.needs} - {"minilm", "runs"} else None
    if "minilm" in page.needs:
        request.getfixturevalue("weights")
    with PageRun(page, tmp_path, data) as run:
        wrong = _wrong(run)
    if wrong:
        pytest.fail(wrong, pytrace=False)
    for said in run.not_run:
        record_property("not run", said)


@pytest.mark.docs
def test_tutorials_and_how_to_pages_can_be_followed_in_order_in_one_folder(tmp_path: Path) -> None:
    listed = re.findall(r"((?:tutorials|how-to)/[\w-]+\.md)", (ROOT / "mkdocs.yml").read_text())
    pages = [read(ROOT / "docs" / name) for name in listed]
    for page in pages:
        if page.blocks and {*page.needs} <= {"runs"}:  # others need data or weights
            with PageRun(page, tmp_path) as run:
                # What is printed may depend on earlier runs; commands must still succeed.
                run.run(lambda block, output: None)


def test_no_command_of_a_page_has_a_pattern_that_can_match_several_runs() -> None:
    found = [
        f"{block}: {line}"
        for path in (*PAGES, README)
        for block in read(path).blocks
        if block.language == "sh"
        for line in block.code.splitlines()
        if re.search(r"(?:results|answers|runs|board|last|before)/[^\s'\"]*\*|\*\.answers", line)
    ]
    assert found == []


def _wrong(run: PageRun) -> str:
    """What a page says that is not so; nothing where it holds."""
    try:
        run.run()
    except PageError as error:
        return str(error)
    return ""
