"""Scores files without ids: a file of returned texts against a file of expected texts.

Both have a line per query: `{"query": id or text, "texts": [...]}`, best first. A file of returned
texts may have `{"query": ..., "hits": [{"text": ...}, ...]}` instead; expected texts may have an
`ability`. A query with the expected texts `[]` has no answer and is excluded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

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
from harness.io.records import Record, decode
from harness.records.scores import SemanticResult
from harness.runfiles.raw import read_lines
from harness.scoring.signatures import Signature

T = TypeVar("T", "ExpectedTexts", "ReturnedTexts")


class ReturnedText(Record, forbid_unknown_fields=False):
    """A returned text."""

    text: str


class ExpectedTexts(Record, forbid_unknown_fields=False):
    """The expected texts of a query, and optionally its ability."""

    query: str
    texts: list[str]
    ability: str | None = None


class ReturnedTexts(Record, forbid_unknown_fields=False):
    """The texts that were returned for a query, best first: as `texts`, or as `hits`."""

    query: str
    texts: list[str] | None = None
    hits: list[ReturnedText] | None = None


def read_texts(path: Path, kind: type[T]) -> dict[str, T]:
    """Reads a file with a line per query; every returned record has `texts`.

    Raises UsageError, with file and line, for an invalid line, a blank text or a duplicate query,
    and for an empty or missing file.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    shape = 'expected {"query": id, "texts": [text, ...]}'
    if kind is ReturnedTexts:
        shape += ' or {"query": id, "hits": [{"text": ...}, ...]}'
    found: dict[str, T] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        record = decode(line, kind, where, shape)
        if isinstance(record, ReturnedTexts) and record.texts is None:
            record = replace(record, texts=[one.text for one in record.hits or ()])
            if record.hits is None:
                raise UsageError(f"{where}: neither texts nor hits; {shape}")
        if any(not text.strip() for text in record.texts or ()):
            raise UsageError(f"{where}: a text is blank, and blank is like nothing")
        if record.query in found:
            raise UsageError(f"{where}: the query {record.query!r:.60} is there twice")
        found[record.query] = record
    if not found:
        raise UsageError(f"{path}: empty; {shape}")
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
    """Returns the `semantic` section, not checked against ids, and notes about the files.

    The random baseline is computed from all returned texts. A query without returned texts counts
    0, or is excluded if `missing` is "skip". `find_model` is called after the files have been read
    and validated. Raises UsageError for invalid files, for files without a common query, and, if
    `strict`, for every note.
    """
    wanted = read_texts(expected, ExpectedTexts)
    if not any(one.texts for one in wanted.values()):
        raise UsageError(f"{expected}: no query in it has an expected text")
    found = {query: one.texts or [] for query, one in read_texts(returned, ReturnedTexts).items()}
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
        counted = "are excluded" if missing == "skip" else "count 0"
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
    abilities = np.array([one.ability or "" for one in wanted.values()], dtype=str)
    masks = {"all": np.ones(n, bool)}
    masks |= {str(name): abilities == name for name in np.unique(abilities) if name}
    left_out = {
        "no expected text": sum(not one.texts for one in wanted.values()),
        "without a ranking": sum(bool(wanted[query].texts) for query in skipped),
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
    failed = np.zeros(n, bool)  # a file of texts records no failures
    return section(accuracy, masks, None, signature.template, counts, failed), notes
