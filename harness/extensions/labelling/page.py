"""The page of an annotator or adjudicator, and the server behind it.

The page shows what the server sends and sends every key press. The server replies once an
annotation is on the disk, and only then does the page advance. Each request names its session, so
that a tab that was left open cannot write to another annotator's log on the same port.
"""

from __future__ import annotations

import hashlib
import os
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs

from harness.errors import UsageError
from harness.extensions.labelling.annotations import ABILITY_KEYS, ABILITY_MEANINGS
from harness.extensions.labelling.session import JudgingSession
from harness.extensions.labelling.views import (
    AbilityChoice,
    GradeChoice,
    Item,
    ItemView,
    JudgeRequest,
    NothingLeft,
    SessionId,
    SessionInfo,
)
from harness.io.records import Record, convert, encode, to_plain
from harness.reports import html, local_server
from harness.reports.local_server import JSON, Request, Response, as_text


def server(session: JudgingSession, port: int) -> ThreadingHTTPServer:
    """Returns a server of one session on 127.0.0.1. Raises OSError for a port that is taken."""
    lock = Lock()
    info = session_info(session)
    whole = label_page(info)

    def answer(request: Request) -> Response | None:
        with lock:
            if (request.method, request.path) == ("GET", "/"):
                return Response(whole)
            if (request.method, request.path) == ("GET", "/view"):
                session.refresh()
                return _json(_view(session, _item(request.query)))
            if (request.method, request.path) == ("POST", "/judge"):
                return _judge(session, info.session, request.body)
            return None

    return local_server.server(answer, port)


def label_page(info: SessionInfo) -> bytes:
    """Returns the HTML."""
    verb = "Adjudicate" if info.session.mode == "adjudicate" else "Label"
    return html.page(f"{verb} {info.name}", "label", to_plain(info), live=True)


def session_info(session: JudgingSession) -> SessionInfo:
    """Returns what does not change while the page is open."""
    folder = session.folder.resolve()
    return SessionInfo(
        session=SessionId(
            project=hashlib.sha256(str(folder).encode()).hexdigest()[:16],
            annotator=session.annotator,
            mode=session.mode,
        ),
        name=folder.name,
        folder=str(session.folder),
        target=session.scale.target,
        relevance_level=session.relevance_level,
        next_command=session.scale.next_command(session.folder),
        grades=[
            GradeChoice(
                grade=grade,
                name=name,
                meaning=meaning,
                effect=session.scale.effect(grade, session.relevance_level),
            )
            for grade, (name, meaning) in session.scale.meanings.items()
        ],
        abilities=[
            AbilityChoice(key=key, name=name, meaning=ABILITY_MEANINGS[name])
            for key, name in ABILITY_KEYS.items()
            if session.scale.target == "document"
        ],
    )


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
    try:
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
    if isinstance(view, ItemView) and request.advance:
        # A mark that contradicts earlier grades is answered with a warning, at the same item.
        warned = request.annotation.kind == "unanswerable" and view.warning
        if not warned:
            view = session.view(view.next_open)
    return _json(view)


def _view(session: JudgingSession, item: Item | None) -> ItemView | NothingLeft:
    """Returns the view of an item; of the one to continue at where the session has no such item."""
    if item is None or not session.has(item):
        item = session.current_item()
    return NothingLeft(done=0, total=0) if item is None else session.view(item)


def _item(query: str) -> Item | None:
    """Returns the item that an address names; None where it names none."""
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    try:
        return convert(fields, Item, "address")
    except UsageError:
        return None


def _json(record: Record) -> Response:
    return Response(encode(record), JSON)
