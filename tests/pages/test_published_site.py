"""The published site: plain files below any address, and submissions taken as pull requests."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from urllib.request import urlopen

import orjson
import pytest
from browsers import Page, launched

from harness.__main__ import main
from tests.places import ROOT

WORKFLOW = ROOT / "examples" / "ci" / "leaderboard-workflow.yml"
Harness = Callable[..., Any]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs on two boards."""
    out = tmp_path_factory.mktemp("site") / "results"
    for options in (["bm25"], ["tfidf"], ["bm25", "--granularity", "session"]):
        told = ["run", "--dataset", "sample", "--quiet", "--out", str(out), "--retriever"]
        assert main([*told, *options]) == 0
    return out


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A plain server of files; gives the address of `folder` on it, which is not its top."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{folder.name}/"
        server.shutdown()


def fetch(address: str) -> bytes:
    with urlopen(address) as answer:
        body: bytes = answer.read()
    return body


def test_every_part_link_and_report_of_a_site_is_there_and_holds_no_text(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    built = tmp_path / "mkdocs"
    built.mkdir()
    (built / "index.html").write_text("<p>the docs</p>")
    site = tmp_path / "pages" / "site"
    told = harness("board", "publish", site, "--results", results, "--reports", "--docs", built)
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


def test_a_site_is_replaced_whole_and_nothing_else_is(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    for _ in range(2):
        assert harness("board", "publish", site, "--results", results, "--quiet").status == 0
        (site / "left.txt").write_text("of the last time")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("all of it")
    told = harness("board", "publish", mine, "--results", results)
    assert (told.status, "holds something else" in told.err) == (2, True)
    assert (mine / "thesis.txt").read_text() == "all of it"
    told = harness("board", "publish", tmp_path / "a", "--results", results, "--docs", mine)
    assert (told.status, "has no index.html" in told.err) == (2, True)


@pytest.mark.browser
def test_a_browser_shows_the_site_and_asks_nobody_else(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    assert harness("board", "publish", site, "--results", results, "--reports").status == 0
    with served(site) as address, launched() as browser:
        page: Page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.get_by_text("tfidf").first.wait_for()
        page.locator("select").first.wait_for()
        page.get_by_label("Granularity").select_option("session")
        page.get_by_text("on sample, session").first.wait_for()
        page.reload()
        page.get_by_text("on sample, session").first.wait_for()
        page.get_by_role("link", name="report").first.click()
        page.get_by_text("bm25").first.wait_for()
        assert [url for url in asked if url.startswith("http")]
        assert not [url for url in asked if not url.startswith((address, "data:"))]
        page.close()


# -- Submissions as pull requests ------------------------------------------------------------------


def _git(folder: Path, *words: str) -> str:
    named = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    told = subprocess.run(
        ["git", *named, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return told.stdout


def _submit(folder: Path, run: Path, system: str, **more: Any) -> None:
    record = orjson.loads((run / "run.json").read_bytes())
    card = {"system": system, "k": record["settings"]["k"], "by": system, "repeat": "make"}
    card |= {key: record["dataset"][key] for key in ("granularity", "fingerprint")}
    folder.mkdir(parents=True)
    shutil.copy(run / "rankings.trec", folder / "rankings.trec")
    (folder / "run.json").write_bytes(orjson.dumps(card | {"dataset": "sample"} | more))


def _claim(folder: Path, run: Path) -> None:
    """Claim another recall than the run's."""
    scores = orjson.loads((run / "scores.json").read_bytes())
    scores["protocols"][0]["slices"]["all"]["metrics"]["recall@10"]["value"] = 0.99
    (folder / "scores.json").write_bytes(orjson.dumps(scores))


def _check(harness: Harness, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """What the workflow's own commands do in a checkout: the status and words of the last."""
    monkeypatch.chdir(checkout)
    commands = re.findall(r"- run: harness (.*)", WORKFLOW.read_text())
    assert len(commands) == 2
    for command in commands:
        words = []
        for word in command.split():
            words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
        told = harness(*words)
        if told.status:
            break
    return told.status, told.err


def test_pull_requests_are_checked_and_the_board_is_published_by_the_workflow(
    harness: Harness, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bm25, tfidf = (next(results.glob(f"sample-turn-{name}-*")) for name in ("bm25", "tfidf"))
    origin, ours = tmp_path / "origin.git", tmp_path / "ours"
    _git(tmp_path, "init", "-q", "--bare", "-b", "main", str(origin))
    _git(tmp_path, "clone", "-q", str(origin), str(ours))
    _git(ours, "checkout", "-q", "-b", "main")
    _submit(ours / "submissions" / "first", bm25, "first")
    _git(ours, "add", "-A")
    _git(ours, "commit", "-q", "-m", "The first")
    _git(ours, "push", "-q", "origin", "main")

    def request(name: str, change: Callable[[Path], None]) -> tuple[int, str]:
        """A branch that is pushed, and what the workflow says of a fresh checkout of it."""
        theirs = tmp_path / f"theirs-{name}"
        _git(tmp_path, "clone", "-q", str(origin), str(theirs))
        _git(theirs, "checkout", "-q", "-b", name)
        change(theirs / "submissions" / name)
        _git(theirs, "add", "-A")
        _git(theirs, "commit", "-q", "-m", name)
        _git(theirs, "push", "-q", "origin", name)
        checkout = tmp_path / f"checkout-{name}"
        _git(tmp_path, "clone", "-q", "-b", name, str(origin), str(checkout))
        return _check(harness, checkout, monkeypatch)

    def wrong(folder: Path) -> None:
        _submit(folder, tfidf, "wrong")
        _claim(folder, tfidf)

    def unknown(folder: Path) -> None:
        _submit(folder, tfidf, "unknown")
        path = folder / "rankings.trec"
        path.write_text(path.read_text() + "nobody-01 Q0 s01_1 1 1.0 x\n")

    assert request("good", lambda folder: _submit(folder, tfidf, "good"))[0] == 0
    status, said = request("wrong", wrong)
    assert (status, "but its rankings give" in said) == (2, True)
    status, said = request("unknown", unknown)
    assert (status, "1 query that sample does not have" in said) == (2, True)

    _git(ours, "pull", "-q", "--no-rebase", "origin", "good")
    _git(ours, "push", "-q", "origin", "main")
    merged = tmp_path / "merged"
    _git(tmp_path, "clone", "-q", str(origin), str(merged))
    assert _check(harness, merged, monkeypatch)[0] == 0
    with served(merged / "site") as address:
        (board,) = orjson.loads(fetch(urljoin(address, "leaderboard.json")))["boards"]
        assert {entry["system"] for entry in board["entries"]} == {"first", "good"}


def test_a_refused_submission_leaves_the_accepted_one_of_the_same_rankings(
    harness: Harness, results: Path, tmp_path: Path
) -> None:
    bm25 = next(results.glob("sample-turn-bm25-*"))
    board = tmp_path / "board"
    _submit(tmp_path / "theirs", bm25, "theirs")
    assert harness("leaderboard", "add", tmp_path / "theirs", "--results", board).status == 0
    (accepted,) = board.glob("sample-*")
    before = {path.name: path.read_bytes() for path in accepted.iterdir()}
    _claim(tmp_path / "theirs", bm25)
    told = harness("leaderboard", "add", tmp_path / "theirs", "--results", board)
    assert told.status == 2
    assert {path.name: path.read_bytes() for path in accepted.iterdir()} == before
    assert [path.name for path in board.iterdir() if path.name.startswith(".")] == []
