"""The boards as a page: what it draws stands in leaderboard.json, and a browser shows it."""

from __future__ import annotations

import re
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from browsers import Page, opened
from layout import amiss

from harness.__main__ import main
from harness.analysis.board.leaderboard import read_boards
from harness.analysis.board.records import Board, RankedResult
from harness.io.files import read_json
from harness.io.records import convert, to_plain
from harness.reports.board import board_page, page_data, write_board

HOSTILE = "</script><img src=https://example.org/x onerror=hit()>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs over turns, one of them shown the key, and one over sessions."""
    out = tmp_path_factory.mktemp("board") / "results"
    sample = ["run", "--dataset", "sample", "--quiet", "--out", str(out), "--retriever"]
    for retriever in ("bm25", "tfidf", "random", "oracle"):
        assert main([*sample, retriever, "--submitted-by", HOSTILE]) == 0
    assert main([*sample, "bm25", "--granularity", "session"]) == 0
    assert main(["leaderboard", "--results", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def board(results: Path) -> Path:
    return results / "leaderboard.html"


def plain_boards(results: Path) -> Any:
    """The boards as JSON has them, to be edited: over sessions, and over turns."""
    return to_plain(read_boards(results / "leaderboard.json"))


def as_boards(plain: Any) -> list[Board]:
    return convert(plain, list[Board], "edited boards")


def cell(results: Path, system: str, part: str = "all", metric: str = "recall@10") -> RankedResult:
    boards = read_boards(results / "leaderboard.json")
    entries = next(b.entries for b in boards if b.dataset.granularity == "turn")
    entry = next(e for e in entries if e.system == system)
    return next(p for p in entry.protocols if p.protocol == "memory/1").slices[part][metric]


def systems(page: Page) -> list[str]:
    names: list[str] = page.locator("#table tbody th button").all_inner_texts()
    return [name.strip() for name in names]


def choose(page: Page, name: str, option: str) -> None:
    box = page.get_by_role("combobox", name=name, exact=True)
    if not box.count():
        page.get_by_text("More", exact=True).click()
    box.select_option(option)
    page.locator("#board:not([aria-busy])").wait_for()


@pytest.mark.slow
def test_the_board_of_most_runs_stands_first_and_offers_every_protocol(results: Path) -> None:
    data, parts = page_data(read_boards(results / "leaderboard.json"))
    assert [board.dataset.granularity for board in data.boards] == ["turn", "session"]
    protocols = parts[f"board-{data.boards[0].id}"].protocols
    assert [one.name for one in protocols][:2] == ["memory/1, turn", "memory/1, turn>session"]
    assert {"all", "lookup", "temporal"} <= set(protocols[0].slices)
    ends = protocols[0].bounds["all"]["recall@10"].random_baseline
    assert ends == (cell(results, "bm25").random_baseline,) * 2


def test_building_the_page_again_gives_the_same_bytes(results: Path, board: Path) -> None:
    before = board.read_bytes()
    assert main(["leaderboard", "--results", str(results), "--quiet"]) == 0
    assert board.read_bytes() == before


def test_chance_is_a_range_where_systems_differ_in_what_was_scored(results: Path) -> None:
    boards = plain_boards(results)
    first = boards[1]["entries"][0]["protocols"][0]["slices"]["all"]["recall@10"]
    first["random_baseline"] = 0.5
    part = next(iter(page_data(as_boards(boards))[1].values()))
    bounds = part.protocols[0].bounds["all"]["recall@10"]
    assert bounds.random_baseline == (cell(results, "tfidf").random_baseline, 0.5)


@pytest.mark.browser
def test_systems_stand_by_value_with_interval_rank_and_chance(board: Path, results: Path) -> None:
    with opened(board) as page:
        choose(page, "Dataset", "sample, turn")
        assert systems(page) == ["oracle", "bm25", "tfidf", "random"]
        row = page.locator("#table tbody tr", has_text="bm25")
        mine = cell(results, "bm25")
        assert f"{mine.value:.3f}" in row.inner_text()
        assert mine.interval is not None
        assert f"{mine.interval.low:.3f} to {mine.interval.high:.3f}" in row.inner_text()
        assert mine.rank is not None
        assert "–".join(map(str, mine.rank)) in row.locator(".rank").inner_text()
        for part in ("reach", "mean", "random"):
            assert row.locator(f"td.interval svg line.{part}").count() == 1
        foot = page.locator("#table tfoot").inner_text()
        assert f"{mine.random_baseline:.3f}" in foot
        said = page.locator("#said").inner_text()
        assert "approximate: only 12 haystacks" in said
        assert "hold the true ranks of all systems at once" in said
        assert mine.rank_note in said
        assert "Failed" not in page.locator("#board").inner_text(), "no query failed"


@pytest.mark.browser
def test_who_saw_the_answer_key_is_marked_and_not_ranked(board: Path) -> None:
    with opened(board) as page:
        choose(page, "Dataset", "sample, turn")
        row = page.locator("#table tbody tr", has_text="oracle")
        assert "saw the gold labels" in row.inner_text()
        assert "not ranked" in row.locator(".rank").text_content()


@pytest.mark.browser
def test_who_could_be_measured_on_fewer_queries_stands_last_and_is_not_ranked(
    results: Path, tmp_path: Path
) -> None:
    boards = plain_boards(results)
    bm25 = next(e for e in boards[1]["entries"] if e["system"] == "bm25")
    first = bm25["protocols"][0]["slices"]["all"]["recall@10"]
    del first["rank"]
    first["rank_note"] = "lacks 5 of the queries that others were measured on"
    first["n"], bm25["queries"]["failed"] = 60, 5
    (tmp_path / "leaderboard.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "leaderboard.html") as page:
        choose(page, "Dataset", "sample, turn")
        assert systems(page)[-1] == "bm25"
        words = page.locator("#table tbody tr", has_text="bm25").inner_text()
        assert "lacks 5 of the queries that others were measured on" in words
        assert "5 failed" in words
        assert "Failed queries count 0" in page.locator("#legend").text_content()
        assert page.locator("#table tbody tr", has_text="bm25").locator(".rank").count() == 1


@pytest.mark.browser
def test_switches_change_the_numbers(board: Path, results: Path) -> None:
    with opened(board) as page:
        choose(page, "Dataset", "sample, turn")
        choose(page, "Queries", "temporal")
        choose(page, "k", "5")
        choose(page, "Metric", "hit@5")
        row = page.locator("#table tbody tr", has_text="bm25")
        assert f"{cell(results, 'bm25', 'temporal', 'hit@5').value:.3f}" in row.inner_text()
        choose(page, "Protocol", "memory/1, turn>session")
        assert "turn>session" in page.locator("#table caption").text_content()
        choose(page, "Dataset", "sample, session")
        assert systems(page) == ["bm25"]
        assert "granularity=session" in page.locator("#lede").inner_text()


@pytest.mark.browser
def test_what_is_chosen_stands_in_the_address_and_back_takes_it_back(board: Path) -> None:
    with opened(board) as page:
        choose(page, "Dataset", "sample, turn")
        choose(page, "k", "5")
        page.get_by_role("button", name="tfidf").click()
        link = page.evaluate("location.href")
        page.evaluate("history.back()")
        page.locator("tr.details").wait_for(state="detached")
        page.evaluate("history.back()")
        page.wait_for_function("() => document.getElementById('k').value === '10'")
        assert systems(page) == ["oracle", "bm25", "tfidf", "random"]
        page.goto(link)
        page.locator("tr.details").wait_for()
        assert page.get_by_role("columnheader", name="recall@5").count() == 1


@pytest.mark.browser
def test_columns_sort_by_mouse_and_keyboard_and_say_so(board: Path) -> None:
    with opened(board) as page:
        choose(page, "Dataset", "sample, turn")
        header = page.get_by_role("columnheader", name="System")
        header.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert systems(page) == ["bm25", "oracle", "random", "tfidf"]
        assert header.get_attribute("aria-sort") == "ascending"
        page.keyboard.press("Space")
        assert systems(page) == ["tfidf", "random", "oracle", "bm25"]
        assert header.get_attribute("aria-sort") == "descending"
        page.get_by_role("columnheader", name="Rank").get_by_role("button").click()
        assert systems(page)[-1] == "oracle"
        assert page.locator('th[aria-sort="ascending"]').count() == 1


@pytest.mark.browser
def test_ranges_of_ranks_sort_by_both_ends(results: Path, tmp_path: Path) -> None:
    boards = plain_boards(results)
    ranks = {"bm25": [1, 4], "tfidf": [1, 2], "random": [2, 3]}
    for entry in boards[1]["entries"]:
        if rank := ranks.get(entry["system"]):
            entry["protocols"][0]["slices"]["all"]["recall@10"]["rank"] = rank
    (tmp_path / "leaderboard.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "leaderboard.html") as page:
        rank = page.get_by_role("columnheader", name="Rank").get_by_role("button")
        rank.click()
        assert systems(page) == ["tfidf", "bm25", "random", "oracle"]
        rank.click()
        assert systems(page) == ["random", "bm25", "tfidf", "oracle"]


@pytest.mark.browser
def test_details_open_by_keyboard_and_tell_how_to_repeat_a_run(board: Path) -> None:
    with opened(board) as page:
        choose(page, "Dataset", "sample, turn")
        button = page.get_by_role("button", name="bm25")
        assert button.get_attribute("aria-expanded") == "false"
        button.focus()
        page.keyboard.press("Enter")
        details = page.locator("tr.details")
        words = details.inner_text()
        cuts = [words.find(f"update recall@{k}\n") for k in (1, 5, 10)]
        assert -1 < cuts[0] < cuts[1] < cuts[2]
        for part in ("k1=1.2", "harness run", "Peak memory", "Queries that failed", "temporal"):
            assert part in words
        assert HOSTILE in words
        assert page.locator("img").count() == 0
        assert page.evaluate("document.activeElement.textContent") == "bm25"
        page.keyboard.press("Enter")
        assert details.count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 768, 1024, 1280, 1440])
def test_at_no_width_anything_is_cut_off_or_a_letter_wide(
    results: Path, tmp_path: Path, width: int
) -> None:
    boards = plain_boards(results)
    entries = boards[1]["entries"]
    entries[0]["name"] = "one-word-that-is-longer-than-any-column-could-be-on-a-telephone"
    entries[1]["params"] = {"prompt": "a text of many words that goes on and on " * 9}
    entries[2]["queries"] |= {"failed": 12_345, "unmeasurable": 678}
    (tmp_path / "leaderboard.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "leaderboard.html", width=width) as page:
        page.get_by_role("button", name="tfidf").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        within = """row => [...row.querySelectorAll(":scope > *")].every(cell => {
          const [a, b] = [row, cell].map(one => one.getBoundingClientRect());
          return !cell.offsetWidth || (b.left >= a.left - 1 && b.right <= a.right + 1
            && cell.scrollWidth <= cell.clientWidth + 1);
        })"""
        rows = page.locator("#table tbody tr.entry, #table tfoot tr")
        assert [rows.nth(at).evaluate(within) for at in range(rows.count())] == [True] * 6
        assert page.locator("tr.entry th.system").first.evaluate("one => one.clientWidth") >= 120
        abilities, failed, latency, tokens = 4 if width > 760 else 0, 1, 1, 1
        shown = page.locator("tr.entry").first.locator("td.part:visible")
        assert shown.count() == abilities + failed + latency + tokens


@pytest.mark.browser
def test_texts_of_entries_are_never_markup(results: Path, tmp_path: Path) -> None:
    boards = plain_boards(results)
    entry = boards[1]["entries"][0]
    entry["system"] = entry["command"] = HOSTILE
    entry["params"] = {HOSTILE: HOSTILE}
    boards[1]["dataset"]["name"] = HOSTILE
    page_file = tmp_path / "leaderboard.html"
    page_file.write_bytes(board_page(as_boards(boards)))
    assert HOSTILE not in re.sub(r"<script.*?</script>", "", page_file.read_text())
    with opened(page_file) as page:
        choose(page, "Dataset", f"{HOSTILE}, turn")
        page.locator("#table tbody th button", has_text="onerror").click()
        assert page.locator("code.command").inner_text() == HOSTILE
        assert page.locator("img").count() == 0


def test_a_label_and_what_tells_it_from_others_stand_in_the_row(results: Path) -> None:
    boards = plain_boards(results)
    board = next(one for one in boards if len(one["entries"]) > 1)
    bm25 = next(one for one in board["entries"] if one["system"] == "bm25")
    others = [
        {**bm25, "run": f"other-{k1}", "params": {**bm25["params"], "k1": k1}} for k1 in (2, 3)
    ]
    named = {**bm25, "run": "mine-1", "name": "mine", "params": {**bm25["params"], "b": 0.1}}
    board["entries"] += [*others, named]
    first = next(iter(page_data(as_boards(boards))[1].values())).entries
    found = {entry.run: (entry.label, entry.distinct_params) for entry in first}
    assert found["other-2"] == ("bm25", {"k1": 2})
    assert found["mine-1"] == ("mine", {"b": 0.1, "k1": 1.2})
    assert next(entry for entry in first if entry.system == "tfidf").sole


@pytest.mark.browser
def test_every_ability_is_in_sight_at_once_and_sorts(board: Path, results: Path) -> None:
    with opened(board, width=1440) as page:
        row = page.locator("#table tbody tr.entry", has_text="bm25")
        for ability in ("lookup", "temporal"):
            assert f"{cell(results, 'bm25', ability).value:.3f}" in row.inner_text()
        page.get_by_role("columnheader", name="temporal").get_by_role("button").click()
        assert page.get_by_role("columnheader", name="temporal").get_attribute("aria-sort")
        choose(page, "Other columns", "other metrics")
        assert page.get_by_role("columnheader", name="ndcg").count() == 1
        assert f"{cell(results, 'bm25', 'all', 'ndcg@10').value:.3f}" in row.inner_text()


@pytest.mark.browser
def test_two_ends_that_print_alike_are_one_number(results: Path, tmp_path: Path) -> None:
    boards = plain_boards(results)
    of = boards[1]["entries"]
    for entry, chance in zip(of, (0.0421, 0.04212, 0.0421, 0.0421), strict=True):
        entry["protocols"][0]["slices"]["all"]["recall@10"]["random_baseline"] = chance
    (tmp_path / "leaderboard.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "leaderboard.html") as page:
        foot = page.locator("#table tfoot").inner_text()
        assert "0.042 to 0.042" not in foot
        assert "0.04210 to 0.04212" in foot


@pytest.mark.browser
def test_chosen_runs_give_the_command_that_compares_them(board: Path, results: Path) -> None:
    with opened(board) as page:
        page.get_by_role("checkbox", name="Compare tfidf").check()
        assert "choose another run to compare" in page.locator("#picked").inner_text()
        page.get_by_role("checkbox", name="Compare bm25").check()
        command = page.locator("#chosen code").inner_text()
        names = [r.name for system in ("bm25", "tfidf") for r in results.glob(f"*turn-{system}-*")]
        assert command.startswith(f"harness compare {' '.join(names)} --results ")
        page.evaluate("history.back()")
        page.wait_for_function("() => !document.querySelector('#chosen code')")
        assert page.get_by_role("checkbox", name="Compare tfidf").is_checked()


@pytest.mark.browser
def test_a_written_board_links_to_the_reports_that_there_are(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "results")
    (run,) = (tmp_path / "results").glob("*turn-tfidf-*")
    (run / "report.html").write_text("<main>a report</main>")
    write_board(tmp_path / "results", tmp_path / "site" / "board.json")
    with opened(tmp_path / "site" / "board.html") as page:
        links = page.get_by_role("link", name="Report of")
        assert links.count() == 1
        assert links.get_attribute("href") == f"../results/{run.name}/report.html"


@pytest.mark.browser
def test_every_ability_has_a_bar_of_its_own_on_one_scale(board: Path, results: Path) -> None:
    with opened(board, width=1440) as page:
        row = page.locator("#table tbody tr.entry", has_text="bm25")
        for ability in ("lookup", "multi-hop", "temporal", "knowledge-update"):
            place = row.locator(f'td.ability[data-head="{ability}"]')
            assert place.locator("svg line.reach").count() == 1
            said, mine = place.get_attribute("title"), cell(results, "bm25", ability)
            for words in (
                f"n {mine.n}",
                f"random {mine.random_baseline:.3f}",
                "95% interval",
            ):
                assert words in said


@pytest.mark.browser
def test_what_is_official_is_said(board: Path) -> None:
    with opened(board) as page:
        assert "memory/1: this harness's own protocol" in page.locator("#lede").inner_text()
        choose(page, "Protocol", "trec/1, turn")
        assert "trec/1: the same numbers as trec_eval" in page.locator("#lede").inner_text()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_two_rows_that_are_clicked_stand_beside_each_other_and_a_link_keeps_them(
    board: Path, results: Path, width: int
) -> None:
    summed = next(b for b in read_json(results / "leaderboard.json")["boards"] if b["pairs"])
    pairs = read_json(results / summed["pairs"])
    at = [next(i for i, run in enumerate(pairs["runs"]) if n in run) for n in ("bm25", "tfidf")]
    older, newer = ("bm25", "tfidf") if at[0] < at[1] else ("tfidf", "bm25")
    place = list(combinations(range(len(pairs["runs"])), 2)).index((min(at), max(at)))
    mine = {name: all_[place] for name, all_ in pairs["results"]["temporal"]["recall@10"].items()}
    with opened(board, width=width) as page:
        for system in ("bm25", "tfidf"):
            row = page.locator("#table tbody tr.entry", has_text=system)
            row.locator("td.main").click()
        page.locator("#pair").wait_for()
        words = page.locator("#pair").inner_text()
        assert f"recall@10: {newer} − {older}" in words
        row = page.locator("#pair tbody tr", has_text="temporal").inner_text()
        assert f"{mine['difference']:+.3f}".replace("-", "−") in row
        assert " / ".join(str(mine[name]) for name in ("wins", "losses", "ties")) in row
        link = page.evaluate("location.href")
        page.go_back()
        page.locator("#pair").wait_for(state="detached")
        page.go_forward()
        page.locator("#pair").wait_for()
        page.goto(link)
        page.locator("#pair").wait_for()
        assert page.locator("#pair").inner_text() == words
        choose(page, "Metric", "precision@10")
        assert "not by precision@10" in page.locator("#pair").inner_text()


@pytest.mark.browser
def test_who_saw_the_answer_key_is_compared_with_none(board: Path) -> None:
    with opened(board) as page:
        for system in ("oracle", "bm25"):
            page.get_by_role("checkbox", name=f"Compare {system}").check()
        page.get_by_text("oracle saw the gold labels, so it is not compared").wait_for()
        assert page.locator("#pair").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_the_comparison_is_next_to_the_table_or_below_it_and_never_over_it(
    board: Path, results: Path, width: int
) -> None:
    runs = [next(results.glob(f"*turn-{name}-*")).name for name in ("bm25", "tfidf")]
    query = "&".join(f"compare={run}" for run in runs)
    with opened(f"{board.as_uri()}?{query}", width=width) as page:
        page.get_by_text("No significant difference overall.").wait_for()
        table, panel = (page.locator(name).bounding_box() for name in ("#table", "#chosen"))
        if width == 1440:
            assert panel["x"] >= table["x"] + table["width"]
            assert abs(panel["y"] - table["y"]) < 4
        else:
            assert panel["y"] >= table["y"] + table["height"]
            page.get_by_role("link", name="Show comparison").click()
        assert amiss(page) == []


@pytest.mark.browser
def test_a_search_finds_runs_here_and_on_other_boards(board: Path) -> None:
    with opened(board) as page:
        search = page.get_by_role("searchbox", name="Search")
        search.type("TFIDF")
        page.get_by_text("1 of 4 runs on sample, turn match.").wait_for()
        assert systems(page) == ["tfidf"]
        search.fill("bm25")
        page.get_by_role("button", name="sample, session").click()
        page.get_by_text("1 run: dataset=sample, granularity=session").wait_for()
        assert search.input_value() == "bm25"
        assert systems(page) == ["bm25"]
        search.fill("turn")
        page.get_by_text("No run on sample, session matches.").wait_for()
        page.get_by_role("button", name="sample, turn").click()
        page.get_by_text("4 runs: dataset=sample, granularity=turn").wait_for()
        assert search.input_value() == "", "the dataset itself was searched for"
        assert len(systems(page)) == 4


@pytest.mark.browser
def test_runs_with_the_same_results_are_one_row_until_it_is_opened(
    results: Path, tmp_path: Path
) -> None:
    boards = plain_boards(results)
    board = next(one for one in boards if len(one["entries"]) > 1)
    bm25 = next(one for one in board["entries"] if one["system"] == "bm25")
    board["entries"] += [{**bm25, "run": "copy", "name": "copy", "system": "other"}]
    (tmp_path / "leaderboard.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "leaderboard.html") as page:
        assert page.locator("#table tbody tr.entry").count() == 4
        page.locator("button.same").focus()
        page.keyboard.press("Enter")
        assert page.locator("#table tbody tr.entry").count() == 5
        assert page.locator("button.same").get_attribute("aria-expanded") == "true"
        page.keyboard.press("Enter")
        assert page.locator("#table tbody tr.entry").count() == 4
        page.locator("tr.entry button.plain", has_text="copy").or_(
            page.locator("button.same", has_text="copy")
        ).first.wait_for()


@pytest.mark.browser
def test_a_long_name_beside_a_point_in_the_middle_of_a_phone_is_not_cut(
    results: Path, tmp_path: Path
) -> None:
    boards = plain_boards(results)
    milliseconds = {"bm25": 10.0, "tfidf": 1.0, "random": 0.1, "oracle": 0.1}
    for entry in boards[1]["entries"]:
        entry["cost"]["search_ms"]["p50"] = milliseconds[entry["system"]]
        entry["name"] = f"{entry['system']}-with-a-name-that-is-as-long-as-half-a-page"
    (tmp_path / "leaderboard.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "leaderboard.html", width=390) as page:
        chart = page.locator("svg.tradeoff").bounding_box()
        for name in page.locator("#tradeoff .name").all():
            box = name.bounding_box()
            assert chart["x"] <= box["x"]
            assert box["x"] + box["width"] <= chart["x"] + chart["width"]


@pytest.mark.browser
def test_quality_is_drawn_against_a_cost_that_is_chosen_with_its_pareto_front(
    results: Path, tmp_path: Path
) -> None:
    boards = plain_boards(results)
    milliseconds = {"bm25": 2.0, "tfidf": 4.0, "random": 1.0, "oracle": 0.1}
    for entry in boards[1]["entries"]:
        entry["cost"]["search_ms"]["p50"] = milliseconds[entry["system"]]
    (tmp_path / "leaderboard.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "leaderboard.html") as page:
        page.get_by_role("link", name="recall@10 against median latency").click()
        points = page.locator("#tradeoff .point")
        assert points.count() == 3, "who saw the gold labels is not drawn"
        said = [point.get_attribute("aria-label") for point in points.all()]
        assert sorted("on the Pareto front" in one for one in said) == [False, True, True]
        dominated = next(one for one in said if "Pareto" not in one)
        assert dominated.startswith("tfidf: recall@10 0.518, median latency 4 ms")
        names = [text.bounding_box() for text in page.locator("#tradeoff .name").all()]
        for one, other in combinations(names, 2):
            assert (
                one["x"] + one["width"] <= other["x"]
                or other["x"] + other["width"] <= one["x"]
                or one["y"] + one["height"] <= other["y"] + 4
                or other["y"] + other["height"] <= one["y"] + 4
            ), "no name covers another"
        choose(page, "Horizontal axis", "tokens of the first ten documents")
        page.get_by_role("heading", name="recall@10 against tokens").wait_for()
        points.first.focus()
        page.keyboard.press("Space")
        page.locator("#picked").get_by_text("choose another run to compare").wait_for()
        assert page.evaluate("document.activeElement.getAttribute('aria-checked')") == "true"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_four_controls_stand_above_the_table_and_all_have_names(board: Path, scheme: str) -> None:
    contrast = """() => {
      const levels = color => color.match(/[\\d.]+/g).slice(0, 3).map(one => one / 255)
        .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
      const light = color => levels(color).reduce((sum, one, at) =>
        sum + one * [0.2126, 0.7152, 0.0722][at], 0);
      const ground = light(getComputedStyle(document.body).backgroundColor);
      return ["#lede", "#said", ".tradeoff .name", ".tradeoff .tick"].map(name => {
        const style = getComputedStyle(document.querySelector(name));
        const ink = light(name.startsWith(".") ? style.fill : style.color);
        return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
      });
    }"""
    with opened(board, color_scheme=scheme) as page:
        shown = page.locator("#choices").locator("select:visible, input:visible")
        assert 0 < shown.count() <= 4
        page.get_by_text("More", exact=True).click()
        controls = page.locator("select, input, button, a[href], [role=checkbox]")
        named = "one => (one.ariaLabel || one.labels?.[0]?.textContent || one.textContent).trim()"
        assert all(controls.nth(at).evaluate(named) for at in range(controls.count()))
        assert all(ratio >= 4.5 for ratio in page.evaluate(contrast))


CLAIMS = [
    {
        **{"id": "low", "system": "low first", "version": "2", "measure": "R@5", "value": 0.1},
        **{"dataset": "sample", "granularity": "turn", "n": 419, "date": "2026-11-21"},
        **{"protocol": "any of the evidence", "comparable": False, "reason": "419 for 470"},
        **{"source": "https://example.org/low", "reproducible": False},
    },
    {
        **{"id": "hostile", "system": HOSTILE, "measure": "R@10", "value": 0.99},
        **{"dataset": "sample", "granularity": "turn", "protocol": "recall"},
        **{"comparable": True, "reason": "the same", "reproducible": "its rankings"},
        "source": "javascript:alert(1)",
        "rescored": {
            **{"metric": "recall@10", "dataset": "sample", "value": 0.75, "n": 261},
            "signature": "recall@10|n:261",
        },
    },
]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_claims_stand_apart_as_given_with_reason_and_source(
    results: Path, tmp_path: Path, width: int
) -> None:
    boards = plain_boards(results)
    boards[1]["claims"] = CLAIMS
    (tmp_path / "board.html").write_bytes(board_page(as_boards(boards)))
    with opened(tmp_path / "board.html", width=width) as page:
        rows = page.locator("#claims tbody tr")
        assert ["low first" in text for text in rows.all_inner_texts()] == [True, False]
        for words in ("419 for 470", "not comparable", "0.100", "419"):
            assert words in rows.first.inner_text()
        for words in ("0.750", "recall@10|n:261", "0.990", "comparable"):
            assert words in rows.last.inner_text()
        links = page.locator("#claims a")
        assert [link.get_attribute("href") for link in links.all()] == ["https://example.org/low"]
        assert "low first" not in page.locator("#table").inner_text()
        assert page.locator("#claims img").count() == 0
        assert amiss(page) == []
        choose(page, "Dataset", "sample, session")
        page.locator("#claims").wait_for(state="hidden")


@pytest.mark.browser
def test_a_report_leads_back_to_the_board_as_it_was(results: Path, tmp_path: Path) -> None:
    there = Path(shutil.copytree(results, tmp_path / "results"))
    run = next(there.glob("sample-turn-bm25-*"))
    assert main(["report", str(run), "--quiet"]) == 0
    assert main(["leaderboard", "--results", str(there), "--quiet"]) == 0
    with opened(there / "leaderboard.html") as page:
        choose(page, "Metric", "mrr@10")
        back = page.evaluate("location.search")
        link = page.get_by_role("link", name="Report of bm25").get_attribute("href")
    with opened(f"{there.as_uri()}/{link}") as page:
        page.get_by_role("combobox", name="Metric").select_option("hit@10")
        page.reload()
        page.locator("#abilities svg").wait_for()
        home = page.get_by_role("link", name="The board").get_attribute("href")
        assert home == f"../leaderboard.html{back}"
        assert page.get_by_role("combobox", name="Metric").input_value() == "hit@10"
        for elsewhere in (
            "https://example.org/",
            "javascript:alert(1)",
            "//example.org/",
            "../a:b",
        ):
            page.goto(f"{run.as_uri()}/report.html?from={elsewhere}")
            page.locator("#abilities svg").wait_for()
            assert page.locator("#home").count() == 0


def test_what_is_small_is_no_zero_on_the_page(results: Path) -> None:
    boards = plain_boards(results)
    entry = boards[1]["entries"][0]
    entry["params"] = {"rate": 1e-9}
    entry["protocols"][0]["slices"]["all"]["recall@10"]["value"] = 1.23456789e-8
    _, parts = page_data(as_boards(boards))
    made = next(part for name, part in parts.items() if "-turn-" in name).entries[0]
    assert made.params == {"rate": 1e-9}
    assert made.protocols[0].slices["all"]["recall@10"].value == 1.23457e-8
