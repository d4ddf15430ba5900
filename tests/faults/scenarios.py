"""Commands to kill: what goes before each, what goes on with it, and what is there in the end."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mteb_files
import numpy as np
import orjson
import pyarrow.parquet as pq
from forked import ended
from loopback import Loopback
from openai_endpoint import Chat, OpenAIEndpoint

Words = tuple[object, ...]

RUN = ("run", "--dataset", "sample", "--retriever", "bm25", "--k", 10, "--limit", 40)
LIST = """
out = "runs"
k = 10
limit = 20
[nightly]
[[datasets]]
dataset = "sample"
[[retrievers]]
retriever = "bm25"
[[retrievers]]
retriever = "random"
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Scenario:
    """A command, the one that goes on where it was killed, and what is there in the end, to be the
    same as if it had not been; `files` and `before`: what is written and run before it."""

    name: str
    words: Words
    again: Words
    result: Callable[[Path], Any]
    before: tuple[Words, ...] = ()
    files: Callable[[Path], None] = lambda place: None


# -- What is there in the end ----------------------------------------------------------------------


def _rankings(place: Path) -> Any:
    return [path.read_bytes() for path in sorted(place.glob("results/[!.]*/rankings.parquet"))]


def _numbers(place: Path) -> Any:
    scores = sorted(place.glob("results/[!.]*/scores.json"))
    found = [orjson.loads(path.read_bytes()) for path in scores]
    return [[one["protocols"][0]["slices"], one["queries"]] for one in found], _rankings(place)


def _night(place: Path) -> Any:
    lines = [
        orjson.loads(line) for line in (place / "runs/history.jsonl").read_bytes().splitlines()
    ]
    summary = orjson.loads((place / "runs/summary.json").read_bytes())
    cells = [(line["dataset"], line["system"], line["state"], line["results"]) for line in lines]
    return sorted(cells, key=str), summary["complete"]


def _file(name: str) -> Callable[[Path], bytes]:
    return lambda place: (place / name).read_bytes()


def _prepared(place: Path) -> Any:
    """The fingerprint and the bytes of the datasets."""
    manifests = sorted((place / "home").rglob("manifest.json"))
    tables = sorted((place / "home").rglob("*.arrow"))
    named = [orjson.loads(path.read_bytes())["fingerprint"] for path in manifests]
    return named, [path.read_bytes() for path in tables]


def _answers(place: Path) -> Any:
    """What was answered, and the verdicts where it was judged."""
    told = sorted(place.glob("asked/*/answers.parquet"))
    judged = sorted(place.glob("asked/*/judgements/*/judgements.parquet"))
    columns = {"query", "answer", "right"}
    return [
        pq.read_table(path).drop([*{*pq.read_schema(path).names} - columns]).to_pylist()
        for path in (*told, *judged)
    ]


def _watched(place: Path) -> Any:
    """What a monitor counted, its window, and the alarms that it told."""
    with np.load(place / "state") as state:
        header = orjson.loads(state["header"].tobytes())
        window = state["values"].tobytes()
    alarms = [orjson.loads(line) for line in (place / "alarms.jsonl").read_bytes().splitlines()]
    return (
        header["total"],
        header["totals"],
        window,
        [(one["state"], one["episode"]) for one in alarms],
    )


def _pooled(place: Path) -> Any:
    return [path.read_bytes() for path in sorted((place / "labels").glob("*.jsonl"))]


# -- What goes before ------------------------------------------------------------------------------


def _list(place: Path) -> None:
    (place / "list.toml").write_text(LIST)


def _recalls(place: Path) -> None:
    """A log of 3,000 requests, a third of which finds nothing."""
    found = [[f"s{(i + j) % 10:02}_{(i + j) % 7}" for j in range(80)] for i in range(3000)]
    found[1000:2000] = [["nothing"]] * 1000
    lines = (
        {"time": 1_700_000_000 + 60 * i, "query_id": f"mira-{i % 9 + 1:02}", "returned": one}
        for i, one in enumerate(found)
    )
    (place / "log.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def _to_label(place: Path) -> None:
    texts = [f"Note {i} of the ferry at {i % 12} and the dentist on day {i % 7}" for i in range(60)]
    lines = [orjson.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    (place / "documents.jsonl").write_bytes(b"\n".join(lines))
    (place / "queries.txt").write_text("When does the ferry leave?\nWhen is the dentist?\n")


@cache
def endpoint() -> str:
    """The address of a model that answers and judges by what it is shown."""

    def answer(chat: Chat) -> str:
        chance = zlib.crc32(chat.text.encode())
        if "Verdict:" in str(chat.messages[-1]["content"]):
            return "RIGHT" if chance % 2 else "WRONG"
        return f"word{chance}"

    server = OpenAIEndpoint(answer).__enter__()
    atexit.register(server.__exit__)
    os.environ["OPENAI_API_KEY"] = "none"
    import openai  # noqa: F401 - once, and not in each command that is forked

    return server.url


@cache
def hub() -> str:
    """The name of a task on a hub, to which HF_ENDPOINT leads from here on."""
    server = Loopback().__enter__()
    atexit.register(server.__exit__)
    with tempfile.TemporaryDirectory() as name:
        written = mteb_files.write(Path(name, "task"), mteb_files.SMALL)
        files = {
            path.relative_to(written).as_posix(): path.read_bytes()
            for path in written.rglob("*")
            if path.is_file()
        }
    server.put_dataset("someone/notes", COMMIT, files)
    os.environ["HF_ENDPOINT"] = server.url
    return f"mteb/someone/notes@{COMMIT}"


# -- The commands ----------------------------------------------------------------------------------


@cache
def scenarios() -> tuple[Scenario, ...]:
    """All; the first time, servers are started for those that ask one."""
    night = ("run", "--config", "list.toml")
    board = ("leaderboard",)
    score = ("score", "--results", "results", "bm25", "--metrics", "recall@3,ndcg@10")
    model = ("--model", "m", "--endpoint", endpoint())
    answer = ("answer", "bm25", "--no-baselines", "--out", "asked", *model)
    judge = ("judge", "asked/*.answers", "--judge", "plain", *model)
    monitor = (
        *("monitor", "log.jsonl", "--once", "--dataset", "sample", "--state", "state"),
        *(
            "--alert-log",
            "alarms.jsonl",
            "--window",
            200,
            "--alert",
            "recall@100 < 0.01",
            "--metrics",
            "recall@100",
        ),
    )
    systems = ("--retriever", "bm25", "--retriever", "tfidf")
    label = ("label", "start", "documents.jsonl", "queries.txt", "--pool-only", *systems)
    prepare = ("datasets", "prepare", "sample", "--rebuild")
    download = ("datasets", "prepare", hub())
    return (
        Scenario("run", RUN, (*RUN, "--resume"), _numbers),
        Scenario("list", night, (*night, "--resume"), _night, files=_list),
        Scenario("score", score, score, _numbers, (RUN,)),
        Scenario(
            "leaderboard",
            board,
            board,
            _file("results/leaderboard.json"),
            (RUN,),
        ),
        Scenario("run again", (*RUN, "--overwrite"), (*RUN, "--resume"), _numbers, (RUN,)),
        Scenario("answer", answer, answer, _answers, (RUN,)),
        Scenario("judge", judge, judge, _answers, (RUN, answer)),
        Scenario("monitor", monitor, monitor, _watched, files=_recalls),
        Scenario("label", label, label, _pooled, files=_to_label),
        Scenario("prepare", prepare, prepare, _prepared, (prepare,)),
        Scenario("download", download, download, _prepared),
    )


_TEMPLATES = tempfile.TemporaryDirectory(prefix="faults-")


def prepare(scenario: Scenario, place: Path) -> None:
    """The folder in which a scenario is played."""
    shutil.copytree(_made(scenario), place, dirs_exist_ok=True)


@cache
def _made(scenario: Scenario) -> Path:
    made = Path(_TEMPLATES.name, scenario.name)
    (made / "results").mkdir(parents=True)
    scenario.files(made)
    for words in scenario.before:
        done = ended(named(words, made), made)
        assert done.status == 0, done.err
    return made


def named(words: Words, place: Path) -> list[object]:
    """Words with the names of the files that those with a * stand for."""
    return [
        one
        for word in words
        for one in (sorted(place.glob(word)) if isinstance(word, str) and "*" in word else [word])
    ]
