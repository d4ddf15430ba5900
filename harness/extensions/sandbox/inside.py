"""Main program inside the sandbox: one retriever, controlled by JSON lines on standard input.

The caller is isolated.py. Documents follow the message that announces them, as an Arrow stream.
Output of the retriever goes to standard error; results are plain values that the caller validates.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import IO, Any

from harness.errors import HarnessError, ResponseMismatchError, UsageError
from harness.extensions.sandbox import messages
from harness.extensions.sandbox.corpus_stream import read_corpus
from harness.extensions.sandbox.messages import (
    BuildRequest,
    Ended,
    Failed,
    Indexed,
    IndexRequest,
    RawResult,
    Reported,
    Request,
    Response,
    RetrieverDescription,
    SearchReply,
    SearchRequest,
)
from harness.io.plugins import FAILURES, exit_if_forked
from harness.io.records import convert
from harness.retrievers import calls
from harness.retrievers.baselines import is_oracle
from harness.retrievers.contract import Question, Retriever
from harness.retrievers.outputs import ranked_result
from harness.retrievers.rate_limit import rate_limit
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.timing import Clock, timed
from harness.runs.provenance import retriever_record
from harness.runs.worker_state import close_quietly, plain_report, trace

_log = logging.getLogger(__name__)


def main() -> None:
    """Answers messages until the input ends."""
    # Keep other code from reading queries or writing between responses.
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    state, own = _SandboxState(asked), os.getpid()
    for line in asked:
        try:
            data = messages.dump(state.answer(messages.load(line, Request, "a request")))
        except HarnessError as error:
            usage = isinstance(error, UsageError)
            data = messages.dump(Ended(kind="usage" if usage else "run", message=str(error)))
        except FAILURES as error:
            data = messages.dump(Failed(trace=trace(), rate_limit=rate_limit(error)))
        exit_if_forked(own)
        answers.write(data)
        answers.flush()
    try:
        state.close()
    except ResponseMismatchError as error:
        _log.error(f"harness: {error}")
        sys.exit(ResponseMismatchError.left_with)


class _SandboxState:
    """The retriever of this process, built by the first message."""

    retriever: Retriever

    def __init__(self, asked: IO[bytes]) -> None:
        self._asked = asked

    def answer(self, message: Request) -> Response:
        """Returns the response to one message."""
        if isinstance(message, BuildRequest):
            spec = RetrieverSpec(message.name, message.params, tuple(message.plugins))
            self.retriever = spec.build(message.seed)
            return _description(spec, self.retriever)
        if isinstance(message, IndexRequest):
            corpus = read_corpus(self._asked)
            with timed(Clock()) as clock:
                calls.index(self.retriever, corpus)
            return Indexed(seconds=clock.seconds)
        if isinstance(message, SearchRequest):
            questions = [Question(*fields) for fields in message.questions]
            with timed(Clock()) as clock:
                found = calls.search(self.retriever, questions, message.k)
            seconds = clock.seconds
            return SearchReply(
                results=[_raw(one, self.retriever) for one in found], seconds=seconds
            )
        return Reported(report=plain_report(self.retriever.report))  # type: ignore[attr-defined]

    def close(self) -> None:
        """Closes the retriever."""
        if hasattr(self, "retriever"):
            close_quietly(self.retriever)


def _description(spec: RetrieverSpec, retriever: Retriever) -> RetrieverDescription:
    record = retriever_record(spec)
    revision = getattr(retriever, "revision", None)
    return RetrieverDescription(
        params=record.params,
        version=record.version,
        revision=revision if isinstance(revision, str) else None,
        is_oracle=is_oracle(retriever),
        batch_size=getattr(retriever, "batch_size", 1),
        returns_dataset_ids=bool(getattr(retriever, "returns_dataset_ids", False)),
        reports=callable(getattr(retriever, "report", None)),
    )


def _raw(found: Any, retriever: Retriever) -> RawResult:
    """Converts the result of a query to plain values, or to the traceback of its error."""
    try:
        result = ranked_result(found, retriever)
        raw = RawResult(
            ids=result.ids,
            scores=result.scores,
            confidence=result.confidence,
            abstain=bool(result.abstain),
            # A missing text stays None; the caller reports it.
            hits=None
            if result.hits is None
            else [
                (hit.text if isinstance(hit.text, str) else None, hit.sources, hit.score)
                for hit in result.hits
            ],
            answer=result.answer,
            ranked_by=result.ranked_by,
        )
        return convert(json.loads(messages.dump(raw)), RawResult, "a result")
    except FAILURES:  # a result may run the retriever's code: a generator, a custom array
        return RawResult(error=trace())
