"""A service in use, in small: answers questions of the sample and logs every request.

The times are as if the requests were of the last day (or --days), ending last midnight UTC, unless
--a-second makes it work in real time.

python "$(harness examples log_requests.py)" a.jsonl           # each question once
python "$(harness examples log_requests.py)" a.jsonl --asked 6000 --days 60 --worse-after 4000
"""

import argparse
import json
import random
import time

from harness import open_dataset

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("log")
options.add_argument("--asked", type=int, help="requests, of questions at random (each once)")
options.add_argument("--worse-after", type=int, help="from then on three quarters of it are lost")
options.add_argument("--days", type=int, default=1, help="that the requests are spread over (1)")
options.add_argument("--a-second", type=float, help="requests a second (as fast as it goes)")
options = options.parse_args()

dataset = open_dataset("sample")
chance = random.Random(0)
memories = [
    [
        (document.id, set(document.content.lower().split()))
        for document in (dataset.documents[int(row)] for row in dataset.haystack_rows(haystack))
    ]
    for haystack in range(len(dataset.haystack_ids))
]


def answer(text, memory, k=10):
    words = set(text.lower().split())
    hits = sorted(((len(words & known), id_) for id_, known in memory), reverse=True)
    return [{"id": id_, "score": shared} for shared, id_ in hits[:k] if shared]


asked = options.asked or dataset.n_queries
midnight = time.time() // 86_400 * 86_400
with open(options.log, "a", encoding="utf-8") as log:
    for i in range(asked):
        row = chance.randrange(dataset.n_queries) if options.asked else i
        memory = memories[dataset.query_haystack[row]]
        if options.worse_after is not None and i >= options.worse_after:
            memory = memory[: len(memory) // 4]
        text, start = dataset.query(row).text, time.perf_counter()
        results = answer(text, memory)
        now = midnight - 86_400 * options.days * (1 - i / asked)
        if options.a_second:
            now = time.time()
        line = {"time": now, "query": text, "results": results}
        if options.worse_after is not None:
            line["system"] = "v1" if i < options.worse_after else "v2"
        line["latency_ms"] = (time.perf_counter() - start) * 1000
        line["clicked"] = [hit["id"] for hit in results[:5] if chance.random() < 0.1]
        log.write(json.dumps(line) + "\n")
        if options.a_second:
            log.flush()
            time.sleep(1 / options.a_second)
