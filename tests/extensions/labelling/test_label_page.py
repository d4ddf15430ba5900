"""The page: by keyboard in a real browser, over a killed server, a closed tab, and two tabs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
import pytest
from msgspec.structs import replace
from polling import HANGS

from harness.extensions.labelling.adjudication import Adjudication
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.page import server
from harness.extensions.labelling.project import Project, QueryOrigin
from harness.extensions.labelling.session import AnnotationSession, JudgingSession

Page = Any


@contextmanager
def served(session: JudgingSession) -> Iterator[int]:
    """A server of the session in this process; its port."""
    with server(session, 0) as serving:
        thread = Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield serving.server_port
        serving.shutdown()
        thread.join()


def ask(port: int, path: str, body: Any = None) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS)
    if body is None:
        connection.request("GET", path)
    else:
        own = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
        connection.request("POST", path, body=orjson.dumps(body), headers=own)
    answer = connection.getresponse()
    return answer.status, answer.read()


def session_of(port: int) -> dict[str, str]:
    """What the page sends to identify its session."""
    import base64
    import gzip

    found = re.search(rb'id="data">([^<]+)<', ask(port, "/")[1])
    assert found
    info: dict[str, Any] = orjson.loads(gzip.decompress(base64.b64decode(found[1])))
    return dict(info["session"])


def test_a_judgement_is_on_the_disk_before_it_is_answered(project: Project) -> None:
    with served(AnnotationSession(project.folder, "ann")) as port:
        here = orjson.loads(ask(port, "/view")[1])
        item = here["item"]
        body = {
            "session": session_of(port),
            "item": item,
            "annotation": {**item, "grade": 2},
            "advance": True,
        }
        status, then = ask(port, "/judge", body)
        log = (project.folder / "annotations" / "ann.jsonl").read_bytes()
        assert (status, orjson.loads(log)["grade"]) == (200, 2)
        assert orjson.loads(then)["done"] == 1
        assert orjson.loads(then)["item"]["document"] != item["document"]


def test_a_judgement_of_a_text_that_was_reworded_meanwhile_is_not_saved(project: Project) -> None:
    with served(AnnotationSession(project.folder, "ann")) as port:
        item = orjson.loads(ask(port, "/view")[1])["item"]
        annotation = {**item, "grade": 2}
        body = {"session": session_of(port), "item": item, "annotation": annotation}
        status, said = ask(port, "/judge", {**body, "text": "another text"})
        assert (status, b"was reworded meanwhile" in said) == (409, True)
        assert not (project.folder / "annotations" / "ann.jsonl").exists()
        status, said = ask(port, "/judge", {**body, "reworded": " "})
        assert (status, b"the new one is empty" in said) == (409, True)
        assert ask(port, "/judge", body)[0] == 200


def test_a_page_of_somebody_else_cannot_write(project: Project) -> None:
    with served(AnnotationSession(project.folder, "bob")) as port:
        bobs = session_of(port)
    with served(AnnotationSession(project.folder, "ann")) as port:
        line = {"query": "q1", "document": "d1", "grade": 3}
        for body in (
            {"session": bobs, "annotation": line},
            {"annotation": line},
            [],
            "x",
            {"session": {**session_of(port), "mode": "adjudicate"}, "annotation": line},
        ):
            status, words = ask(port, "/judge", body)
            assert (status, b"another session" in words) == (409, True)
        for wrong in (None, {}, {**line, "grade": 9}, {**line, "document": "d9"}):
            assert ask(port, "/judge", {"session": session_of(port), "annotation": wrong})[0] == 409
    assert not (project.folder / "annotations").exists()


def test_places_that_are_not_there_lead_to_where_the_work_goes_on(project: Project) -> None:
    with served(AnnotationSession(project.folder, "ann")) as port:
        here = ask(port, "/view")[1]
        for path in ("/view?query=q9&document=d1", "/view?query=q1", "/view?kind=grade"):
            assert ask(port, path)[1] == here
        assert ask(port, "/annotations/ann.jsonl")[0] == 404


class Serving:
    """`harness label ...` in a process of its own, which can be killed."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "harness", "label", *map(str, arguments), "--no-open"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        lines = iter(self.process.stdout.readline, "")
        self.address = next(line.split()[0] for line in lines if line.startswith("http"))
        self.port = int(self.address.rstrip("/").rpartition(":")[2])

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=HANGS)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def serving() -> Iterator[Any]:
    """Starts such processes; none is left behind."""
    started: list[Serving] = []

    def start(*arguments: object) -> Serving:
        started.append(Serving(*arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


@contextmanager
def browser() -> Iterator[Any]:
    """A browser that may be refused by a server: that is what is tried here."""
    from browsers import launched

    with launched() as running:
        yield running.new_context(viewport={"width": 1280, "height": 900})


def opened(context: Any, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    page.locator("main:not([hidden]) #count:not(:empty)").wait_for()
    return page


def shown(page: Page) -> tuple[str, str]:
    """Query and document on the page."""
    return page.locator("#text").inner_text(), page.locator("#document .body").inner_text()


def press(page: Page, key: str) -> None:
    """A key, and the answer to it."""
    with page.expect_response(lambda answer: "/judge" in answer.url):
        page.keyboard.press(key)
    page.locator("body:not(.busy)").wait_for()


def counted(page: Page, words: str) -> None:
    page.locator("#count", has_text=words).wait_for()


def grades(project: Project, name: str) -> dict[tuple[str, str], int]:
    return project.annotation_log(name).current.grades


TEXT = {"The ferry to Bastø leaves at seven.": "3", "The ferry was late, and so was I.": "1"}


@pytest.mark.browser
def test_two_people_label_by_keyboard_and_nothing_is_lost(
    project: Project, serving: Any, home: Path
) -> None:
    """Killed in the middle; conflicts settled; exported; run."""
    folder = project.folder
    ann = serving("open", folder, "--annotator", "ann", "--port", 0)
    with browser() as context:
        page = opened(context, ann.address)
        counted(page, "0 of 6")
        for done in range(1, 4):
            press(page, TEXT.get(shown(page)[1], "0"))
            counted(page, f"{done} of 6")
        acknowledged = grades(project, "ann")
        assert len(acknowledged) == 3

        ann.kill()
        waiting = shown(page)
        page.keyboard.press(TEXT.get(waiting[1], "0"))
        page.get_by_text("The server does not answer").wait_for()
        assert shown(page) == waiting  # it does not move on
        assert grades(project, "ann") == acknowledged
        with open(folder / "annotations" / "ann.jsonl", "ab") as file:
            file.write(b'{"query":"q1","docu')  # as a crash in the middle of a line leaves it
        ann = serving("open", folder, "--annotator", "ann", "--port", ann.port)
        counted(page, "4 of 6")
        assert page.locator("#alert").is_hidden()
        assert acknowledged.items() < grades(project, "ann").items()

        # What waits in a closed tab is sent by the next one.
        ann.kill()
        waiting = shown(page)
        page.keyboard.press(TEXT.get(waiting[1], "0"))
        page.get_by_text("The server does not answer").wait_for()
        page.close()
        ann = serving("open", folder, "--annotator", "ann", "--port", ann.port)
        page = opened(context, ann.address)
        counted(page, "5 of 6")
        place = shown(page)
        page.reload()
        page.locator("#document .body").wait_for()
        assert shown(page) == place
        press(page, TEXT.get(shown(page)[1], "0"))
        page.get_by_text("Everything is judged").wait_for()
        assert len(grades(project, "ann")) == 6

        # A second one, who sees nothing of the first, disagrees once.
        bob = serving("open", folder, "--annotator", "bob")
        page = opened(context, bob.address)
        counted(page, "0 of 6")
        while "0 left" not in page.locator("#count").inner_text():
            query, document = shown(page)
            assert page.locator('#grades [aria-pressed="true"]').count() == 0
            if "captain" in query:
                press(page, "n")
            elif "late" in document:
                press(page, "0")
            else:
                press(page, "t" if page.locator('[aria-pressed="true"]').count() == 0 else "3")
        assert grades(project, "bob").keys() < grades(project, "ann").keys()

        adjudicate = serving("adjudicate", folder, "--annotator", "cid")
        page = opened(context, adjudicate.address)
        while "0 left" not in page.locator("#count").inner_text():
            asked = page.locator("#votes h2").first.inner_text()
            assert page.locator("#votes li").count() == 2
            press(page, "n" if asked == "Can it be answered?" else "2")
        page.get_by_text("Every conflict is resolved").wait_for()

    for command in (
        ("label", "export", folder),
        *[("run", "--dataset", "labelled", "--source", folder / "dataset", "--retriever", "bm25")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "harness", *map(str, command)],
            capture_output=True,
            text=True,
            cwd=folder.parent,
            timeout=HANGS,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert "queries=3  failed=0" in done.stdout


@pytest.mark.browser
def test_two_tabs_undo_notes_and_clicks(project: Project) -> None:
    with served(AnnotationSession(project.folder, "ann")) as port, browser() as context:
        page = opened(context, f"http://127.0.0.1:{port}/")
        first = shown(page)
        page.get_by_role("button", name="partial answer").click()
        page.get_by_text("Saved: 2 partial answer").wait_for()
        assert shown(page) != first
        other = opened(context, f"http://127.0.0.1:{port}/")
        counted(other, "1 of 6")
        press(other, "1")
        counted(other, "2 of 6")
        press(page, "0")  # the same document in the other tab: the last line counts
        counted(page, "2 of 6")
        assert sorted(grades(project, "ann").values()) == [0, 2]

        press(page, "u")
        assert sorted(grades(project, "ann").values()) == [1, 2]
        page.keyboard.press("ArrowLeft")
        page.get_by_role("button", name="partial answer", pressed=True).wait_for()
        assert shown(page) == first
        page.keyboard.press("e")
        page.keyboard.type("3 is too much, 0 too little")
        press(page, "Enter")
        page.get_by_text("Note: 3 is too much, 0 too little").wait_for()
        assert list(project.annotation_log("ann").current.notes.values()) == [
            "3 is too much, 0 too little"
        ]

        press(page, "n")
        page.get_by_text("which counts as evidence").wait_for()
        press(page, "n")
        page.locator("#warning").wait_for(state="hidden")
        page.keyboard.press("?")
        page.get_by_role("heading", name="Keys").wait_for()
        page.keyboard.press("3")  # closed off by the dialog
        page.keyboard.press("Escape")
        page.keyboard.press("Control+1")
        assert sorted(grades(project, "ann").values()) == [1, 2]


@pytest.mark.browser
def test_a_generated_query_is_reworded_and_rejected_by_keyboard(project: Project) -> None:
    origin = QueryOrigin(method="model", documents=["d1"], model="m")
    project.queries = [replace(q, generated=origin, answers=["seven"]) for q in project.queries]
    project.pool = [replace(one, ranks={}) for one in project.pool]
    project.write()
    session = AnnotationSession(project.folder, "ann")
    query = session.items[0].query
    with served(session) as port, browser() as context:
        page = opened(context, f"http://127.0.0.1:{port}/")
        assert page.locator("#reference").inner_text() == "Generated answer: seven"
        page.keyboard.press("w")
        page.locator("#note").fill("When does it sail?")
        press(page, "Enter")
        page.locator("#text", has_text="When does it sail?").wait_for()
        press(page, "r")
        counted(page, "2 of 6")
        assert shown(page)[0] != "When does it sail?"
    assert Project.read(project.folder).query[query].text == "When does it sail?"
    assert project.annotation_log("ann").current.rejected == {query: True}


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_queries_notes_guidelines_and_documents_outside_the_pool_are_found_by_keyboard(
    project: Project, width: int
) -> None:
    from layout import amiss

    project.folder.joinpath("guidelines.md").write_text("# Dates\n\nA date counts.\n", "utf-8")
    session = AnnotationSession(project.folder, "ann")
    session.annotate(Annotation(query="q2", document="d2", note="which Friday?"))
    with served(session) as port, browser() as context:
        page = opened(context, f"http://127.0.0.1:{port}/#query=q1&document=d1")
        page.set_viewport_size({"width": width, "height": 780})
        page.keyboard.press("g")
        page.get_by_text("A date counts.").wait_for()
        page.keyboard.press("Escape")

        page.keyboard.press("/")
        page.keyboard.type("dentist nine")
        page.locator("#found mark", has_text="nine").first.wait_for()
        assert amiss(page) == []
        page.locator("#found li", has_text="at nine").get_by_role(
            "button", name="Judge", exact=True
        ).press("Enter")
        page.locator("#document .body", has_text="at nine").wait_for()
        press(page, "3")
        assert grades(project, "ann") == {("q1", "d4"): 3}

        page.keyboard.press("q")
        page.locator("#queries li").nth(2).wait_for()
        assert amiss(page) == []
        page.get_by_label("Show").select_option("notes")
        assert page.locator("#queries li").count() == 1
        page.get_by_label("Show").select_option("all")
        page.locator("#queries li", has_text="captain").get_by_role("button", name="Reject").press(
            "Enter"
        )
        page.locator("#queries .tag", has_text="rejected").wait_for()
        page.get_by_role("button", name="Note: which Friday?").press("Enter")
        page.locator("#document .own-note", has_text="which Friday?").wait_for()
        assert shown(page) == ("When is the dentist?", "The dentist moved me to Friday.")

        page.keyboard.press("e")
        page.locator("#note").wait_for()
        note, grade = page.locator("#note").bounding_box(), page.locator("#grades").bounding_box()
        assert note["y"] + note["height"] <= grade["y"]
        assert grade["y"] + grade["height"] <= 780
    assert project.annotation_log("ann").current.rejected == {"q3": True}


@pytest.mark.browser
def test_a_query_that_somebody_rejected_is_kept_by_keyboard(project: Project) -> None:
    project.annotation_log("ann").append(Annotation(query="q1", rejected=True))
    project.annotation_log("bob").append(Annotation(query="q1", document="d1", grade=3))
    with served(Adjudication(project.folder, "cid")) as port, browser() as context:
        page = opened(context, f"http://127.0.0.1:{port}/")
        assert page.locator("#votes h2").inner_text() == "Is it a usable question?"
        assert page.locator("#votes li").all_inner_texts() == ["ann\nrejected", "bob\njudged"]
        press(page, "r")
        press(page, "y")
        page.get_by_role("button", name="Keep", pressed=True).wait_for()
    assert project.adjudication_log().current.rejected == {"q1": False}


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_everything_in_reach(project: Project, scheme: str) -> None:
    from browsers import opened as watched
    from layout import amiss

    project.documents[0] = replace(
        project.documents[0],
        text="\n\n".join(["The ferry leaves at seven. " * 40] * 20),
        title="A<b>long</b>document" * 20,
    )
    project.write()
    with (
        served(AnnotationSession(project.folder, "ann")) as port,
        watched(f"http://127.0.0.1:{port}/", width=390, color_scheme=scheme) as page,
    ):
        for _ in range(5):
            assert amiss(page) == []
            for name in ("not relevant", "partial answer"):
                button = page.get_by_role("button", name=name)
                assert button.is_visible()
                assert button.bounding_box()["y"] < 900
            page.get_by_role("button", name="not relevant").click()
            page.locator("body:not(.busy)").wait_for()
