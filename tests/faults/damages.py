"""Run folders, prepared datasets and caches with one thing wrong: the same numbers, or a line."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
from damaged import DAMAGES, damage
from forked import ended
from kills import two_runs

COMMANDS: tuple[tuple[object, ...], ...] = (
    ("compare", "{run}", "{other}", "--json"),
    ("gate", "{run}", "--config", "gate.toml", "--json"),
    ("leaderboard", "--json"),
    ("runs", "--json"),
    ("runs", "verify"),
    ("report", "{run}", "--out", "page.html", "--share", "--json"),
    ("export", "{run}", "--format", "jsonl", "--out", "out.jsonl"),
    ("verify", "{run}", "--json"),
    ("score", "{run}", "--json"),
)


_READ_BY = 3  # commands


def damages(n: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """`n` damaged run folders, each read by some of the commands."""
    found, wrong = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        made = two_runs(Path(name, "made"))
        run, other = sorted(path.parent for path in made.glob("results/[!.]*/run.json"))
        names = {"run": run.name, "other": other.name}
        whole: dict[str, Any] = {}
        for number in range(-1, n):
            place = Path(name, "tried")
            shutil.copytree(made, place)
            where, drawn = place / "results" / run.name, seed * 10**6 + number
            what = "whole" if number < 0 else damage(where, drawn)
            found["tried"] += number >= 0
            draw = random.Random(drawn)
            for command in COMMANDS if number < 0 else draw.sample(COMMANDS, _READ_BY):
                words = tuple(str(word).format(**names) for word in command)
                done = ended(words, place)
                about = f"{number} {what}: {' '.join(words)}"
                if done.traceback:
                    found["tracebacks"] += 1
                    wrong.append(f"{about}: {done.err[-600:]}")
                elif done.status == 0 and command[0] in ("compare", "gate"):
                    said = _numbers(orjson.loads(done.out))
                    if whole.setdefault(str(command[0]), said) != said:
                        found["silent"] += 1
                        wrong.append(f"{about}: another number")
            shutil.rmtree(place)
    return found, wrong


def _numbers(told: dict[str, Any]) -> Any:
    return [one["tables"] for one in told["groups"]] if "groups" in told else told["checks"]


def caches(n: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """`n` damaged files of a prepared dataset, an index or vectors, below a run that uses them."""
    draw, found, wrong = random.Random(seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        made = Path(name, "made")
        made.mkdir()
        run = ("run", "--dataset", "sample", "--retriever", "minilm", "--limit", 20, "--json")
        done = ended(run, made)
        assert done.status == 0, done.err
        whole = (made / "results").glob("[!.]*/rankings.parquet")
        wanted = next(whole).read_bytes()
        shutil.rmtree(made / "results")
        files = sorted(
            path.relative_to(made)
            for path in (made / "home").rglob("*")
            if path.is_file() and path.stat().st_size and "lock" not in path.name
        )
        for number in range(n):
            place = Path(name, "tried")
            shutil.copytree(made, place)
            path = place / files[number % len(files)]
            how = draw.choice(DAMAGES if path.suffix == ".json" else DAMAGES[:-1])
            path.write_bytes(how(draw, path.read_bytes()))
            found["tried"] += 1
            about = f"{files[number % len(files)]} {how.__name__}"
            looks = (("cache", "verify"), ("cache",), ("datasets", "verify", "sample"))
            for words in (run, draw.choice(looks)):
                done = ended(words, place)
                if done.traceback:
                    found["tracebacks"] += 1
                    wrong.append(f"{about}: {words}: {done.status} {done.err[-500:]}")
            ranked = [one.read_bytes() for one in place.glob("results/[!.]*/rankings.parquet")]
            if ranked and ranked != [wanted]:
                found["silent"] += 1
                wrong.append(f"{about}: another ranking")
            shutil.rmtree(place)
    return found, wrong


if __name__ == "__main__":
    import sys

    for tried in (damages, caches):
        counts, said = tried(int(sys.argv[1]))
        print(tried.__name__, dict(counts))
        print("\n".join(said))
