"""Requests a second through `harness.extensions.online.monitor`, and the memory that it takes, on
one core.

python tests/benchmarks/monitor.py [requests]        # a million by default

Each case is one process: `record` is called from code, request by request; `follow` reads a
JSON-lines log from the disk. 500 labelled queries of ten words with two relevant documents each,
requests of ten ids with time, seconds and clicks; half of them are of labelled queries.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUERIES, WORDS = 500, [f"word{i}" for i in range(3000)]


def labels(chance: random.Random) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    qrels = {f"q{i}": {f"d{chance.randrange(5000)}": 1 for _ in range(2)} for i in range(QUERIES)}
    texts = {name: " ".join(chance.choices(WORDS, k=10)) for name in qrels}
    return qrels, texts


def line(chance: random.Random, texts: dict[str, str], i: int) -> dict[str, object]:
    known = chance.random() < 0.5
    name = f"q{chance.randrange(QUERIES)}"
    return {
        "time": 1.7e9 + i * 0.2,
        "query": texts[name] if known else " ".join(chance.choices(WORDS, k=10)),
        "results": [{"id": f"d{chance.randrange(5000)}", "score": 10 - j} for j in range(10)],
        "latency_ms": chance.expovariate(0.05),
        "clicked": [],
    }


def measure(kind: str, window: int, events: int, log: Path) -> dict[str, float]:
    from harness.extensions.online.monitor import AlertRules, Monitor, parse_threshold
    from harness.extensions.online.monitor.tail import LogTailer
    from harness.extensions.online.monitor.window import Labels
    from harness.scoring.qrels import from_dict

    qrels, texts = labels(random.Random(0))
    known = Labels(from_dict(qrels), list(texts.values()), ["lookup"] * QUERIES, "made")
    rules = AlertRules((parse_threshold("recall@10 < 0.9"), parse_threshold("p95 > 1")))
    monitor = Monitor(window, labels=known, rules=rules)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    if kind == "follow":
        LogTailer(log, monitor).read()
    else:
        chance = random.Random(1)
        made = [line(chance, texts, i) for i in range(5000)]
        given = [
            (r["query"], [hit["id"] for hit in r["results"]], r["time"], r["latency_ms"] / 1000)
            for r in made
        ]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        for i in range(events):
            query, returned, at, seconds = given[i % len(given)]
            monitor.record(query, returned=returned, seconds=seconds, time=at + i * 0.2, clicked=[])
    monitor.snapshot()
    took = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": took, "before_mb": before / 1024, "peak_mb": peak / 1024}


def main() -> None:
    if len(sys.argv) == 5:
        kind, window, events, log = sys.argv[1:]
        print(json.dumps(measure(kind, int(window), int(events), Path(log))))
        return
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "requests.jsonl"
        chance = random.Random(1)
        texts = labels(random.Random(0))[1]
        with open(log, "w") as file:
            for i in range(events):
                file.write(json.dumps(line(chance, texts, i)) + "\n")
        print(f"{events:,} requests, log of {log.stat().st_size / 1e6:,.0f} MB")
        print("way       window   requests/s   peak MB   of that before")
        for kind in ("record", "follow"):
            for window in (1_000, 100_000):
                command = [sys.executable, __file__, kind, str(window), str(events), str(log)]
                one = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
                said = subprocess.run(command, check=True, capture_output=True, env=one).stdout
                found = json.loads(said)
                print(
                    f"{kind:7} {window:8,} {events / found['seconds']:11,.0f} "
                    f"{found['peak_mb']:9,.0f} {found['before_mb']:16,.0f}"
                )


if __name__ == "__main__":
    main()
