"""Converts a record of a log to a `RetrievalEvent`. Wrong values are errors, never guessed at."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from harness.extensions.online.logs.events import Feedback, RetrievalEvent
from harness.extensions.online.logs.field_mapping import (
    FIELDS,
    IN_DOCUMENT,
    MISSING,
    UNITS,
    FieldMapping,
    Get,
    compile_path,
    first_name,
)

_RARE = {"clicked", "rating", "failed", "abstained", "confidence", "request_id"}
_PLANS = 256  # kinds of lines (by their keys) whose plan is remembered
_WORDS = {"up": 1.0, "down": 0.0, "thumbs_up": 1.0, "thumbs_down": 0.0}
_DOCUMENT = {
    what: [(first_name(name), compile_path(name)) for name in names]
    for what, names in IN_DOCUMENT.items()
}


class LineError(ValueError):
    """A line that cannot be read; says why."""


class _NothingError(LineError):
    """A path that leads nowhere in this line."""


class EventReader:
    """Converts records by one mapping; caches which paths lines of each kind have."""

    def __init__(self, mapping: FieldMapping) -> None:
        self._mapping = mapping
        self._where = [(p, compile_path(p), wanted) for p, wanted in mapping.conditions.items()]
        self._fields = {
            name: [(path, compile_path(path)) for path in self._paths(name)] for name in FIELDS
        }
        self._plans: dict[tuple[str, ...], dict[str, list[tuple[str, Get]]]] = {}
        self._never = {n: p for n, p in mapping.fields.items() if n not in _RARE}
        self._example = ""
        self._time_unit = None if mapping.time is None else UNITS[mapping.time]
        self._duration = {path: self._unit(path) for path in self._paths("seconds")}

    def _paths(self, name: str) -> tuple[str, ...]:
        path = self._mapping.fields.get(name)
        return FIELDS[name] if path is None else (path,)

    def _unit(self, path: str) -> float:
        mine = path == self._mapping.fields.get("seconds")
        return self._mapping.seconds_unit(path) if mine else FieldMapping().seconds_unit(path)

    def read(self, record: dict[str, object]) -> RetrievalEvent | Feedback | None:
        """Returns the request or the feedback of a record; None for a line that `where` skips.

        Raises LineError.
        """
        for _, get, wanted in self._where:
            if get(record) not in wanted:
                return None
        plan = self._plan(record)
        value = {name: found for name, gets in plan.items() if (found := _look(record, gets))}
        clicked, rating = value.get("clicked"), value.get("rating")
        if not {"returned", "texts"} & set(value) and not _named(record, plan, "returned"):
            request = value.get("request_id")
            if request is not None and (clicked is not None or rating is not None):
                return Feedback(
                    _id(*request),
                    None if clicked is None else _ids(*clicked),
                    None if rating is None else _rating(*rating),
                    self._time(value),
                )
            if "abstained" not in value and "failed" not in value and "attributes" not in record:
                raise LineError(self._lacks(record))
        try:
            return self._event(record, plan, value)
        except _NothingError as error:
            raise LineError(f"{error}; the line has {_shown(record)}") from None

    def unused_field(self) -> str:
        """Names a field of the mapping that no request had so far; empty if all were used.

        Optional fields (clicks, errors) are not missed.
        """
        if not self._never or not self._example:
            return ""
        name, path = next(iter(self._never.items()))
        return f"[log.fields] {name} = {path!r} is in no request; the first has {self._example}"

    def _event(
        self,
        record: dict[str, object],
        plan: dict[str, list[tuple[str, Get]]],
        value: dict[str, tuple[str, object]],
    ) -> RetrievalEvent:
        if self._never:
            self._never = {n: path for n, path in self._never.items() if n not in value}
            self._example = self._example or _shown(record)
        event = RetrievalEvent(time=self._time(value), seconds=self._seconds(value))
        if "returned" in value:
            _documents(event, *value["returned"])
        for name, (path, given) in value.items():
            if name in _CONVERTERS:
                setattr(event, name, _CONVERTERS[name](path, given))
        silent = "returned" not in value and "texts" not in value
        if silent and (event.abstained or _named(record, plan, "returned")):
            event.returned = ()  # the field is null, or the system abstained
        for what, given in (("scores", event.scores), ("texts", event.texts)):
            if given is not None and event.returned and len(given) != len(event.returned):
                raise LineError(f"{len(event.returned)} returned documents, {len(given)} {what}")
        return event

    def _plan(self, record: dict[str, object]) -> dict[str, list[tuple[str, Get]]]:
        """The paths worth trying on a record with these keys."""
        keys = tuple(record)
        plan = self._plans.get(keys)
        if plan is None:
            there = set(keys)
            plan = {
                name: [one for one in paths if first_name(one[0]) in there or one[0] in there]
                for name, paths in self._fields.items()
            }
            plan = {name: paths for name, paths in plan.items() if paths}
            if len(self._plans) < _PLANS:
                self._plans[keys] = plan
        return plan

    def _lacks(self, record: dict[str, object]) -> str:
        """Describes what a line without documents lacks."""
        path = self._mapping.fields.get("returned")
        wanted = repr(path) if path else "with the returned documents (returned, results, ...)"
        return f"no field {wanted}; the line has {_shown(record)}"

    def _time(self, value: dict[str, tuple[str, object]]) -> float | None:
        if "time" not in value:
            return None
        path, given = value["time"]
        if isinstance(given, str):
            try:
                moment = datetime.fromisoformat(given)
            except ValueError:
                raise LineError(f"{path} is no ISO time: {given!r}") from None
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        number = _number(path, given)
        return number * (self._time_unit or _epoch_unit(number))

    def _seconds(self, value: dict[str, tuple[str, object]]) -> float | None:
        if "seconds" not in value:
            return None
        path, given = value["seconds"]
        seconds = _number(path, given) * self._duration[path]
        if seconds < 0:
            raise LineError(f"{path} is a duration below 0: {given!r}")
        return seconds


def _look(record: dict[str, object], gets: list[tuple[str, Get]]) -> tuple[str, object] | None:
    """Returns the first path with a value that is not null, and the value."""
    for path, get in gets:
        found = get(record)
        if found is not MISSING and found is not None:
            return path, found
    return None


def _named(record: dict[str, object], plan: dict[str, list[tuple[str, Get]]], name: str) -> bool:
    """Whether a field is there, be it null."""
    return any(get(record) is not MISSING for _, get in plan.get(name, ()))


def _documents(event: RetrievalEvent, path: str, given: object) -> None:
    """`returned` from a list of ids, or of objects with id, score and text."""
    items = _list(path, given)
    if not items or not isinstance(items[0], dict):
        event.returned = tuple([_id(path, one) for one in items])
        return
    ids, scores, texts = [], [], []
    for i, one in enumerate(items):
        if not isinstance(one, dict):
            raise LineError(f"{path}[{i}] is no object, as the first is: {one!r}")
        ids.append(_inner(one, "id"))
        scores.append(_inner(one, "score"))
        texts.append(_inner(one, "text"))
    without = [i for i, one in enumerate(ids) if one is None]
    if not without:
        event.returned = tuple(_id(f"{path}[].id", one) for one in ids)
    elif len(without) < len(ids) or None in texts:
        raise LineError(f"{path}[{without[0]}] has no id; it has {_shown(items[without[0]])}")
    if None not in scores:
        event.scores = tuple(_number(f"{path}[].score", one) for one in scores)
    if None not in texts:
        event.texts = tuple(_id(f"{path}[].text", one) for one in texts)


def _inner(one: dict[str, object], what: str) -> object:
    for first, get in _DOCUMENT[what]:
        if first in one and (found := get(one)) is not MISSING and found is not None:
            return found
    return None


def _list(path: str, given: object) -> list[object]:
    if not isinstance(given, list):
        raise LineError(f"{path} is no list: {given!r}"[:120])
    return given


def _ids(path: str, given: object) -> tuple[str, ...]:
    items = given if isinstance(given, list) else [given]
    return tuple(_id(path, _inner(one, "id") if isinstance(one, dict) else one) for one in items)


def _id(path: str, given: object) -> str:
    """A text; whole numbers are ids too."""
    if isinstance(given, str):
        return given
    if type(given) is int:
        return str(given)
    if given is MISSING:
        raise _NothingError(f"nothing is at {path}")
    raise LineError(f"{path} is neither text nor a whole number: {given!r}"[:120])


def _number(path: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise LineError(f"{path} is no number: {given!r}"[:120])
    number = float(given)
    if not math.isfinite(number):
        raise LineError(f"{path} is no finite number: {given!r}")
    return number


def _flag(path: str, given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise LineError(f"{path} is neither true nor false: {given!r}"[:120])


def _rating(path: str, given: object) -> float:
    if isinstance(given, bool):
        return float(given)
    if isinstance(given, str) and given.lower() in _WORDS:
        return _WORDS[given.lower()]
    return _number(path, given)


_CONVERTERS: dict[str, Callable[[str, object], object]] = {
    **dict.fromkeys(
        ("query", "query_id", "system", "session_id", "user_id", "ability", "request_id"), _id
    ),
    "abstained": _flag,
    "failed": lambda _, given: bool(given),
    "confidence": _number,
    "clicked": _ids,
    "rating": _rating,
    "scores": lambda path, given: tuple(_number(path, one) for one in _list(path, given)),
    "texts": lambda path, given: tuple(_id(path, one) for one in _list(path, given)),
}
"""Field -> function from its path and value to that of a RetrievalEvent."""


def _epoch_unit(number: float) -> float:
    """The unit of an epoch time by its size: each unit covers the years 1973 to 5138."""
    for unit, above in (("ns", 1e17), ("us", 1e14), ("ms", 1e11)):
        if abs(number) >= above:
            return UNITS[unit]
    return 1.0


def _shown(record: object) -> str:
    """Names the fields of an object, for a message."""
    names = [*record] if isinstance(record, dict) else []
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return (", ".join(names[:12]) or "no fields") + more
