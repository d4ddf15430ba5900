"""Calls retrievers: awaits asynchronous methods and waits until a retriever is ready.

`index`, `search`, `ready`, `report` and `close` may return awaitables. A process awaits all of them
in one event loop in a separate thread, so that clients can be reused between calls, and programs
with a running loop (notebooks) can run retrievers.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import cache
from itertools import groupby
from time import monotonic, sleep
from typing import Any

from harness.retrievers.contract import Corpus, Found, Question, Retriever
from harness.retrievers.corpus import Changed
from harness.retrievers.outputs import as_answers
from harness.retrievers.timing import current
from harness.schema import Document

_log = logging.getLogger(__name__)

READY_TIMEOUT = 600.0
"""Default of `ready_timeout`: seconds until `ready()` must be true."""

_FIRST, _LONGEST = 0.02, 1.0
"""Seconds between calls of `ready()`: doubled from the first to the longest."""

_SILENT = 10.0
"""Seconds of waiting after which a note is logged."""


def index(retriever: Retriever, corpus: Corpus) -> None:
    """Indexes a corpus and waits until the retriever is ready.

    Retrievers without `index` ingest the corpus session by session.
    Raises TimeoutError if the retriever is not ready in time, and all errors of the retriever.
    """
    if not callable(getattr(retriever, "index", None)):
        stream_corpus(retriever, corpus)
        return
    take_in: Callable[[Corpus], Any] = retriever.index
    await_result(take_in(corpus))
    wait_until_ready(retriever)


def is_streaming(retriever: Any) -> bool:
    """Tests whether a retriever can ingest a corpus session by session."""
    return all(callable(getattr(retriever, name, None)) for name in ("reset", "add"))


def is_concurrent(retriever: Any) -> bool:
    """Tests whether `search` may be called several times at once: see Capabilities.thread_safe."""
    is_async = inspect.iscoroutinefunction(getattr(retriever, "search", None))
    return bool(getattr(retriever, "thread_safe", is_async))


def can_serve(thing: Any) -> bool:
    """Tests whether an object has `search`, and `index` or `reset` and `add`."""
    takes_in = callable(getattr(thing, "index", None)) or is_streaming(thing)
    return takes_in and callable(getattr(thing, "search", None))


def reset(retriever: Any, corpus: Corpus) -> None:
    """Resets a streaming retriever; one that takes it receives the namespace of the corpus."""
    named = "namespace" in inspect.signature(retriever.reset).parameters
    await_result(retriever.reset(corpus.namespace) if named else retriever.reset())


def stream_corpus(retriever: Any, corpus: Corpus, before: Corpus | None = None) -> None:
    """Adds the sessions of a corpus in time order and waits until the retriever is ready.

    `before`: an earlier state of the corpus that the retriever has ingested already; without it,
    the retriever is reset. Raises as `index` does.
    """
    if before is None:
        reset(retriever, corpus)
    clock = current()
    sessions = corpus.sessions()[:] if corpus.changes else []
    document_of = {document.id: document for session in sessions for document in session}
    for event in corpus.events(before):
        if isinstance(event, Changed):
            _tell_of(retriever, event, document_of)
        else:
            await_result(retriever.add(event))
            clock.taken_in(len(event))
    wait_until_ready(retriever)


def _tell_of(retriever: Any, change: Changed, document_of: Mapping[str, Document]) -> None:
    """Passes a change to the retriever's `update` or `delete`, if it has them."""
    if change.kind == "forget" and callable(getattr(retriever, "delete", None)):
        await_result(retriever.delete(change.document))
    by = document_of.get(change.by or "")
    if change.kind == "update" and by is not None and callable(getattr(retriever, "update", None)):
        await_result(retriever.update(change.document, by))


def wait_until_ready(retriever: Any) -> None:
    """Waits until the ingested documents can be found. Raises as `index` does."""
    ready = getattr(retriever, "ready", None)
    if not callable(ready):
        return
    limit = float(getattr(retriever, "ready_timeout", READY_TIMEOUT))
    start, pause, told = monotonic(), _FIRST, False
    while not await_result(ready()):
        waited = monotonic() - start
        if waited >= limit:
            raise TimeoutError(
                f"ready() was not true within {limit:g} s of indexing (ready_timeout is its limit)"
            )
        if waited >= _SILENT and not told:
            told = True
            _log.warning(f"note: waiting for ready(), {limit:g} s at most")
        sleep(min(pause, limit - waited))
        pause = min(2 * pause, _LONGEST)


def search(retriever: Retriever, questions: Sequence[Question], k: int) -> Sequence[Found]:
    """Returns one answer per question. Raises as `as_answers` and the retriever do.

    A retriever that takes `user_id` is called for successive questions of one user and its groups.

    If answers are awaitables, the error of a failed one takes its place; `as_result` raises it.
    """
    found: Sequence[Any]
    if any(one.user_id for one in questions) and _takes_user(retriever):
        found = []
        for (user, _), asked in groupby(questions, lambda one: (one.user_id, one.groups)):
            part = [*asked]
            given: Any = retriever.search(part, k, user_id=user)  # type: ignore[call-arg]
            found += as_answers(await_result(given), len(part))
    else:
        found = as_answers(await_result(retriever.search(questions, k)), len(questions))
    if any(inspect.isawaitable(one) for one in found):
        answers: list[Any] = await_result(_all(found))
        return answers
    return found


def _takes_user(retriever: Retriever) -> bool:
    """Tests whether `search` has a parameter `user_id`."""
    try:
        return "user_id" in inspect.signature(retriever.search).parameters
    except (TypeError, ValueError):  # built in, without a signature
        return False


def close(retriever: Retriever) -> None:
    """Closes a retriever, if it has `close`."""
    method = getattr(retriever, "close", None)
    if callable(method):
        await_result(method())


def release(retriever: Retriever) -> bool:
    """Releases the retriever's shared resources, if it has `release`.

    Returns whether the corpus must be indexed again before the next search.
    """
    give = getattr(retriever, "release", None)
    return bool(await_result(give())) if callable(give) else False


def await_result(value: Any) -> Any:
    """Returns a value, or the result of an awaitable. Raises the awaitable's errors.

    Raises RuntimeError if it is called in the event loop that it would wait for.
    """
    if not inspect.isawaitable(value):
        return value
    loop, thread = _loop(os.getpid())  # a fork has the loop but not its thread
    if threading.current_thread() is thread:
        if inspect.iscoroutine(value):
            value.close()
        raise RuntimeError("called within an asynchronous method: await what it calls there")
    coming = asyncio.run_coroutine_threadsafe(_result(value), loop)
    current().pending = coming
    try:
        given = coming.result()
        if isinstance(given, _Exit):
            raise given.error
        return given
    except CancelledError:
        raise RuntimeError("the retriever cancelled its own task") from None
    except BaseException:  # Ctrl-C interrupts this thread: cancel the awaited call
        coming.cancel()
        raise


class _Exit:
    """Result of a coroutine that called `sys.exit()`, which would silently end the loop."""

    def __init__(self, error: SystemExit) -> None:
        self.error = error


async def _result(value: Any) -> Any:
    try:
        return await value if inspect.isawaitable(value) else value
    except SystemExit as error:
        return _Exit(error)


async def _all(values: Sequence[Any]) -> list[Any]:
    given = await asyncio.gather(*map(_result, values), return_exceptions=True)
    return [
        RuntimeError(f"it called {one.error!r}") if isinstance(one, _Exit) else one for one in given
    ]


@cache
def _loop(process: int) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """Returns the event loop of a process, and the thread that runs it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="harness-awaits", daemon=True)
    thread.start()
    return loop, thread
