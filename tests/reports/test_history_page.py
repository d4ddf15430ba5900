"""The page of a history: lines, gaps and breaks in a real browser, and nothing but numbers."""

from __future__ import annotations

import base64
import gzip
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from browsers import Page, opened
from made_history import Line, failed, made_history, not_comparable

from harness.__main__ import main
from harness.errors import UsageError
from harness.extensions.site.history_page import history_data
from harness.io.records import to_tree

REASON = "data fingerprint b089650b3963 -> 0000aaaa1111"
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def story(line: Line, night: int) -> Line:
    """system-1 fails in nights 3 and 4, all data change in night 6, system-0 gets a setting and
    rises in night 8."""
    if line["system"] == "system-1" and night in (3, 4):
        return failed(line)
    if night == 6:
        return not_comparable(line, REASON)
    if line["system"] == "system-0" and night == 8:
        for cells in line["change"]["results"].values():
            for cell in cells.values():
                cell.update(p=0.0001, difference=0.1, low=0.05, high=0.15)
        return {
            **line,
            "changed_settings": [{"setting": "params.k1", "before": "1.2", "now": HOSTILE}],
        }
    return line


def page_of(folder: Path, nights: int, systems: int, **more: Any) -> Path:
    made_history(folder / "history.jsonl", nights, systems, **more)
    assert main(["report", str(folder), "--quiet"]) == 0
    return folder / "history.html"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten nights of three systems on two datasets, in which something happened."""
    folder = tmp_path_factory.mktemp("told")
    return page_of(folder, 10, 3, datasets=("sample", "another"), edit=story)


def test_parts_of_a_line_end_at_failures_and_where_numbers_do_not_compare(told: Path) -> None:
    data = to_tree(history_data(told.with_name("history.jsonl")))
    one = {s["system"]: s for s in data["series"] if s["dataset"] == "sample"}
    assert one["system-1"]["part"] == [0, 0, 0, 1, 2, 3, 4, 4, 4, 4]
    assert one["system-2"]["part"] == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert one["system-1"]["error"][3:5] == ["RunError"] * 2
    cells = one["system-1"]["results"]["all"]["recall@10"]
    assert cells["value"][3] is None, "a failure is no zero"
    assert one["system-2"]["breaks"][6] == [REASON]
    assert cells["difference"][6] is None, "what does not compare has no number"
    assert data["verdicts"][one["system-0"]["results"]["all"]["recall@10"]["verdict"][8]] == "rose"


def test_numbers_stand_on_the_page_as_in_the_history_and_are_rounded_once(tmp_path: Path) -> None:
    def close(line: Line, night: int) -> Line:
        line["results"]["all"]["recall@10"]["high"] = 0.487526  # 0.488, and by way of 0.4875 0.487
        return line

    path = made_history(tmp_path / "history.jsonl", 1, 1, edit=close)
    (one,) = to_tree(history_data(path))["series"]
    assert one["results"]["all"]["recall@10"]["high"] == 0.487526


def test_the_page_holds_all_that_it_needs_and_asks_nobody(told: Path) -> None:
    html = told.read_bytes()
    found = re.search(rb'id="data">([^<]*)</script>', html)
    assert found
    data = orjson.loads(gzip.decompress(base64.b64decode(found[1])))
    assert data == orjson.loads(
        orjson.dumps(to_tree(history_data(told.with_name("history.jsonl"))))
    )
    assert not re.search(rb'(?:src|href)="(?!#|data:)', html)
    assert b"connect-src 'none'" in html


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["history.jsonl", "history.jsonl"], "a report has one history or runs"),
        (["history.jsonl", "--out", "."], "is a folder; name a file"),
        (["none.jsonl"], "no such run folder or history"),
        (["empty.jsonl"], "no runs yet"),
        (["words.txt"], "is a file; a report takes run folders"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    made_history(tmp_path / "history.jsonl", 1, 1)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "words.txt").write_text("words")
    assert main(["report", *arguments]) == 2
    told = capsys.readouterr().err
    assert (told.count("\n"), said in told) == (1, True)


def test_a_line_that_lacks_something_is_refused_by_name(tmp_path: Path) -> None:
    def without(line: Line, night: int) -> Line:
        return {**line, "change": {"state": "compared"}}

    path = made_history(tmp_path / "history.jsonl", 1, 1, edit=without)
    with pytest.raises(
        UsageError, match="line 1: change: a compared run needs since and cluster_by"
    ):
        history_data(path)


FELL = (
    "fail: dropped by 0.1000 (0.3957 -> 0.2957), significantly more than the allowed 0.02 "
    "(p = 0.0002 for 2 tests, 90% interval 0.0600 to 0.1400, 50 haystacks)"
)


def dropping(line: Line, night: int) -> Line:
    """A suite with max_drop 0.02: system-0 drops by more in night 3; that of system-1 in night 4
    is inconclusive."""
    change = {**line["change"], "max_drop": 0.02}
    if change["state"] == "compared":
        cell = change["results"]["all"]["recall@10"]
        drop = {"low": -0.1, "high": 0.01, "clusters": 50, "undecided": False}
        cell["drop"] = {**drop, "mean": -cell["difference"], "p_above": 1.0, "p_below": 0.001}
        if (line["system"], night) == ("system-0", 3):
            cell.update(p=0.0001, difference=-0.1, low=-0.15, high=-0.05)
            cell["drop"].update(mean=0.1, low=0.06, high=0.14, p_above=0.0001, p_below=1.0)
        if (line["system"], night) == ("system-1", 4):
            cell.update(p=0.5, smallest_p=0.5, difference=-0.1, low=-0.3, high=0.1)
            cell["drop"].update(mean=0.1, low=-0.1, high=0.2, p_above=0.4, p_below=0.7)
    return {**line, "change": change}


def test_a_drop_that_the_rule_of_the_list_failed_is_marked_where_it_happened(
    tmp_path: Path,
) -> None:
    path = made_history(tmp_path / "history.jsonl", 6, 2, edit=dropping)
    one, other = (series["results"] for series in to_tree(history_data(path))["series"])
    assert one["all"]["recall@10"]["drop"] == [*(None, None, None, FELL, None, None)]
    assert other["all"]["recall@10"]["drop"][4].startswith("inconclusive: dropped by 0.1000")
    assert one["all"]["mrr@10"]["drop"] is None
    assert one["temporal"]["recall@10"]["drop"] is None, "the rule is of all questions"


@pytest.mark.browser
def test_drops_are_flagged_in_chart_table_and_list(tmp_path: Path) -> None:
    with opened(page_of(tmp_path, 6, 2, edit=dropping)) as page:
        assert marks(page, "drop") == 2
        said = page.locator("#lines-figure svg .drop").first.text_content()
        assert "system-0: fail: dropped by 0.1000" in said
        page.locator("#night-slider").focus()
        for _ in range(2):
            page.keyboard.press("ArrowLeft")
        assert "▼ fail: dropped by 0.1000" in (page.locator("#night-table").inner_text())
        page.get_by_role("combobox", name="Metric").select_option("mrr@10")
        assert marks(page, "drop") == 0
        listed = page.locator("#events-table").inner_text()
        assert "▼ recall@10, to " in listed, "whichever metric is looked at"


@pytest.mark.browser
def test_times_have_one_clock_of_24_hours_and_the_zone_once(tmp_path: Path) -> None:
    def late(line: Line, night: int) -> Line:
        return {**line, **{key: line[key].replace("T02", "T22") for key in ("finished", "night")}}

    with opened(page_of(tmp_path, 3, 1, edit=late), locale="en-US") as page:
        words = page.locator("body").inner_text()
        assert "2026-01-03 22:30" in words
        assert "10:30" not in words
        assert "PM" not in words
        assert words.count("UTC") == 1
        assert "1 Jan" in page.locator("#lines-figure svg").last.text_content()


def crowded(line: Line, night: int) -> Line:
    """Nights at uneven times, some minutes apart, over the end of a year."""
    days = (0, 0.0007, 0.01, 1, 1.002, 2, 9, 9.3, 30, 31, 31.01)[night]
    begun = datetime(2025, 12, 30, 22, 58, tzinfo=UTC) + timedelta(days=days)
    at = begun.isoformat(timespec="milliseconds")
    return {**line, "night": at, "finished": (begun + timedelta(minutes=2)).isoformat()}


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_night_has_one_label_of_one_line_and_no_label_touches_another(
    tmp_path: Path, width: int
) -> None:
    with opened(page_of(tmp_path, 11, 3, edit=crowded), width=width) as page:
        labels = page.locator("#lines-figure svg .night text")
        words = labels.all_text_contents()
        assert words[0] == "30 Dec 2025"
        assert any(word.endswith(" Jan 2026") for word in words), "the year once, after a space"
        boxes = sorted((text.bounding_box() for text in labels.all()), key=lambda box: box["x"])
        assert all(a["x"] + a["width"] <= b["x"] for a, b in pairwise(boxes))


@pytest.mark.browser
def test_the_verdict_of_the_last_night_stands_first(told: Path, tmp_path: Path) -> None:
    with opened(told) as page:
        verdict = page.locator("#verdict")
        assert verdict.inner_text().startswith("Last night (2026-01-10): 6 of 6 runs finished; no ")
        assert "word-fell" not in verdict.get_attribute("class")
    with opened(page_of(tmp_path, 4, 2, edit=dropping)) as page:
        verdict = page.locator("#verdict")
        assert "1 dropped by more than 0.02" in verdict.inner_text()
        assert "word-fell" in verdict.get_attribute("class")
        assert verdict.bounding_box()["y"] < page.locator("#lines").bounding_box()["y"]


def marks(page: Page, name: str) -> int:
    return int(page.locator(f"#lines-figure svg .{name} > *").count())


@pytest.mark.browser
def test_lines_have_gaps_for_failures_and_breaks_for_other_data(told: Path) -> None:
    with opened(told) as page:
        # A path a part with two points or more: 2 of system-0 and system-2, 3 of system-1.
        lines = page.locator("#lines-figure svg .line path")
        assert lines.count() == 2 + 2 + 2
        assert marks(page, "failure") == 2
        assert "system-1: failed (RunError)" in page.locator(".failure").first.text_content()
        assert marks(page, "break") == 1
        assert REASON in page.locator(".break-mark").first.text_content()
        assert marks(page, "changed") == 1
        assert marks(page, "band") == 6
        assert page.locator("#lines-figure svg[role=img][aria-label]").count() >= 1


@pytest.mark.browser
def test_metric_ability_dataset_and_night_are_chosen_by_keyboard(told: Path) -> None:
    with opened(told) as page:
        page.get_by_role("combobox", name="Metric").select_option("mrr@10")
        page.get_by_role("combobox", name="Ability").select_option("temporal")
        page.get_by_role("combobox", name="Dataset").select_option("another")
        table = page.locator("#night-table")
        assert "mrr@10" in table.inner_text()
        assert "90" in table.inner_text()
        assert page.locator("#night-title").inner_text() == "The last night"
        page.locator("#night-slider").focus()
        page.keyboard.press("ArrowLeft")
        assert "2026-01-09 02:30" in page.locator("#night-title").inner_text()
        assert "not tested" in table.inner_text()
        assert f"params.k1 1.2 → {HOSTILE}" in table.inner_text()
        assert page.locator("img").count() == 0
        page.wait_for_function("() => location.search.includes('night=2026-01-09')")
        for _ in range(2):
            page.keyboard.press("ArrowLeft")
        assert f"not comparable: {REASON}" in table.inner_text()
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        assert table.get_by_text("RunError").count() == 2
        assert "2026-01-04 02:30" in page.locator("#night-slider").get_attribute("aria-valuetext")
        page.locator("#numbers summary").click()
        rows = page.locator("#numbers-table tbody tr")
        rows.first.wait_for()
        assert (rows.count(), rows.nth(6).locator("td").nth(1).inner_text()) == (10, "failed")
        for _ in range(3):  # the slider's movement is no step, what was chosen before it is
            page.evaluate("history.back()")
        page.wait_for_function("() => !location.search")
        assert "recall@10" in table.inner_text()


@pytest.mark.browser
def test_a_system_is_brought_to_the_front_with_its_interval(tmp_path: Path) -> None:
    with opened(page_of(tmp_path, 6, 12)) as page:
        assert marks(page, "band") == 0
        button = page.get_by_role("button", name="system-11")
        button.focus()
        page.keyboard.press("Enter")
        assert button.get_attribute("aria-pressed") == "true"
        assert page.evaluate("document.activeElement.textContent") == "system-11"
        assert marks(page, "band") == 1
        assert page.locator("#lines-figure svg .line path").count() == 1


@pytest.mark.browser
def test_one_night_is_points_with_their_intervals(tmp_path: Path) -> None:
    with opened(page_of(tmp_path, 1, 3)) as page:
        assert marks(page, "dot") == 3
        assert marks(page, "bar") == 3
        assert page.locator("#night-slider").count() == 0
        assert "first time" in page.locator("#night-table").inner_text()


@pytest.mark.browser
def test_four_hundred_nights_of_twenty_systems_are_one_page_of_a_few_megabytes(
    tmp_path: Path,
) -> None:
    page_file = page_of(tmp_path, 400, 20)
    assert page_file.stat().st_size < 4_000_000
    with opened(page_file) as page:
        assert page.locator("#lines-figure svg .line path").count() == 20
        page.get_by_role("combobox", name="Period").select_option(label="last 30 nights")
        page.locator("#numbers summary").click()
        page.locator("#numbers-table tbody tr").nth(29).wait_for()
        assert page.locator("#numbers-table tbody tr").count() == 30


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_width_makes_the_page_scroll_sideways(told: Path, width: int, scheme: str) -> None:
    with opened(told, width=width, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
