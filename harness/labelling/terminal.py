"""Judging in a terminal, over ssh too: one item after the other, one key per judgement."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

from harness.labelling.annotations import (
    ABILITY_KEYS,
    ABILITY_MEANINGS,
    Annotation,
    Scale,
    Value,
)
from harness.labelling.views import DocumentView, Item, ItemView, Session

_WIDEST = 100
_OTHER_LINES = 19  # lines of a screen that are not the document
_ESCAPES = {"[C": "right", "[D": "left", "OC": "right", "OD": "left"}
_BACK = {"\x7f": "left", "\b": "left"}


def work(session: Session, keys: Keys) -> bool:
    """Shows items and reads keys until everything is judged or the person stops; True when all is
    done.

    Raises UsageError and OSError where an annotation cannot be written; all before it are on the
    disk.
    """
    item: Item | None = None
    whole = told = False
    while True:
        session.refresh()
        if item is None or not session.has(item):
            item = session.current_item()
        view = None if item is None else session.view(item)
        done = view is None or view.done == view.total
        if done and not told:
            print(_finished(session, view))
        if view is None or (done and not keys.single):
            return True
        told = done
        print(_screen(session, view, whole=whole), flush=True)
        key, item = "?", None
        while item is None:
            print("> ", end="", flush=True)
            key = keys.key()
            if keys.single:
                print(key if key.isprintable() else "", flush=True)
            if key in ("", "q"):
                print(f"stopped; {view.done} of {view.total} are on the disk")
                return done
            item = _act(session, view, key, keys)
        whole = key == " "


def _act(session: Session, view: ItemView, key: str, keys: Keys) -> Item | None:
    """Does what a key says; returns the item to show, None to ask again."""
    moves = {"right": view.next, ">": view.next, "left": view.previous, "<": view.previous}
    moves |= {"s": view.next_open, " ": view.item}
    if key in moves:
        return moves[key]
    if key == "?":
        print(_help(session))
        return None
    if key == "u":
        item = session.undo(view.item)
        print("taken back" if item else "there is nothing to take back")
        return item
    line, words, advance = _annotation(view, key, keys, session)
    if line is None:
        print(words)
        return None
    session.annotate(line)
    session.refresh()
    print(f"saved: {words}")
    if not advance or not session.has(view.item):
        return view.item
    now = session.view(view.item)
    # A mark that contradicts earlier grades is answered with a warning, at the same item.
    return view.item if line.kind == "unanswerable" and now.warning else now.next_open


def _annotation(
    view: ItemView, key: str, keys: Keys, session: Session
) -> tuple[Annotation | None, str, bool]:
    """Returns the annotation of a key (None: none), words for it, and whether to advance."""
    query, document, choices = view.item.query, view.item.document, view.choices
    own = session.mode == "annotate"
    if key.isdecimal() and int(key) in session.scale.meanings and "grade" in choices:
        line = Annotation(query=query, document=document, grade=int(key))
        return line, _words(int(key), session.scale), True
    if key in ABILITY_KEYS and "ability" in choices:
        name = ABILITY_KEYS[key]
        back = own and view.ability == name
        words = f"no longer {name}" if back else str(name)
        return Annotation(query=query, ability=None if back else name), words, not own
    if key in "ny" and "unanswerable" in choices:
        value = key == "n"
        back = own and view.unanswerable is value
        words = "can be answered" if not value else "cannot be answered"
        line = Annotation(query=query, unanswerable=None if back else value)
        return line, "mark taken back" if back else words, not back
    if key == "e" and "note" in choices:
        line = Annotation(query=query, document=document, note=keys.line("note: "))
        return line, "the note", False
    if key in "0123" and "grade" not in choices:
        return None, "there is no document to grade here: n cannot be answered, y can be", False
    return None, f"{key!r} does nothing here; ? shows the keys", False


def _screen(session: Session, view: ItemView, *, whole: bool) -> str:
    width, height = shutil.get_terminal_size()
    width = min(width, _WIDEST)
    count = f"{view.done} of {view.total}, {view.total - view.done} left"
    head = f"{session.folder.name}, {session.annotator}: {count}"
    about = (
        f"Conflict {view.number} of {view.total}"
        if session.mode == "adjudicate"
        else f"Query {view.number} of {view.queries}"
    )
    asked = f", asked {view.asked_at}" if view.asked_at else ""
    lines = ["", f"── {head} ".ljust(width, "─"), about + asked, *_wrapped(view.text, width)]
    if view.reference is not None:
        lines += ["", *_wrapped(f"reference: {view.reference}", width)]
    if session.mode == "adjudicate":
        lines += ["", *_votes(view, session.scale, width)]
    else:
        lines += _marks(view, session.scale)
    if view.document is not None:
        if session.mode == "annotate":
            n = len(view.candidates)
            lines += ["", f"{session.scale.target.title()} {view.position + 1} of {n}"]
        body = _document(view.document, width)
        most = max(height - _OTHER_LINES, 6)
        lines += ["", *_turns(view.context.before, width, whole=whole)]
        lines += body if whole or len(body) <= most else body[:most]
        if not whole and len(body) > most:
            lines.append(f"... {len(body) - most} more lines: space shows all")
        lines += _turns(view.context.after, width, whole=whole)
    elif session.mode == "annotate":
        lines += ["", "No system found a document for this query. Can it be answered?"]
    return "\n".join([*lines, "", _keys(view, session)])


def _votes(view: ItemView, scale: Scale, width: int) -> list[str]:
    """The annotators' sides of a conflict, with their notes and the evidence."""
    lines = [f"  {one.annotator}: {_words(one.value, scale)}" for one in view.votes]
    lines += [f"  {one.annotator} notes: {one.note}" for one in view.notes]
    for one in view.evidence:
        grades = ", ".join(f"{vote.annotator} {vote.value}" for vote in one.votes)
        lines += ["", f"[{grades}]", *_document(one.document, width)]
    return lines


def _marks(view: ItemView, scale: Scale) -> list[str]:
    """The annotations of this item so far, and the warning about them."""
    marks = [
        None if view.grade is None else f"grade {view.grade}",
        _ability(view),
        None if view.unanswerable is None else _words(view.unanswerable, scale),
        view.note and f"note: {view.note}",
    ]
    shown = ", ".join(mark for mark in marks if mark)
    return [
        *([f"[{shown}]"] if shown else []),
        *([f"! {view.warning}"] if view.warning else []),
    ]


def _ability(view: ItemView) -> str:
    """The ability that the query was given, and that which was chosen here."""
    given = f"ability given: {view.given_ability}" if view.given_ability else ""
    return ", changed here to ".join(part for part in (given, view.ability) if part)


def _turns(turns: Sequence[DocumentView], width: int, *, whole: bool) -> list[str]:
    """Turns before or after the document: a line of each, greyed on a terminal, or all of it."""
    grey, plain = ("\x1b[2m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    found = []
    for turn in turns:
        about = " · ".join(filter(None, (turn.timestamp, turn.speaker)))
        lines = _wrapped(f"{about}  {turn.text}" if about else turn.text, width - 2)
        cut = lines if whole or len(lines) == 1 else [f"{lines[0][: width - 6]} ..."]
        found += [f"{grey}┊ {line}{plain}" for line in cut]
    return found


def _document(shown: DocumentView, width: int) -> list[str]:
    about = " · ".join(filter(None, (shown.timestamp, shown.speaker, shown.session)))
    return [*filter(None, (shown.title, about)), *_wrapped(shown.text, width)]


def _wrapped(text: str, width: int) -> list[str]:
    """Wraps a text, without control characters, which could move the cursor."""
    clean = "".join(c for c in text.expandtabs(4) if c.isprintable() or c == "\n")
    return [part for line in clean.split("\n") for part in textwrap.wrap(line, width) or [""]]


def _keys(view: ItemView, session: Session) -> str:
    lines, parts = [], []
    if "grade" in view.choices:
        of_documents = session.scale.target == "document"
        grades = [
            f"{grade} {name}{'*' if of_documents and grade >= session.relevance_level else ''}"
            for grade, (name, _) in session.scale.meanings.items()
        ]
        lines.append("  ".join([*grades, *(["(* counts as evidence)"] if of_documents else [])]))
    if "unanswerable" in view.choices:
        both = view.item.document is None
        parts.append("n cannot be answered" + ("  y can be" if both else ""))
    if view.choices == ["ability"]:
        parts.append("  ".join(f"{key} {name}" for key, name in ABILITY_KEYS.items()))
    return "\n".join([*lines, "  ".join([*parts, "s skip  u undo  ? keys  q stop"])])


def _help(session: Session) -> str:
    scale = session.scale
    lines = [
        "; ".join(
            filter(
                None, (f"{grade}  {name}: {about}", scale.effect(grade, session.relevance_level))
            )
        )
        for grade, (name, about) in scale.meanings.items()
    ]
    if scale.target == "document":
        lines += [f"{key}  {name}: {ABILITY_MEANINGS[name]}" for key, name in ABILITY_KEYS.items()]
        lines.append("n  the query cannot be answered from the documents; y  it can be")
    lines += [
        "→ ← or > <  next and back; s  skip to the next open one; u  undo; e  a note",
        f"space  the whole {scale.target}; q  stop: everything is on the disk",
    ]
    if session.mode == "adjudicate":
        lines.append("your resolution counts instead of the annotators' judgements")
    return "\n".join(lines)


def _finished(session: Session, view: ItemView | None) -> str:
    if session.mode == "adjudicate":
        next_command = session.scale.next_command(session.folder)
        return f"every conflict is resolved; next: {next_command}"
    n = 0 if view is None else view.total
    return f"everything is judged ({n}); next: harness label status {session.folder}"


def _words(value: Value, scale: Scale) -> str:
    if isinstance(value, bool):
        return "cannot be answered" if value else "can be answered"
    return f"{value} {scale.meanings[value][0]}" if isinstance(value, int) else str(value)


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
