"""The page of an annotator or adjudicator, and its server.

The page displays what the server sends and sends every key press. The server replies once an
annotation is on disk, and only then does the page advance. Each request names its session, so an
old tab cannot write to another annotator's log on the same port.
"""

from __future__ import annotations

import hashlib
import os
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from harness.errors import UsageError
from harness.extensions.labelling.annotations import ABILITIES
from harness.extensions.labelling.session import (
    AnnotationSession,
    Item,
    ItemView,
    JudgeRequest,
    JudgingSession,
    SessionId,
)
from harness.io.records import convert, encode, to_plain
from harness.reports import html, local_server
from harness.reports.local_server import JSON, Request, Response, as_text


def server(session: JudgingSession, port: int) -> ThreadingHTTPServer:
    """Returns a server of one session on 127.0.0.1. Raises OSError for a port in use."""
    lock = Lock()
    own = session_id(session)

    def answer(request: Request) -> Response | None:
        with lock:
            if (request.method, request.path) == ("GET", "/"):
                return Response(page(session))
            if (request.method, request.path) == ("GET", "/view"):
                session.refresh()
                return _json(_view(session, _item(request.query)))
            if (request.method, request.path) == ("GET", "/queries"):
                session.refresh()
                return Response(encode(session.overview()), JSON)
            if (request.method, request.path) == ("GET", "/search"):
                return _found(session, request.query)
            if (request.method, request.path) == ("POST", "/judge"):
                return _judge(session, own, request.body)
            return None

    return local_server.server(answer, port)


def page(session: JudgingSession) -> bytes:
    """Returns the page of a session; its guidelines are those of the moment."""
    info = session_info(session)
    verb = "Adjudicate" if session.mode == "adjudicate" else "Label"
    return html.page(f"{verb} {info['name']}", "label", info, live=True)


def session_id(session: JudgingSession) -> SessionId:
    """Returns what identifies a session among all sessions served on this port."""
    folder = str(session.folder.resolve())
    project = hashlib.sha256(folder.encode()).hexdigest()[:16]
    return SessionId(project=project, annotator=session.annotator, mode=session.mode)


def session_info(session: JudgingSession) -> dict[str, Any]:
    """Returns the constant data of a page: the session, the available grades and abilities, with
    the key of each ability, and the command to run next."""
    project = session.project
    scale, level = project.scale, project.settings.relevance_level
    grades = [
        {"grade": grade, "name": name, "meaning": about, "effect": scale.effect(grade, level)}
        for grade, (name, about) in scale.meanings.items()
    ]
    abilities = [
        {"key": key, "name": name, "meaning": meaning} for key, (name, meaning) in ABILITIES.items()
    ]
    return {
        "session": to_plain(session_id(session)),
        "name": session.folder.resolve().name,
        "folder": str(session.folder),
        "target": scale.target,
        "relevance_level": level,
        "next_command": scale.final_command(session.folder),
        "guidelines": project.guidelines,
        "grades": grades,
        "abilities": abilities if scale.target == "document" else [],
    }


def _judge(session: JudgingSession, own: SessionId, body: object) -> Response:
    """Writes or reverts an annotation, and replies with the next view."""
    sender = body.get("session") if isinstance(body, dict) else None
    if sender != to_plain(own):
        raise UsageError(
            f"this page belongs to another session than the server's ({own.annotator}); reload it"
        )
    request = convert(body, JudgeRequest, "not an annotation")
    session.refresh()
    item = request.item if request.item is not None and session.has(request.item) else None
    if item is not None and request.text not in (None, session.project.query[item.query].text):
        raise UsageError("not saved: the query was reworded meanwhile; reload the page")
    try:
        if request.reworded is not None and item and isinstance(session, AnnotationSession):
            session.reword(item.query, request.reworded)
            return _json(_view(session, item))
        if request.add and request.item and isinstance(session, AnnotationSession):
            return _json(_view(session, session.add_candidate(request.item)))
        if request.undo:
            return _json(_view(session, session.undo(item)))
        if request.annotation is None:
            raise UsageError("not an annotation: annotation is missing")
        session.annotate(request.annotation)
    except OSError as error:
        words = f"not saved: {os.strerror(error.errno or 0)} ({session.folder})"
        return as_text(words, HTTPStatus.INSUFFICIENT_STORAGE)
    session.refresh()
    view = _view(session, item)
    if view is not None and request.advance:
        # For a mark that contradicts earlier grades, reply with a warning at the same item.
        warned = request.annotation.kind == "unanswerable" and view.warning
        if not warned:
            view = session.view(view.next_open)
    return _json(view)


def _view(session: JudgingSession, item: Item | None) -> ItemView | None:
    """Returns the view of an item; of the item to continue at if the session lacks it."""
    if item is None or not session.has(item):
        item = session.current_item()
    return None if item is None else session.view(item)


def _found(session: JudgingSession, query: str) -> Response | None:
    """Returns the documents that fit the `words` of an address, for its `query`."""
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    known = fields.get("query") in session.project.query
    if not known or not isinstance(session, AnnotationSession):
        return None
    return Response(encode(session.search(fields["query"], fields.get("words", ""))), JSON)


def _item(query: str) -> Item | None:
    """Returns the item in an address; None if there is none."""
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    try:
        return convert(fields, Item, "address")
    except UsageError:
        return None


def _json(view: ItemView | None) -> Response:
    """Returns a view as JSON; an empty view if no item is left."""
    return Response(encode({"done": 0, "total": 0} if view is None else view), JSON)
