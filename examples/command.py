"""A retriever as a command, in 20 lines: it counts the words that a document and a question share.

cp "$(harness examples command.py)" .
harness run --dataset sample --retriever command --param run="python command.py"
"""

import json
import sys

documents: dict[str, set[str]] = {}

for line in sys.stdin:
    message = json.loads(line)
    reply = {}
    if message["type"] == "reset":
        documents.clear()
    elif message["type"] == "index":
        documents.update({d["id"]: set(d["text"].lower().split()) for d in message["documents"]})
    else:
        reply["results"] = []
        for query in message["queries"]:
            words = set(query["text"].lower().split())
            hits = [{"id": id_, "score": len(words & found)} for id_, found in documents.items()]
            hits = sorted(hits, key=lambda hit: -hit["score"])[: message["k"]]
            reply["results"].append({"hits": hits})
    print(json.dumps(reply), flush=True)
