"""The scripts of a page are one module, so that what a file calls its own is a name of the page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from harness.pages.html import ASSETS, modules

PAGES = sorted(path.parent.name for path in ASSETS.glob("*/*.html"))
NAME = re.compile(r"^(?:async )?(?:class|const|function|let) (\w+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_no_name_at_the_top_of_a_file_stands_in_another_of_the_page(page: str) -> None:
    found = modules(ASSETS / page / f"{page}.js")
    names = Counter(name for text in found.values() for name in NAME.findall(text))
    assert [name for name, n in names.items() if n > 1] == []
    assert {"history", "location", "document"}.isdisjoint(names), "what browsers have is hidden"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_stands_once_behind_what_it_imports_and_is_no_module_of_its_own(
    page: str,
) -> None:
    found = modules(ASSETS / page / f"{page}.js")
    assert list(found)[-1] == ASSETS / page / f"{page}.js"
    assert set((ASSETS / page).glob("*.js")) <= set(found), "a script that nothing imports"
    assert not re.search(r"^(?:import|export) ", "\n".join(found.values()), re.MULTILINE)


def test_files_may_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nexport const a = () => b;\n')
    (tmp_path / "b.js").write_text('import {\n  a,\n} from "./a.js";\nexport const b = () => a;\n')
    found = modules(tmp_path / "a.js")
    assert list(found.values()) == ["const b = () => a;\n", "const a = () => b;\n"]
