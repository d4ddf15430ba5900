"""The names that people give to the fields of runs and of labelled data: one table.

Names are compared by their letters and digits alone, so `query_id`, `query-id` and `Query ID` are
one. A field that nobody knows is never taken for one that is not there: in queries, judgements and
changes it is refused unless it was declared to be passed over; documents and runs carry much that
is nobody's business, and there only what is nearly the name of a missing field is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

_NEAR = 0.8
"""How alike (difflib's ratio) a name must be to a field's that is missing, to be refused."""
_SHORTEST = 3
"""Below so many letters everything is alike."""
_LONGEST = 1000
"""No field's name has more letters: what has is no header."""
_SAID = 20
"""How many of a record's fields are named in an error."""


_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
_DIGITS = 40  # more are beyond 32 bits in any case
_TRUTH = {"true": 1, "false": 0}


class FieldError(ValueError):
    """The fields of a record are not what they must be; the message says which, not where."""


@dataclass(frozen=True)
class Fields:
    """The fields of one kind of record.

    `names`: of each field, what it may be called, its own name first. `needed` must be there.
    `passed`: known, and of no use here. `strict`: any other field is refused. `distances`: what
    must not be all that a row has of an order, since less of it is better. `bare`: names that are
    of a text where a column of ids stands beside it, as `query` beside `query_id`.
    """

    names: Mapping[str, tuple[str, ...]]
    needed: tuple[str, ...]
    passed: tuple[str, ...] = ()
    strict: bool = False
    distances: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()

    def read(
        self, given: Sequence[str], ignored: Collection[str] = (), remedy: str = ""
    ) -> dict[str, str]:
        """Which of the `given` names stands for each field: {field: name as given}.

        Those `ignored` are passed over. `remedy` is what else an unknown field's error advises.
        Raises FieldError for a name that stands twice, two that mean the same, a needed field that
        is missing, and an unknown one that cannot be passed over.
        """
        found: dict[str, str] = {}
        unknown = []
        times = Counter(given)
        for name in given:
            if len(name) > _LONGEST:
                raise FieldError(
                    f"{name[:40]!r}... is no name of a field, of {len(name):,} letters"
                )
            if times[name] > 1:
                raise FieldError(f"{name!r} stands {times[name]} times; keep one")
            if name in ignored:
                continue
            field = self.field(name)
            if field in found and (plain(name) in self.bare) != (plain(found[field]) in self.bare):
                found[field] = found[field] if plain(name) in self.bare else name
                continue
            if field in found:
                raise FieldError(
                    f"{found[field]!r} and {name!r} both mean {field}; take one out{remedy}"
                )
            if field is not None:
                found[field] = name
            elif plain(name) not in self._passed:
                unknown.append(name)
        for field in self.needed:
            if field not in found:
                raise FieldError(self._missing(field, given, unknown))
        for name in unknown:
            self._refuse(name, found, remedy)
        return found

    def field(self, name: str) -> str | None:
        """The field that a name stands for."""
        return self._field.get(plain(name))

    def resembles(self, cells: Sequence[str]) -> bool:
        """Whether the cells of a line look like names, though what is needed is not all there."""
        known = [self.field(cell) is not None for cell in cells if len(cell) <= _LONGEST]
        return any(known[:1]) or sum(known) > 1

    def heads(self, cells: Sequence[str]) -> bool:
        """Whether the cells of a line are names, as in a header: all that is needed is there."""
        return set(self.needed) <= {self.field(cell) for cell in cells if len(cell) <= _LONGEST}

    @cached_property
    def _field(self) -> Mapping[str, str]:
        return {plain(name): field for field, names in self.names.items() for name in names}

    @cached_property
    def _passed(self) -> frozenset[str]:
        return frozenset(map(plain, self.passed))

    def _missing(self, field: str, given: Sequence[str], unknown: Sequence[str]) -> str:
        from difflib import get_close_matches  # for errors alone

        close = get_close_matches(field, unknown, 1, 0.5) or [
            name for name in unknown if get_close_matches(plain(name), self._of(field), 1, 0.7)
        ]
        advice = f"; did you mean {close[0]!r} for it?" if close else ""
        return (
            f"no field {field!r} (or {', '.join(self.names[field][1:])}); it has "
            f"{', '.join(given[:_SAID]) or 'none'}"
            f"{f' and {len(given) - _SAID} more' if len(given) > _SAID else ''}{advice}"
        )

    def _of(self, field: str) -> list[str]:
        return [plain(name) for name in self.names[field]]

    def _refuse(self, name: str, found: Mapping[str, str], remedy: str) -> None:
        if plain(name) in self.distances and not {"score", "rank"} & set(found):
            raise FieldError(
                f"of a {name} less is better, and of a score more: give a score, or the rank"
            )
        from difflib import get_close_matches

        absent = [field for field in self.names if field not in found]
        if self.strict:
            every = [plain(one) for field in absent for one in self.names[field]]
            close = get_close_matches(plain(name), every, 1, 0.6)
            meant = self.field(close[0]) if close else None
            advice = f"did you mean {meant}?" if meant else f"known: {', '.join(self.names)}"
            raise FieldError(f"unknown field {name!r}; {advice}{remedy}")
        if (field := _nearest(name, absent)) is not None:
            raise FieldError(f"unknown field {name!r}; did you mean {field}?{remedy}")


def grade_of(value: object) -> int:
    """A grade: a whole number of 32 bits, or true (1) and false (0), also as text.

    Raises FieldError for anything else, an empty one too.
    """
    text = "" if value is None else str(value).strip()
    if not text:
        raise FieldError("the grade is empty; give a whole number, 0 for not relevant")
    found = _TRUTH.get(text.lower())
    if found is None and _WHOLE.fullmatch(text):
        found = int(text.partition(".")[0][:_DIGITS])
    if found is None:
        raise FieldError(f"the grade {text!r:.60} is not an integer; mend the line")
    if abs(found) >= 1 << 31:
        raise FieldError(f"the grade {text:.40} is beyond 32 bits; mend the line")
    return found


def mistaken(name: str, given: Collection[str]) -> str | None:
    """Which of the `given` names of a record was meant for `name`, which is none of them."""
    return _nearest(name, given)


def _nearest(name: str, others: Collection[str]) -> str | None:
    """Which of the others a name nearly is, or has the letters of."""
    from difflib import get_close_matches

    names = {plain(one): one for one in others if len(one) >= _SHORTEST}
    word = plain(name)
    close = get_close_matches(word, [*names], 1, _NEAR) if len(word) >= _SHORTEST else []
    close = close or [one for one in names if sorted(one) == sorted(word)]
    return names[close[0]] if close else None


def plain(name: str) -> str:
    """A name by its letters and digits, in lower case."""
    return "".join(filter(str.isalnum, name.casefold()))


_DOCUMENT_ID = ("document_id", "doc_id", "docno", "passage_id", "pid", "corpus_id", "chunk_id")
_QUERY_ID = ("query_id", "qid", "question_id")
_BARE = ("query", "document", "doc")
_TIMES = ("timestamp", "date", "time", "datetime")
_HAYSTACKS = ("haystack", "haystacks", "haystack_id")

RUN = Fields(
    {
        "query": ("query", *_QUERY_ID),
        "document": ("document", "doc", *_DOCUMENT_ID),
        "score": ("score", "sim", "similarity"),
        "rank": ("rank",),
    },
    needed=("query", "document"),
    distances=("distance", "dist"),
    bare=_BARE,
)
"""A row of a run: a document that was returned."""

RUN_LISTS = Fields(
    {
        "query": RUN.names["query"],
        "documents": ("documents", "docs", "document_ids", "doc_ids", "passage_ids"),
        "scores": ("scores", "similarities"),
    },
    needed=("query", "documents"),
    bare=_BARE,
)
"""A query of a run, with all that was returned."""

HITS = Fields(
    {name: (name,) for name in ("id", "sources", "text", "score")},
    needed=(),
    distances=RUN.distances,
)
"""A hit of a run whose documents are named by their sources."""

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
    strict=True,
    bare=_BARE,
)

QUERIES = Fields(
    {
        "id": ("id", "_id", *_QUERY_ID),
        "text": ("text", "query", "question", "query_text"),
        "haystack": _HAYSTACKS,
        "ability": ("ability",),
        "category": ("category",),
        "timestamp": _TIMES,
        "answers": ("answers", "answer"),
        "split": ("split",),
        "relevant": (
            *("relevant", "relevant_ids", "relevant_docs", "relevant_documents"),
            *("relevant_doc_ids", "positive_ids", "positives", "gold_ids", "gold"),
        ),
    },
    needed=("id", "text"),
    passed=("metadata",),  # where BEIR's files keep what its tools do not use
    strict=True,
)

DOCUMENTS = Fields(
    {
        "id": ("id", "_id", *_DOCUMENT_ID),
        "text": ("text", "contents", "content", "body", "passage", "page_content"),
        "title": ("title", "headline"),
        "timestamp": _TIMES,
        "session": ("session", "session_id"),
        "speaker": ("speaker",),
        "position": ("position",),
        "haystack": _HAYSTACKS,
    },
    needed=("id", "text"),
    passed=("metadata",),
)

CHANGES = Fields(
    {
        "kind": ("kind", "change"),
        "document": RUN.names["document"],
        "timestamp": _TIMES,
        "by": ("by", "replaced_by"),
        "haystack": _HAYSTACKS,
    },
    needed=("kind", "document", "timestamp"),
    strict=True,
)
"""What became of a document that was said."""
