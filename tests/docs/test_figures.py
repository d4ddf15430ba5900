"""Every figure of a page stands in a file that a script wrote, and the scripts still write it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from docs_blocks import PAGES, ROOT, Page, read
from docs_figures import load, unfounded

FIGURES = ROOT / "docs" / "figures"
RECALL = load(FIGURES / "sample.json")["bm25"]["memory"]["all"]["recall@10"]
THERE = "<!-- from: docs/figures/sample.json#bm25.memory.all.recall@10 -->"


def _make() -> Any:
    spec = importlib.util.spec_from_file_location("docs_figures_make", FIGURES / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_in_the_pages_stands_in_the_file_that_they_name() -> None:
    wrong = [said for path in PAGES for said in unfounded(read(path))]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.usefixtures("home")
def test_the_figures_of_the_sample_are_what_runs_give() -> None:
    assert _make().sample() == load(FIGURES / "sample.json")


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_the_figures_of_locomo_are_what_runs_give(data: Path) -> None:
    assert _make().locomo(data / "locomo" / "locomo10.json") == load(FIGURES / "locomo.json")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f"Recall is {RECALL:.4f}. {THERE}", 0),
        (f"Recall is {100 * RECALL:.1f} %. {THERE}", 0),
        (f"Recall is {RECALL + 1e-4:.4f}. {THERE}", 1),
        (f"Recall is {RECALL:.4f}.", 1),
        (f"| a | {RECALL:.4f} |\n| b | 1.123 |\n\n<!-- from: docs/figures/sample.json#bm25 -->", 1),
        ("It is 0.6791. <!-- from: results/README.md: SciFact test -->", 0),
        ("It is 0.6792. <!-- from: results/README.md: SciFact test -->", 1),
        ("A third is 0.33. <!-- from: arithmetic -->", 0),
        ("It has 2.8 MB. <!-- from: harness datasets -->", 0),
        ("It has 2.9 TB. <!-- from: harness datasets -->", 1),
        ("`k1=0.9` is a setting, Python 3.11 a version, 1,982 a count.", 0),
        ("```text\n0.12345\n```", 0),
    ],
)
def test_a_figure_without_a_file_or_with_another_value_is_found(
    tmp_path: Path, text: str, wrong: int
) -> None:
    file = tmp_path / "page.md"
    file.write_text(text + "\n")
    page: Page = read(file)
    assert len(list(unfounded(page))) == wrong


@pytest.mark.parametrize(
    "source", ["docs/figures/none.json", "docs/figures/sample.json#bm25.memory.all.recal@10"]
)
def test_a_source_that_is_not_there_is_refused(tmp_path: Path, source: str) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"It is 0.5. <!-- from: {source} -->\n")
    with pytest.raises(AssertionError, match=r"there is no file|known: "):
        list(unfounded(read(file)))
