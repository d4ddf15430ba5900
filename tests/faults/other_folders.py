"""Folders of answers, labels, lists, boards, monitors with one thing wrong: told, or the same."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from damaged import damaged_file
from forked import Ended, counted, ended
from scenarios import Scenario, Words, named, prepare, scenarios


@dataclass(frozen=True)
class Folder:
    """What a scenario leaves, the files of it that are damaged, and who reads it; `same`: what
    must be as it was where the first of the readers ends well (of what people write: nothing)."""

    scenario: str
    files: str
    readers: tuple[Words, ...]
    same: Callable[[Path, Ended], Any] = lambda place, done: None
    killed_at: int = 0  # touch of a file, where the scenario is left so


def folders() -> tuple[Folder, ...]:
    """All kinds."""
    of = {one.name: one for one in scenarios()}
    night, model = of["list"].words, of["judge"].words[4:]
    return (
        Folder(
            "judge",
            "asked/**/*",
            (
                ("score", "asked/*.answers", "--json"),
                of["judge"].again,
                ("runs", "verify", "--results", "asked"),
                ("label", "answers", "asked/*.answers", "--sample", 5, "--out", "l", "--pool-only"),
                ("answer", "bm25", "--no-baselines", "--out", "asked", *model),
            ),
            lambda place, done: orjson.loads(done.out)["results"][0]["scores"]["protocols"],
        ),
        Folder(
            "label",
            "labels/*",
            (
                of["label"].again,
                ("label", "status", "labels", "--json"),
                ("label", "export", "labels", "--out", "set", "--unfinished"),
            ),
        ),
        Folder(
            "list",
            "runs/*",
            (night, (*night, "--resume"), ("report", "runs", "--out", "page.html")),
        ),
        Folder(
            "run",
            "results/.*.tmp/*",
            (
                of["run"].again,
                ("runs", "--json"),
                of["run"].words,
                (*of["run"].words, "--overwrite"),
            ),
            lambda place, done: of["run"].result(place),
            killed_at=30,
        ),
        Folder("monitor", "state", (of["monitor"].again,), lambda place, done: done.out),
        Folder(
            "leaderboard",
            "results/leaderboard*",
            (("leaderboard",), ("board", "publish", "site")),
            lambda place, done: of["leaderboard"].result(place),
        ),
    )


def other_folders(n: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """`n` damaged folders, each read by two of the commands."""
    found, wrong, kinds = Counter[str](), list[str](), folders()
    of = {one.name: one for one in scenarios()}
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        place = Path(name, "tried")  # always the same: a monitor's state knows where its log is
        for number, kind in enumerate(kinds):
            made = _made(of[kind.scenario], kind.killed_at, place, Path(name, str(number)))
            shutil.copytree(made, place)
            done = ended(named(kind.readers[0], place), place)
            assert done.status == 0, done.err
            same = kind.same(place, done)
            shutil.rmtree(place)
            for one in range(number, n, len(kinds)):
                draw = random.Random(seed * 10**6 + one)
                shutil.copytree(made, place)
                files = sorted(path for path in place.glob(kind.files) if path.is_file())
                path = draw.choice(files)
                about = f"{kind.scenario} {one} {path.name} {damaged_file(path, draw)}"
                found["tried"] += 1
                for words in draw.sample(kind.readers, min(2, len(kind.readers))):
                    done = ended(named(words, place), place)
                    found["told"] += done.status != 0
                    found["orphans"] += done.orphans
                    if done.traceback:
                        found["tracebacks"] += 1
                        wrong.append(f"{about}: {words[:3]}: {done.status} {done.err[-900:]}")
                    elif (
                        words == kind.readers[0]
                        and not done.status
                        and (kind.same(place, done) != same)
                    ):
                        found["silent"] += 1
                        wrong.append(f"{about}: {words[:3]}: something else is there")
                shutil.rmtree(place)
    return found, wrong


def _made(scenario: Scenario, killed_at: int, place: Path, to: Path) -> Path:
    prepare(scenario, place)
    done = ended(named(scenario.words, place), place, counted(place, killed_at))
    assert done.status == (-9 if killed_at else 0), done.err
    return place.rename(to)


if __name__ == "__main__":
    import sys

    counts, said = other_folders(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(dict(counts))
    print("\n".join(said))
