"""A retriever as a service, in 40 lines: it counts the words that a document and a question share.

cp "$(harness examples http_server.py)" . && python http_server.py 8123
harness run --dataset sample --retriever http --param url=http://127.0.0.1:8123
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

haystacks: dict[tuple[str, str], dict[str, set[str]]] = {}


def reply(message):
    asked = message["client"], message["haystack"]  # several clients may ask at once
    if message["type"] == "reset":
        haystacks[asked] = {}
        return {"concurrent_haystacks": True}
    if message["type"] == "close":
        haystacks.pop(asked, None)
        return {}
    documents = haystacks[asked]
    if message["type"] == "index":
        for d in message["documents"]:
            documents[d["id"]] = words(f"{d.get('title', '')} {d['text']}")
        return {}
    return {"results": [best(documents, q["text"], message["k"]) for q in message["queries"]]}


def best(documents, text, k):
    hits = [{"id": id_, "score": len(words(text) & found)} for id_, found in documents.items()]
    return {"hits": sorted(hits, key=lambda hit: -hit["score"])[:k]}


def words(text):
    return set(text.lower().split())


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open
    disable_nagle_algorithm = True  # avoids a delay of 40 ms per reply

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"number": message["number"], **reply(message)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
