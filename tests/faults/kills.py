"""Commands that are killed at any moment, and what the next one makes of what they left."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from forked import counted, ended, timed
from scenarios import RUN, Scenario, named, prepare, scenarios

from harness.io.files import _NAME


def two_runs(place: Path) -> Path:
    """A new folder with two runs, and a gate for them; gives the folder."""
    place.mkdir()
    (place / "gate.toml").write_text('[[at_least]]\nmetric = "recall@10"\nvalue = 0.1\n')
    for words in (RUN, tuple("random" if word == "bm25" else word for word in RUN)):
        done = ended(words, place)
        assert done.status == 0, done.err
    return place


def left_over(place: Path) -> list[str]:
    """What no process is at, and no command needs."""
    return [
        str(path.relative_to(place))
        for path in place.rglob("*")
        if _NAME.fullmatch(path.name) or path.suffix == ".tmp"
    ]


def kill(
    scenario: Scenario, at: int | float, whole: Any, found: Counter[str], wrong: list[str]
) -> None:
    """Kill a scenario at the `at`-th touch of a file, or after `at` seconds, and go on."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        place = Path(name)
        prepare(scenario, place)
        first = counted(place, at) if isinstance(at, int) else timed(at)
        killed = ended(named(scenario.words, place), place, first)
        found["tried"] += 1
        found["killed"] += killed.status < 0
        found["orphans"] += killed.orphans
        looked = ended(("runs", "--json"), place)
        went_on = ended(named(scenario.again, place), place)
        told = [one for one in (killed, looked, went_on) if one.status >= 0 and one.traceback]
        found["tracebacks"] += len(told)
        wrong += [f"{scenario.name} at {at}: {one.err[-300:]}" for one in told]
        if went_on.status:
            found["not gone on"] += 1
            wrong.append(f"{scenario.name} at {at}: status {went_on.status}: {went_on.err[-300:]}")
        elif scenario.result(place) != whole:
            found["silent"] += 1
            wrong.append(f"{scenario.name} at {at}: another result")
        for partial in place.glob("*/.*.tmp"):
            os.utime(partial, (1, 1))  # as a minute later
        ended(
            ("runs", "--json", *(("--results", "runs") if scenario.name == "list" else ())), place
        )
        if left := left_over(place):
            found["leftovers"] += 1
            wrong.append(f"{scenario.name} at {at}: left {left}")


def played(scenario: Scenario) -> tuple[Any, int, float]:
    """What a scenario gives, how often it touches a file, and how long it takes."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        place = Path(name)
        prepare(scenario, place)
        told = place.with_suffix(".count")
        started = time.monotonic()
        done = ended(named(scenario.words, place), place, counted(place, 0, told))
        took = time.monotonic() - started
        assert done.status == 0, done.err
        touches = int(told.read_text())
        told.unlink()
        return scenario.result(place), touches, took


def kills(n: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """`n` kills: at every touch of a file, evenly chosen where there are more, and by the clock."""
    draw, found, wrong = random.Random(seed), Counter[str](), list[str]()
    for number, scenario in enumerate(scenarios()):
        mine = n // len(scenarios()) + (number < n % len(scenarios()))
        whole, touches, took = played(scenario)
        by_count = min(touches, max(1, 2 * mine // 3))
        points: list[int | float] = sorted(draw.sample(range(1, touches + 1), by_count))
        points += [draw.uniform(0, took) for _ in range(mine - by_count)]
        for at in points:
            kill(scenario, at, whole, found, wrong)
    return found, wrong


if __name__ == "__main__":
    import sys

    counts, said = kills(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(dict(counts))
    print("\n".join(said))
