"""Judging in a terminal, over ssh too: one place after the other, a key a judgement."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Any, TextIO

from harness.labelling.annotating import Annotating
from harness.labelling.records import ABILITY_KEYS, ABILITY_MEANINGS, Line, Scale
from harness.labelling.resolving import Resolving

_WIDEST = 100
_AROUND = 19  # lines of a screen that are not the document
_MOVES = {"right": "next", ">": "next", "left": "previous", "<": "previous", "s": "then"}
_ESCAPES = {"[C": "right", "[D": "left", "OC": "right", "OD": "left"}
_BACK = {"\x7f": "left", "\b": "left"}


def work(session: Annotating | Resolving, keys: Keys) -> bool:
    """Show and take keys until everything is judged or the person leaves; True when all is done.

    Raises UsageError and OSError where a judgement cannot be kept; all before it are on the disk.
    """
    face: Any = session  # both sessions have the methods that are called here
    ids: Mapping[str, Any] = {}
    whole = told = False
    while True:
        face.refresh()
        place = face.known(ids) or face.here()
        view = None if place is None else face.view(place)
        done = view is None or view["done"] == view["total"]
        if done and not told:
            print(_finished(session, view))
        if view is None or (done and not keys.single):
            return True
        told = done
        print(_screen(session, view, whole=whole), flush=True)
        key, found = "?", None
        while found is None:
            print("> ", end="", flush=True)
            key = keys.key()
            if keys.single:
                print(key if key.isprintable() else "", flush=True)
            if key in ("", "q"):
                print(f"stopped; {view['done']} of {view['total']} are on the disk")
                return done
            found = _act(face, view, key, keys)
        ids, whole = found, key == " "


def _act(face: Any, view: Mapping[str, Any], key: str, keys: Keys) -> Mapping[str, Any] | None:
    """Do what a key says; returns where to go, None: nowhere, ask again."""
    if key == " ":
        return view
    if key == "?":
        print(_help(face))
        return None
    if key in _MOVES:
        found: Mapping[str, Any] = view[_MOVES[key]]
        return found
    if key == "u":
        place = face.undo(face.known(view))
        print("taken back" if place else "there is nothing to take back")
        return None if place is None else dict(face.view(place))
    line, words, on = _line(view, key, keys, face.scale, own=face.mode == "label")
    if line is None:
        print(words)
        return None
    face.judge(line)
    face.refresh()
    print(f"saved: {words}")
    place = face.known(view)
    if place is None or not on:
        return view
    now: Mapping[str, Any] = face.view(place)
    # A mark that contradicts earlier grades is answered with a warning, at the same place.
    return now if "unanswerable" in line and now.get("warning") else now["then"]


def _line(
    view: Mapping[str, Any], key: str, keys: Keys, scale: Scale, *, own: bool
) -> tuple[Line | None, str, bool]:
    """What a key comes to: the line (None: nothing), words for it, and whether to go on."""
    query, document, choices = view["query"], view["document"], view["choices"]
    if key.isdecimal() and int(key) in scale.meanings and "grade" in choices:
        line = {"query": query, "document": document, "grade": int(key)}
        return line, _said(int(key), scale), True
    if key in ABILITY_KEYS and "ability" in choices:
        name = ABILITY_KEYS[key]
        back = own and view["ability"] == name
        words = f"no longer {name}" if back else name
        return {"query": query, "ability": None if back else name}, words, not own
    if key in "ny" and "unanswerable" in choices:
        value = key == "n"
        back = own and view["unanswerable"] is value
        words = "can be answered" if not value else "cannot be answered"
        line = {"query": query, "unanswerable": None if back else value}
        return line, "mark taken back" if back else words, not back
    if key == "e" and "note" in choices:
        note: Line = {"query": query, "note": keys.line("note: ")}
        return note if document is None else {**note, "document": document}, "the note", False
    if key in "0123" and "grade" not in choices:
        return None, "there is no document to grade here: n cannot be answered, y can be", False
    return None, f"{key!r} does nothing here; ? shows the keys", False


def _screen(session: Annotating | Resolving, view: Mapping[str, Any], *, whole: bool) -> str:
    width, height = shutil.get_terminal_size()
    width = min(width, _WIDEST)
    left = view["total"] - view["done"]
    count = f"{view['done']} of {view['total']}, {left} left"
    head = f"{session.folder.name}, {session.annotator}: {count}"
    about = (
        f"Conflict {view['number']} of {view['total']}"
        if session.mode == "resolve"
        else f"Query {view['number']} of {view['queries']}"
    )
    lines = ["", f"── {head} ".ljust(width, "─"), about + (_after(", asked ", view["asked"]))]
    lines += _wrapped(view["text"], width)
    if view["reference"] is not None:
        lines += ["", *_wrapped(f"reference: {view['reference']}", width)]
    if session.mode == "resolve":
        lines += [
            "",
            *(f"  {one['who']}: {_said(one['value'], session.scale)}" for one in view["said"]),
        ]
        lines += [f"  {one['who']} notes: {one['note']}" for one in view["notes"]]
        for one in view["evidence"]:
            grades = ", ".join(f"{by['who']} {by['value']}" for by in one["said"])
            lines += ["", f"[{grades}]", *_document(one["shown"], width)]
    else:
        lines += _marks(view, session.scale)
    if view["shown"]:
        if session.mode == "label":
            lines += ["", f"{session.scale.thing.title()} {view['at'] + 1} of {len(view['mates'])}"]
        body = _document(view["shown"], width)
        most = max(height - _AROUND, 6)
        around = {
            where: [line for one in turns for line in _turn(one, width, whole=whole)]
            for where, turns in view["around"].items()
        }
        lines += ["", *around["before"]]
        lines += body if whole or len(body) <= most else body[:most]
        if not whole and len(body) > most:
            lines.append(f"... {len(body) - most} more lines: space shows all")
        lines += around["after"]
    elif session.mode == "label":
        lines += ["", "No system found a document for this query. Can it be answered?"]
    return "\n".join([*lines, "", _keys(view, session)])


def _marks(view: Mapping[str, Any], scale: Scale) -> list[str]:
    """What was judged here already, and what contradicts itself."""
    marks = [
        None if view["grade"] is None else f"grade {view['grade']}",
        _ability(view),
        None if view["unanswerable"] is None else _said(view["unanswerable"], scale),
        view["note"] and f"note: {view['note']}",
    ]
    said = ", ".join(mark for mark in marks if mark)
    return [
        *([f"[{said}]"] if said else []),
        *([f"! {view['warning']}"] if view["warning"] else []),
    ]


def _ability(view: Mapping[str, Any]) -> str:
    """The ability that was chosen here, and that which the query was given."""
    given = f"ability given: {view['own_ability']}" if view["own_ability"] else ""
    return ", changed here to ".join(part for part in (given, view["ability"]) if part)


def _turn(shown: Mapping[str, Any], width: int, *, whole: bool) -> list[str]:
    """What was said before or after: a line of it, greyed on a terminal, or all of it."""
    about = " · ".join(str(shown[name]) for name in ("timestamp", "speaker") if name in shown)
    lines = _wrapped(f"{about}  {shown['text']}" if about else shown["text"], width - 2)
    cut = lines if whole or len(lines) == 1 else [f"{lines[0][: width - 6]} ..."]
    grey, plain = ("\x1b[2m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    return [f"{grey}┊ {line}{plain}" for line in cut]


def _document(shown: Mapping[str, Any], width: int) -> list[str]:
    about = [shown[name] for name in ("timestamp", "speaker", "session") if name in shown]
    lines = [shown["title"]] if "title" in shown else []
    lines += [" · ".join(map(str, about))] if about else []
    return [*lines, *_wrapped(shown["text"], width)]


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width`; control characters, which could move the cursor, are left out."""
    clean = "".join(c for c in text.expandtabs(4) if c.isprintable() or c == "\n")
    return [part for line in clean.split("\n") for part in textwrap.wrap(line, width) or [""]]


def _keys(view: Mapping[str, Any], session: Annotating | Resolving) -> str:
    lines, parts = [], []
    if "grade" in view["choices"]:
        of_documents = session.scale.thing == "document"
        grades = [
            f"{grade} {name}{'*' if of_documents and grade >= session.relevant_from else ''}"
            for grade, (name, _) in session.scale.meanings.items()
        ]
        lines.append("  ".join([*grades, *(["(* counts as evidence)"] if of_documents else [])]))
    if "unanswerable" in view["choices"]:
        both = view["document"] is None
        parts.append("n cannot be answered" + ("  y can be" if both else ""))
    if view["choices"] == ["ability"]:
        parts.append("  ".join(f"{key} {name}" for key, name in ABILITY_KEYS.items()))
    return "\n".join([*lines, "  ".join([*parts, "s skip  u undo  ? keys  q stop"])])


def _help(session: Annotating | Resolving) -> str:
    scale = session.scale
    lines = [
        "; ".join(filter(None, (f"{grade}  {name}: {about}", scale.counts(grade, least))))
        for least in [session.relevant_from]
        for grade, (name, about) in scale.meanings.items()
    ]
    if scale.thing == "document":
        lines += [f"{key}  {name}: {ABILITY_MEANINGS[name]}" for key, name in ABILITY_KEYS.items()]
        lines.append("n  the query cannot be answered from the documents; y  it can be")
    lines += [
        "→ ← or > <  on and back; s  skip to the next that is left; u  undo; e  a note",
        f"space  the whole {scale.thing}; q  stop: everything is on the disk",
    ]
    if not isinstance(session, Annotating):
        lines.append("what you settle counts instead of what the annotators said")
    return "\n".join(lines)


def _finished(session: Annotating | Resolving, view: Mapping[str, Any] | None) -> str:
    if session.mode == "resolve":
        return f"every conflict is settled; next: {session.scale.then(session.folder)}"
    n = 0 if view is None else view["total"]
    return f"everything is judged ({n}); next: harness label status {session.folder}"


def _said(value: Any, scale: Scale) -> str:
    if isinstance(value, bool):
        return "cannot be answered" if value else "can be answered"
    return f"{value} {scale.meanings[value][0]}" if isinstance(value, int) else str(value)


def _after(words: str, value: Any) -> str:
    return f"{words}{value}" if value else ""


# -- Keys from a person ----------------------------------------------------------------------------


class Keys:
    """Where keys come from. Used as a context, so that a terminal is left as it was found.

    A key is a character, `left` or `right`; an empty text is the end of input. On a terminal it
    counts at once; without one (a pipe, Windows) it is the first character of a line. Not curses,
    which takes the whole screen and needs a terminal.
    """

    def __init__(self, source: TextIO | None = None) -> None:
        self._source = sys.stdin if source is None else source
        self._saved: list[Any] | None = None

    def __enter__(self) -> Keys:
        if self._source.isatty():
            try:
                import termios
                import tty
            except ImportError:  # Windows
                return self
            self._saved = termios.tcgetattr(self._source)
            tty.setcbreak(self._source)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    @property
    def single(self) -> bool:
        """Whether a key counts at once, without Enter."""
        return self._saved is not None

    def key(self) -> str:
        """The next key."""
        if self._saved is None:
            line = self._source.readline()
            text = line.rstrip("\r\n")
            return line and ((text.strip() or text)[:1] or "\n")
        data = os.read(self._source.fileno(), 1)
        while data and not _whole(data):
            data += os.read(self._source.fileno(), 1)
        text = data.decode(errors="replace")
        if text == "\x1b":
            return _ESCAPES.get(self._escape(), "?")
        return "" if text == "\x04" else _BACK.get(text, text)

    def line(self, prompt: str) -> str:
        """A whole line, as it is typed."""
        print(prompt, end="", flush=True)
        saved = self._saved
        self._restore()
        try:
            return self._source.readline().strip()
        finally:
            if saved is not None:
                import tty

                tty.setcbreak(self._source)
                self._saved = saved

    def _escape(self) -> str:
        """What follows an escape at once; nothing where a person pressed Escape itself."""
        import select

        found = ""
        while len(found) < 2 and select.select([self._source], [], [], 0.05)[0]:
            found += os.read(self._source.fileno(), 1).decode(errors="replace")
        return found

    def _restore(self) -> None:
        if self._saved is not None:
            import termios

            termios.tcsetattr(self._source, termios.TCSADRAIN, self._saved)
            self._saved = None


def _whole(data: bytes) -> bool:
    """Whether the bytes are a whole character in UTF-8, or can never be one."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return len(data) >= 4
    return True
