"""`harness serve`: the board of a folder, its reports, and how far unfinished runs are."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
import pytest
from polling import HANGS

from harness.__main__ import main
from harness.extensions.site.server import server
from harness.io.records import write_json_record
from harness.records.run import RetrieverRecord, RunPlan


@pytest.fixture
def results(bm25: Path, tmp_path: Path) -> Path:
    """A folder with one finished run, and a secret beside it."""
    shutil.copytree(bm25, tmp_path / "results" / bm25.name)
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "results"


@pytest.fixture
def port(results: Path) -> Iterator[int]:
    with server(results, 0) as serving:
        thread = Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield serving.server_port
        serving.shutdown()
        thread.join()


def get(port: int, path: str, host: str = "") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def state(port: int) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(get(port, "/state.json")[1])
    return found


def unfinished(results: Path, name: str, queries: int, *items: list[str | None]) -> Path:
    """What a run leaves while it goes on: its plan, and a line for each item that is done."""
    folder = results / f".{name}.tmp"
    folder.mkdir()
    retriever = RetrieverRecord(name=name)
    plan = RunPlan(dataset="", retriever=retriever, k=1, seed=0, queries=queries)
    write_json_record(folder / "plan.json", plan)
    lines = [
        orjson.dumps(
            {"item": at, "queries": [{"query": 9 * at + i, "error": e} for i, e in enumerate(item)]}
        )
        + b"\n"
        for at, item in enumerate(items)
    ]
    (folder / "checkpoint.jsonl").write_bytes(b"".join(lines))
    return folder


def test_the_board_and_each_report_are_served(port: int, bm25: Path) -> None:
    assert get(port, "/")[0] == 200
    assert b"Leaderboard" in get(port, "/")[1]
    status, page = get(port, f"/runs/{bm25.name}/")
    assert status == 200
    assert b"<title>bm25 on sample</title>" in page
    (board,) = orjson.loads(get(port, "/leaderboard.json")[1])["boards"]
    assert [entry["run"] for entry in board["entries"]] == [bm25.name]


def test_nothing_but_runs_can_be_asked_for(port: int, bm25: Path) -> None:
    for path in (
        "/secret.txt",
        "/../secret.txt",
        "/runs/../../secret.txt",
        "/runs/..%2f..%2fsecret.txt/",
        "/runs/%2e%2e/",
        f"/runs/{bm25.name}/../../../secret.txt",
        f"/runs/{bm25.name}%2f..%2f..%2fsecret.txt/",
        "/runs//etc/passwd/",
        f"/runs/{bm25.name}/run.json",
    ):
        status, body = get(port, path)
        assert (status, b"secret" in body) == (404, False), path


def test_other_sites_get_nothing(port: int) -> None:
    assert get(port, "/", host="example.org")[0] == 403
    assert get(port, "/", host=f"localhost:{port}")[0] == 200


def test_a_new_run_changes_the_board(port: int, results: Path, tfidf: Path) -> None:
    before = state(port)["version"]
    shutil.copytree(tfidf, results / tfidf.name)
    assert state(port)["version"] != before
    (board,) = orjson.loads(get(port, "/board.json")[1])["boards"]
    assert board["runs"] == 2


def test_progress_of_unfinished_runs_is_told_as_it_grows(port: int, results: Path) -> None:
    assert state(port)["unfinished"] == []
    folder = unfinished(results, "mine", 10, [None, "Trace"])
    (run,) = state(port)["unfinished"]
    assert (run["name"], run["queries"], run["done"], run["failed"]) == ("mine", 10, 2, 1)
    with open(folder / "checkpoint.jsonl", "ab") as file:
        file.write(b'{"item": 1, "queries": [{"query": 9, "error": null}]}\n')
        file.write(b'{"item": 2, "queries": [{"query": 18, "err')
    assert state(port)["unfinished"][0]["done"] == 3
    with open(folder / "checkpoint.jsonl", "ab") as file:
        file.write(b'or": null}]}\n')
    assert state(port)["unfinished"][0]["done"] == 4
    begun_anew = b'{"item": 0, "queries": [{"query": 0, "error": null}]}\n'
    (folder / "checkpoint.jsonl").write_bytes(begun_anew)
    assert state(port)["unfinished"][0]["done"] == 1
    shutil.rmtree(folder)
    assert state(port)["unfinished"] == []


def test_a_broken_run_is_named_and_the_rest_goes_on(port: int, results: Path, bm25: Path) -> None:
    (results / "broken").mkdir()
    (results / "broken" / "run.json").write_text("{}")
    (results / "broken" / "scores.json").write_text("{}")
    found = orjson.loads(get(port, "/board.json")[1])
    assert [list(found["broken"]), len(found["boards"])] == [["broken"], 1]
    assert get(port, "/")[0] == 200
    assert get(port, f"/runs/{bm25.name}/")[0] == 200
    status, words = get(port, "/runs/broken/")
    assert (status, b"broken" in words) == (409, True)
    assert b'<a href="/">The board</a>' in words


def test_a_broken_run_without_scores_is_named_too(port: int, results: Path) -> None:
    before = state(port)["version"]
    for name, text in (("torn", '{"run_vers'), ("empty", "{}"), ("nothing", "")):
        (results / name).mkdir()
        (results / name / "run.json").write_text(text)
    assert state(port)["version"] != before
    found = orjson.loads(get(port, "/board.json")[1])["broken"]
    assert list(found) == ["empty", "nothing", "torn"]
    assert "version: is missing" in found["empty"]
    assert "not valid JSON" in found["nothing"]
    assert "not valid JSON" in found["torn"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plan.json", b"[]"),
        ("plan.json", b"{"),
        ("plan.json", b'{"retriever":5,"queries":"x"}'),
        ("plan.json", b'{"retriever":{"name":"x"},"queries":"x"}'),
        ("checkpoint.jsonl", b'{"queries":5}\n'),
        ("started.json", b"[1]"),
        ("started.json", b'{"started":5}'),
    ],
)
def test_an_unfinished_run_of_another_shape_is_told_as_broken_and_the_others_go_on(
    port: int, results: Path, name: str, content: bytes
) -> None:
    unfinished(results, "whole", 10, [None])
    odd = unfinished(results, "odd", 10, [None])
    (odd / name).write_bytes(content)
    for _ in range(2):  # nothing of it is taken to be read the second time
        found = {run["run"]: run for run in state(port)["unfinished"]}
        assert (found["whole"]["state"], found["whole"]["done"]) == ("stopped", 1)
        assert (found["odd"]["state"], found["odd"]["name"]) == ("broken", "odd")
        assert str(odd / name if name == "checkpoint.jsonl" else odd) in found["odd"]["reason"]
    assert post(port, "odd")[0] == 200
    assert not odd.exists()


def post(port: int, run: str, origin: str = "") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
    own = origin or f"http://127.0.0.1:{port}"
    headers = {"Origin": own, "Content-Type": "application/json"}
    connection.request("POST", "/clear", orjson.dumps({"run": run}), headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_what_a_dead_run_left_is_removed_and_nothing_else(
    port: int, results: Path, bm25: Path
) -> None:
    from filelock import FileLock

    dead, alive = unfinished(results, "dead", 8, [None]), unfinished(results, "alive", 8)
    with FileLock(alive / "lock"):
        states = {run["run"]: run["state"] for run in state(port)["unfinished"]}
        assert states == {"dead": "stopped", "alive": "running"}
        assert post(port, "dead", origin="http://example.org")[0] == 403
        for name in ("alive", bm25.name, "", "../secret.txt", f".{dead.name}"):
            assert post(port, name)[0] == 409, name
        assert dead.is_dir()
        status, left = post(port, "dead")
        assert (status, [run["run"] for run in orjson.loads(left)["unfinished"]]) == (
            200,
            ["alive"],
        )
    assert [dead.exists(), alive.exists(), (results / bm25.name).exists()] == [False, True, True]


@pytest.mark.slow
def test_runs_that_were_chosen_are_compared(
    port: int, results: Path, bm25: Path, tfidf: Path
) -> None:
    shutil.copytree(tfidf, results / tfidf.name)
    shutil.copytree(bm25, results / "third")
    two = get(port, f"/compare/{bm25.name}/{tfidf.name}/")
    assert (two[0], b"<title>bm25 and tfidf on sample</title>" in two[1]) == (200, True)
    three = get(port, f"/compare/{bm25.name}/{tfidf.name}/third/")
    assert (three[0], b"<title>3 runs on sample</title>" in three[1]) == (200, True)
    for names in (bm25.name, f"{bm25.name}/{bm25.name}", f"{bm25.name}/none", f"{bm25.name}/.."):
        status, page = get(port, f"/compare/{names}/")
        assert (status, b'<a href="/">The board</a>' in page) == (404, True), names


def test_two_runs_of_a_board_are_compared_when_they_are_asked_for(
    port: int, results: Path, bm25: Path, tfidf: Path
) -> None:
    shutil.copytree(tfidf, results / tfidf.name)
    shutil.copytree(bm25, results / "third")
    (board,) = orjson.loads(get(port, "/board.json")[1])["boards"]
    whole = orjson.loads(get(port, f"/parts/board-{board['id']}.json")[1])
    assert {entry["run"] for entry in whole["entries"]} == {bm25.name, tfidf.name, "third"}
    pairs = f"/parts/pairs-{board['id']}"
    found = orjson.loads(get(port, f"{pairs}/{tfidf.name}/{bm25.name}.json")[1])
    assert {*found["runs"]} == {bm25.name, tfidf.name}
    assert len(found["results"]["all"]["recall@10"]["difference"]) == 1
    (summed,) = orjson.loads(get(port, "/leaderboard.json")[1])["boards"]
    assert orjson.loads(get(port, f"/{summed['file']}")[1])["entries"]
    assert len(orjson.loads(get(port, f"/{summed['pairs']}")[1])["runs"]) == 3
    for wrong in (f"{pairs}/{bm25.name}", f"{pairs}/{bm25.name}/none", f"{pairs}/../../secret"):
        assert get(port, f"{wrong}.json")[0] == 404, wrong


@pytest.mark.browser
def test_dead_runs_are_hidden_and_shown_again_and_nothing_is_removed(
    port: int, results: Path, bm25: Path
) -> None:
    from browsers import opened

    folder = unfinished(results, "dead", 8, [None, None])
    (results / "torn").mkdir()
    (results / "torn" / "run.json").write_text("{")
    away = "1 run hidden, not removed."
    with opened(f"http://127.0.0.1:{port}/") as page:
        page.get_by_text("stopped at 2 of 8").wait_for()
        for button in ("Hide torn", "Hide dead"):
            page.get_by_role("button", name=button).click()
        page.get_by_text("stopped at 2 of 8").wait_for(state="detached")
        assert page.get_by_text(away).count() == 2
        page.reload()
        page.get_by_text(away).nth(1).wait_for()
        assert page.get_by_text("cannot be read").count() == 0
        page.get_by_role("link", name="Report of bm25").click()
        page.locator("#abilities svg").wait_for()
        page.get_by_role("link", name="The board").click()
        page.get_by_text(away).nth(1).wait_for()
        page.locator("#broken-again").click()
        page.get_by_text("1 run cannot be read").wait_for()
    assert folder.is_dir()
    assert (results / "torn").is_dir()


@pytest.mark.slow
def test_the_command_serves_and_ends_with_ctrl_c(results: Path) -> None:
    command = [sys.executable, "-m", "harness", "serve", "--results", results, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().decode().split()[0]
        assert get(int(address.rstrip("/").rpartition(":")[2]), "/")[0] == 200
        os.kill(serving.pid, signal.SIGINT)
        _, errors = serving.communicate(timeout=HANGS)
        assert (serving.returncode, errors) == (0, b"")


def test_ctrl_c_between_listening_and_serving_ends_it_too(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.extensions.site.commands.serve.print_json", interrupted)
    assert main(["serve", "--results", str(results), "--port", "0", "--json"]) == 0


@pytest.mark.browser
def test_the_page_follows_the_folder(port: int, results: Path, tfidf: Path) -> None:
    from browsers import opened

    with opened(f"http://127.0.0.1:{port}/") as page:
        folder = unfinished(results, "mine", 8, [None, None])
        page.get_by_text("2 of 8").wait_for()
        assert page.get_by_role("progressbar").count() == 1
        page.get_by_role("combobox", name="Metric").select_option("mrr@10")
        shutil.copytree(tfidf, results / tfidf.name)
        shutil.rmtree(folder)
        page.get_by_role("button", name="tfidf").wait_for()
        assert page.get_by_role("progressbar").count() == 0
        assert page.get_by_role("combobox", name="Metric").input_value() == "mrr@10"
        page.get_by_role("button", name="tfidf").click()
        page.get_by_role("link", name="Report of tfidf").click()
        page.locator("#abilities svg").wait_for()
        assert page.title() == "tfidf on sample"
        assert " UTC" in page.locator("#runs").inner_text()
        page.get_by_role("link", name="The board").click()
        page.get_by_role("heading", name="Leaderboard").wait_for()


@pytest.mark.browser
def test_a_folder_without_runs_waits_for_the_first(tmp_path: Path, bm25: Path) -> None:
    from browsers import opened

    with server(tmp_path, 0) as serving:
        Thread(target=serving.serve_forever, args=(0.01,), daemon=True).start()
        with opened(f"http://127.0.0.1:{serving.server_port}/") as page:
            assert "No scored runs yet" in page.locator("#lede").inner_text()
            shutil.copytree(bm25, tmp_path / bm25.name)
            page.get_by_role("button", name="bm25").wait_for()
        serving.shutdown()


@pytest.mark.browser
def test_a_dead_run_is_removed_after_a_question(port: int, results: Path) -> None:
    from browsers import opened

    folder = unfinished(results, "dead", 8, [None, None])
    with opened(f"http://127.0.0.1:{port}/") as page:
        page.get_by_text("stopped at 2 of 8").wait_for()
        page.get_by_role("button", name="Remove…").click()
        page.get_by_role("button", name="Keep it").click()
        page.get_by_role("button", name="Remove…").click()
        assert folder.is_dir()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Remove it").wait_for(state="detached")
        assert page.evaluate("document.activeElement.textContent") == "Remove…"
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Remove it").click()
        page.get_by_text("stopped at 2 of 8").wait_for(state="detached")
        assert not folder.exists()


@pytest.mark.browser
def test_chosen_runs_are_compared_and_back_keeps_the_choice(
    port: int, results: Path, bm25: Path, tfidf: Path
) -> None:
    from browsers import opened

    shutil.copytree(tfidf, results / tfidf.name)
    shutil.copytree(tfidf, results / "third")
    with opened(f"http://127.0.0.1:{port}/") as page:
        more = page.get_by_role("button", name="+ 1 with the same results")
        more.click()
        boxes = page.locator("#table").get_by_role("checkbox")
        for at in range(2):
            boxes.nth(at).check()
        choose = page.get_by_role("combobox", name="Metric")
        choose.select_option("hit@10")
        page.get_by_role("link", name="Full comparison").click()
        page.get_by_role("heading", name="tfidf", exact=False).first.wait_for()
        assert page.get_by_role("combobox", name="Metric").input_value() == "hit@10"
        page.go_back()
        page.go_back()
        boxes.nth(1).wait_for()
        if more.is_visible():  # a browser that did not keep the page in memory loads it again
            more.click()
        boxes.nth(2).check()
        page.get_by_role("link", name="Full comparison").click()
        page.get_by_role("heading", name="3 runs on sample").wait_for()
        shown = page.locator("#differences-table tbody tr")
        assert shown.count() == 3
        verdict = page.locator("#verdict")
        assert verdict.inner_text().startswith("No significant difference overall in recall@10")
        page.get_by_role("img", name="difference to bm25 (A), recall@10").wait_for()
        assert not page.locator("#settings-table").is_visible()
        page.locator("#settings summary").click()
        assert "system" in page.locator("#settings-table").inner_text()
        assert "`" not in page.locator("body").inner_text()
        page.get_by_role("combobox", name="Metric").select_option("mrr@10")
        page.get_by_role("heading", name="mrr@10 of each run").wait_for()
        assert "bm25 (A) has the highest mrr@10, 0.384. Significantly lower: " in (
            verdict.inner_text()
        )
        page.get_by_role("link", name="The board").click()
        page.go_back()
        page.go_back()
        page.go_back()
        page.get_by_role("link", name="Full comparison").wait_for()
        assert [boxes.nth(at).is_checked() for at in range(3)] == [True] * 3
