"""A command is put under test through its stdin and stdout; its crash costs one haystack."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from notes import SharedWords, corpus
from places import EXAMPLES
from polling import HANGS, wait_until

from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.retrievers.command import Command
from harness.retrievers.contract import Hit, Question, Result
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run

SCRIPT = """
import json, os, sys, time
haystack = 0
BABBLE = {
    "log": "\x1b[36m[2026-01-01] INFO\x1b[0m found {3} things\\n\\nInitialized",
    "alone": "hello",
    "chatter": "x\\n" * 10_001,
    "object": '{"level": "info", "message": "found"}',
    "list": "[1, 2]",
    "half": '{"results": [{"hi',
}
for line in sys.stdin:
    message = json.loads(line)
    reply = {}
    if message["type"] == "reset":
        haystack += 1
        ids = []
    elif message["type"] == "index":
        ids += [document["id"] for document in message["documents"]]
    else:
        text = message["queries"][0]["text"]
        if text == "crash":
            sys.exit("out of cheese")
        if text == "hang":
            time.sleep(3600)
        if text in BABBLE:
            print(BABBLE[text], flush=True)
        if text == "alone":
            continue
        if text == "refuse":
            print(json.dumps({"error": "I would rather not"}), flush=True)
            continue
        if text == "twice":
            replies = [{"results": [{"hits": [{"id": id_}]}]} for id_ in (ids[1], ids[0])]
            sys.stdout.write("".join(f"{json.dumps(one)}\\n" for one in replies))  # at once
            sys.stdout.flush()
            continue
        reply = {"results": [{"hits": [{"id": ids[0]}]}], "usage": {"calls": 1}}
        if text == "tell":
            hit = {"text": "A fact.", "sources": ids[:2], "score": 0.5}
            about = {"confidence": 0.25, "abstain": True, "ranked_by": "order"}
            reply = {"results": [{"hits": [hit], **about}]}
        if text == "who":
            reply = {"results": [{"hits": [{"id": str(os.getpid())}]}]}
    print(json.dumps(reply), flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "system.py"
    path.write_text(SCRIPT)
    return f"{sys.executable} {path}"


def ask(command: Command, text: str, timeout: float = HANGS) -> Any:
    command._timeout = timeout  # of this message: to start the command may take longer
    return command.search([Question(text)], 5)[0]


def pid(command: Command) -> int:
    return int(ask(command, "who").ids[0])


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_example_command_ranks_as_the_same_code_in_this_process(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    line = f"{sys.executable} {EXAMPLES / 'command.py'}"
    there = run(dataset, RetrieverSpec("command", {"run": line}), out=tmp_path / "there")
    here = run(dataset, SharedWords(), out=tmp_path / "here")  # type: ignore[arg-type]
    told, local = (read_rankings(RunFolder(f).rankings) for f in (there, here))
    assert told.document.equals(local.document)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("crash", r"ended with status 1 instead of a reply, at 'search'; on stderr: out of cheese"),
        ("hang", r"took longer than 1 s and was killed"),
    ],
)
def test_a_command_that_ends_or_hangs_is_an_error_until_the_next_haystack(
    script: str, trouble: str, said: str
) -> None:
    command = Command(script)
    command.index(corpus(["a", "b"]))
    first = pid(command)
    with pytest.raises(RuntimeError, match=said):
        ask(command, trouble, timeout=1 if trouble == "hang" else HANGS)
    wait_until(lambda: gone(first))
    with pytest.raises(RuntimeError, match="not running any more"):
        ask(command, "again")
    command.index(corpus(["a", "b"]))
    assert ask(command, "fine") == Result(["d1"])
    command.close()


def test_an_error_that_it_reports_costs_its_question_only(script: str) -> None:
    command = Command(script)
    command.index(corpus(["a", "b"]))
    with pytest.raises(ValueError, match="reports: I would rather not"):
        ask(command, "refuse")
    assert ask(command, "fine") == Result(["d1"])
    command.close()


def test_what_its_libraries_print_is_passed_over_and_counted(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(script)
    command.index(corpus(["a", "b"]))
    for _ in range(3):
        assert ask(command, "log") == Result(["d1"])
    assert command.report()["lines_passed_over"] == 6
    assert capsys.readouterr().err.count("other lines are passed over") == 1
    with pytest.raises(RuntimeError, match=r"(?s)ended with status 1.*stdout: Initialized"):
        ask(command, "crash")
    command.close()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("alone", r"took longer than 1 s .* stdout: hello"),
        ("chatter", r"10,000 lines that are not JSON, and no reply"),
        ("half", r"is not JSON: .*results"),
        ("list", r"the reply: expected object, got list"),
        ("object", r"expected 1 results, the reply has none"),
    ],
)
def test_after_what_may_be_no_reply_no_later_line_is_taken_for_an_answer(
    script: str, trouble: str, said: str
) -> None:
    command = Command(script)
    command.index(corpus(["a", "b"]))
    with pytest.raises((RuntimeError, ValueError), match=said):
        ask(command, trouble, timeout=1 if trouble == "alone" else HANGS)
    with pytest.raises(RuntimeError, match="not running any more"):
        ask(command, "fine")
    command.index(corpus(["a", "b"]))
    assert ask(command, "fine") == Result(["d1"])
    command.close()


def test_a_line_without_an_end_is_an_error_and_fills_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.retrievers.command.LONGEST_REPLY", 1 << 20)
    endless = Command("cat /dev/zero")
    with pytest.raises(ValueError, match=r"a line of more than 1 MB, which is no reply") as caught:
        endless.index(corpus(["a", "b"]))
    assert len(str(caught.value).splitlines()) == 1
    endless.close()


def test_a_reply_of_many_megabytes_in_one_line_is_read(tmp_path: Path) -> None:
    script = tmp_path / "large.py"
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    text = 'x' * 30_000_000\n"
        "    reply = {'results': [{'hits': [{'text': text, 'sources': ['d0']}]}]}\n"
        "    print(json.dumps(reply if message['type'] == 'search' else {}), flush=True)\n"
    )
    command = Command(f"{sys.executable} {script}")
    command.index(corpus(["a", "b"]))
    assert [len(hit.text or "") for hit in ask(command, "which?").hits] == [30_000_000]
    command.close()


def test_an_answer_that_comes_twice_is_not_taken_for_that_to_the_next_question(script: str) -> None:
    command = Command(script)
    command.index(corpus(["a", "b"]))
    ask(command, "twice")
    with pytest.raises(ValueError, match="an unexpected line"):
        ask(command, "fine")
    command.close()


def test_texts_of_its_own_confidence_abstention_and_order_come_through(script: str) -> None:
    command = Command(script)
    command.index(corpus(["a", "b", "c"]))
    hits = [Hit("A fact.", ["d2", "d1"], 0.5)]
    told = Result(hits=hits, confidence=0.25, abstain=True, ranked_by="order")
    assert ask(command, "tell") == told
    assert command.report() == {}
    ask(command, "fine")
    assert command.report() == {"calls": 1}
    command.close()


def test_nothing_is_left_running(script: str) -> None:
    closed, forgotten = Command(script), Command(script)
    processes = []
    for command in (closed, forgotten):
        command.index(corpus(["a"]))
        processes.append(pid(command))
    closed.close()
    del command, forgotten
    wait_until(lambda: all(gone(process) for process in processes))


def test_a_program_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(UsageError, match="there is no program 'no-such-thing --fast'"):
        RetrieverSpec("command", {"run": "no-such-thing --fast"}).build()


LATE = """
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] != "search":
        print("{}", flush=True)
        continue
    reply = {"results": [{"hits": []} for _ in message["queries"]]}
    print(json.dumps(reply), flush=True)  # as to look at it: it is taken for the answer
    time.sleep(0.05)
    print(json.dumps(reply), flush=True)
"""


@pytest.mark.slow
@pytest.mark.extensions
@pytest.mark.parametrize("how", [(), ("--workers", 2), ("--isolate",)], ids=str)
@pytest.mark.parametrize("way", ["--resume", "--overwrite"])
def test_a_reply_that_comes_after_the_last_one_leaves_no_run(
    way: str, how: tuple[object, ...], tmp_path: Path, harness: Callable[..., Any], home: Path
) -> None:
    files, script = tmp_path / "files", tmp_path / "late.py"
    files.mkdir()
    (files / "documents.jsonl").write_text('{"id": "d", "text": "eleven clamps"}\n')
    query = '{"id": "q", "text": "how many clamps?", "relevant": ["d"]}\n'
    (files / "queries.jsonl").write_text(query)
    script.write_text(LATE)
    words = ("run", "--dataset", "labelled", "--source", files, "--retriever", "command")
    param = f"run={sys.executable} {script}"
    for more in ((), (way,)):
        told = harness(*words, "--param", param, *how, *more)
        assert (told.status, "after the" in told.err or "after its" in told.err) == (1, True), told
        assert "Traceback" not in told.err
        assert not list((tmp_path / "results").glob("[!.]*"))
