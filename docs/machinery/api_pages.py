"""Generates the `:::` directives of the Python reference, which mkdocstrings replaces.

Pages name public objects (`harness.run`). The modules of returned classes and of functions are
found in the code, so that pages do not change when files move.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any, get_type_hints

import harness

MEANINGS = {
    "ability": "checks only the queries of this ability",
    "answered": "status of each query, if some failed or abstained",
    "baseline": "an earlier run, below which no given metric may have dropped",
    "cases": "queries with the ids of their relevant documents",
    "choices": "protocols, metrics and cut-offs",
    "dataset": "what `open_dataset` returns",
    "depth": "maximum length of a ranking",
    "embed": "function that returns a vector for each text",
    "family": "first part of the names of its datasets",
    "function": "the function to decorate",
    "folder": "a run folder",
    "folders": "two or more scored run folders, the baseline first",
    "gold_texts": "the expected texts of each query",
    "granularity": "what a document is, such as `turn` or `session`",
    "haystack": "texts from which the random baseline is drawn",
    "k": "cut-off",
    "level": "granularity, or `turn>session`",
    "may_repeat": "whether an error may be temporary: lost connections, or statuses such as 503",
    "metrics": "names such as `recall@10`, in a list or separated by commas",
    "missing": "whether judged queries without a ranking count 0 or are excluded (`skip`)",
    "mode": "what happens to an earlier run of the same settings",
    "model": "name of the embedding model",
    "name": "the name to register",
    "open_dataset.name": "as on the command line, such as `locomo`",
    "options": "slices, metrics, tests and their correction",
    "out": "folder below which the run folder is written",
    "prepare_seconds": "preparation time to record",
    "protocol": "scoring rules",
    "qrels": "judgements: a file, `{query: {document: grade}}` or a frame",
    "quiet": "prints no progress",
    "rankings": "a file, a dict, a frame or columns",
    "rebuild": "prepares the dataset again",
    "retrieved_texts": "texts of each query, best first",
    "retriever": "a name, an object, or a RetrieverSpec with parameters",
    "run": "a file, `{query: {document: score}}`, a frame or rankings",
    "assert_quality.run": "a scored run folder, a report, or with `qrels` a run file",
    "score_column": "name of the column of scores, if it is unusual",
    "retries": "number of repetitions after a temporary failure",
    "retrieve": "function of a query, or of a query and k, that returns ids",
    "seed": "seed of the document handles",
    "semantic": "minimum cosine of similar texts, to measure accuracy by text as well",
    "settings": "depth, limits, workers and others, as in `harness run`",
    "source": "a local copy of the raw files, or tables",
    "read_rankings.source": "a file, a dict or a frame",
    "split": "such as `test`",
    "text": "form of the indexed text, such as `dated`",
    "threshold": "minimum cosine of similar texts",
    "thresholds": "minimum of each metric, such as `recall_at_10=0.7`; maximum of `max_p95_ms`",
    "ties": "order of equal scores",
}
"""Meanings of parameters; `FUNCTION.PARAMETER` if a function uses a name differently."""


def vocabulary() -> str:
    """A table of the names that `harness` exports, with the first sentence of each."""
    rows = [
        f"| [`{name}`][harness.{name}] | {_first_sentence(getattr(harness, name))} |"
        for name in sorted(harness.__all__, key=str.lower)
    ]
    return "\n".join(["| name | what |", "|---|---|", *rows])


def api(*names: str) -> str:
    """Names such as `harness.run`, and the parameters of functions."""
    return "\n".join(f"::: {name}\n\n{_parameters(name)}" for name in names)


def _parameters(name: str) -> str:
    """A table of a function's parameters. Raises KeyError for one that MEANINGS does not have."""
    module, _, last = name.rpartition(".")
    value = getattr(import_module(module), last)
    if not inspect.isfunction(value):
        return ""
    rows = ["| parameter | default | |", "|---|---|---|"]
    for one in inspect.signature(value).parameters.values():
        default = getattr(one.default, "value", one.default)
        named = getattr(default, "__name__", None) or repr(default)
        shown = "" if default is one.empty else f"`{named}`"
        meaning = MEANINGS.get(f"{last}.{one.name}") or MEANINGS[one.name]
        rows.append(f"| `{one.name}` | {shown} | {meaning} |")
    return "\n".join([*rows, ""])


def returned(*names: str) -> str:
    """Lists the classes that these functions return."""
    found = []
    for name in names:
        module, _, function = name.rpartition(".")
        made = getattr(import_module(module), function)
        # Of the other annotations some can be read by type checkers alone.
        only = SimpleNamespace(__annotations__={"return": made.__annotations__["return"]})
        kind = get_type_hints(only, made.__globals__)["return"]
        found.append(f"{kind.__module__}.{kind.__qualname__}")
    return _directives(dict.fromkeys(found))


def module(*names: str) -> str:
    """Lists the public names of modules, without those that `harness` exports."""
    exported = [getattr(harness, name) for name in harness.__all__]
    return _directives(
        f"{name}.{public}"
        for name in names
        for public, value in _defined(import_module(name))
        if not any(value is one for one in exported)
    )


def package(name: str) -> str:
    """Every module of a package with a heading, its docstring and what it defines."""
    parts = []
    for info in pkgutil.iter_modules(import_module(name).__path__, f"{name}."):
        one = import_module(info.name)
        defined = [f"{info.name}.{public}" for public, _ in _defined(one)]
        if defined:
            said = inspect.getdoc(one) or ""
            parts += [f"## {info.name.rpartition('.')[2]}", "", said, "", _directives(defined)]
    return "\n".join(parts)


def _directives(names: Any) -> str:
    return "\n".join(f"::: {name}\n" for name in names)


def _defined(one: Any) -> Iterator[tuple[str, Any]]:
    """Public classes and functions that a module defines itself, in their order."""
    for name, value in vars(one).items():
        own = getattr(value, "__module__", "") == one.__name__
        if (
            own
            and not name.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
        ):
            yield name, value


def _first_sentence(value: Any) -> str:
    paragraph = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return (paragraph.partition(". ")[0].rstrip(".") + ".").replace("|", "\\|")
