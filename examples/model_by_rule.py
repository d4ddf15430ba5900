"""A model without a model: answers questions of the dataset `sample` by a rule, and judges answers.

cp "$(harness examples model_by_rule.py)" . && python model_by_rule.py 8124
harness answer bm25 --model rule --endpoint http://127.0.0.1:8124/v1

It implements OpenAI's chat completions. It answers correctly with probability 0.9 if all evidence
is shown, 0.3 if a part is, and 0.05 if none is; as a judge it errs with probability 0.05. Results
can therefore be compared with known rates.
"""

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import harness

DATA = harness.open_dataset("sample")
QUESTIONS = {DATA.query(row).text: row for row in range(DATA.n_queries)}
EVIDENCE: dict[int, list[str]] = {}
for query, row, grade in zip(
    *(column.tolist() for column in (DATA.qrels().query, DATA.qrels().document)),
    DATA.qrels().grade.tolist(),
    strict=True,
):
    if grade >= 1:
        EVIDENCE.setdefault(query, []).append(DATA.documents[row].text)
UNKNOWN = "No information available."


def reply(text):
    """Returns the reply to the last message."""
    return judge(text) if "Verdict:" in text else read(text)


def read(text):
    row = QUESTIONS[text.partition("\nQuestion: ")[2].rpartition("\nAnswer:")[0]]
    query = DATA.query(row)
    if query.ability == "abstention":
        return UNKNOWN if luck(text) < 0.8 else "Seven"
    there = [one in text for one in EVIDENCE[row]]
    chance = 0.9 if all(there) else 0.3 if any(there) else 0.05
    if luck(text) < chance:
        return query.answers[0]
    return UNKNOWN if luck(text[::-1]) < 0.5 else "Something else"


def judge(text):
    query = DATA.query(QUESTIONS[text.partition("Question: ")[2].partition("\n")[0]])
    said = text.partition("Response: ")[2].rpartition("\nVerdict:")[0]
    right = said == UNKNOWN if query.ability == "abstention" else said in query.answers
    return "RIGHT" if right == (luck(text) < 0.95) else "WRONG"


def luck(text):
    """Returns a pseudo-random number from 0 to 1 that depends only on the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = reply(asked["messages"][-1]["content"])
        words = sum(len(one["content"].split()) for one in asked["messages"])
        message = {"role": "assistant", "content": said}
        answer = {
            "object": "chat.completion",
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": words, "completion_tokens": len(said.split())},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
