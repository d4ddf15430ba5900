"""The page of an annotator, or of who resolves conflicts, and the server behind it.

The page shows what it is told and sends every key press. A judgement is answered once it is on the
disk, and only then does the page move on. Each one says whose it is, so that a tab which was left
open cannot write into the journal of somebody else who serves on the same port.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl

from harness.errors import UsageError
from harness.labelling.annotating import Annotating
from harness.labelling.records import ABILITY_KEYS, ABILITY_MEANINGS
from harness.labelling.resolving import Resolving
from harness.pages import html, local_server
from harness.pages.local_server import Answer, Request, as_json, as_text

Session = Annotating | Resolving


def server(session: Session, port: int) -> ThreadingHTTPServer:
    """A server of one session on 127.0.0.1. Raises OSError for a port that is taken."""
    lock = Lock()
    about = _about(session)
    whole = label_page(about)

    def answer(request: Request) -> Answer | None:
        with lock:
            if (request.method, request.path) == ("GET", "/"):
                return Answer(whole)
            if (request.method, request.path) == ("GET", "/view"):
                session.refresh()
                return as_json(_view(session, dict(parse_qsl(request.query))))
            if (request.method, request.path) == ("POST", "/judge"):
                return _judge(session, about["whose"], request.body)
            return None

    return local_server.server(answer, port)


def label_page(about: Mapping[str, Any]) -> bytes:
    """The HTML; `about` is what does not change while it is open."""
    verb = "Resolve" if about["mode"] == "resolve" else "Label"
    return html.page(f"{verb} {about['name']}", "label", about, live=True)


def _about(session: Session) -> dict[str, Any]:
    folder = session.folder.resolve()
    return {
        "mode": session.mode,
        "name": folder.name,
        "thing": session.scale.thing,
        "then": session.scale.then(session.folder),
        "relevant_from": session.relevant_from,
        "folder": str(session.folder),
        "annotator": session.annotator,
        "whose": {
            "project": hashlib.sha256(str(folder).encode()).hexdigest()[:16],
            "annotator": session.annotator,
            "mode": session.mode,
        },
        "grades": [
            {
                "grade": grade,
                "name": name,
                "meaning": meaning,
                "counts": session.scale.counts(grade, session.relevant_from),
            }
            for grade, (name, meaning) in session.scale.meanings.items()
        ],
        "abilities": [
            {"key": key, "name": name, "meaning": ABILITY_MEANINGS[name]}
            for key, name in ABILITY_KEYS.items()
            if session.scale.thing == "document"
        ],
    }


def _judge(session: Session, whose: Mapping[str, Any], body: Any) -> Answer:
    """Put a line on the disk, or take the newest back; then what is shown next."""
    if not isinstance(body, dict) or body.get("whose") != whose:
        raise UsageError(
            f"this page is another one's than the server's ({whose['annotator']}); reload it"
        )
    session.refresh()
    place = body.get("place")
    ids = place if isinstance(place, dict) else {}
    try:
        if body.get("undo") is True:
            face: Any = session  # the two kinds of session have places of different types
            undone = face.undo(face.known(ids))
            ids = {} if undone is None else _view(session, undone)
        else:
            session.judge(body.get("line"))  # type: ignore[arg-type] # `judge` checks it
            session.refresh()
            view = _view(session, ids)
            # A mark that contradicts earlier grades is answered with a warning, at the same place.
            told = "unanswerable" in body["line"] and view.get("warning")
            ids = view["then"] if body.get("go") == "on" and "then" in view and not told else view
    except OSError as error:
        words = f"not saved: {os.strerror(error.errno or 0)} ({session.folder})"
        return as_text(words, HTTPStatus.INSUFFICIENT_STORAGE)
    return as_json(_view(session, ids))


def _view(session: Session, place: Any) -> dict[str, Any]:
    """The view of the place with these ids; of the place to go on at where there is none."""
    if isinstance(place, dict):
        ids = {name: value or None for name, value in place.items()}
        place = session.known(ids)
    place = place or session.here()
    return {"total": 0, "done": 0} if place is None else session.view(place)
