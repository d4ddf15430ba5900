"""What strangers wrote into ids, texts and errors cannot move the cursor of a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ESCAPE = "\x1b[2J\x1b]0;owned\x07\r\x9b2K\u202e"
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_no_command_prints_an_escape_that_a_dataset_holds(
    harness: Callable[..., Any], home: Path, tmp_path: Path
) -> None:
    said = f"the {ESCAPE} harbour is frozen"
    documents = [
        {"id": f"d{n}{ESCAPE}", "title": ESCAPE, "text": f"{said} on day {n}", "speaker": ESCAPE}
        for n in range(19)
    ]
    queries = [
        {
            "id": f"q{n}{ESCAPE}",
            "text": f"{said}? day {n}",
            "category": f"kind{ESCAPE}",
            "relevant": [documents[n]["id"]],
        }
        for n in range(4)
    ]
    for name, rows in (("documents", documents), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (tmp_path / "hostile.py").write_text(
        "class Hostile:\n"
        "    def index(self, corpus): pass\n"
        f"    def search(self, queries, k): raise ValueError({ESCAPE!r})\n",
        "utf-8",
    )
    given = ("--dataset", "labelled", "--source", tmp_path)
    runs = ("bm25", "random")
    shown = [harness("run", *given, "--retriever", name, "--name", name) for name in runs]
    assert [one.status for one in shown] == [0, 0], shown
    a, b = (next((tmp_path / "results").glob(f"*{name}*")) for name in runs)
    for words in (
        ("run", *given, "--retriever", "hostile.py:Hostile"),
        ("compare", a, b, "--queries", 3, "--source", tmp_path),
        ("compare", a, b, "--format", "csv"),
        ("analyze", a, "--k", 1, "--source", tmp_path),
        ("datasets", "show", "labelled", "--source", tmp_path),
        ("runs",),
    ):
        shown.append(harness(*words))
        if words[0] in ("compare", "analyze"):
            assert shown[-1].status == 0, shown[-1]
    found = {one: UNSEEN.findall(one.out + one.err) for one in shown}
    assert [one for one, odd in found.items() if odd] == []
    assert sum("\\u001b[2J" in one.out + one.err for one in shown) >= 3
