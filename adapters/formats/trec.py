"""TREC formats: topics, relevance judgements (qrels) and tagged documents."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from harness.datasets.adapters.formats.delimited import tsv
from harness.datasets.adapters.formats.text import TextFile
from harness.runfiles.fields import QRELS, FieldError, grade_of

_ORDER = ["query", "document", "grade"]
_LABEL = re.compile(r"(?:Number|Topic):\s*", re.IGNORECASE)  # <num> Number: 301
_XML_TOPIC = re.compile(r"<topic\s", re.IGNORECASE)
_NUMBER = re.compile(r"\b(?:number|id)\s*=\s*([\"'])(.+?)\1", re.IGNORECASE)
_TEXTS = ("query", "title")
_TAG = re.compile(r"</?[A-Za-z][^>]*>")


class QrelLine(NamedTuple):
    """One judgement and its line number."""

    line: int
    query: str
    document: str
    grade: int


class TaggedDocument(NamedTuple):
    """One document and the line number of its <DOC>."""

    line: int
    id: str
    title: str
    text: str


def qrels(file: TextFile) -> Iterator[QrelLine]:
    """Yields judgements: TREC's `query 0 document grade` or BEIR's `query document grade`.

    A line with tabs is split at tabs, any other at white space. BEIR's header line is optional and
    skipped. A file without a header may have comment lines starting with #, as in trec_eval 10.
    Raises UsageError for a wrong number of columns, a grade that is not an integer, and a header
    with other columns or another order.
    """
    beir = False
    for number, line in file.lines():
        if line.lstrip().startswith("#") and not beir:
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if not cells[-1] and len(cells) == (4 if beir or number == 1 else 5):
            cells.pop()  # trailing tab
        if len(cells) not in (3, 4):
            raise file.error(
                number,
                f"{len(cells)} columns; a judgement has 4 (query 0 document grade) or 3 (query "
                "document grade)",
            )
        if number == 1 and (QRELS.heads(cells) or QRELS.field(cells[-1]) == "grade"):
            beir = True
            said = [QRELS.field(cell) for cell in (cells[0], *cells[-2:])]
            if any(one not in (None, field) for one, field in zip(said, _ORDER, strict=True)):
                raise file.error(1, f"columns {', '.join(cells)}, but expected {', '.join(_ORDER)}")
            continue
        try:
            yield QrelLine(number, cells[0], cells[-2], grade_of(cells[-1]))
        except FieldError as error:
            raise file.error(number, str(error)) from None


def topics(file: TextFile) -> Iterator[tuple[int, str, str]]:
    """Yields line, id and text of each topic: `id<TAB>text` lines, or TREC's tags.

    Tags are <top> blocks (the title), or XML as in TREC-COVID and the Web track (the query of each
    <topic number="1">, else its title, else its text). Raises UsageError for a line without a tab
    and for a topic without a number or text.
    """
    first = next((line for _, line in file.lines() if line.strip()), "")
    if first.lstrip().startswith("<"):
        xml = any(_XML_TOPIC.search(line) for _, line in file.lines())
        yield from _xml_topics(file) if xml else _tagged_topics(file)
        return
    for number, (id_, text) in tsv(file, ("query id", "query")):
        yield number, id_, text


def documents(file: TextFile) -> Iterator[TaggedDocument]:
    """Yields documents between <DOC> and </DOC>: <DOCNO>, <TITLE> or <HEADLINE>, and <TEXT>.

    Raises UsageError for a document without a number, text or end, for two numbers, and for an
    unmatched tag, which would lose text.
    """
    for number, block in _blocks(file, "doc"):
        ids, texts = (_between(file, number, block, tag) for tag in ("docno", "text"))
        if not any(ids):
            raise file.error(number, "this <DOC> has no <DOCNO>...</DOCNO>; add it")
        if len(ids) > 1:
            raise file.error(
                number, f"this <DOC> contains {len(ids)} <DOCNO>; is a </DOC> missing between them?"
            )
        if not texts:
            raise file.error(number, f"the document {ids[0]!r} has no <TEXT>...</TEXT>; add it")
        headlines = _between(file, number, block, "title|headline")
        yield TaggedDocument(
            number,
            ids[0],
            _untagged(headlines[0]) if headlines else "",
            "\n".join(map(_untagged, texts)),
        )


def _between(file: TextFile, number: int, block: str, tag: str) -> list[str]:
    """Returns the text between each <tag> and </tag> of a block. Raises UsageError."""
    found = []
    start = -1
    for mark in re.finditer(rf"<(/?)(?:{tag})>", block, re.IGNORECASE):
        if bool(mark[1]) == (start < 0):
            raise file.error(
                number, f"unmatched {mark[0]} in the document that starts here; fix the tags"
            )
        if mark[1]:
            found.append(block[start : mark.start()].strip())
        start = -1 if mark[1] else mark.end()
    if start >= 0:
        raise file.error(number, f"unclosed <{tag.upper()}> in this document; fix the tags")
    return found


def _untagged(text: str) -> str:
    """Replaces tags by spaces."""
    last = text.rfind(">") + 1  # no end tag can follow, so do not search for one
    return (_TAG.sub(" ", text[:last]) + text[last:]).strip()


def _xml_topics(file: TextFile) -> Iterator[tuple[int, str, str]]:
    for number, block in _blocks(file, "topic"):
        mark, _, inside = block.partition(">")
        named = _NUMBER.search(mark)
        if named is None:
            raise file.error(number, 'this <topic> has no number="..."; add it')
        texts = next(filter(None, (_between(file, number, inside, t) for t in _TEXTS)), [inside])
        text = " ".join(html.unescape(_untagged(texts[0])).split())
        if not text:
            raise file.error(number, f"the topic {named[2]!r} has no <query>; add it")
        yield number, named[2].strip(), text


def _tagged_topics(file: TextFile) -> Iterator[tuple[int, str, str]]:
    for number, block in _blocks(file, "top"):
        ids, titles = _after(block, "num"), _after(block, "title")
        if not any(ids):
            raise file.error(number, "this <top> has no <num>; add it")
        if not any(titles):
            raise file.error(number, f"the topic {ids[0]!r} has no <title>; add it")
        if len(ids) > 1 or len(titles) > 1:
            raise file.error(
                number, "this <top> has two <num> or <title>; is a </top> missing between them?"
            )
        yield number, ids[0], " ".join(titles[0].split())


def _after(block: str, tag: str) -> list[str]:
    """Returns the text from each <tag> of a topic, which may be unclosed, to the next tag."""
    found = [one.strip() for one in re.findall(rf"<{tag}>([^<]*)", block, re.IGNORECASE)]
    return [one[label.end() :] if (label := _LABEL.match(one)) else one for one in found]


def _blocks(file: TextFile, tag: str) -> Iterator[tuple[int, str]]:
    """Yields the text between <tag> and </tag>, with the line of <tag>.

    The attributes of the tag and a > precede the text. Raises UsageError for an unmatched tag.
    """
    mark = re.compile(rf"<(/?){tag}(?:>|(?=\s))", re.IGNORECASE)
    opening, closing = f"<{tag}>", f"</{tag}>"
    start, held = 0, list[str]()
    for number, line in file.lines():
        done = 0
        for found in mark.finditer(line):
            if found[1] and not start:
                raise file.error(number, f"{closing} without {opening}; a document may be lost")
            if not found[1] and start:
                raise file.error(
                    number, f"{opening}, but the one on line {start} has no {closing}; add it"
                )
            if found[1]:
                held.append(line[done : found.start()])
                yield start, "\n".join(held)
                held = []
            start, done = (0, 0) if found[1] else (number, found.end())
        if start:
            held.append(line[done:])
    if start:
        raise file.error(start, f"{opening} without {closing}; truncated file, download it again")
