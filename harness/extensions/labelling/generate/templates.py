"""Generates queries from templates (`What does this document say about {topic}?`).

Templates are filled with each document's own topics and fields, assigned by the seed. A topic is a
phrase that is frequent in a document and rare in the collection: one to three words in a row,
without stop words (English ones: NLTK's list) and across no mark. It is scored tf * (idf of its
words, summed), where tf is how often the phrase is in the document and idf = ln(1 + N / df) over
the N distinct texts of the collection. The title comes before all of them where it has at most four
words. This is Salton's tf-idf on the candidate phrases of RAKE (Rose et al. 2010, cut at stop words
and marks).
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError, near
from harness.extensions.labelling.generate.write_project import GeneratedQuery, fraction
from harness.extensions.labelling.project import LabelDocument, ProposalReason, QueryOrigin
from harness.retrievers.bm25.tokenizer import ENGLISH_LONG
from harness.scoring.matching.words import WORD, plain

DEFAULT = "What does this document say about {topic}?"
TOPIC = "topic"
_REVEALING = ("id", "_id", "text", "haystack")  # fields that would give the answer away
_NO_FIELDS = ("haystack", "position", "metadata")  # of a document, which no template may name

SHARED = 10
"""How many other documents may fit a query: with more, it tells no document apart."""


def template_fields(document: LabelDocument) -> dict[str, str]:
    """Returns the values that a template may name: title, speaker, session, metadata."""
    metadata = document.extra.get("metadata")
    own = {name: getattr(document, name) for name in ("title", "timestamp", "session", "speaker")}
    every = {**(metadata if isinstance(metadata, dict) else {}), **document.extra, **own}
    return {
        str(name): " ".join(str(value).split())
        for name, value in every.items()
        if name not in _NO_FIELDS and isinstance(value, str | int | float) and str(value).strip()
    }


@dataclass(frozen=True)
class QueryTemplate:
    """A text with fields in braces. `fields` are their names, each once."""

    text: str
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> QueryTemplate:
        """Raises UsageError for one that has no field, or braces that are none."""
        try:
            parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
        except ValueError as error:
            raise UsageError(f"the template {text!r}: {error}; write {{{{ for a brace") from None
        for _, name, form, conversion in parts:
            if not str(name).replace("-", "_").isidentifier() or form or conversion:
                raise UsageError(
                    f"the template {text!r}: {{{name}}} is no field; a field is a name alone, as "
                    "{topic} or {title}"
                )
            if name in _REVEALING:
                raise UsageError(f"the template {text!r}: {{{name}}} would give the answer away")
        if not parts:
            raise UsageError(
                f"the template {text!r} has no field, so every document would get the same query; "
                f"write it as {DEFAULT!r}"
            )
        return cls(text, tuple(dict.fromkeys(str(name) for _, name, _, _ in parts)))

    def fill(self, values: Mapping[str, str]) -> str:
        """Returns the query with these values in it. Raises KeyError for a field without one."""
        parts = string.Formatter().parse(self.text)
        filled = "".join(
            literal + (values[name] if name is not None else "") for literal, name, _, _ in parts
        )
        return " ".join(filled.split())


def check_fields(templates: Iterable[QueryTemplate], known: set[str]) -> None:
    """Raises UsageError for a field that no document has."""
    for template in templates:
        for name in template.fields:
            if name != TOPIC and name not in known:
                raise UsageError(
                    f"the template {template.text!r}: no document has a field {name!r}"
                    f"{near(name, [TOPIC, *known])}"
                )


class TemplateAssigner:
    """Assigns templates and topics to documents; `excluded` counts documents without a query, by
    reason."""

    def __init__(
        self,
        documents: Sequence[LabelDocument],
        same: Sequence[int],
        templates: Sequence[QueryTemplate],
        seed: int,
    ) -> None:
        self._documents, self._same = documents, same
        self._templates, self._seed = templates, seed
        titles = [document.title or "" for document in documents]
        self._topics = Topics(titles, [document.content for document in documents], same)
        self._fields = [template_fields(document) for document in documents]
        self._having: dict[tuple[str, str], set[int]] = {}
        for row, fields in enumerate(self._fields):
            for pair in fields.items():
                self._having.setdefault(pair, set()).add(row)
        self.excluded: Counter[str] = Counter()

    def generate(self, rows: Sequence[int], each: int) -> list[GeneratedQuery]:
        """Returns up to `each` queries of each of these documents, in their order."""
        # Twice as many, since some are in too many documents.
        topics = self._topics.find(rows, 2 * each)
        return [
            query
            for row, of_row in zip(rows, topics, strict=True)
            for query in self._queries(row, of_row, each)
        ]

    def _queries(self, row: int, topics: Sequence[Topic], each: int) -> list[GeneratedQuery]:
        fields, n = self._fields[row], len(self._templates)
        start = int(fraction(self._seed, f"template\0{self._documents[row].key}") * n)
        order = [self._templates[(start + i) % n] for i in range(n)]
        fitting = [t for t in order if all(f == TOPIC or f in fields for f in t.fields)]
        if not fitting:
            self.excluded["documents that lack a field of every template"] += 1
            return []
        queries: list[GeneratedQuery] = []
        tried = 0
        for template, topic in _turns(fitting, topics):
            query = self._query(row, template, topic)
            tried += 1
            if query is not None:
                queries.append(query)
            if len(queries) == each:
                break
        if not queries:
            crowded = f"documents that share what is asked with more than {SHARED} others"
            self.excluded[crowded if tried else "documents without a topic"] += 1
        return queries

    def _query(
        self, row: int, template: QueryTemplate, topic: Topic | None
    ) -> GeneratedQuery | None:
        """Returns a query; None where too many other documents fit it."""
        document = self._documents[row]
        values = {name: self._fields[row][name] for name in template.fields if name != TOPIC}
        holders = [self._having[pair] for pair in values.items()]
        if topic is not None:
            values[TOPIC] = topic.text
            holders.append(set(topic.holders))
        haystack = document.haystacks[0] if document.haystacks else None
        others = sorted(
            other
            for other in set.intersection(*holders) - {row}
            if haystack is None or haystack in self._documents[other].haystacks
        )
        if len({self._same[other] for other in others}) > SHARED:
            return None
        origin = QueryOrigin(
            method="template", template=template.text, topic=topic.text if topic else None
        )
        reason: ProposalReason = "topic" if topic is not None else "field"
        proposed = dict.fromkeys(others, reason)
        return GeneratedQuery(template.fill(values), haystack, (row,), origin, proposed)


def _turns(
    templates: Sequence[QueryTemplate], topics: Sequence[Topic]
) -> Iterator[tuple[QueryTemplate, Topic | None]]:
    """Yields templates in turn, each with the next topic; one without {topic} has one turn."""
    unused = iter(topics)
    plain: set[str] = set()
    for turn in range(len(templates) * (len(topics) + 1)):
        template = templates[turn % len(templates)]
        if TOPIC not in template.fields:
            if template.text not in plain:
                plain.add(template.text)
                yield template, None
        elif (topic := next(unused, None)) is not None:
            yield template, topic


# -- Topics ----------------------------------------------------------------------------------------


LONGEST = 3
"""Words of a phrase."""
LONGEST_TITLE = 4
"""Words of a title that is taken as a topic: a longer one would quote the document."""
_FUNCTION_WORDS = """
also although always among another anything away back came come could either else etc even ever
every everything first get gets getting go goes going gone got however i'd i'll i'm i've keep kept
know let like made make many may maybe might much must near need never nothing often ok okay one
onto put quite rather really said say says see seen shall since someone something still take taken
than thing things though thus together took toward towards two upon us use used using usually via
want wants way went whether whose within without would yes yet
"""  # that NLTK's list lacks
_BREAK = ""
# A mark, the end of a paragraph and the start of a list's item end a phrase; a line that is only
# wrapped does not. 4.6 and 1,260 are one word each.
_NUMBER = r"\d+(?:[.,:]\d+)+"
_MARK = r"[.,:;!?…(){}\[\]\"“”„«»|<>`#*=]|\n(?=\s*(?:\n|[-+>]|\d+[.)]\s))"
_TOKEN = re.compile(rf"{_NUMBER}|{WORD.pattern}|{_MARK}")

Phrase = tuple[str, ...]


@dataclass(frozen=True)
class Topic:
    """A phrase as the document has it, and the sorted rows that hold it.

    The document's own row is one of the holders.
    """

    text: str
    holders: tuple[int, ...]


class Topics:
    """The phrases of a collection."""

    def __init__(self, titles: Sequence[str], contents: Sequence[str], same: Sequence[int]) -> None:
        """`same` has, for each row, the first row with an equal text: a text counts once."""
        self._titles, self._contents = titles, contents
        self._plain: dict[str, str] = {}  # the word of each token as it is written
        self._words = [self._cut(text) for text in contents]
        self._first = {row for row, first in enumerate(same) if row == first}
        frequency = Counter(word for row in self._first for word in set(self._words[row]))
        n = len(self._first)
        self._rarity = {word: math.log1p(n / df) for word, df in frequency.items()}
        self._usable = self._usable_words()

    def find(self, rows: Sequence[int], number: int) -> list[list[Topic]]:
        """Returns up to `number` topics of each row, best first: title, then phrases by score.

        Topics of one document share no word. Phrases that no other text holds come first.
        """
        places = [self._candidates(row, 3 * number + 8) for row in rows]
        holders = self._holders(
            self._phrase(row, *place)
            for row, of_row in zip(rows, places, strict=True)
            for place in of_row
        )
        return [
            self._chosen(row, of_row, holders, number)
            for row, of_row in zip(rows, places, strict=True)
        ]

    def _cut(self, text: str) -> list[str]:
        """Returns the words of a text as they are compared, with breaks between phrases."""
        found = []
        for token in _TOKEN.findall(text):
            word = self._plain.get(token)
            if word is None:
                word = self._plain[token] = plain(token) if token[0].isalnum() else _BREAK
            found.append(word)
        return found

    def _usable_words(self) -> dict[str, int]:
        """0 for a stop word and a break, 1 for a word of phrases, 2 for one that is one alone."""
        stop = {plain(word) for word in (*ENGLISH_LONG, *_FUNCTION_WORDS.split())}
        return {
            word: 0 if word in stop or not word else 2 if word.isalpha() and len(word) > 2 else 1
            for word in self._plain.values()
        }

    def _phrase(self, row: int, place: int, length: int) -> Phrase:
        return tuple(self._words[row][place : place + length])

    def _candidates(self, row: int, keep: int) -> list[tuple[int, int]]:
        """Returns where the best phrases of a row begin, and of how many words they are."""
        words = self._words[row]
        usable = [self._usable[word] for word in words]
        first: dict[Phrase, int] = {}
        count = Counter[Phrase]()
        for length in range(1, LONGEST + 1):
            for place in range(len(words) - length + 1):
                window = usable[place : place + length]
                if min(window) > 0 and max(window) > 1:
                    phrase = self._phrase(row, place, length)
                    first.setdefault(phrase, place)
                    count[phrase] += 1

        def rank(phrase: Phrase) -> tuple[float, int, int]:
            # Of equal scores the longer phrase, then the one that comes earlier.
            score = round(count[phrase] * sum(self._rarity[word] for word in phrase), 9)
            return -score, -len(phrase), first[phrase]

        found = [(first[phrase], len(phrase)) for phrase in sorted(first, key=rank)[:keep]]
        length = len(_TOKEN.findall(self._titles[row]))
        title = usable[:length]
        if 0 < length <= LONGEST_TITLE and max(title) > 1 and _BREAK not in words[:length]:
            found = [(0, length), *(one for one in found if one != (0, length))]
        return found

    def _holders(self, phrases: Iterable[Phrase]) -> dict[Phrase, tuple[int, ...]]:
        """Returns the rows that hold each phrase."""
        found: dict[Phrase, list[int]] = {phrase: [] for phrase in phrases}
        lengths: dict[str, set[int]] = {}
        for phrase in found:
            lengths.setdefault(phrase[0], set()).add(len(phrase))
        for row, words in enumerate(self._words):
            here = {
                phrase
                for place, word in enumerate(words)
                for length in lengths.get(word, ())
                if (phrase := tuple(words[place : place + length])) in found
            }
            for phrase in here:
                found[phrase].append(row)
        return {phrase: tuple(rows) for phrase, rows in found.items()}

    def _chosen(
        self,
        row: int,
        places: Sequence[tuple[int, int]],
        holders: dict[Phrase, tuple[int, ...]],
        number: int,
    ) -> list[Topic]:
        """Returns the best phrases that share no word, those of this text alone first."""
        chosen: list[Topic] = []
        used: set[str] = set()

        def is_shared(place: tuple[int, int]) -> bool:
            return len(self._first.intersection(holders[self._phrase(row, *place)])) > 1

        for place, length in sorted(places, key=is_shared):
            phrase = self._phrase(row, place, length)
            if len(chosen) < number and not used.intersection(phrase):
                used.update(phrase)
                text = self._written(row, place, length)
                chosen.append(Topic(text, holders[phrase]))
        return chosen

    def _written(self, row: int, place: int, length: int) -> str:
        """Returns a phrase as the document has it, without a capital that only begins a sentence.

        That is a word that is also written in small letters somewhere.
        """
        found = list(_TOKEN.finditer(self._contents[row]))[place : place + length]
        text = " ".join(self._contents[row][found[0].start() : found[-1].end()].split())
        first = found[0][0]
        if first.istitle() and first.lower() in self._plain:
            return first.lower() + text[len(first) :]
        return text
