"""The published site: plain files that any server shows, below any address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

import orjson
import pytest
from browsers import Page, launched, opened
from file_server import fetch, served
from layout import amiss

from harness.__main__ import main
from tests.places import ROOT

pytestmark = pytest.mark.extensions

Harness = Callable[..., Any]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs on two boards."""
    out = tmp_path_factory.mktemp("site") / "results"
    for options in (["bm25"], ["tfidf"], ["bm25", "--granularity", "session"]):
        told = ["run", "--dataset", "sample", "--quiet", "--out", str(out), "--retriever"]
        assert main([*told, *options]) == 0
    return out


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages that link to each other, as a generator of sites leaves them."""
    folder = tmp_path_factory.mktemp("docs") / "mkdocs"
    (folder / "how-to").mkdir(parents=True)
    (folder / "index.html").write_text('<p>the docs</p><a href="how-to/">how to</a>')
    (folder / "how-to" / "index.html").write_text('<a href="..">up</a><a href="#x">here</a>')
    return folder


@pytest.mark.slow
def test_every_part_link_and_report_of_a_site_is_there_and_holds_no_text(
    harness: Harness, results: Path, docs: Path, tmp_path: Path
) -> None:
    site = tmp_path / "pages" / "site"
    told = harness("board", "publish", site, "--results", results, "--reports", "--docs", docs)
    assert told.status == 0, told.err
    with served(site) as address:
        summary = orjson.loads(fetch(urljoin(address, "leaderboard.json")))
        assert len(summary["boards"]) == 2
        for board in summary["boards"]:
            assert fetch(urljoin(address, board["file"]))
            part = orjson.loads(fetch(urljoin(address, f"parts/board-{board['id']}.json")))
            assert len(part["entries"]) == len(board["entries"])
            for entry in part["entries"]:
                report = fetch(urljoin(address, entry["report"])).decode()
                assert 'data-home="../index.html"' in report
        assert b"the docs" in fetch(urljoin(address, "docs/"))
        assert b"connect-src 'self'" in fetch(address)
    question = orjson.loads((ROOT / "adapters" / "sample" / "adaeze.json").read_bytes())[
        "questions"
    ][0]["question"].encode()
    assert not [
        path for path in site.rglob("*") if path.is_file() and question in path.read_bytes()
    ]


@pytest.mark.slow
def test_a_site_is_replaced_whole_and_nothing_else_is(
    harness: Harness,
    results: Path,
    docs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = tmp_path / "site"
    told = ("board", "publish", site, "--results", results, "--quiet")
    assert harness(*told, "--docs", docs).status == 0
    (site / "parts" / "left.json").write_text("of the last time")
    # A branch that Pages shows keeps what makes it one, and the name that it is shown by.
    (site / "CNAME").write_text("board.example.org")
    (site / ".git").mkdir()
    (site / ".git" / "HEAD").write_text("ref: refs/heads/gh-pages")
    assert harness(*told).status == 0
    assert not (site / "parts" / "left.json").exists()
    assert not (site / "docs").exists()
    assert (site / "CNAME").read_text() == "board.example.org"
    assert (site / ".git" / "HEAD").is_file()
    monkeypatch.chdir(site)
    said = harness("board", "publish", ".", "--results", results)
    assert (said.status, "is the current folder" in said.err) == (2, True)
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("all of it")
    said = harness("board", "publish", mine, "--results", results)
    assert (said.status, "contains other files" in said.err) == (2, True)
    assert (mine / "thesis.txt").read_text() == "all of it"
    said = harness("board", "publish", tmp_path / "a", "--results", results, "--docs", mine)
    assert (said.status, "has no index.html" in said.err) == (2, True)
    inside = docs / "board"
    said = harness("board", "publish", inside, "--results", results, "--docs", docs)
    assert (said.status, "which is copied into it" in said.err) == (2, True)
    assert sorted(path.name for path in docs.iterdir()) == ["how-to", "index.html"]


def test_a_site_with_the_front_matter_of_the_guide_is_a_static_space(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "how-to" / "leaderboard.md").read_text()
    readme = guide.partition("a file of a Space -->\n\n```yaml\n")[2].partition("```")[0]
    site = tmp_path / "site"
    for _ in range(2):  # the second time beside the README
        assert harness("board", "publish", site, "--results", results).status == 0
        if not (site / "README.md").exists():
            (site / "README.md").write_text(readme)
    _, front, _ = (site / "README.md").read_text().split("---\n")
    keys = dict(line.split(": ") for line in front.splitlines())
    assert keys["sdk"] == "static"
    assert (site / keys["app_file"]).is_file()


def test_the_page_of_what_is_not_there_has_no_way_that_is_right_at_one_depth_alone(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    assert harness("board", "publish", "site", "--results", results).status == 0
    missing = (tmp_path / "site" / "404.html").read_text()
    assert "Page not found." in missing
    assert "<a " not in missing


def _links(page: Page) -> set[str]:
    """Where the page leads, without the part of the page and what it tells that page."""
    found: list[str] = page.eval_on_selector_all("a", "all => all.map(({ href }) => href)")
    return {urldefrag(href).url.partition("?")[0] for href in found}


@pytest.mark.browser
def test_every_link_of_a_site_leads_somewhere_and_nobody_else_is_asked(
    harness: Harness, results: Path, docs: Path, tmp_path: Path
) -> None:
    site = tmp_path / "repo"
    told = ("board", "publish", site, "--results", results, "--reports", "--docs", docs)
    assert harness(*told).status == 0
    with served(site) as address, launched() as browser:
        page: Page = browser.new_page()
        answers: dict[str, int] = {}
        page.on("response", lambda answer: answers.update({answer.url: answer.status}))
        ahead, seen = {address, f"{address}?granularity=session"}, set()
        while ahead:
            seen.add(at := ahead.pop())
            page.goto(at)
            if page.locator("main").count():
                page.locator("main:not([hidden])").wait_for()
            if at.startswith(f"{address}?") or at == address:
                page.locator("#table tbody tr").first.wait_for()
            for link in _links(page):
                assert fetch(link)  # raises for what is not there
                if link.startswith(address) and not link.endswith(".json"):
                    ahead |= {link} - seen
        page.close()
    assert {one.removeprefix(address).partition("/")[0] for one in seen} > {"reports", "docs"}
    assert sum("/reports/" in one for one in seen) == 3
    assert not [one for one in (*seen, *answers) if not one.startswith((address, "data:"))]
    assert set(answers.values()) == {200}
    assert sum("/parts/board-" in one for one in answers) == 2


@pytest.mark.browser
def test_a_site_compares_two_systems_that_are_chosen_and_keeps_what_is_chosen(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    assert harness("board", "publish", site, "--results", results, "--reports").status == 0
    with served(site) as address, opened(address) as page:
        page.locator("#table tbody tr.entry").first.wait_for()
        for row in (0, 1):
            page.locator("#table tbody tr.entry").nth(row).locator("td").last.click()
        page.get_by_text("recall@10: tfidf − bm25").wait_for()
        page.reload()
        page.get_by_text("recall@10: tfidf − bm25").wait_for()
        page.get_by_role("link", name="Report of bm25").click()
        page.get_by_role("link", name="The board").click()
        page.get_by_text("recall@10: tfidf − bm25").wait_for()
        page.get_by_label("Dataset").select_option("sample, session")
        page.get_by_text("dataset=sample, granularity=session").first.wait_for()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_a_site_fits_a_phone_and_a_wide_screen(
    harness: Harness, results: Path, docs: Path, tmp_path: Path, width: int
) -> None:
    site = tmp_path / "site"
    assert harness("board", "publish", site, "--results", results, "--docs", docs).status == 0
    with served(site) as address, opened(address, width) as page:
        page.locator("#table tbody tr").first.wait_for()
        assert amiss(page) == []


@pytest.mark.browser
def test_from_the_disk_the_page_says_what_to_do(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    assert harness("board", "publish", "site", "--results", results).status == 0
    with launched() as browser:
        page: Page = browser.new_page()
        page.goto((tmp_path / "site" / "index.html").as_uri())
        page.get_by_text("Browsers do not let a page on disk load its data.").wait_for()
        assert "python -m http.server" in page.locator("#running").inner_text()
        page.close()
