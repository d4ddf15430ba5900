"""Serves leaderboards and reports of a folder of runs on this machine, while runs go on.

A request contains names of runs, never paths; names are looked up among existing runs, so nothing
outside the folder is accessible. The only write operation removes the files of an unfinished run,
by a POST of the page itself (see `local_server`).
"""

from __future__ import annotations

import hashlib
import time
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote

from msgspec.structs import replace

from harness.analysis.board.leaderboard import gather
from harness.analysis.board.ranks import compare_pairs
from harness.analysis.board.records import Board
from harness.analysis.board.summary import board_id, summarize
from harness.errors import HarnessError, UsageError
from harness.extensions.site.history import NAME
from harness.extensions.site.history_page import history_page
from harness.io.records import encode, to_plain
from harness.reports import local_server
from harness.reports.board import board_page, page_data
from harness.reports.html import refusal
from harness.reports.local_server import HTML, JSON, Request, Response, as_json
from harness.reports.records import ResultsState, RunProgress
from harness.reports.report import comparison_page, report_data, report_page
from harness.runs.folder.listing import (
    CheckpointReader,
    ListedRun,
    clear,
    describe_run,
    list_unfinished,
)
from harness.runs.folder.run_dataset import dataset_of_run
from harness.runs.folder.run_state import RunStore, finished_runs

_HOME = "/"
_LOOKED_AT = ("run.json", "scores.json")
Version = tuple[tuple[str, int, int], ...]
Boards = tuple[list[Board], dict[str, str]]
"""Leaderboards, and errors of unreadable runs by name."""


class Results:
    """The runs in a folder while it changes: finished ones, and the progress of others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._built: tuple[Version, Boards] | None = None
        self._checkpoints: dict[Path, CheckpointReader] = {}

    def runs(self) -> dict[str, Path]:
        """Returns finished and scored runs by name."""
        return {
            run.name: run for run in finished_runs(self.folder) if (run / "scores.json").is_file()
        }

    def version(self) -> Version:
        """Returns a value that changes with the leaderboards."""
        return tuple(
            (f"{run.name}/{file}", *_stamp(run / file))
            for run in finished_runs(self.folder)
            for file in _LOOKED_AT
        )

    def boards(self) -> Boards:
        """Returns the leaderboards, if any run is scored, and unreadable runs."""
        version = self.version()
        if self._built is None or self._built[0] != version:
            boards, broken = gather(self.folder)
            apart = {run.name for run in finished_runs(self.folder)} - {*self.runs()}
            for run in (describe_run(self.folder / name) for name in sorted(apart)):
                if run.state == "broken":  # not scored, so no leaderboard misses it
                    broken[run.folder_name] = run.reason
            self._built = (version, (boards, broken))
        return self._built[1]

    def unfinished(self) -> list[ListedRun]:
        """Returns the unfinished runs."""
        return list_unfinished(self.folder, self._checkpoints)

    def clear(self, name: str) -> None:
        """Removes the files of an unfinished run.

        Raises UsageError if the run no longer exists, or a process is using it.
        """
        for run in self.unfinished():
            if run.folder_name == name:
                return clear(run.folder)
        raise UsageError(f"{name}: not an unfinished run")


def _stamp(path: Path) -> tuple[int, int]:
    if not path.is_file():
        return (0, 0)
    found = path.stat()
    return (found.st_mtime_ns, found.st_size)


class Pages:
    """Responses by address. Pages are rendered once per state of the folder."""

    def __init__(self, results: Path) -> None:
        self._results = Results(results)
        self._made: dict[tuple[str, ...], tuple[Any, bytes]] = {}
        self._lock = Lock()

    def get(self, path: str) -> tuple[str, bytes] | None:
        """Returns type and body; None for an unknown address. Raises UsageError."""
        with self._lock:  # one at a time: they share caches
            if path == "/":
                built, broken = self._results.boards()
                return HTML, board_page(built, broken=broken, live=True)
            if path.startswith("/parts/") and path.endswith(".json"):
                return self._part(*map(unquote, path[len("/parts/") : -len(".json")].split("/")))
            if path == "/state.json":
                return JSON, encode(self._state())
            if path == "/board.json":
                built, broken = self._results.boards()
                return JSON, encode(page_data(built, broken=broken)[0])
            if path == "/leaderboard.json":
                boards = self._results.boards()[0]
                every = [board_id(board) for board in boards]
                return JSON, encode(summarize(boards, "leaderboard-files", every))
            if path.startswith("/leaderboard-files/") and path.endswith(".json"):
                return self._whole(path[len("/leaderboard-files/") : -len(".json")])
            if path == "/history/" and (self._results.folder / NAME).is_file():
                return HTML, history_page(self._results.folder / NAME, home=_HOME)
            for start, least in (("/runs/", 1), ("/compare/", 2)):
                if path.startswith(start) and path.endswith("/"):
                    names = [unquote(name) for name in path[len(start) : -1].split("/")]
                    if len({*names}) == len(names) >= least and (least > 1 or len(names) == 1):
                        return self._page(*names)
            return None

    def clear(self, body: Any) -> Response:
        """Removes the unfinished run named in `body`; returns the new state."""
        name = body.get("run") if isinstance(body, dict) else None
        if not isinstance(name, str):
            raise UsageError('{"run": NAME} was expected')
        with self._lock:
            self._results.clear(name)
            return as_json(to_plain(self._state()))

    def _state(self) -> ResultsState:
        version = hashlib.sha256(repr(self._results.version()).encode()).hexdigest()[:16]
        history = (self._results.folder / NAME).is_file()
        found = [_progress(run) for run in self._results.unfinished()]
        return ResultsState(version=version, unfinished=found, history=history)

    def _part(self, name: str, *runs: str) -> tuple[str, bytes] | None:
        """Returns data loaded on demand: a leaderboard, or a comparison of two runs."""
        built, _ = self._results.boards()
        if not runs:
            found = page_data(built)[1].get(name)
            return None if found is None else (JSON, encode(found))
        for board in built:
            known = {*board.runs}
            if name == f"pairs-{board_id(board)}" and len(runs) == 2 and {*runs} <= known:
                return JSON, encode(compare_pairs(self._results.folder, board, runs))
        return None

    def _whole(self, name: str) -> tuple[str, bytes] | None:
        """Returns a file listed in leaderboard.json: a leaderboard, or its pairs (null if none)."""
        for board in self._results.boards()[0]:
            if name == board_id(board):
                return JSON, encode(replace(board, answers=[], claims=[]))
            if name == f"{board_id(board)}.pairs":
                return JSON, encode(compare_pairs(self._results.folder, board))
        return None

    def _page(self, *names: str) -> tuple[str, bytes] | None:
        """Returns a report of one run or two, or a table of more; None if one is not a run."""
        known = self._results.runs()
        if not all(name in known for name in names):
            return None
        folders = [known[name] for name in names]
        state = [_stamp(folder / file) for folder in folders for file in _LOOKED_AT]
        if names not in self._made or self._made[names][0] != state:
            if len(folders) > 2:
                page = comparison_page(folders, home=_HOME)
            else:
                data = report_data(folders, dataset_of_run(folders[0]))
                page = report_page(data, home=_HOME)
            self._made[names] = (state, page)
        return HTML, self._made[names][1]


def _progress(run: ListedRun) -> RunProgress:
    """Returns what the page shows of an unfinished run."""
    return RunProgress(
        run=run.folder_name,
        name=run.name,
        about=", ".join(filter(None, (run.dataset, run.granularity))),
        state=run.state,
        reason=run.reason,
        started=run.when,
        queries=run.queries,
        done=run.done,
        failed=run.failed,
        idle_seconds=round(max(0.0, time.time() - _last(run.folder))),
    )


def _last(partial: Path) -> float:
    """Returns the time of the last answer, else that of the plan, else now."""
    store = RunStore.of(partial)
    files = (store.plan, store.checkpoint)
    return max((one.stat().st_mtime for one in files if one.is_file()), default=time.time())


def server(results: Path, port: int) -> ThreadingHTTPServer:
    """Returns a listening server of the runs below `results` on 127.0.0.1.

    Raises OSError if the port is in use.
    """
    pages = Pages(results)

    def answer(request: Request) -> Response | None:
        if (request.method, request.path) == ("POST", "/clear"):
            return pages.clear(request.body)
        if request.method != "GET" or request.path.endswith(".json"):
            found = pages.get(request.path) if request.method == "GET" else None
            return None if found is None else Response(found[1], found[0])
        try:
            if found := pages.get(request.path):
                return Response(found[1], found[0])
        except HarnessError as error:
            return Response(refusal(str(error), _HOME), HTML, HTTPStatus.CONFLICT)
        gone = "Page not found: its run does not exist, or no longer exists."
        return Response(refusal(gone, _HOME), HTML, HTTPStatus.NOT_FOUND)

    return local_server.server(answer, port)
