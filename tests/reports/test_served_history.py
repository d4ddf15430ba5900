"""`harness serve` shows the lines over time of a folder that has a history."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread

import pytest
from made_history import made_history
from polling import HANGS

from harness.extensions.site.server import server


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with server(tmp_path, 0) as serving:
        thread = Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield serving.server_port
        serving.shutdown()
        thread.join()


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_the_history_of_the_folder_is_served(port: int, tmp_path: Path) -> None:
    assert get(port, "/history/")[0] == 404
    assert b'"history":false' in get(port, "/state.json")[1]
    path = made_history(tmp_path / "history.jsonl", 3, 2)
    status, page = get(port, "/history/")
    assert (status, b"<title>Nightly history</title>" in page) == (200, True)
    assert b'"history":true' in get(port, "/state.json")[1]
    path.write_text("damaged\n")
    status, words = get(port, "/history/")
    assert (status, b"line 1" in words) == (409, True)


@pytest.mark.browser
def test_the_board_links_to_it(port: int, tmp_path: Path) -> None:
    from browsers import opened

    made_history(tmp_path / "history.jsonl", 3, 2)
    with opened(f"http://127.0.0.1:{port}/") as page:
        page.get_by_role("link", name="Nightly history").click()
        page.get_by_role("heading", name="The last night").wait_for()
