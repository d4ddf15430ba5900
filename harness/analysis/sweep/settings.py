"""Settings to try, from `--grid`; and a retriever that keeps its indexes from one to the next."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import product
from typing import Any

from harness.errors import UsageError
from harness.records.run import Params
from harness.retrievers import calls
from harness.retrievers.contract import Corpus, Question
from harness.retrievers.ingest import ingest
from harness.retrievers.registry import RetrieverSpec, find
from harness.runs.provenance import known_by, retriever_record

Setting = Params
"""Parameters of the retriever, and `k`, the cut-off, if it is swept over."""


def grid(axes: Sequence[str]) -> list[Setting]:
    """Every combination of `name=value,value,...`. Raises UsageError for another form."""
    parsed: dict[str, list[Any]] = {}
    for axis in axes:
        name, equals, values = axis.partition("=")
        if not equals or not name or not values:
            raise UsageError(f"--grid takes name=value,value,..., not {axis!r}")
        if name in parsed:
            raise UsageError(f"--grid {name} stands there twice")
        parsed[name] = _values(values)
    return [dict(zip(parsed, chosen, strict=True)) for chosen in product(*parsed.values())]


def _values(text: str) -> list[Any]:
    """As JSON where it is (`[[1,2],[2,1]]` for lists), else texts between commas."""
    import orjson

    try:
        found = orjson.loads(text if text.startswith("[") else f"[{text}]")
        return found if isinstance(found, list) and found else [text]
    except orjson.JSONDecodeError:
        return [_value(part) for part in text.split(",")]


def _value(text: str) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def cut_off(setting: Setting) -> int | None:
    """Its `k`. Raises UsageError for what is no cut-off."""
    k = setting.get("k")
    if k is not None and (type(k) is not int or k < 1):
        raise UsageError(f"k must be a whole number of 1 or more, not {k!r}")
    return k


def said(setting: Setting) -> str:
    """As people type it."""
    return " ".join(f"{name}={value}" for name, value in setting.items()) or "defaults"


# -- A retriever that keeps its indexes from one setting to the next -------------------------------

_MOST_KEPT = 64
"""Haystacks whose indexes are kept in memory."""


def tunable(spec: RetrieverSpec) -> set[str]:
    """Parameters that the retriever can change without indexing again."""
    set_params = getattr(find(spec.name), "set_params", None)
    return (
        set(inspect.signature(set_params).parameters) - {"self"}
        if set_params is not None
        else set()
    )


class Keeping:
    """A retriever that indexes each haystack once for several settings.

    `set_params` sets the parameters of the next run; the retriever must be able to change them
    without indexing again. `indexed` counts the indexes that were made.
    """

    batch_size: int

    def __init__(self, spec: RetrieverSpec, seed: int) -> None:
        self._spec, self._seed = spec, seed
        self._indexed: dict[bytes, Any] = {}
        self.indexed = 0
        self.name = spec.name
        self.set_params({})

    def set_params(self, setting: Setting) -> Keeping:
        """Search with this setting from now on; other parameters are as in the spec."""
        self._setting = {**self._spec.params, **setting}
        known = tunable(self._spec)
        self._tuned = {name: value for name, value in self._setting.items() if name in known}
        self.params = dict(self._setting)
        probe = RetrieverSpec(self._spec.name, self._setting, self._spec.plugins).build(self._seed)
        self.batch_size = int(getattr(probe, "batch_size", 1))
        self.revision = getattr(probe, "revision", None)
        return self

    def index(self, corpus: Corpus) -> None:
        """Take the kept index of this very corpus, or make it."""
        key = corpus.key
        if key not in self._indexed:
            if len(self._indexed) >= _MOST_KEPT:
                self._indexed.clear()
            spec = RetrieverSpec(self._spec.name, self._setting, self._spec.plugins)
            self._indexed[key] = spec.build(self._seed)
            one = self._indexed[key]
            ingest(one, corpus, known_by(retriever_record(spec), one))
            self.indexed += 1
        self._current = self._indexed[key]
        self._current.set_params(**self._tuned)

    def search(self, queries: Sequence[Question], k: int) -> Any:
        """As the retriever with the present setting."""
        return calls.search(self._current, queries, k)
