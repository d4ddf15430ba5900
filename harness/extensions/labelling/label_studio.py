"""Exchanges tasks and annotations with Label Studio, in its JSON format.

`tasks.json` has a task for each item to judge, in random order, without systems and ranks;
`config.xml` is the labelling interface for it. A JSON export of Label Studio is imported as
annotations: each choice and note becomes a line of its annotator's log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

import msgspec

from harness.errors import UsageError
from harness.extensions.labelling.annotations import (
    ABILITIES,
    KINDS,
    Annotation,
    Annotations,
    Scale,
)
from harness.extensions.labelling.project import Project, annotator_name
from harness.extensions.labelling.reports import ImportReport
from harness.extensions.labelling.session import Item, worklist
from harness.extensions.labelling.views import (
    DocumentView,
    context,
    document_view,
    format_time,
    reference,
)
from harness.io.files import folder_aside, write_bytes
from harness.io.records import Record, convert, decode, encode

TASKS, CONFIG = "tasks.json", "config.xml"

_MARKS: dict[str, dict[str, int]] = {
    "unanswerable": {"cannot be answered": True, "can be answered": False},
    "rejected": {"rejected": True},
}


class StudioResult(Record, forbid_unknown_fields=False):
    """An annotator's input in one control: `choices` of a list, or the `text` of a note."""

    from_name: str
    value: dict[str, object]


class StudioAnnotation(Record, forbid_unknown_fields=False):
    """An annotator's results of a task; `completed_by` is a user's number or record."""

    result: list[StudioResult]
    completed_by: int | dict[str, object] | None = None
    was_cancelled: bool = False


class TaskData(Record, forbid_unknown_fields=False, omit_defaults=False):
    """The data of a task: the ids of its item, and the texts that are shown."""

    query_id: str
    document_id: str = ""
    query: str = ""
    document: str = ""
    before: str = ""
    after: str = ""
    reference: str = ""


class StudioTask(Record, forbid_unknown_fields=False):
    """A task with its annotations."""

    data: TaskData
    annotations: list[StudioAnnotation] = msgspec.field(default_factory=list)


def export_tasks(folder: Path, out: Path) -> int:
    """Writes `tasks.json` and `config.xml` to the folder `out`; returns the number of tasks.

    Raises UsageError for a folder that is not a project, and an `out` with other content.
    """
    project = Project.read(folder)
    if out.exists() and not (out / TASKS).is_file() and (out.is_file() or any(out.iterdir())):
        raise UsageError(f"--out {out}: contains other files; name a new folder")
    tasks = [
        {"id": number, "data": _data(project, item), "annotations": []}
        for number, item in enumerate(worklist(project, "", Annotations(), ()), 1)
    ]
    with folder_aside(out) as aside:
        write_bytes(aside / TASKS, encode(tasks, indent=True))
        write_bytes(aside / CONFIG, config(project.scale).encode())
    return len(tasks)


def import_tasks(path: Path, folder: Path, annotator: str | None = None) -> ImportReport:
    """Adds the annotations of a JSON export of Label Studio to a project.

    All are validated before any is written, and those already in the project are skipped. Their
    annotator is `annotator`, else the user who completed them: the name in the e-mail address, or
    `user-NUMBER`. Raises UsageError for a file in another format, an item that is not in the pool,
    and an invalid value.
    """
    project = Project.read(folder)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    tasks = decode(data, list[StudioTask], str(path), "export as JSON in Label Studio")
    if annotator is not None:
        annotator_name(annotator)
    lines: dict[str, list[Annotation]] = {}
    cancelled = 0
    for number, task in enumerate(tasks, 1):
        where = f"{path}, task {number}"
        for one in task.annotations:
            if one.was_cancelled:
                cancelled += 1
                continue
            name = annotator or _name_of(one, where)
            lines.setdefault(name, []).extend(_lines(project, task.data, one, where))
    added = Counter[str]()
    for name, of_annotator in lines.items():
        log = project.annotation_log(name)
        new = [line for line in of_annotator if not log.current.contains(line)]
        log.append(*new)
        added[name] = len(new)
    return ImportReport(folder=str(folder), added=dict(added), cancelled=cancelled)


def config(scale: Scale) -> str:
    """Returns the labelling interface for documents or answers."""
    grades = {str(grade): f"{grade} {name}" for grade, (name, _) in scale.meanings.items()}
    controls = [_choices("grade", "document", f"Grade the {scale.target}", grades)]
    if scale.target == "document":
        answerable, rejected = ({name: name for name in names} for names in _MARKS.values())
        abilities = {str(one): f"{one}: {meaning}" for one, meaning in ABILITIES.values()}
        controls += [
            _choices("unanswerable", "query", "Can it be answered?", answerable),
            _choices("rejected", "query", "Is the question unusable?", rejected),
            _choices("ability", "query", "What does the query ask for?", abilities),
        ]
    parts = [
        '<Text name="query" value="$query"/>',
        '<Text name="reference" value="$reference"/>',
        '<Text name="before" value="$before"/>',
        '<Text name="document" value="$document"/>',
        '<Text name="after" value="$after"/>',
        *controls,
        '<Header value="Note"/>',
        '<TextArea name="note" toName="document" maxSubmissions="1"/>',
    ]
    return "\n".join(["<View>", *(f"  {part}" for part in parts), "</View>", ""])


def _choices(name: str, target: str, title: str, values: dict[str, str]) -> str:
    choices = "".join(
        f"\n    <Choice value={quoteattr(shown)} alias={quoteattr(value)}/>"
        for value, shown in values.items()
    )
    head = f'<Header value={quoteattr(title)}/>\n  <Choices name="{name}" toName="{target}">'
    return f"{head}{choices}\n  </Choices>"


def _data(project: Project, item: Item) -> TaskData:
    query = project.query[item.query]
    asked_at = format_time(query.timestamp)
    document = "No system returned a document for this query. Can it be answered?"
    if item.document is not None:
        document = _text(document_view(project.document(item.query, item.document)))
    around = context(project, item.query, item.document)
    return TaskData(
        query_id=item.query,
        document_id=item.document or "",
        query=f"{query.text} (asked {asked_at})" if asked_at else query.text,
        document=document,
        before="\n".join(map(_text, around.before)),
        after="\n".join(map(_text, around.after)),
        reference=reference(project, item.query) or "",
    )


def _text(view: DocumentView) -> str:
    about = " · ".join(filter(None, (view.timestamp, view.speaker, view.session)))
    return "\n".join(filter(None, (view.title, about, view.text)))


def _lines(
    project: Project, data: TaskData, annotation: StudioAnnotation, where: str
) -> Iterator[Annotation]:
    """Converts an annotation of Label Studio to lines of an annotation log."""
    document = data.document_id or None
    candidates = project.candidates.get(data.query_id)
    known = {one.document for one in candidates or ()}
    if candidates is None or (document is not None and document not in known):
        raise UsageError(
            f"{where}: query {data.query_id!r}, document {document!r} is not in the pool of "
            f"{project.folder}"
        )
    for result in annotation.result:
        if result.from_name not in KINDS:
            raise UsageError(
                f"{where}: unknown control {result.from_name!r}; use the interface in {CONFIG}"
            )
        values = result.value.get("text" if result.from_name == "note" else "choices")
        (value,) = values if isinstance(values, list) and len(values) == 1 else (values,)
        of_kind = {**_MARKS, "grade": {str(grade): grade for grade in project.scale.meanings}}
        value = of_kind.get(result.from_name, {}).get(str(value), value)
        fields: dict[str, object] = {"query": data.query_id, result.from_name: value}
        if result.from_name in ("grade", "note"):
            fields["document"] = document
        yield convert(fields, Annotation, where)


def _name_of(annotation: StudioAnnotation, where: str) -> str:
    by = annotation.completed_by
    if isinstance(by, int):
        return f"user-{by}"
    if by is None or not isinstance(email := by.get("email", by.get("id")), str | int):
        raise UsageError(f"{where}: has no annotator; use --annotator NAME")
    name = f"user-{email}" if isinstance(email, int) else email.partition("@")[0]
    return annotator_name(re.sub(r"[^\w.\-]", "-", name))
