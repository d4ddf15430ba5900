"""Systems and services that do what none should: told, and never a number or a trace of ours."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forked import ended
from kills import left_over
from serving import serving

from harness.io.records import read_json_record
from harness.records.scores import ScoreReport

SYSTEM = """
import gc, os, random, signal, sys, threading, time, warnings
import numpy as np
from harness import Hit, Result

class Odd:
    def {method}(self): pass

class System:
    batch_size = {batch_size}
    def __init__(self):
        self.at("init")
    def index(self, corpus):
        self.documents = list(corpus)
        self.at("index")
    def search(self, queries, k):
        self.ids = [document.id for document in self.documents[:k]]
        found = self.at("search")
        return [self.ids if found is None else found for _ in queries]
    def report(self):
        return self.at("report") or {{}}
    def close(self):
        self.at("close")
    def at(self, where):
        if where == {where!r}:
            {does}
"""
ANYWHERE = (
    "raise ValueError('no')",
    "raise SystemExit(0)",
    "raise MemoryError",
    "raise RecursionError",
    "raise StopIteration",
    "raise GeneratorExit",
    "raise UnicodeDecodeError('utf-8', b'x', 0, 1, 'no')",
    "raise OSError(28, 'No space left on device')",
    "raise BrokenPipeError",
    "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "os._exit(0)",
    "os.kill(os.getpid(), 9)",
    "os.chdir('/')",
    "sys.stdout = None",
    "sys.stderr.close()",
    "os.close(1)",
    "print('\\x1b[2J' * 1000)",
    "random.seed(0); np.random.seed(0)",
    "signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "threading.Thread(target=time.sleep, args=(2,)).start()",
    "warnings.warn('odd', stacklevel=1)",
    "gc.disable()",
    "os.environ.clear()",
    "os.fork()",
)
ANSWERS = (
    "return 'd1'",
    "return 7",
    "return [None]",
    "return [1.5]",
    "return [True, False]",
    "return [-1]",
    "return [10**30]",
    "return ['h\\ud800']",
    "return {self.ids[0]: float('nan')}",
    "return [(self.ids[0], float('inf'))]",
    "return np.array(3)",
    "return np.zeros((2, 2))",
    "return np.array(self.ids, object)",
    "return {1, 2}",
    "return iter(self.ids)",
    "return [[self.ids]]",
    "return self.ids + self.ids",
    "return self.ids * 1000",
    "return Result(self.ids, abstain='no')",
    "return Result(self.ids, confidence=float('nan'))",
    "return Result(self.ids, confidence='high')",
    "return Result(self.ids, scores=[1])",
    "return Result(hits=[Hit(text=7)])",
    "return Result(hits=[Hit('x', sources='h1')])",
    "return Result(answer=b'bytes')",
    "return Odd()",
    "return Odd",
)
REPORTS = ("return 7", "return {1: {2}}", "return {'a': object()}", "return {'usd': float('nan')}")
WAYS = ((), ("--workers", 2), ("--isolate",))

REPLIES: tuple[Any, ...] = (
    *(None, [], "x", 7, True, {"results": 7}, {"results": [7]}, {"results": [{}]}, {"results": []}),
    *({"results": [{"hits": hits}]} for hits in (7, {}, [7], [{}], [{"id": 7}], [{"id": None}])),
    *({"results": [{"hits": [{"id": "x", "score": score}]}]} for score in ("1", None, True, [])),
    *({"results": [{"hits": [{"text": text}]}]} for text in (7, None, [], "\ud800", "x" * 10**6)),
    *({"results": [{"hits": [], name: 7}]} for name in ("confidence", "abstain", "answer", "odd")),
    *({"results": [{"hits": []}], name: "x"} for name in ("number", "usage", "instance", "ready")),
    *({"results": [{"hits": []}] * n} for n in (0, 2, 1000)),
    {"error": {"a": 1}},
    {"results": [{"hits": [{"sources": "h1", "text": "x"}]}]},
    {"results": [{"hits": [{"sources": ["nowhere"], "text": "x"}]}]},
)


def systems() -> Iterator[tuple[str, str]]:
    """What is wrong with a system, and its code."""
    for does in ANYWHERE:
        for where in ("init", "index", "search", "report", "close"):
            yield f"{does} at {where}", _code(where, does)
    for does in ANSWERS:
        yield does, _code("search", does)
    for does in REPORTS:
        yield f"report: {does}", _code("report", does)
    for size in ("0", "-1", "'x'", "None", "10**12", "1.5"):
        yield f"batch_size = {size}", _code("", "pass", batch_size=size)
    for method in ("__len__", "__iter__", "__eq__", "__getattr__"):
        yield f"an object with {method}", _code("search", "return Odd()", method=method)


def _code(where: str, does: str, batch_size: str = "1", method: str = "nothing") -> str:
    return SYSTEM.format(where=where, does=does, batch_size=batch_size, method=method)


def hostile(n: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """`n` systems and services: each system in each way of running it first, then the services."""
    found, wrong = Counter[str](), list[str]()
    all_systems = [(about, code, way) for way in WAYS for about, code in systems()]
    step = max(1, -(-(len(all_systems) + len(REPLIES)) // n)) if n else 1
    words = ("run", "--dataset", "sample", "--limit", 6, "--k", 5, "--json")
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        made = Path(name, "made")
        made.mkdir()
        done = ended((*words, "--retriever", "bm25"), made)
        assert done.status == 0, done.err
        shutil.rmtree(made / "results")
        place = Path(name, "tried")
        for about, code, way in all_systems[seed % step :: step] if n else ():
            shutil.copytree(made, place)
            (place / "system.py").write_text(code)
            done = ended((*words, "--retriever", "system.py:System", *way), place)
            _look(f"{about} {way}", done, place, found, wrong)
        for reply in REPLIES[seed % step :: step] if n else ():
            shutil.copytree(made, place)

            def answer(message: dict[str, Any], reply: Any = reply) -> tuple[int, Any]:
                return 200, reply if message["type"] == "search" else {}

            with serving(answer) as (url, _):
                done = ended((*words, "--retriever", "http", "--param", f"url={url}"), place)
            _look(f"reply {str(reply)[:80]}", done, place, found, wrong)
    return found, wrong


def _look(about: str, done: Any, place: Path, found: Counter[str], wrong: list[str]) -> None:
    found["tried"] += 1
    found["told"] += done.status != 0
    found["orphans"] += done.orphans
    if done.orphans:
        wrong.append(f"{about}: {done.orphans} processes are left")
    killed = done.status == -9 and "os.kill" in about  # nobody could say more
    if done.traceback and not killed:
        found["tracebacks"] += 1
        wrong.append(f"{about}: {done.status} {done.err[-700:]}")
    for path in place.glob("results/[!.]*/scores.json"):
        odd = [one for one in _numbers(read_json_record(path, ScoreReport)) if not 0 <= one <= 1]
        if odd:
            found["silent"] += 1
            wrong.append(f"{about}: numbers {odd[:3]}")
    if done.status == 0 and not [*place.glob("results/[!.]*/scores.json")]:
        found["silent"] += 1
        wrong.append(f"{about}: status 0, and nothing was made")
    ended(("runs", "--json"), place)
    if left := [one for one in left_over(place) if not one.endswith(".tmp")]:
        found["leftovers"] += 1
        wrong.append(f"{about}: left {left}")
    shutil.rmtree(place)


def _numbers(scores: ScoreReport) -> Iterator[float]:
    for block in scores.protocols:
        for part in block.slices.values():
            for name, cell in part.metrics.items():
                if name.startswith(("recall", "ndcg", "mrr")) and cell.value is not None:
                    yield cell.value if math.isfinite(cell.value) else -1.0


if __name__ == "__main__":
    import sys

    counts, said = hostile(int(sys.argv[1]))
    print(dict(counts))
    print("\n".join(said))
