"""Parses test cases (a query and its relevant ids) and the results of a retrieve function."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any

from harness.errors import UsageError, suggest

_FIELDS = ("query", "relevant", "ability", "id")
_SHOWN = 40
"""Maximum characters of a query in messages."""


@dataclass(frozen=True)
class QueryCase:
    """A query. `relevant` maps ids to grades; `ability` is "" if not given."""

    id: str
    query: Any
    relevant: Mapping[str, int]
    ability: str = ""

    @property
    def answerable(self) -> bool:
        """True if any id has grade 1 or more."""
        return any(grade >= 1 for grade in self.relevant.values())

    def __str__(self) -> str:
        return f"case {self.id} ({quote_query(self.query)})"


def read_cases(cases: Iterable[Any]) -> tuple[QueryCase, ...]:
    """Parses (query, relevant) pairs, or mappings with `query`, `relevant`, `ability`, `id`.

    `relevant` is a set or list of ids, or `{id: grade}`; empty if there is no answer. Ids are texts
    or whole numbers; `7` equals `"7"`. The default id is the position, from 1. Raises UsageError,
    naming the case, for anything else.
    """
    if isinstance(cases, Mapping):
        raise UsageError(
            "cases must be a list of (query, relevant ids), not a dict; list(d.items())"
        )
    if isinstance(cases, str | bytes) or not isinstance(cases, Iterable):
        raise UsageError(
            f"cases must be a list of (query, relevant ids), not {type(cases).__name__}"
        )
    found: dict[str, QueryCase] = {}
    for place, one in enumerate(cases, 1):
        case = _case(place, one)
        if case.id in found:
            raise UsageError(
                f"case {place}: the id {case.id!r} is there twice; ids are of one case"
            )
        found[case.id] = case
    if not found:
        raise UsageError("no cases: there is nothing to measure")
    return tuple(found.values())


def id_text(value: Any) -> str | None:
    """Converts an id to text; returns None for values other than texts and whole numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return None
    try:
        return str(index(value))
    except TypeError:
        return None


def quote_query(query: Any) -> str:
    """Quotes a query in one line, shortened."""
    text = " ".join(str(query).split())
    return f'"{text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."}"'


def _case(place: int, one: Any) -> QueryCase:
    if isinstance(one, Mapping):
        for name in one:
            if name not in _FIELDS:
                raise UsageError(
                    f"case {place}: unknown key {name!r}{suggest(str(name), list(_FIELDS))}"
                )
        missing = [name for name in ("query", "relevant") if name not in one]
        if missing:
            raise UsageError(f"case {place}: lacks {missing[0]!r}")
        ability = one.get("ability") or ""
        if not isinstance(ability, str):
            raise UsageError(f"case {place}: ability must be a text, not {ability!r}")
        id_ = id_text(one.get("id", place))
        if id_ is None:
            raise UsageError(
                f"case {place}: an id is a text or a whole number, not {one.get('id')!r:.60}"
            )
        return QueryCase(id_, one["query"], _relevant(place, one["relevant"]), ability)
    if not isinstance(one, tuple | list) or len(one) != 2:
        raise UsageError(
            f"case {place}: must be (query, relevant ids), or a dict with "
            f"{', '.join(_FIELDS)}, not {one!r:.60}"
        )
    return QueryCase(str(place), one[0], _relevant(place, one[1]))


def _relevant(place: int, given: Any) -> dict[str, int]:
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, Set | list | tuple):
        pairs = [(id_, 1) for id_ in given]
    else:
        hint = "; a single id is {" + repr(given) + "}" if id_text(given) is not None else ""
        raise UsageError(
            f"case {place}: relevant must be ids in a set or a list, or {{id: grade}}, not "
            f"{given!r:.60}{hint}; nothing relevant is set()"
        )
    found: dict[str, int] = {}
    for id_, grade in pairs:
        name = id_text(id_)
        if name is None:
            raise UsageError(
                f"case {place}: an id is a text or a whole number, not {id_!r:.60}; "
                "give str(id), and the same from retrieve"
            )
        if isinstance(grade, bool) or id_text(grade) is None or isinstance(grade, str):
            raise UsageError(
                f"case {place}: the grade of {name!r} must be a whole number, not {grade!r:.60}"
            )
        found[name] = int(grade)
    return found


# -- What a retrieve function takes and returns ----------------------------------------------------

_K_NAMES = ("k", "top_k", "limit")
"""Argument names, with or without a default, to which k is passed."""

_WANTED = "ids, best first, or (id, score) pairs"


@dataclass(frozen=True)
class CaseResult:
    """The result of a case: at most k distinct ids, best first.

    `top` is the best score, None without scores. `repeated` and `beyond` count the excluded
    results: repeated ids and ids ranked below k.
    """

    ids: tuple[str, ...]
    top: float | None
    repeated: int
    beyond: int


def query_function(retrieve: Callable[..., Any], k: int) -> Callable[[Any], Any]:
    """Wraps a retrieve function as a function of the query only.

    Passes k to an argument called k, top_k or limit, or to a second one without a default.
    """
    if not callable(retrieve):
        raise UsageError(
            f"retrieve must be a function of a query, not {type(retrieve).__name__}; "
            "evaluate takes it first, then the cases"
        )
    try:
        parameters = list(inspect.signature(retrieve).parameters.values())
    except (TypeError, ValueError):  # a C function without a signature
        return lambda query: retrieve(query)
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for one in parameters[1:]:
        if one.name in _K_NAMES and one.kind in kinds:
            name = one.name
            return lambda query: retrieve(query, **{name: k})
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in plain and one.default is one.empty]
    if len(needed) > 1:
        return lambda query: retrieve(query, k)
    return lambda query: retrieve(query)


def read_answer(case: QueryCase, returned: Any, k: int) -> CaseResult:
    """Parses the result of a case. Raises UsageError, naming the case, for invalid results."""
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
                f"{case}: results are not best first: score {above:g} is ranked above {below:g}; "
                "if lower is better (a distance), return only ids"
            )
    kept = tuple(ids)[:k]
    return CaseResult(
        kept, scores[0] if scores else None, len(results) - len(ids), len(ids) - len(kept)
    )


def _score(case: QueryCase, value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{case}: a score must be a number, not {value!r:.60}") from None
    if math.isnan(score):
        raise UsageError(f"{case}: a score is NaN")
    return score
