"""How a retriever is called: awaited where it is asynchronous, waited for where it is ready late.

What `index`, `search`, `ready`, `report` and `close` return may be awaitable. All of a process is
awaited in one event loop, in a thread of its own: so a client that was opened in one call serves in
the next, and a program that has a running loop of its own (a notebook) may run a retriever too.
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
from time import monotonic, sleep
from typing import Any

from harness.retrievers.contract import Corpus, Found, Question, Retriever
from harness.retrievers.corpus import Changed
from harness.retrievers.outputs import as_answers
from harness.retrievers.timing import current
from harness.schema import Document

_log = logging.getLogger(__name__)

READY_TIMEOUT = 600.0
"""Seconds in which a retriever with `ready()` must be, where its `ready_timeout` does not say."""

_FIRST, _LONGEST = 0.02, 1.0
"""Seconds between two questions whether it is ready: doubled from the first to the longest."""

_SILENT = 10.0
"""Seconds after which somebody is told what is waited for."""


def index(retriever: Retriever, corpus: Corpus) -> None:
    """Let it take in a corpus, and wait until it says that it is ready.

    One without `index` is told session by session.
    Raises TimeoutError where it is not in time, and whatever the retriever raises.
    """
    if not callable(getattr(retriever, "index", None)):
        tell(retriever, corpus)
        return
    take_in: Callable[[Corpus], Any] = retriever.index
    awaited(take_in(corpus))
    wait_until_ready(retriever)


def is_told(retriever: Any) -> bool:
    """Whether it can be told session by session."""
    return all(callable(getattr(retriever, name, None)) for name in ("reset", "add"))


def can_serve(thing: Any) -> bool:
    """Whether it is a retriever: it can be searched, and takes a corpus in or is told of it."""
    takes_in = callable(getattr(thing, "index", None)) or is_told(thing)
    return takes_in and callable(getattr(thing, "search", None))


def tell(retriever: Any, corpus: Corpus, before: Corpus | None = None) -> None:
    """Tell it the sessions of a corpus in time order, and wait until it says that it is ready.

    `before`: what it has been told already, of which the corpus is what came to be; else it begins
    anew. Raises as `index` does.
    """
    if before is None:
        awaited(retriever.reset())
    clock = current()
    sessions = corpus.sessions()[:] if corpus.changes else []
    document_of = {document.id: document for session in sessions for document in session}
    for event in corpus.events(before):
        if isinstance(event, Changed):
            _tell_of(retriever, event, document_of)
        else:
            awaited(retriever.add(event))
            clock.taken_in(len(event))
    wait_until_ready(retriever)


def _tell_of(retriever: Any, change: Changed, document_of: Mapping[str, Document]) -> None:
    """Tell it what became of a document, where it wants to know."""
    if change.kind == "forget" and callable(getattr(retriever, "delete", None)):
        awaited(retriever.delete(change.document))
    by = document_of.get(change.by or "")
    if change.kind == "update" and by is not None and callable(getattr(retriever, "update", None)):
        awaited(retriever.update(change.document, by))


def wait_until_ready(retriever: Retriever) -> None:
    """Wait until it says that what it has taken in can be found. Raises as `index` does."""
    ready = getattr(retriever, "ready", None)
    if not callable(ready):
        return
    limit = float(getattr(retriever, "ready_timeout", READY_TIMEOUT))
    start, pause, told = monotonic(), _FIRST, False
    while not awaited(ready()):
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
    """Its answers, one a question. Raises what `as_answers` raises, and whatever it raises.

    Of several awaitables one that failed is its error in their place, which `as_result` raises.
    """
    found = as_answers(awaited(retriever.search(questions, k)), len(questions))
    if any(inspect.isawaitable(one) for one in found):
        answers: list[Any] = awaited(_all(found))
        return answers
    return found


def close(retriever: Retriever) -> None:
    """Tell it that no more will be asked, where it wants to know."""
    if callable(getattr(retriever, "close", None)):
        awaited(retriever.close())  # type: ignore[attr-defined]


def release(retriever: Retriever) -> bool:
    """Tell it that others may use what it shares with them, where it shares something.

    Whether it is to index again before it is asked.
    """
    give = getattr(retriever, "release", None)
    return bool(awaited(give())) if callable(give) else False


def awaited(value: Any) -> Any:
    """The value, or what comes of it where it is awaitable. Raises what it raises.

    Raises RuntimeError where it is called by what it would wait for.
    """
    if not inspect.isawaitable(value):
        return value
    loop, thread = _loop(os.getpid())  # a fork has the loop, and not the thread that runs it
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
    except BaseException:  # Ctrl-C comes to this thread: what it waits for is not to go on
        coming.cancel()
        raise


class _Exit:
    """`sys.exit()` in a coroutine, which would end the loop and be seen by nobody."""

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
    """The loop of a process, and the thread that runs it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="harness-awaits", daemon=True)
    thread.start()
    return loop, thread
