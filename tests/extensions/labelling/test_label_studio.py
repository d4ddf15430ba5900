"""Label Studio: tasks that tell nothing of systems, and annotations that come back as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest

from harness.errors import UsageError
from harness.extensions.labelling.annotations import KINDS, Annotation
from harness.extensions.labelling.label_studio import export_tasks, import_tasks
from harness.extensions.labelling.project import Project
from harness.schema import Ability


def read(folder: Path) -> Any:
    return orjson.loads((folder / "tasks.json").read_bytes())


def as_exported(task: dict[str, Any], *results: dict[str, Any], by: Any = 10) -> dict[str, Any]:
    """A task in the documented form of Label Studio's JSON export."""
    annotation = {
        "id": "1001",
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2021-03-09T22:16:08.728353Z",
        "updated_at": "2021-03-09T22:16:08.728378Z",
        "lead_time": 4.288,
        "result_count": 0,
        "task": task["id"],
        "completed_by": by,
    }
    times = {"created_at": "2021-03-09T21:52:49Z", "updated_at": "2021-03-09T22:16:08Z"}
    return {**task, **times, "project": 83, "annotations": [annotation], "predictions": []}


def choice(name: str, value: str, target: str = "document") -> dict[str, Any]:
    return {
        "id": "Dx_aB91ISN",
        "from_name": name,
        "to_name": target,
        "type": "choices",
        "origin": "manual",
        "value": {"choices": [value]},
    }


def test_tasks_are_blind_and_fit_the_interface(project: Project, tmp_path: Path) -> None:
    project.annotation_log("ann").append(Annotation(query="q1", document="d1", grade=3))
    out = tmp_path / "tasks"
    assert export_tasks(project.folder, out) == 6
    tasks = read(out)
    pairs = {(one["data"]["query_id"], one["data"]["document_id"]) for one in tasks}
    assert pairs == {(one.query, one.document) for one in project.pool}
    assert [one["annotations"] for one in tasks] == [[]] * 6
    assert not any(word in str(tasks) for word in ("rank", "ann'"))
    root = ElementTree.fromstring((out / "config.xml").read_text())
    fields = {one.get("value", "")[1:] for one in root.iter("Text")}
    assert fields <= set(tasks[0]["data"])
    shown = {one.get("name") for one in root.iter("Text")}
    controls = [*root.iter("Choices"), *root.iter("TextArea")]
    assert {one.get("name") for one in controls} == set(KINDS)
    assert {one.get("toName") for one in controls} <= shown


def test_every_kind_of_annotation_comes_back_and_once(project: Project, tmp_path: Path) -> None:
    export_tasks(project.folder, tmp_path / "out")
    first, second, *_ = read(tmp_path / "out")
    note = {"from_name": "note", "value": {"text": ["at <seven> & late"]}}
    tasks = [
        as_exported(first, choice("grade", "3"), note, by={"email": "bob.b@example.org"}),
        as_exported(
            second,
            choice("ability", "temporal", "query"),
            choice("unanswerable", "can be answered", "query"),
            choice("rejected", "rejected", "query"),
            by={"email": "bob.b@example.org"},
        ),
    ]
    path = tmp_path / "export.json"
    path.write_bytes(orjson.dumps(tasks))
    assert import_tasks(path, project.folder).added == {"bob.b": 5}
    found = project.annotation_log("bob.b").current
    pair = (first["data"]["query_id"], first["data"]["document_id"])
    assert (found.grades, found.notes) == ({pair: 3}, {pair: "at <seven> & late"})
    query = second["data"]["query_id"]
    assert found.abilities == {query: Ability.TEMPORAL}
    assert (found.unanswerable, found.rejected) == ({query: False}, {query: True})
    assert import_tasks(path, project.folder).added == {"bob.b": 0}


def test_what_label_studio_exports_is_imported(project: Project, tmp_path: Path) -> None:
    export_tasks(project.folder, tmp_path / "out")
    first, second, third, *_ = read(tmp_path / "out")
    skipped = as_exported(third, choice("grade", "3"))
    skipped["annotations"][0]["was_cancelled"] = True
    note = {"from_name": "note", "to_name": "document", "type": "textarea"}
    tasks = [
        as_exported(first, choice("grade", "2"), {**note, "value": {"text": ["unsure"]}}),
        as_exported(
            second,
            choice("unanswerable", "cannot be answered", "query"),
            by={"id": 4, "email": "eve+1@example.org", "first_name": "Eve"},
        ),
        skipped,
    ]
    path = tmp_path / "export.json"
    path.write_bytes(orjson.dumps(tasks))
    made = import_tasks(path, project.folder)
    assert (made.added, made.cancelled) == ({"user-10": 2, "eve-1": 1}, 1)
    ten = project.annotation_log("user-10").current
    pair = (first["data"]["query_id"], first["data"]["document_id"])
    assert (ten.grades, ten.notes) == ({pair: 2}, {pair: "unsure"})
    eve = project.annotation_log("eve-1").current
    assert eve.unanswerable == {second["data"]["query_id"]: True}
    assert import_tasks(path, project.folder, "zoe").added == {"zoe": 3}


def test_a_wrong_file_is_refused_before_anything_is_written(
    project: Project, tmp_path: Path
) -> None:
    export_tasks(project.folder, tmp_path / "out")
    first, second, *_ = read(tmp_path / "out")
    good, path = as_exported(first, choice("grade", "1")), tmp_path / "export.json"
    foreign = as_exported(second, choice("grade", "1"))
    foreign["data"] = {**second["data"], "document_id": "d9"}
    for wrong, words in (
        (foreign, "task 2: query .* is not in the pool"),
        (as_exported(second, choice("grade", "9")), "task 2: grade"),
        (as_exported(second, choice("sentiment", "1")), "unknown control 'sentiment'"),
        (as_exported(second, choice("ability", "magic")), "task 2: ability"),
        (as_exported(second, choice("grade", "1"), by=None), "use --annotator"),
        ({"id": 1}, "data is missing|data: is missing"),
    ):
        path.write_bytes(orjson.dumps([good, wrong]))
        with pytest.raises(UsageError, match=words):
            import_tasks(path, project.folder)
    path.write_text("not JSON")
    with pytest.raises(UsageError, match="export as JSON"):
        import_tasks(path, project.folder)
    with pytest.raises(UsageError, match="contains other files"):
        export_tasks(project.folder, tmp_path)
    assert not (project.folder / "annotations").exists()
