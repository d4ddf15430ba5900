"""A retriever as a service, in 30 lines: it counts the words that a document and a question share.

cp "$(harness examples http_server.py)" . && python http_server.py 8123
harness run --dataset sample --retriever http --param url=http://127.0.0.1:8123
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

documents: dict[str, set[str]] = {}


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection
    disable_nagle_algorithm = True  # or every answer waits 40 ms

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = {}
        if message["type"] == "reset":
            documents.clear()
        elif message["type"] == "index":
            documents.update(
                {d["id"]: set(d["text"].lower().split()) for d in message["documents"]}
            )
        else:
            reply["results"] = [answer(q["text"], message["k"]) for q in message["queries"]]
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def answer(text, k):
    words = set(text.lower().split())
    hits = [{"id": id_, "score": len(words & found)} for id_, found in documents.items()]
    return {"hits": sorted(hits, key=lambda hit: -hit["score"])[:k]}


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
