"""Boards and reports over HTTP, to this machine alone.

A request names a run, never a path: names are looked up among the runs that there are, so nothing
outside the folder can be asked for. Other sites cannot read the answers (see local_server).
"""

from __future__ import annotations

import hashlib
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote

import orjson

from harness.pages import local_server
from harness.pages.board import board_page, page_data
from harness.pages.data import report_data
from harness.pages.history import history_page
from harness.pages.local_server import HTML, JSON, Answer, Request
from harness.pages.report import report_page
from harness.pages.watch import Results
from harness.runs.folder.dataset_of_run import dataset_of_run
from harness.verdicts.history import NAME


class Pages:
    """The answer to each address. Pages are made once for every state of the folder."""

    def __init__(self, results: Path) -> None:
        self._results = Results(results)
        self._reports: dict[str, tuple[Any, bytes]] = {}
        self._lock = Lock()

    def get(self, path: str) -> tuple[str, bytes] | None:
        """Type and body; None for an address that there is not. Raises UsageError as reports do."""
        with self._lock:  # one at a time: they share what is read
            if path == "/":
                return HTML, board_page(self._results.leaderboard(), live=True)
            if path == "/state.json":
                return JSON, orjson.dumps(self._state())
            if path == "/board.json":
                return JSON, orjson.dumps(page_data(self._results.leaderboard()))
            if path == "/leaderboard.json":
                return JSON, orjson.dumps(self._results.leaderboard())
            if path == "/history/" and (self._results.folder / NAME).is_file():
                return HTML, history_page(self._results.folder / NAME)
            if path.startswith("/runs/") and path.endswith("/"):
                return self._report(unquote(path.removeprefix("/runs/").removesuffix("/")))
            return None

    def _state(self) -> dict[str, Any]:
        version = hashlib.sha256(repr(self._results.version()).encode()).hexdigest()[:16]
        history = (self._results.folder / NAME).is_file()
        return {"version": version, "running": self._results.unfinished(), "history": history}

    def _report(self, name: str) -> tuple[str, bytes] | None:
        folder = self._results.runs().get(name)
        if folder is None:
            return None
        state = tuple((folder / file).stat().st_mtime_ns for file in ("run.json", "scores.json"))
        if name not in self._reports or self._reports[name][0] != state:
            page = report_page(report_data([folder], dataset_of_run(folder)))
            self._reports[name] = (state, page)
        return HTML, self._reports[name][1]


def server(results: Path, port: int) -> ThreadingHTTPServer:
    """A server of the runs below `results` on 127.0.0.1, listening already.

    Raises OSError for a port that is taken.
    """
    pages = Pages(results)

    def answer(request: Request) -> Answer | None:
        found = pages.get(request.path) if request.method == "GET" else None
        return None if found is None else Answer(found[1], found[0])

    return local_server.server(answer, port)
