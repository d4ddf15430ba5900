"""A class of your own as a command, where the harness is not installed: Python 3.8 is all it needs.

python3 -m venv theirs && theirs/bin/pip install what-your-class-imports
cp "$(harness examples serve_class.py)" .
harness run --dataset sample --retriever command --param venv=theirs \
    --param run="python serve_class.py mine.py:Mine depth=3"

The class has `index(corpus)` and `search(queries, k)`, which returns ids, positions, (id, score)
pairs, {id: score}, or dicts with a `text` and its `sources` per question.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import traceback
from datetime import datetime, timezone
from types import SimpleNamespace

loop = asyncio.new_event_loop()


class Corpus(list):
    """The documents in the order received."""

    @property
    def handles(self):
        return [document.id for document in self]

    @property
    def contents(self):
        return [document.content for document in self]

    @property
    def timestamps(self):
        return [document.timestamp for document in self]

    def sessions(self):
        sessions = {}
        for document in self:
            sessions.setdefault(document.session or document.id, []).append(document)
        return list(sessions.values())


def seconds(date):
    """Converts an ISO date of the dataset's own clock to seconds since 1970."""
    if date is None:
        return None
    utc = timezone.utc  # noqa: UP017 - Python 3.8 has no datetime.UTC
    return int(datetime.fromisoformat(date).replace(tzinfo=utc).timestamp())


def document(sent):
    known = dict.fromkeys(("session", "speaker", "position"))
    found = SimpleNamespace(**{"title": "", **known, **sent})
    found.timestamp = seconds(sent.get("timestamp"))
    found.content = f"{found.title} {found.text}" if found.title else found.text
    return found


def result(answer, retriever, corpus):
    by = "score" if isinstance(answer, dict) else getattr(retriever, "ranked_by", "")
    return {"hits": hits(answer, corpus), "ranked_by": by}


def hits(answer, corpus):
    """Converts the answer to one question, in any of the forms above."""
    if hasattr(answer, "tolist"):  # a NumPy array; -1 means no document
        answer = [one for one in answer.tolist() if one != -1]
    return [hit(one, corpus) for one in (answer.items() if isinstance(answer, dict) else answer)]


def hit(one, corpus):
    if isinstance(one, dict):
        sources = [handle(source, corpus) for source in one.get("sources", [])]
        score = one.get("score")
        known = {} if score is None else {"score": float(score)}
        return {"text": one["text"], "sources": sources, **known}
    if isinstance(one, (tuple, list)):
        return {"id": handle(one[0], corpus), "score": float(one[1])}
    return {"id": handle(one, corpus)}


def handle(one, corpus):
    if isinstance(one, str):
        return one
    if not 0 <= int(one) < len(corpus):
        raise IndexError(f"position {one} is not in a haystack of {len(corpus)} documents")
    return corpus[int(one)].id


def awaited(value):
    async def result():
        return await value

    return loop.run_until_complete(result()) if inspect.isawaitable(value) else value


def reply(retriever, corpus, message):
    if message["type"] == "reset":
        corpus.clear()
    elif message["type"] == "index":
        corpus += map(document, message["documents"])
        if message["last"]:
            awaited(retriever.index(corpus))
    elif message["type"] == "search":
        asked = [
            SimpleNamespace(text=query["text"], timestamp=seconds(query.get("timestamp")))
            for query in message["queries"]
        ]
        found = awaited(retriever.search(asked, message["k"]))
        return {"results": [result(awaited(one), retriever, corpus) for one in found]}
    return {}


def built(name, given):
    """Builds an instance of `file.py:Name`; parameters are JSON values or else texts."""
    file, _, of = name.rpartition(":")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location(os.path.basename(file)[:-3], file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    parameters = dict(one.split("=", 1) for one in given)
    return getattr(module, of)(**{key: value(text) for key, text in parameters.items()})


def value(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to stderr
    retriever, corpus = built(sys.argv[1], sys.argv[2:]), Corpus()
    for line in sys.stdin:
        try:
            said = reply(retriever, corpus, json.loads(line))
        except Exception as error:
            traceback.print_exc()
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=replies, flush=True)


if __name__ == "__main__":
    main()
