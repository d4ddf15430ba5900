"""On a phone nothing stands a letter a line, and on a wide screen nothing is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from browsers import opened
from layout import amiss
from made_history import Line, made_history

from harness.__main__ import main
from harness.extensions.site.history_page import history_page
from harness.extensions.site.server import server

WORD = "a-name-of-one-word-that-is-longer-than-any-column-could-be-on-a-telephone"
WORDS = "a name of many words that goes on and on, and then some more of it " * 3
WIDTHS = pytest.mark.parametrize("width", [390, 768, 1440])

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The address of a server of three runs with long names and one that is broken; the runs."""
    out = tmp_path_factory.mktemp("long") / "results"
    for retriever, name in (("bm25", WORD), ("tfidf", f"{WORD}-2"), ("random", "r")):
        run = ["run", "--dataset", "sample", "--retriever", retriever, "--out", str(out)]
        assert main([*run, "--name", name, "--submitted-by", f"{WORD} {WORDS}", "--quiet"]) == 0
    runs = sorted(file.parent.name for file in out.glob("*/run.json"))
    (out / WORD).mkdir()
    (out / WORD / "run.json").write_text("{}")
    with server(out, 0) as serving:
        Thread(target=serving.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/", runs
        serving.shutdown()


@WIDTHS
@pytest.mark.parametrize("chosen", ["", "compare", "open"])
def test_the_board_fits(served: tuple[str, list[str]], width: int, chosen: str) -> None:
    address, runs = served
    query = "&".join(f"{chosen}={run}" for run in runs[:2]) if chosen else ""
    with opened(f"{address}?{query}", width=width) as page:
        page.get_by_text("cannot be read").wait_for()
        if chosen == "compare":
            page.locator("#pair").wait_for()
        assert amiss(page) == []


@WIDTHS
@pytest.mark.parametrize("n", [1, 2, 3])
def test_reports_and_comparisons_fit(served: tuple[str, list[str]], width: int, n: int) -> None:
    address, runs = served
    kind = "runs" if n == 1 else "compare"
    with opened(f"{address}{kind}/{'/'.join(runs[:n])}/", width=width) as page:
        if n < 3:
            page.locator("#questions-table tbody th button").first.click()
            page.get_by_role("button", name="Next").wait_for()
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert amiss(page) == []


@WIDTHS
def test_a_history_fits(tmp_path: Path, width: int) -> None:
    def longer(line: Line, night: int) -> Line:
        return line | {"system": f"{line['system']}-{WORD}"}

    file = made_history(tmp_path / "history.jsonl", 5, 3, edit=longer)
    (tmp_path / "history.html").write_bytes(history_page(file))
    with opened(tmp_path / "history.html", width=width) as page:
        assert amiss(page) == []
