"""Accepted names of the fields of runs and labelled data.

Names are compared by their letters and digits only, so `query_id`, `query-id` and `Query ID` are
equal. An unknown field is skipped with a note, but refused if it could be a missing known field: if
its name is similar, or if it holds numbers and nothing else orders the run or grades the qrels.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

_NEAR = 0.8
"""Minimum share of equal letters for one name to be a misspelling of the other."""
_SHORTEST = 3
"""Minimum letters of a name that is tested for misspellings."""
_LONGEST = 1000
"""Maximum letters of a field's name; a line with a longer one is not a header."""
_SAID = 20
"""Maximum number of a record's fields named in an error."""

_LEFTOVER = re.compile(r"|__index_level_\d+__|Unnamed: \d+(\.\d+)*")
"""Names that pandas gives to an index when it writes it as a column."""
_PYTERRIER = ("docid", "docno")
"""A document's row in its index, and its id."""
_DISTANCE = re.compile(r".*distances?|dists?|l2")
_NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+|inf(inity)?)(e[+-]?[0-9]+)?")
_SILENT = ("", "na", "n/a", "<na>", "nan", "null", "none", "-")
_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
_DIGITS = 40  # longer numbers exceed 32 bits in any case
_TRUTH = {"true": 1, "false": 0}

_log = logging.getLogger(__name__)


class FieldError(ValueError):
    """Raised for wrong fields of a record; the message names the field, not the file."""


class MissingFieldError(FieldError):
    """Raised for missing required fields; `columns` proposes an unknown name for each."""

    def __init__(self, message: str, columns: Mapping[str, str]) -> None:
        super().__init__(message)
        self.columns = columns


@dataclass(frozen=True)
class Fields:
    """The fields of one kind of record.

    `names`: the accepted names of each field, its own first. `needed`: required fields.
    `passed`: known fields that are not used. `numbers`: if none of these fields is present, other
    columns of numbers are refused, since one could be meant; `numbers_advice` is the advice about
    such a column, `{name}`. `bare`: names that mean a text if there is also a column of ids, as
    `query` with `query_id`.
    """

    names: Mapping[str, tuple[str, ...]]
    needed: tuple[str, ...]
    passed: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    numbers_advice: str = (
        "if more of it is better, add --score-column {name} (score_column= of read_rankings), else "
        "take it out"
    )

    def read(
        self, given: Sequence[str], ignored: Collection[str] = (), remedy: str = ""
    ) -> dict[str, str]:
        """Maps each field to its name among the `given` ones: {field: name as given}.

        Skips those `ignored`; `remedy` is added to the error about an unknown field. Raises
        FieldError for a repeated name, two names of one field, a missing required field, and an
        unknown name that is similar to that of a missing field.
        """
        found: dict[str, str] = {}
        times = Counter(given)
        for name in given:
            if len(name) > _LONGEST:
                raise FieldError(
                    f"{name[:40]!r}... has {len(name):,} letters, so it is not a field's name"
                )
            if times[name] > 1 and not _LEFTOVER.fullmatch(name):
                raise FieldError(f"{name!r} occurs {times[name]} times; keep one")
            if name in ignored or (field := self.field(name)) is None:
                continue
            if field not in found or self._gives_way(found[field], name):
                found[field] = name
            elif not self._gives_way(name, found[field]):
                raise FieldError(
                    f"{found[field]!r} and {name!r} both mean {field}; take one out{remedy}"
                )
        unread = self.unread(given, ignored)
        if missing := [field for field in self.needed if field not in found]:
            raise self._missing(missing, given, unread)
        for name in unread:
            if (near := mistaken(name, self.names.keys() - found)) is not None:
                raise FieldError(f"unknown field {name!r}; did you mean {near}?{remedy}")
        return found

    def unread(self, given: Iterable[str], ignored: Collection[str] = ()) -> list[str]:
        """Returns the unknown names: neither of a field, nor known to be unused."""
        return [
            name
            for name in given
            if not (name in ignored or _LEFTOVER.fullmatch(name) or plain(name) in self._passed)
            and self.field(name) is None
        ]

    def refuse_numbers(self, found: Collection[str], numbers: Iterable[str]) -> None:
        """Raises FieldError for unread columns of `numbers` if none of the fields is present."""
        if not self.numbers or set(self.numbers) & set(found):
            return
        for name in numbers:
            wanted = " or ".join(self.numbers)
            if "grade" not in self.numbers and _DISTANCE.fullmatch(plain(name)):
                advice = "of a distance less is better: give a score, or the rank"
            else:
                advice = self.numbers_advice.format(name=name)
            raise FieldError(f"{name!r} holds numbers, and there is no {wanted}: {advice}")

    def scored_by(self, column: str) -> Fields:
        """Returns the fields with `column` as the score. Raises FieldError for a known name."""
        score = self.numbers[0]
        meant = self.field(column)
        if meant not in (None, score) or _DISTANCE.fullmatch(plain(column)):
            raise FieldError(f"{column!r} is {meant or 'a distance'}, which is no score")
        names = {**self.names, score: (column,)}
        return replace(self, names=names, needed=(*self.needed, score))

    def renamed(self, columns: Mapping[str, str]) -> Fields:
        """Returns the fields with other names, {column: field}, instead of the accepted ones."""
        return replace(self, names={**self.names, **{to: (name,) for name, to in columns.items()}})

    def _gives_way(self, name: str, other: str) -> bool:
        """Tests whether a column is not the one of ids, because the other one is."""
        pair = plain(name), plain(other)
        return (pair[0] in self.bare and pair[1] not in self.bare) or pair == _PYTERRIER

    def field(self, name: str) -> str | None:
        """Returns the field that a name means."""
        return self._field.get(plain(name))

    def resembles(self, cells: Sequence[str]) -> bool:
        """Tests whether cells look like names, even if required ones are missing."""
        known = [self.field(cell) is not None for cell in cells if len(cell) <= _LONGEST]
        return any(known[:1]) or sum(known) > 1

    def heads(self, cells: Sequence[str]) -> bool:
        """Tests whether cells are a header, with all required names."""
        return set(self.needed) <= {self.field(cell) for cell in cells if len(cell) <= _LONGEST}

    @cached_property
    def _field(self) -> Mapping[str, str]:
        return {plain(name): field for field, names in self.names.items() for name in names}

    @cached_property
    def _passed(self) -> frozenset[str]:
        return frozenset(map(plain, self.passed))

    def _missing(
        self, fields: Sequence[str], given: Sequence[str], unknown: Sequence[str]
    ) -> MissingFieldError:
        from difflib import get_close_matches  # for errors alone

        close: dict[str, str] = {}
        for field in fields:
            name, *others = self.names[field]
            free = [one for one in unknown if one not in close.values()]
            near = get_close_matches(name, free, 1, 0.5) or [
                one for one in free if get_close_matches(plain(one), map(plain, others), 1, 0.7)
            ]
            close |= {field: near[0]} if near else {}
        rest = (one for one in unknown if one not in close.values())
        columns = {field: close.get(field) or next(rest, "column") for field in fields}
        absent = ", ".join(_absent(*self.names[field]) for field in fields)
        advice = "".join(
            f"; did you mean {column!r} for {'it' if len(fields) == 1 else self.names[field][0]}?"
            for field, column in close.items()
        )
        more = f" and {len(given) - _SAID} more" if len(given) > _SAID else ""
        listed = ", ".join(given[:_SAID]) or "none"
        return MissingFieldError(f"{absent}; it has {listed}{more}{advice}", columns)


def _absent(name: str, *others: str) -> str:
    return f"no field {name!r}" + (f" (or {', '.join(others)})" if others else "")


def note_unread(where: str, names: Collection[str]) -> None:
    """Logs a note that lists the unread fields of a file."""
    if names:
        more = f" and {len(names) - _SAID} more" if len(names) > _SAID else ""
        _log.warning(
            f"note: {where}: fields that are not read: {', '.join([*names][:_SAID])}{more}"
        )


def grade_of(value: object) -> int:
    """Parses a grade: a 32-bit integer, or true (1) and false (0), also as text.

    Raises FieldError for anything else, including an empty value.
    """
    text = "" if value is None else str(value).strip()
    if not text:
        raise FieldError("the grade is empty; give a whole number, 0 for not relevant")
    found = _TRUTH.get(text.lower())
    if found is None and _WHOLE.fullmatch(text):
        found = int(text.partition(".")[0][:_DIGITS])
    if found is None:
        raise FieldError(f"the grade {text!r:.60} is not an integer; correct the line")
    if abs(found) >= 1 << 31:
        raise FieldError(f"the grade {text:.40} is beyond 32 bits; correct the line")
    return found


def are_numbers(values: Iterable[object]) -> bool:
    """Tests whether most non-missing values are numbers, numbers as text, or lists of them."""
    flat = (one for value in values for one in (value if isinstance(value, list) else [value]))
    said = [text for one in flat if (text := str(one).strip().lower()) not in _SILENT]
    return 2 * sum(_NUMBER.fullmatch(text) is not None for text in said) > len(said)


def mistaken(name: str, others: Collection[str]) -> str | None:
    """Returns the name in `others` that `name` misspells, by one letter or by the letters' order.

    At least the share _NEAR of the letters must be equal, which restricts short names further.
    """
    from difflib import SequenceMatcher

    word = plain(name)
    for other, of in sorted((one, plain(one)) for one in others):
        same = sum(block.size for block in SequenceMatcher(None, word, of).get_matching_blocks())
        slip = max(len(word), len(of)) - same <= 1 and 2 * same >= _NEAR * (len(word) + len(of))
        if min(len(word), len(of)) >= _SHORTEST and (slip or sorted(word) == sorted(of)):
            return other
    return None


def plain(name: str) -> str:
    """Returns the letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, name.casefold()))


_DOCUMENT_ID = ("document_id", "doc_id", "docno", "passage_id", "pid", "corpus_id", "chunk_id")
_QUERY_ID = ("query_id", "qid", "question_id")
_BARE = ("query", "document", "doc")
_DATES = ("date", "time", "datetime")
_HAYSTACKS = ("haystack", "haystacks", "haystack_id")

RUN = Fields(
    {
        "query": ("query", *_QUERY_ID),
        "document": ("document", "doc", *_DOCUMENT_ID),
        "score": ("score", "sim", "similarity"),
        "rank": ("rank",),
    },
    needed=("query", "document"),
    numbers=("score", "rank"),
    bare=_BARE,
)
"""A row of a run: one returned document."""

RUN_LISTS = Fields(
    {
        "query": RUN.names["query"],
        "documents": ("documents", "docs", "document_ids", "doc_ids", "passage_ids"),
        "scores": ("scores", "similarities"),
    },
    needed=("query", "documents"),
    numbers=("scores",),
    bare=_BARE,
)
"""A query of a run with all returned documents."""

HIT_LISTS = Fields(
    {"query": RUN.names["query"], "hits": ("hits", "candidates")},
    needed=("query", "hits"),
    bare=_BARE,
)
"""A query of a run with an object for each returned document or text."""

HITS = Fields(
    {
        "id": ("id", *RUN.names["document"]),
        "sources": ("sources",),
        "text": ("text", "content", "contents"),
        "score": RUN.names["score"],
        "rank": RUN.names["rank"],
    },
    needed=(),
    passed=_QUERY_ID,
    numbers=RUN.numbers,
    bare=_BARE,
    numbers_advice="if more of it is better, call it score (--score-column is not for hits)",
)
"""A hit: a document, or the system's text with its source documents."""

QRELS = Fields(
    {
        "query": RUN.names["query"],
        "document": RUN.names["document"],
        "grade": ("grade", "relevance", "rel", "relevant", "label", "score"),
        "evidence_id": ("evidence_id",),
        "qrels_set": ("qrels_set",),
        "missing": ("missing",),
    },
    needed=("query", "document"),
    passed=("q0", "iter", "iteration"),  # TREC's second column
    numbers=("grade",),
    bare=_BARE,
    numbers_advice="call it grade, or take it out",
)

QUERIES = Fields(
    {
        "id": ("id", "_id", *_QUERY_ID),
        "text": ("text", "query", "question", "query_text"),
        "haystack": _HAYSTACKS,
        "ability": ("ability",),
        "category": ("category",),
        "timestamp": ("timestamp",),
        "date": _DATES,
        "answers": ("answers", "answer"),
        "user_id": ("user_id",),
        "groups": ("groups",),
        "split": ("split",),
        "relevant": (
            *("relevant", "relevant_ids", "relevant_docs", "relevant_documents"),
            *("relevant_doc_ids", "positive_ids", "positives", "gold_ids", "gold"),
        ),
    },
    needed=("id", "text"),
    passed=("metadata",),  # in BEIR's files: data that its tools do not use
)

DOCUMENTS = Fields(
    {
        "id": ("id", "_id", *_DOCUMENT_ID),
        "text": ("text", "contents", "content", "body", "passage", "page_content"),
        "title": ("title", "headline"),
        "timestamp": ("timestamp",),
        "date": _DATES,
        "session": ("session", "session_id"),
        "speaker": ("speaker",),
        "position": ("position",),
        "user_id": ("user_id",),
        "haystack": _HAYSTACKS,
    },
    needed=("id", "text"),
    passed=("metadata",),
)

CHANGES = Fields(
    {
        "kind": ("kind", "change"),
        "document": RUN.names["document"],
        "timestamp": ("timestamp", *_DATES),
        "by": ("by", "replaced_by"),
        "haystack": _HAYSTACKS,
    },
    needed=("kind", "document", "timestamp"),
)
"""A change of a document: an update or a request to forget it."""
