"""What a retrieve function takes and returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.errors import UsageError
from harness.testing.cases import Case, id_text

K_NAMES = ("k", "top_k", "limit")
"""Names of an argument, with or without a default, that takes k."""

_WANTED = "ids, best first, or (id, score) pairs"


@dataclass(frozen=True)
class Answer:
    """What was returned for one case: ids best first, at most k, each once.

    `top` is the score of the best, None without scores. `repeated` results stood there already,
    `beyond` stood below k; both are left out.
    """

    ids: tuple[str, ...]
    top: float | None
    repeated: int
    beyond: int


def asking(retrieve: Callable[..., Any], k: int) -> Callable[[Any], Any]:
    """The function, of a query alone.

    k is given to an argument called k, top_k or limit, or to a second one without a default.
    """
    if not callable(retrieve):
        raise UsageError(
            f"retrieve must be a function of a query, not {type(retrieve).__name__}; "
            "evaluate takes it first, then the cases"
        )
    try:
        parameters = list(inspect.signature(retrieve).parameters.values())
    except (TypeError, ValueError):  # a function of C code that does not say
        return lambda query: retrieve(query)
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for one in parameters[1:]:
        if one.name in K_NAMES and one.kind in kinds:
            name = one.name
            return lambda query: retrieve(query, **{name: k})
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in plain and one.default is one.empty]
    if len(needed) > 1:
        return lambda query: retrieve(query, k)
    return lambda query: retrieve(query)


def read_answer(case: Case, returned: Any, k: int) -> Answer:
    """Raises UsageError, naming the case, for what is no ranking."""
    if inspect.iscoroutine(returned):
        returned.close()
        raise UsageError(
            "retrieve is async, and evaluate does not wait: "
            "give lambda query: asyncio.run(retrieve(query))"
        )
    if returned is None:
        raise UsageError(f"{case}: retrieve returned None; nothing found is []")
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise UsageError(
            f"{case}: retrieve returned {type(returned).__name__}, not a list of {_WANTED}"
        )
    ids: dict[str, None] = {}
    scores: list[float] = []
    results = list(returned)
    for one in results:
        if isinstance(one, tuple | list) and len(one) == 2:
            scores.append(_score(case, one[1]))
            name = id_text(one[0])
        else:
            name = id_text(one)
        if name is None:
            raise UsageError(
                f"{case}: retrieve returned {type(one).__name__} objects, not {_WANTED}; "
                "return for instance [hit.id for hit in hits]"
            )
        ids[name] = None
    if scores and len(scores) != len(results):
        raise UsageError(
            f"{case}: {len(scores)} of {len(results)} results have a score; give all or none"
        )
    for above, below in pairwise(scores):
        if below > above:
            raise UsageError(
                f"{case}: results are not best first: score {above:g} stands above {below:g}; "
                "where less is better (a distance), return the ids alone"
            )
    kept = tuple(ids)[:k]
    return Answer(
        kept, scores[0] if scores else None, len(results) - len(ids), len(ids) - len(kept)
    )


def _score(case: Case, value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{case}: a score must be a number, not {value!r:.60}") from None
    if math.isnan(score):
        raise UsageError(f"{case}: a score is NaN")
    return score
