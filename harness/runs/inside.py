"""What runs inside the sandbox: one retriever, asked by lines of JSON on its standard input.

See isolated.py for who asks. Documents come as an Arrow stream behind the message that announces
them. What the retriever prints goes to standard error; answers are plain values, which are judged
by who asked.
"""

from __future__ import annotations

import json
import os
import sys
from operator import index
from typing import IO, Any

from harness.errors import HarnessError, ResponseMismatchError, UsageError
from harness.retrievers import calls
from harness.retrievers.answers import as_result
from harness.retrievers.baselines import is_oracle
from harness.retrievers.clock import Clock, running
from harness.retrievers.contract import Corpus, Question, Retriever
from harness.retrievers.patience import rate_limit
from harness.retrievers.plugins import FAILURES
from harness.retrievers.registry import RetrieverSpec
from harness.runs.provenance import retriever_record
from harness.runs.reports import closed, reported, stay, trace


def main() -> None:
    """Answer messages until there are no more."""
    # Nobody else is to read the questions or to write between the answers.
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    bench, own = _Bench(asked), os.getpid()
    for line in asked:
        reply: dict[str, Any]
        try:
            reply = bench.answer(json.loads(line))
            data = json.dumps(reply, default=_plain)
        except HarnessError as error:
            usage = isinstance(error, UsageError)
            data = json.dumps({"ends": "usage" if usage else "run", "said": str(error)})
        except FAILURES as error:
            data = json.dumps({"error": trace(), "rate_limit": rate_limit(error)})
        stay(own)
        answers.write(data.encode() + b"\n")
        answers.flush()
    try:
        bench.close()
    except ResponseMismatchError as error:
        print(f"harness: {error}", file=sys.stderr)
        sys.exit(ResponseMismatchError.left_with)


class _Bench:
    """The retriever of this process, built by the first message."""

    retriever: Retriever

    def __init__(self, asked: IO[bytes]) -> None:
        self._asked = asked

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The reply to one message."""
        kind = message["type"]
        if kind == "build":
            spec = RetrieverSpec(message["name"], message["params"], tuple(message["plugins"]))
            self.retriever = spec.build(message["seed"])
            return {"value": _about(spec, self.retriever)}
        if kind == "index":
            corpus = Corpus.received(self._asked)
            with running(Clock()) as clock:
                calls.index(self.retriever, corpus)
            return {"value": None, "seconds": clock.seconds}
        if kind == "search":
            questions = [Question(text, when) for text, when in message["questions"]]
            with running(Clock()) as clock:
                found = calls.search(self.retriever, questions, message["k"])
            seconds = clock.seconds
            return {"value": [_item(one) for one in found], "seconds": seconds}
        return {"value": reported(self.retriever.report)}  # type: ignore[attr-defined]

    def close(self) -> None:
        """Tell the retriever that no more will be asked."""
        if hasattr(self, "retriever"):
            closed(self.retriever)


def _about(spec: RetrieverSpec, retriever: Retriever) -> dict[str, Any]:
    """What the harness asks of a retriever beside index and search."""
    record = retriever_record(spec)
    return {
        "params": record["params"],
        "version": record["version"],
        "revision": getattr(retriever, "revision", None),
        "oracle": is_oracle(retriever),
        "batch_size": getattr(retriever, "batch_size", 1),
        "own_ids": bool(getattr(retriever, "own_ids", False)),
        "reports": callable(getattr(retriever, "report", None)),
    }


def _item(found: Any) -> dict[str, Any]:
    """One question's result as plain values, or the trace of what went wrong with it."""
    try:
        result = as_result(found)
        plain: dict[str, Any] = {
            "ids": result.ids,
            "scores": result.scores,
            "confidence": result.confidence,
            "abstain": bool(result.abstain),
            "hits": None,
            "answer": result.answer,
        }
        if result.hits is not None:
            plain["hits"] = [
                # No text stays none: who judges says so.
                [hit.text if isinstance(hit.text, str) else None, hit.sources, hit.score]
                for hit in result.hits
            ]
        return dict(json.loads(json.dumps(plain, default=_plain)))
    except FAILURES:  # a result may run the retriever's code: a generator, an array of its own
        return {"error": trace()}


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know: numbers, lists, else its text."""
    if hasattr(value, "tolist"):  # NumPy's, torch's
        return value.tolist()
    if hasattr(value, "__index__"):
        return index(value)
    if hasattr(value, "__float__"):
        return float(value)
    return list(value) if hasattr(value, "__iter__") else str(value)
