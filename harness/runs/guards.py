"""Guards calls into third-party code: its errors, forks, and reports of itself."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar, cast

from harness.errors import ResponseMismatchError, shortened
from harness.io.masking import masked, masked_in
from harness.io.plugins import FAILURES, raised_at
from harness.records.run import Params
from harness.retrievers.calls import awaited, close
from harness.retrievers.contract import Retriever
from harness.retrievers.outputs import well_formed
from harness.runs.usage import Counts, counts_in

_log = logging.getLogger(__name__)

T = TypeVar("T")

_LONGEST_TRACE = 40_000  # characters


class CallTimeoutError(Exception):
    """Raised when a call exceeds its time limit."""


class InlineCalls:
    """Makes calls in the caller's thread, without a limit; `CallThread` is the other way."""

    stuck = False

    def __call__(self, work: Callable[[], T], limit: float | None = None) -> T:
        """Return what it returns. Raises what it raises."""
        return work()


class ToldError(Exception):
    """An error in another process, with its `trace` there."""

    def __init__(self, trace: str, rate_limit: float | None = None) -> None:
        """`rate_limit`: where it was a refusal for the rate, seconds to wait, as there was said."""
        super().__init__(trace)
        self.trace = trace
        if rate_limit is not None:
            self.status, self.headers = 429, {"Retry-After": rate_limit}


def trace() -> str:
    """Return the trace of the error that is being handled, as text that files can hold, and without
    the secrets that a service or a package may have put into it."""
    error = sys.exception()
    said = error.trace if isinstance(error, ToldError) else traceback.format_exc()
    return shortened(masked(well_formed(said)), _LONGEST_TRACE)


def close_quietly(retriever: Retriever) -> None:
    """Close it; all its answers are there by then, so that a failure to is said and no more.
    Raises ResponseMismatchError where they may be those to other questions."""
    try:
        close(retriever)
    except ResponseMismatchError:
        raise
    except FAILURES as error:
        _log.warning(f"note: the retriever's close() failed: {raised_at(error)}")


def report_counts(retriever: Retriever) -> Counts:
    """Return the counts in a system's report; empty where it has none or fails to give it."""
    report = getattr(retriever, "report", None)
    return counts_in(plain_report(report)) if callable(report) else {}


def plain_report(report: Callable[[], Any]) -> Params:
    """Return what the system says of itself as plain JSON values without secrets, or the trace of
    its failure to."""
    import orjson

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        plain = orjson.loads(orjson.dumps(dict(awaited(report())), default=str, option=options))
        return cast(Params, masked_in(plain))
    except FAILURES:
        return {"error": trace()}
