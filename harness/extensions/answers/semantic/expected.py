"""Sets without ids: a file of texts that were returned, and a file of texts that were expected.

Both hold a line for each query: `{"query": id or text, "texts": [...]}`; what was returned may be
`{"query": ..., "hits": [{"text": ...}, ...]}` too, best first, and what was expected may have an
`ability`. A query whose expected texts are `[]` has no answer and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import harness
from harness.errors import UsageError
from harness.extensions.answers.semantic.accuracy import (
    Asked,
    SimilarityModel,
    measured,
    one_haystack,
)
from harness.extensions.answers.semantic.section import PROTOCOL, section
from harness.io.files import digest
from harness.records.scores import SemanticResult
from harness.runfiles.raw import read_lines
from harness.scoring.protocols import Signature

T = TypeVar("T")


@dataclass(frozen=True)
class Expected:
    """The texts that a query should have found, and its ability, "" where none is named."""

    texts: list[str]
    ability: str


def read_expected(path: Path) -> dict[str, Expected]:
    """What is expected, by query.

    Raises UsageError, naming file and line, for lines of another shape, a query that stands twice,
    and a file without a text.
    """
    found: dict[str, Expected] = {}
    for number, record in _records(path, '{"query": id, "texts": [text, ...]}'):
        ability = record.get("ability") or ""
        if not isinstance(ability, str):
            raise UsageError(f"{path}, line {number}: the ability must be a text, not {ability!r}")
        _put(path, number, found, record["query"], Expected(_texts(path, number, record), ability))
    if not any(one.texts for one in found.values()):
        raise UsageError(f"{path}: no query in it has an expected text")
    return found


def read_returned(path: Path) -> dict[str, list[str]]:
    """Texts by query, best first. Raises UsageError as `read_expected` does."""
    found: dict[str, list[str]] = {}
    shape = '{"query": id, "texts": [text, ...]} or {"query": id, "hits": [{"text": ...}, ...]}'
    for number, record in _records(path, shape):
        hits = record.get("hits")
        if "texts" not in record and isinstance(hits, list):
            if not all(isinstance(hit, dict) and isinstance(hit.get("text"), str) for hit in hits):
                raise UsageError(f"{path}, line {number}: every hit needs a text; expected {shape}")
            record = {**record, "texts": [hit["text"] for hit in hits]}
        _put(path, number, found, record["query"], _texts(path, number, record))
    if not found:
        raise UsageError(f"{path}: empty; it has lines {shape}")
    return found


def semantic_of_files(
    returned: Path,
    expected: Path,
    *,
    ks: tuple[int, ...],
    threshold: float,
    find_model: Callable[[], SimilarityModel],
    missing: str = "zero",
    strict: bool = False,
) -> tuple[SemanticResult, list[str]]:
    """The `semantic` section, not checked against ids, and what is odd about the files.

    The random baseline is what random texts of everything that was returned score. A query that
    was not answered counts 0, or is left out with `missing` "skip". `find_model` is called
    once the files have been read and checked. Raises UsageError for files of another shape,
    for those that share no query, and, when `strict`, for anything odd.
    """
    wanted, found = read_expected(expected), read_returned(returned)
    unknown = [query for query in found if query not in wanted]
    if len(unknown) == len(found):
        raise UsageError(
            f"{returned}: none of its {len(found)} queries is in {expected}, first "
            f"{unknown[0]!r:.60} where that has {next(iter(wanted))!r:.60}"
        )
    absent = [query for query in wanted if query not in found]
    notes = []
    if unknown:
        notes.append(f"{len(unknown)} of its queries are not in {expected.name}, and are ignored")
    if absent:
        counted = "are left out" if missing == "skip" else "count 0"
        notes.append(f"lacks {len(absent)} of the expected queries, which {counted}")
    if notes and strict:
        raise UsageError(f"{returned}: {'; '.join(notes)} (--strict)")
    skipped = set(absent) if missing == "skip" else set()
    asked = []
    for query, one in wanted.items():
        gold = [] if query in skipped else one.texts
        asked.append(Asked(found.get(query, [])[: max(ks)], gold, range(len(gold)), len(gold)))
    haystack = list(dict.fromkeys(text for texts in found.values() for text in texts))
    accuracy = measured(asked, one_haystack(haystack, max(ks)), ks, threshold, find_model)
    n = len(asked)
    abilities = np.array([one.ability for one in wanted.values()], dtype=str)
    masks = {"all": np.ones(n, bool)}
    masks |= {str(name): abilities == name for name in np.unique(abilities) if name}
    left_out = {
        "no expected text": sum(not one.texts for one in wanted.values()),
        "no ranking in the run": sum(bool(wanted[query].texts) for query in skipped),
    }
    data = f"{expected.name}#{digest(expected)[:8]}"

    signature = Signature(
        metric="",
        protocol=PROTOCOL,
        data=data,
        level="text",
        text="as-given",
        split="-",
        slice="",
        n=0,
        queries="all",
        ties="order",
        depth=max(ks),
        missing=missing,
        v=harness.__version__,
        match=f"cosine>={accuracy.threshold:g},{accuracy.model}",
    )
    counts = {reason: count for reason, count in left_out.items() if count}
    failed = np.zeros(n, bool)  # a file of texts tells of no failure
    return section(accuracy, masks, None, signature.template, counts, failed), notes


def _records(path: Path, shape: str) -> Any:
    """(number, record) of each line that has a query. Raises UsageError."""
    import orjson

    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise UsageError(f"{path}, line {number}: expected {shape} ({error})") from None
        if not isinstance(record, Mapping) or not isinstance(record.get("query"), str):
            raise UsageError(f"{path}, line {number}: expected {shape} (no query that is a text)")
        yield number, record


def _texts(path: Path, number: int, record: Mapping[str, object]) -> list[str]:
    texts = record.get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{path}, line {number}: texts must be a list of texts, not {texts!r:.60}")
    if any(not text.strip() for text in texts):
        raise UsageError(f"{path}, line {number}: a text is blank, and blank is like nothing")
    return list(texts)


def _put(path: Path, number: int, found: dict[str, T], query: str, value: T) -> None:
    if query in found:
        raise UsageError(f"{path}, line {number}: the query {query!r:.60} is there twice")
    found[query] = value
