"""TREC's formats: topics, relevance judgements (qrels) and tagged documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from harness.dataset.adapters.formats.delimited import tsv
from harness.dataset.adapters.formats.text import TextFile, integer

_HEADER_ENDS = {"score", "grade", "relevance", "label", "rel"}
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^<]*?)\s*(?:<|$)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?\s*([^<]*?)\s*(?:<|$)", re.IGNORECASE)
_DOCNO = re.compile(r"<DOCNO>\s*(.*?)\s*</DOCNO>", re.IGNORECASE | re.DOTALL)
_HEADLINE = re.compile(r"<(TITLE|HEADLINE)>\s*(.*?)\s*</\1>", re.IGNORECASE | re.DOTALL)
_TEXT = re.compile(r"<TEXT>\s*(.*?)\s*</TEXT>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^>]*>")


class Qrel(NamedTuple):
    """One judgement, and the line that it stands on."""

    line: int
    query: str
    document: str
    grade: int


class TaggedDocument(NamedTuple):
    """One document, and the line that its <DOC> stands on."""

    line: int
    id: str
    title: str
    text: str


def qrels(file: TextFile) -> Iterator[Qrel]:
    """Judgements: `query 0 document grade` as TREC has them, or BEIR's `query document grade`.

    A line with tabs is split at tabs alone, any other at white space. BEIR's header line is left
    out; a file without one loses nothing, and may have comments: lines that begin with #, as
    trec_eval 10 has them. Raises UsageError for a line of another width and for a grade that is not
    an integer.
    """
    beir = False
    for number, line in file.lines():
        if line.lstrip().startswith("#") and not beir:
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) not in (3, 4):
            raise file.error(
                number,
                f"{len(cells)} columns; a judgement has 4 (query 0 document grade) or 3 (query "
                "document grade)",
            )
        grade = cells[-1].strip()
        if number == 1 and grade.lower() in _HEADER_ENDS:
            beir = True
            continue
        yield Qrel(number, cells[0], cells[-2], integer(file, number, grade, "the grade"))


def topics(file: TextFile) -> Iterator[tuple[int, str, str]]:
    """Line, id and text of each topic: `id<TAB>text` lines, or TREC's <top> blocks (the title).

    Raises UsageError for a line without a tab and for a <top> without a number or a title.
    """
    first = next((line for _, line in file.lines() if line.strip()), "")
    if first.lstrip().startswith("<"):
        yield from _tagged_topics(file)
        return
    for number, (id_, text) in tsv(file, ("query id", "query")):
        yield number, id_, text


def documents(file: TextFile) -> Iterator[TaggedDocument]:
    """Documents between <DOC> and </DOC>: <DOCNO>, <TITLE> or <HEADLINE>, and <TEXT>.

    Raises UsageError for a document without a number, without a text, or without an end.
    """
    for number, block in _blocks(file, "doc"):
        id_, text = _DOCNO.search(block), _TEXT.findall(block)
        if id_ is None or not id_[1]:
            raise file.error(number, "this <DOC> has no <DOCNO>...</DOCNO>; add it")
        if not text:
            raise file.error(number, f"the document {id_[1]!r} has no <TEXT>...</TEXT>; add it")
        headline = _HEADLINE.search(block)
        yield TaggedDocument(
            number,
            id_[1],
            _TAG.sub(" ", headline[2]).strip() if headline else "",
            "\n".join(_TAG.sub(" ", part).strip() for part in text),
        )


def _tagged_topics(file: TextFile) -> Iterator[tuple[int, str, str]]:
    for number, block in _blocks(file, "top"):
        id_, title = _NUMBER.search(block), _TITLE.search(block)
        if id_ is None or not id_[1]:
            raise file.error(number, "this <top> has no <num>; add it")
        if title is None or not title[1]:
            raise file.error(number, f"the topic {id_[1]!r} has no <title>; add it")
        yield number, id_[1], " ".join(title[1].split())


def _blocks(file: TextFile, tag: str) -> Iterator[tuple[int, str]]:
    """What stands between <tag> and </tag>, with the line of the former."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    start, held = 0, list[str]()
    for number, line in file.lines():
        low = line.lower()
        if not start and opening in low:
            start = number
        if start:
            held.append(line)
        if start and closing in low:
            yield start, "\n".join(held)
            start, held = 0, []
    if start:
        raise file.error(start, f"{opening} without {closing}; the file is truncated, get it again")
