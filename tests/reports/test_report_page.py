"""The report in a real browser: nothing from a network, nothing executed, everything reachable."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browsers import Page, opened

from harness.__main__ import main
from harness.analysis.analyze.analyze import analyze
from harness.analysis.analyze.causes import Cause
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset

Ran = Callable[..., Path]

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>hit()</script><img src=https://example.org/x onerror=hit()>"


def report(*runs: Path, out: Path, share: bool = False) -> Path:
    more = ["--share"] if share else []
    assert main(["report", *map(str, runs), "--out", str(out), "--quiet", *more]) == 0
    return out


@pytest.fixture(scope="module")
def page_of_one(bm25: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report(bm25, out=tmp_path_factory.mktemp("one") / "report.html")


@pytest.fixture(scope="module")
def page_of_two(bm25: Path, tfidf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report(bm25, tfidf, out=tmp_path_factory.mktemp("two") / "report.html")


def rows(page: Page) -> list[str]:
    texts: list[str] = page.locator(".rows tbody tr[data-at]").all_inner_texts()
    return texts


def choice(page: Page, name: str) -> Page:
    return page.get_by_role("combobox", name=name, exact=True)


def said(page: Page) -> int:
    """How many questions the page says that it shows."""
    return int(page.locator("#questions-count").inner_text().split()[0].replace(",", ""))


def labelled(folder: Path, queries: int) -> Dataset:
    """A dataset of our own with hostile texts and as many queries as asked for."""
    folder.mkdir()
    corpus = [f'{{"_id": "d{i}", "text": "{HOSTILE} word{i}"}}' for i in range(50)]
    asked = [f'{{"_id": "q{i}", "text": "{HOSTILE} word{i % 50} {i}"}}' for i in range(queries)]
    (folder / "corpus.jsonl").write_text("\n".join(corpus))
    (folder / "queries.jsonl").write_text("\n".join(asked))
    (folder / "qrels").mkdir()
    judged = [f"q{i}\td{i % 50}\t1" for i in range(queries)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return open_dataset("labelled", source=folder)


def test_every_part_is_drawn_and_a_table_stands_behind_each_drawing(page_of_one: Path) -> None:
    with opened(page_of_one) as page:
        assert page.title() == "bm25 on sample"
        for part in ("abilities", "depth", "prompt", "risk", "latency"):
            assert page.locator(f"#{part} svg[role=img][aria-label]").count() == 1
        page.get_by_text("Show as a table").first.click()
        assert "0.549" in page.locator("#abilities-table").inner_text()
        assert "update recall@10\n0.435 (random 0.09" in page.locator("#silence-facts").inner_text()


def test_what_a_run_returned_after_a_change_stands_there_with_how_many_asked(
    ran: Ran, tmp_path: Path
) -> None:
    made = ran(open_dataset("changes"), "bm25", k=20)
    with opened(report(made, out=tmp_path / "report.html")) as page:
        facts = page.locator("#silence-facts").inner_text()
        assert "Questions after an update\n28" in facts
        assert "outdated returned@10\n0.821 (random 0.251)" in facts
        assert "forgotten returned@10\n1.000 (random 0.238)" in facts
        assert page.get_by_role("button", name="What is forgotten returned@10?").count() == 1


def test_a_chart_is_saved_as_svg_and_as_png(page_of_two: Path, tmp_path: Path) -> None:
    with opened(page_of_two, accept_downloads=True) as page:
        choice(page, "Metric").select_option("hit@5")
        figure = page.locator("#abilities-figure")
        size = figure.locator("svg[role=img]").bounding_box()
        saved = {}
        for kind in ("SVG", "PNG"):
            with page.expect_download() as download:
                figure.get_by_role("button", name=kind).click()
            name = download.value.suggested_filename
            assert name.endswith(f"hit@5-by-ability-with-95-intervals.{kind.lower()}")
            download.value.save_as(tmp_path / kind)
            saved[kind] = (tmp_path / kind).read_bytes()
        texts = [text.strip() for text in ElementTree.fromstring(saved["SVG"]).itertext()]
        assert page.title() in texts
        assert {
            "A: bm25",
            "B: tfidf",
            "hit@5 by ability with 95% intervals",
            "temporal (60)",
            "0.4",
        } <= set(texts)
        assert b"var(--" not in saved["SVG"]
        assert saved["PNG"].startswith(b"\x89PNG")
        width, height = struct.unpack(">II", saved["PNG"][16:24])
        assert 2 * size["width"] < width < 2 * size["width"] + 100
        assert 2 * size["height"] < height < 2 * size["height"] + 200
        assert len(saved["PNG"]) > 20_000, "not an empty ground"


def test_protocol_metric_slice_and_k_change_what_is_shown(page_of_one: Path) -> None:
    with opened(page_of_one) as page:
        choice(page, "Metric").select_option("hit@5")
        assert "hit@5" in page.locator("#abilities-figure").inner_text()
        assert "hit@5" in page.locator(".rows thead").inner_text()
        choice(page, "Protocol").select_option(label="trec/1, turn")
        assert "trec/1" in page.locator("#notes").inner_text()
        page.locator("#k").focus()
        page.keyboard.press("ArrowRight")
        assert "At k = 11:" in page.locator("#depth-reading").inner_text()
        choice(page, "Questions").select_option("temporal")
        assert "temporal" in page.locator("#prompt-how").inner_text()


def test_questions_are_searched_filtered_and_sorted(page_of_one: Path, sample: Dataset) -> None:
    of = Counter(sample.abilities.tolist())
    with opened(page_of_one) as page:
        assert said(page) == sample.n_queries
        choice(page, "Ability").select_option("temporal")
        assert said(page) == of["temporal"]
        words = choice(page, "Result").inner_text()
        assert "recall@10 0: none found" in words, "a value, and no count"
        choice(page, "Result").select_option("zero")
        assert 0 < said(page) < of["temporal"]
        assert all("0.000" in row for row in rows(page))
        choice(page, "Ability").select_option("all")
        choice(page, "Result").select_option("out")
        assert said(page) == of["abstention"]
        assert all("not scored" in row for row in rows(page))
        choice(page, "Result").select_option("any")
        page.get_by_label("Search").fill(sample.query(3).text)
        assert said(page) == 1
        page.get_by_label("Search").fill("")
        header = page.get_by_role("columnheader", name="recall@10")
        header.get_by_role("button").click()
        assert header.get_attribute("aria-sort") == "ascending"
        assert "0.000" in rows(page)[0]
        page.get_by_role("columnheader", name="recall@10").get_by_role("button").click()
        assert "1.000" in rows(page)[0]


def test_a_question_opens_by_keyboard_with_evidence_ranking_and_what_was_missed(
    page_of_one: Path, sample: Dataset
) -> None:
    with opened(page_of_one) as page:
        choice(page, "Result").select_option("zero")
        choice(page, "Result").focus()
        for _ in range(8):  # over the buttons that sort
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.classList.contains('open')"):
                break
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        panel = page.locator("#question")
        asked = panel.locator("h3").inner_text()
        assert asked in [sample.query(i).text for i in range(sample.n_queries)]
        assert "missed" in panel.inner_text()
        assert panel.locator("ol li").count() == 10
        assert focused(page) == asked
        page.keyboard.press("Escape")
        assert not panel.is_visible()
        assert focused(page) == asked


@pytest.mark.parametrize("width", [390, 1440])
def test_buttons_lead_from_a_question_to_its_neighbours_in_the_list(
    page_of_one: Path, width: int
) -> None:
    with opened(page_of_one, width=width) as page:
        page.get_by_role("combobox", name="Ability").select_option("temporal")
        page.locator("#questions-table tbody tr[data-at] button").first.click()
        title, place = page.locator("#question-title"), page.locator("#question .walk .note")
        first = title.inner_text()
        whole = page.locator("#questions-count").inner_text().split()[0]
        assert place.inner_text() == f"1 of {whole}"
        assert page.get_by_role("button", name="Previous").is_disabled()
        page.get_by_role("button", name="Next").click()
        assert place.inner_text() == f"2 of {whole}"
        second = title.inner_text()
        page.reload()
        title.wait_for()
        assert (place.inner_text(), title.inner_text()) == (f"2 of {whole}", second)
        page.get_by_role("button", name="Previous").click()
        assert title.inner_text() == first


@pytest.mark.parametrize("way", ["click", "Enter", "from the panel"])
def test_arrow_keys_go_on_to_the_next_question_however_one_was_opened(
    page_of_one: Path, way: str
) -> None:
    with opened(page_of_one) as page:
        buttons = page.locator(".rows button.open")
        first, second = buttons.all_inner_texts()[:2]
        buttons.first.focus()
        if way == "Enter":
            page.keyboard.press("Enter")
        else:
            buttons.first.click()
        title = page.locator("#question h3")
        assert title.inner_text() == first
        if way == "from the panel":
            page.locator("#question").click(position={"x": 20, "y": 200})
        page.keyboard.press("ArrowDown")
        assert (title.inner_text(), focused(page)) == (second, second)
        page.keyboard.press("ArrowUp")
        assert (title.inner_text(), focused(page)) == (first, first)


def focused(page: Page) -> str:
    """The text of what has the focus."""
    text: str = page.evaluate("document.activeElement.textContent")
    return text


def test_what_is_chosen_stands_in_the_address_and_back_takes_it_back(page_of_two: Path) -> None:
    with opened(page_of_two) as page:
        choice(page, "Metric").select_option("hit@5")
        choice(page, "Ability").select_option("temporal")
        page.get_by_role("columnheader", name="B − A").get_by_role("button").click()
        page.get_by_label("Search").fill("when")
        page.locator(".rows button.open").first.click()
        asked, n, order = page.locator("#question h3").inner_text(), said(page), rows(page)
        link = page.evaluate("location.href")
        assert "metric=hit@5" in link
        page.evaluate("history.back()")
        page.locator("#question").wait_for(state="hidden")
        assert said(page) == n
        for _ in range(2):  # the search is no step of its own
            page.evaluate("history.back()")
        page.wait_for_function("() => document.getElementById('ability').value === 'all'")
        assert (choice(page, "Metric").input_value(), said(page)) == ("hit@5", 321)
        page.goto(link)
        page.locator("#question h3").wait_for()
        assert page.locator("#question h3").inner_text() == asked
        assert (said(page), rows(page)) == (n, order)
        assert choice(page, "Metric").input_value() == "hit@5"
        assert page.get_by_label("Search").input_value() == "when"


def test_an_address_of_another_report_shows_what_there_is(page_of_one: Path) -> None:
    with opened(f"{page_of_one.as_uri()}?metric=nonsense&k=99999&ability=x&sort=-x&open=q") as page:
        assert choice(page, "Metric").input_value() == "recall@10"
        assert (said(page), choice(page, "Ability").input_value()) == (321, "all")


def test_contents_link_to_every_part_that_is_shown_and_keep_the_choice(page_of_one: Path) -> None:
    with opened(page_of_one) as page:
        choice(page, "Metric").select_option("hit@5")
        links = page.locator("#contents a")
        parts = page.locator("main section:not([hidden]) h2").count()
        assert links.count() == parts >= 8
        links.get_by_text("Questions", exact=True).click()
        page.wait_for_function("() => location.hash === '#questions'")
        assert from_top(page, "questions") < 99
        page.reload()
        page.locator("main:not([hidden])").wait_for()
        assert choice(page, "Metric").input_value() == "hit@5"
        assert from_top(page, "questions") < 99


@pytest.mark.parametrize("width", [390, 1440])
def test_the_contents_stay_in_view_while_scrolling(page_of_one: Path, width: int) -> None:
    with opened(page_of_one, width=width) as page:
        link = page.locator("#contents").get_by_text("Choice of k")
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
        if width == 390:
            assert not link.is_visible()
            page.get_by_text("Contents", exact=True).click()
        assert 0 <= link.bounding_box()["y"] < 900
        link.click()
        page.wait_for_function("() => location.hash === '#depth'")
        assert 0 <= from_top(page, "depth") < 99
        marked = page.locator("#contents a[aria-current]")
        page.wait_for_function(
            "() => document.querySelectorAll('[aria-current=\"\"]').length === 1"
        )
        assert marked.text_content() == "Choice of k"
        assert link.is_visible() == (width == 1440)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_the_first_screen_has_a_verdict_and_the_chart_of_abilities(
    page_of_one: Path, width: int, height: int
) -> None:
    with opened(page_of_one, width=width) as page:
        verdict = page.locator("#verdict")
        assert verdict.inner_text() == (
            "bm25 finds 55% of the evidence in the top 10 (95% interval 49–60%); random: 10%. "
            "Weakest: multi-hop, 45%."
        )
        chart = page.locator("#abilities-figure svg[role=img]").bounding_box()
        assert chart["y"] + chart["height"] < height
        choice(page, "Metric").select_option("mrr@10")
        assert verdict.inner_text().startswith(
            "bm25 has mrr@10 0.384 (95% interval 0.334 to 0.436)"
        )


def test_the_weakest_ability_of_a_leak_rate_is_the_one_with_most_leaks(
    ran: Ran, tmp_path: Path
) -> None:
    page_of_scopes = report(ran(open_dataset("scopes"), "bm25"), out=tmp_path / "report.html")
    with opened(page_of_scopes) as page:
        choice(page, "Protocol").select_option("scope/1, turn")
        choice(page, "Metric").select_option("leak_rate@10")
        assert page.locator("#verdict").inner_text() == (
            "bm25 has leak_rate@10 0.666 (95% interval 0.636 to 0.694); lower is better; "
            "random: 0.667. Weakest: abstention, 0.763."
        )
        # No unanswerable query has evidence to find.
        choice(page, "Metric").select_option("recall_in_scope@10")
        page.get_by_text("Show as a table").first.click()
        (row,) = [
            row
            for row in page.locator("#abilities-table tr").all()
            if "abstention" in row.inner_text()
        ]
        assert row.inner_text().split() == ["abstention", "60", "–", "–", "–", "–"]


def test_two_runs_have_a_verdict_and_a_chart_of_differences(page_of_two: Path) -> None:
    with opened(page_of_two) as page:
        verdict = page.locator("#verdict")
        assert re.sub(r"\s+", " ", verdict.inner_text()) == (
            "No significant difference overall between bm25 (A) and tfidf (B): recall@10 0.549 vs "
            "0.518, B − A −0.031 (95% interval −0.064 to +0.002, p = 0.12)."
        )
        assert page.locator("#differences-figure svg[role=img]").count() == 1
        choice(page, "Metric").select_option("ndcg@10")
        assert "tfidf (B) scores lower than bm25 (A): ndcg@10 0.330 vs 0.384" in re.sub(
            r"\s+", " ", verdict.inner_text()
        )


def from_top(page: Page, part: str) -> float:
    """Pixels between the top of the window and that of a part."""
    top: float = page.locator(f"#{part}").evaluate("part => part.getBoundingClientRect().top")
    return top


def test_causes_lead_to_their_questions(page_of_one: Path, bm25: Path, sample: Dataset) -> None:
    found = analyze(bm25, sample)
    cause = "outranked by more words"
    mine = [query.query for query in found.queries if Cause(cause) in query.causes]
    with opened(page_of_one) as page:
        words = page.locator("#causes-summary").inner_text()
        assert f"{len(found.missed)} of 462 evidence items" in words
        page.locator("#causes summary").click()
        page.locator("#causes-table").get_by_role("button", name=cause).click()
        assert said(page) == len(mine)
        assert choice(page, "Cause of a miss").input_value() == cause
        page.locator(".rows button.open").first.click()
        assert cause in page.locator("#question li.gold").first.locator("..").inner_text()


def test_a_number_says_what_it_is_where_it_stands(page_of_one: Path) -> None:
    with opened(page_of_one, width=390) as page:
        page.get_by_role("button", name="What is random?").click()
        meaning = page.locator(".explanation")
        assert "a random ranking" in meaning.inner_text()
        box = meaning.bounding_box()
        assert 0 <= box["x"] <= 390 - box["width"]
        page.keyboard.press("Escape")
        assert not meaning.is_visible()
        page.locator("#abilities summary").click()
        head = page.get_by_role("columnheader", name="max", exact=True)
        assert "the highest value that any ranking" in head.get_attribute("title")
        assert "recall_all" in page.locator("#glossary-terms").inner_text()


def test_metrics_stand_with_the_main_ones_first_then_by_family_and_k(page_of_one: Path) -> None:
    with opened(page_of_one) as page:
        names = [group.get_attribute("label") for group in page.locator("#metric optgroup").all()]
        assert names[:3] == ["main", "recall", "hit"]
        recall = page.locator("#metric optgroup").nth(1).locator("option").all_inner_texts()
        assert recall == ["recall@1", "recall@3", "recall@5", "recall@25", "recall@50"]


def test_a_search_that_finds_nothing_says_so_and_can_be_cleared(page_of_one: Path) -> None:
    with opened(page_of_one) as page:
        choice(page, "Ability").select_option("temporal")
        page.get_by_label("Search").fill("zebra crossing")
        words = page.locator("#questions-count").inner_text()
        assert "No question with ability temporal contains “zebra crossing”." in words
        page.get_by_role("button", name="Show all questions").click()
        assert (said(page), page.get_by_label("Search").input_value()) == (321, "")


def test_two_runs_are_side_by_side_with_won_lost_and_tied(page_of_two: Path) -> None:
    with opened(page_of_two) as page:
        words = page.locator("#verdict-more").inner_text()
        counts = re.search(r"wins (\d+), loses (\d+) and ties (\d+) questions", words).groups()
        for value, n in zip(("won", "lost", "tied"), map(int, counts), strict=True):
            choice(page, "B compared with A").select_option(value)
            assert said(page) == n
        choice(page, "B compared with A").select_option("won")
        assert all("+" in row for row in rows(page))
        page.locator(".rows button.open").first.click()
        assert page.locator("#question ol").count() == 2
        page.locator("#abilities summary").click()
        assert " / ".join(counts) in page.locator("#abilities-table").inner_text()
        assert not page.get_by_text("params.b", exact=True).is_visible()
        page.locator("#settings summary").click()
        assert page.get_by_text("params.b", exact=True).is_visible()


def test_ten_thousand_questions_scroll_with_few_rows_in_the_document(
    ran: Ran, tmp_path: Path
) -> None:
    many = labelled(tmp_path / "many", 10_000)
    with opened(report(ran(many, "bm25", k=10), out=tmp_path / "r.html")) as page:
        assert said(page) == 10_000
        most = 0
        page.locator(".rows").scroll_into_view_if_needed()
        for share in (0.0, 0.13, 0.5, 0.77, 1.0):
            page.locator(".rows").evaluate("(box, share) => { box.scrollTop = share * 1e7 }", share)
            page.wait_for_function(
                "at => { const box = document.querySelector('.rows').getBoundingClientRect();"
                "const row = document.elementFromPoint(box.x + 40, box.bottom - 60);"
                "return row.closest('tr[data-at]') !== null }"
            )
            most = max(most, page.locator(".rows tbody tr").count())
        assert most < 60
        assert rows(page)[-1].startswith(f"{HOSTILE} word49 9999")
        page.locator(".rows button.open").first.focus()
        page.keyboard.press("Home")
        assert page.evaluate("document.activeElement.textContent").endswith("word0 0")
        page.keyboard.press("End")
        assert page.evaluate("document.activeElement.textContent").endswith("word49 9999")


def test_hostile_texts_are_shown_as_texts(ran: Ran, tmp_path: Path) -> None:
    few = labelled(tmp_path / "few", 60)
    with opened(report(ran(few, "bm25", k=10), out=tmp_path / "r.html")) as page:
        page.locator(".rows button.open").first.click()
        panel = page.locator("#question")
        assert HOSTILE in panel.locator("h3").inner_text()
        assert HOSTILE in panel.locator("ol li .said").first.inner_text()
        assert page.locator("img").count() == 0


def test_a_shared_report_shows_ids_instead_of_texts(
    bm25: Path, tmp_path: Path, sample: Dataset
) -> None:
    with opened(report(bm25, out=tmp_path / "r.html", share=True)) as page:
        assert "without texts" in page.locator("#eyebrow").inner_text()
        assert rows(page)[0].startswith(sample.query_ids[0])
        page.locator(".rows button.open").first.click()
        assert page.locator("#question .said").count() == 0
        assert page.locator("#question ol li").count() == 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_light_and_dark_and_the_switch_changes_them(
    page_of_two: Path, scheme: str
) -> None:
    with opened(page_of_two, color_scheme=scheme) as page:
        first = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for _ in range(2):
            for name in ("--ink", "--muted", "--a", "--b", "--bad", "--gold-ink"):
                ground = "--gold-ground" if name == "--gold-ink" else "--raised"
                assert contrast(page, name, ground) >= 4.5, name
            page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == first
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != first


def contrast(page: Page, one: str, other: str) -> float:
    """WCAG's contrast of two colours of the page."""
    style = "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    lights = []
    for name in (one, other):
        text = page.evaluate(style, name)
        while text.startswith("var("):
            text = page.evaluate(style, text[4:-1])
        shares = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_width_makes_the_page_scroll_sideways(page_of_two: Path, width: int) -> None:
    with opened(page_of_two, width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator(".rows button.open").first.click()
        assert page.locator("#question").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_report_of_locomo_is_small(data: Path, ran: Ran, tmp_path: Path) -> None:
    locomo = open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    out = report(ran(locomo, "bm25"), out=tmp_path / "locomo.html")
    assert out.stat().st_size < 3_000_000
    with opened(out) as page:
        assert said(page) == 1986
