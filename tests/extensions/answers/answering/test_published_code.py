"""Prompts are read out of other people's code by its syntax, and nothing of it is run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.datasets.adapter import RemoteFile
from harness.errors import UsageError
from harness.extensions.answers.answering.published_code import published_code

STAND_IN = '''
raise SystemExit("this file is not to be run")

def ask(task, question, abstention=False):
    if not abstention:
        if task in ["one", "two"]:
            template = "Of {} and {}: {}?"
            prompt = template.format(question, 1, 2)
        elif task == "three":
            template = "Three: {} {} {}"
        else:
            raise NotImplementedError
    else:
        template = "Nothing: {} {} {}"
    return prompt

def build(kind, form, steps, entry):
    if kind == "alone":
        text = "{}"
        if steps:
            text += " Step by step."
    elif form is None or form == "none":
        text = "Long {} {}"
    history = ""
    for i, item in enumerate(entry):
        if kind in ["flat", "alone"]:
            history += "### {} of {}: {}".format(i, item, 0)
        elif kind == "other":
            history += "another {} {} {}".format(i, item, 0)
    unknown = text if entry else ""
    return text
TOP = """A {} constant"""
'''


@pytest.fixture
def file(tmp_path: Path) -> RemoteFile:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text(STAND_IN)
    sha256 = hashlib.sha256(STAND_IN.encode()).hexdigest()
    return RemoteFile("src/code.py", "http://127.0.0.1:9/code.py", sha256=sha256)


def test_branches_are_chosen_by_the_values_of_names(file: RemoteFile, tmp_path: Path) -> None:
    code = published_code(file, tmp_path)
    said = {
        (task, nothing): code.template("ask", "template", {"task": task, "abstention": nothing}, 3)
        for task, nothing in (("one", False), ("two", False), ("three", False), ("three", True))
    }
    assert said["one", False] == said["two", False] == "Of {} and {}: {}?"
    assert said["three", False] == "Three: {} {} {}"
    assert said["three", True] == "Nothing: {} {} {}"
    values = {"kind": "alone", "form": "none", "steps": True}
    assert code.template("build", "text", values, 1) == "{} Step by step."
    assert code.template("build", "text", {**values, "kind": "flat"}, 2) == "Long {} {}"
    assert code.format_added("build", "history", values, 3) == "### {} of {}: {}"
    assert code.constant("TOP") == "A {} constant"


def test_what_is_not_there_or_not_as_it_was_is_refused(file: RemoteFile, tmp_path: Path) -> None:
    code = published_code(file, tmp_path / "src" / "code.py")
    one = {"task": "one", "abstention": False}
    for said, function, values, places in (
        ("has no template for task 'four'", "ask", {**one, "task": "four"}, 3),
        ("has no template for task 'one'", "ask", {"task": "one"}, 3),
        ("has not 2 fields", "ask", one, 2),
        ("has no function gone", "gone", one, 3),
    ):
        with pytest.raises(UsageError, match=said):
            code.template(function, "template", values, places)
    with pytest.raises(UsageError, match="adds 2 texts"):
        code.format_added("build", "history", {}, 3)
    with pytest.raises(UsageError, match="has no text NONE"):
        code.constant("NONE")
    (tmp_path / "src" / "code.py").write_text(STAND_IN + "\n")
    with pytest.raises(UsageError, match="another version is another protocol"):
        published_code(file, tmp_path)
    with pytest.raises(UsageError, match="name a clone of the authors' repository"):
        published_code(file, tmp_path / "nowhere")
