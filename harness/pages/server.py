"""Boards and reports of a folder of runs over HTTP, to this machine alone, while runs go on.

A request names a run, never a path: names are looked up among the runs that there are, so nothing
outside the folder can be asked for. Other sites cannot read the answers (see `local_server`).
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote

import orjson

from harness.pages import local_server
from harness.pages.board import board_page, page_data
from harness.pages.history import history_page
from harness.pages.local_server import HTML, JSON, Answer, Request
from harness.pages.report import report_data, report_page
from harness.runs.folder.run_folder import dataset_of_run
from harness.verdicts.board.leaderboard import build
from harness.verdicts.history import NAME

_LOOKED_AT = ("run.json", "scores.json")
Version = tuple[tuple[str, int, int], ...]


@dataclass
class _Journal:
    """How much of a journal was read, and what stood there."""

    offset: int = 0
    done: int = 0
    failed: int = 0


class Results:
    """The runs below a folder while it changes: what is finished, and how far the others are.

    Nothing is written there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._built: tuple[Version, dict[str, Any]] | None = None
        self._journals: dict[Path, _Journal] = {}

    def runs(self) -> dict[str, Path]:
        """Finished and scored runs by name. A name that is not in here is no run."""
        scored = (path.parent for path in self.folder.glob("*/scores.json"))
        found = (run for run in scored if (run / "run.json").is_file())
        return {run.name: run for run in sorted(found) if not run.name.startswith(".")}

    def version(self) -> Version:
        """Changes whenever a board would."""
        return tuple(
            (f"{name}/{file}", *_stamp(run / file))
            for name, run in self.runs().items()
            for file in _LOOKED_AT
        )

    def leaderboard(self) -> dict[str, Any]:
        """As leaderboard.json, without boards where no run is scored.

        Raises UsageError for a run folder that is broken.
        """
        version = self.version()
        if self._built is None or self._built[0] != version:
            made = build(self.folder) if version else {"boards": []}
            self._built = (version, made)
        return self._built[1]

    def unfinished(self) -> list[dict[str, Any]]:
        """Name, queries, those done and failed, and the seconds since the last answer, a run."""
        found = []
        for plan in sorted(self.folder.glob(".*.partial/plan.json")):
            try:
                planned = orjson.loads(plan.read_bytes())["queries"]
                journal = self._read(plan.with_name("journal.jsonl"))
                idle = time.time() - max(plan.stat().st_mtime, _modified(plan))
            except FileNotFoundError:
                continue  # it has just been finished
            name = plan.parent.name.removeprefix(".").removesuffix(".partial")
            about = {"name": name, "queries": planned, "done": journal.done}
            found.append({**about, "failed": journal.failed, "idle_seconds": round(max(0.0, idle))})
        return found

    def _read(self, path: Path) -> _Journal:
        """Read on in a journal, whole lines only: its last one may be half written."""
        known = self._journals.setdefault(path, _Journal())
        if not path.is_file() or path.stat().st_size < known.offset:  # it was begun again
            known = self._journals[path] = _Journal()
        if not path.is_file():
            return known
        with open(path, "rb") as file:
            file.seek(known.offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            answers = orjson.loads(line)["answers"]
            known.done += len(answers)
            known.failed += sum(answer["error"] is not None for answer in answers)
        known.offset += len(whole)
        return known


def _modified(plan: Path) -> float:
    journal = plan.with_name("journal.jsonl")
    return journal.stat().st_mtime if journal.is_file() else 0.0


def _stamp(path: Path) -> tuple[int, int]:
    if not path.is_file():
        return (0, 0)
    found = path.stat()
    return (found.st_mtime_ns, found.st_size)


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
