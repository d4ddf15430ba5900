"""The scripts of a page are one module, so that what a file calls its own is a name of the page."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from browsers import launched

from harness.reports.html import ASSETS, modules, page
from harness.scoring.metrics import METRICS
from harness.scoring.metrics.described import DESCRIBED

PAGES = sorted(path.parent.name for path in ASSETS.glob("*/*.html"))
NAME = re.compile(r"^(?:async )?(?:class|const|function|let) (\w+)", re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_no_name_at_the_top_of_a_file_stands_in_another_of_the_page(name: str) -> None:
    found = modules(ASSETS / name / f"{name}.js")
    names = Counter(name for text in found.values() for name in NAME.findall(text))
    assert [name for name, n in names.items() if n > 1] == []
    assert {"history", "location", "document"}.isdisjoint(names), "what browsers have is hidden"


@pytest.mark.parametrize("name", PAGES)
def test_every_file_stands_once_behind_what_it_imports_and_is_no_module_of_its_own(
    name: str,
) -> None:
    found = modules(ASSETS / name / f"{name}.js")
    assert list(found)[-1] == ASSETS / name / f"{name}.js"
    assert set((ASSETS / name).glob("*.js")) <= set(found), "a script that nothing imports"
    assert not re.search(r"^(?:import|export) ", "\n".join(found.values()), re.MULTILINE)


WORDS = {
    "plain(0.5)": "0.500",
    "plain(0.00004)": "0.00004",  # no zero that is none
    "plain(0.9996)": "0.9996",  # and no perfection
    "plain(1)": "1.000",
    "plain(null)": "–",
    "short(0.5)": "0.5",
    "short(0.1 + 0.2)": "0.3",
    "signed(-0.031)": "−0.031",
    "signed(0)": "±0.000",
    "signed(-1e-17)": "±0.000",
    "fixed(0.004, 2) + fixed(-0.316, 2)": "±0.00−0.32",
    "span(0.494, 0.604)": "0.494 to 0.604",
    "span(0.00004, 0.025)": "0.000 to 0.025",  # no digits that the width does not bear
    "span(0.04196, 0.04204)": "0.04196 to 0.04204",  # never one number twice
    "span(0.042, 0.042)": "0.042",
    "span(-0.0001, 0.0001, signed)": "−0.0001 to +0.0001",
    "many(1, 'night') + many(2000, 'line')": "1 night2,000 lines",
    "moment(1767925800000)": "2026-01-09 02:30",
    "moment('2026-01-09T22:30:00+00:00')": "2026-01-09 22:30",
    "pValue(0.00001) + pValue(0.0664)": "<0.00010.0664",
}


@pytest.mark.browser
def test_numbers_in_words() -> None:
    script = "".join(modules(ASSETS / "shared" / "numbers.js").values())
    with launched() as browser:
        tab = browser.new_page(color_scheme="null")
        said = tab.evaluate(f"() => {{ {script}; return [{', '.join(WORDS)}] }}")
    assert dict(zip(WORDS, said, strict=True)) == WORDS


@pytest.mark.parametrize("name", ["board", "compare", "report"])
def test_a_page_holds_what_every_metric_means(name: str) -> None:
    html = page("A page", name, {}).decode()
    found = re.search(r'<script type="application/json" id="glossary">(.*?)</script>', html)
    assert found is not None
    every = (*METRICS.values(), *DESCRIBED)
    assert json.loads(found[1]) == {one.name: one.about for one in every}
    assert html.index(found[0]) < html.index('<script type="module">')


def test_the_terms_of_the_glossary_are_no_metrics() -> None:
    text = (ASSETS / "shared" / "glossary.js").read_text("utf-8")
    terms = text.partition("const TERMS = {")[2].partition("};")[0]
    names = set(re.findall(r'^  "?([\w %/−-]+?)"?:', terms, re.MULTILINE))
    assert {"n", "random", "rank"} <= names
    assert {name.replace(" ", "_") for name in names}.isdisjoint(METRICS)
    assert {name.replace(" ", "_") for name in names}.isdisjoint(one.name for one in DESCRIBED)


def test_files_may_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nexport const a = () => b;\n')
    (tmp_path / "b.js").write_text('import {\n  a,\n} from "./a.js";\nexport const b = () => a;\n')
    found = modules(tmp_path / "a.js")
    assert list(found.values()) == ["const b = () => a;\n", "const a = () => b;\n"]
