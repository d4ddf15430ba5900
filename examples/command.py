"""A retriever as a command, in 20 lines: it counts the words that a document and a question share.

cp "$(harness examples command.py)" .
harness run --dataset sample --retriever command --param run="python command.py"
"""

import json
import sys

documents: dict[str, set[str]] = {}


def words(text):
    return set(text.lower().split())


for line in sys.stdin:
    message = json.loads(line)
    reply = {"number": message["number"]}
    if message["type"] == "reset":
        documents.clear()
    elif message["type"] == "index":
        for d in message["documents"]:
            documents[d["id"]] = words(f"{d.get('title', '')} {d['text']}")
    else:
        reply["results"] = []
        for query in message["queries"]:
            asked = words(query["text"])
            hits = [{"id": id_, "score": len(asked & found)} for id_, found in documents.items()]
            hits = sorted(hits, key=lambda hit: -hit["score"])[: message["k"]]
            reply["results"].append({"hits": hits})
    print(json.dumps(reply), flush=True)
