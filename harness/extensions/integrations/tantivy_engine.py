"""Full-text ranking in Tantivy, the search engine library of Quickwit, in this process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.errors import require_numbers
from harness.io.packages import require_packages
from harness.io.progress import progress
from harness.io.scripts import PAIRED, terms
from harness.retrievers.bm25.index import BLOCK
from harness.retrievers.bm25.tokenizer import TERMS
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.index_cache import index_of

_LONGEST = 40
"""Maximum bytes of a term; longer ones are dropped, as in Tantivy's analysers."""
_RUN = re.compile(f"{PAIRED.pattern}+")


class Tantivy:
    """Full-text ranking by Tantivy in this process: BM25 over text, title and speaker.

    An index of more than 65,536 documents is cached on disk (see `harness cache`).

    The score of a document is the boosted sum of the BM25 of its fields (boost 0 ignores a field);
    Tantivy fixes k1 = 1.2 and b = 0.75. Words are runs of letters and digits, in lower case, or
    pairs of characters in scripts without spaces, as in bm25; `stemmer` and `stopwords` are
    languages that Tantivy supports, or none. The default, stemmer english and stopwords none,
    equals its analyser `en_stem`. A query is a bag of words without query syntax; documents that
    share no word with it are not returned.
    """

    modules: ClassVar[tuple[str, ...]] = ("tantivy",)
    batch_size = 64

    def __init__(
        self,
        stemmer: str = "english",
        stopwords: str = "none",
        title_boost: float = 1.0,
        speaker_boost: float = 1.0,
    ) -> None:
        require_packages("retriever 'tantivy'", "tantivy")
        require_numbers(title_boost=title_boost, speaker_boost=speaker_boost)
        self.revision = f"tantivy {version('tantivy')}, {TERMS}"
        self._analysis = {"stemmer": stemmer, "stopwords": stopwords}
        self._words = _analyser(stemmer, stopwords)
        boosts = {"text": 1.0, "title": float(title_boost), "speaker": float(speaker_boost)}
        self._boosts = {field: boost for field, boost in boosts.items() if boost}

    def index(self, corpus: Corpus) -> None:
        """Builds an index and replaces the last one, or opens the cached one."""
        from tantivy import Index, SchemaBuilder

        builder = SchemaBuilder().add_integer_field("position", fast=True)
        for field in self._boosts:
            builder = builder.add_text_field(field, tokenizer_name="words", index_option="freq")
        self._schema = builder.build()
        if len(corpus) <= BLOCK:
            index = Index(self._schema)
            self._fill(index, corpus)
        else:
            made_of = {**self._analysis, "fields": [*self._boosts], "version": self.revision}
            self._kept, index = index_of(
                corpus, "tantivy", made_of, lambda to: self._build(corpus, to), _opened
            )
            index.register_tokenizer("words", self._words)
        index.reload()
        self._searcher = index.searcher()

    def _build(self, corpus: Corpus, folder: Path) -> None:
        from tantivy import Index

        self._fill(Index(self._schema, path=str(folder)), corpus)
        for lock in folder.glob(".*.lock"):  # the next process to open it rebuilds it
            lock.unlink()

    def _fill(self, index: Any, corpus: Corpus) -> None:
        from tantivy import Document

        index.register_tokenizer("words", self._words)
        # One thread, so that equal scores keep the corpus order.
        writer = index.writer(num_threads=1)
        position = 0
        with progress(len(corpus), "documents", "index") as bar:
            for block in corpus.blocks(BLOCK):
                for document in block:
                    values = {field: getattr(document, field) or "" for field in self._boosts}
                    fields = {field: with_pairs(value) for field, value in values.items()}
                    writer.add_document(Document(position=position, **fields))
                    position += 1
                bar.update(len(block))
        writer.commit()
        writer.wait_merging_threads()

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the best documents first."""
        return [self._one(query.text, k) for query in queries]

    def _one(self, text: str, k: int) -> Result:
        from tantivy import Occur, Query

        clauses = [
            (Occur.Should, Query.boost_query(Query.term_query(self._schema, field, word), boost))
            for word in self._words.analyze(with_pairs(text))
            for field, boost in self._boosts.items()
        ]
        if not clauses or k < 1:
            return Result([], [])
        hits = self._searcher.search(Query.boolean_query(clauses), k, count=False).hits
        positions = self._searcher.fast_field_values("position", [place for _, place in hits])
        return Result(np.array(positions, np.int64), np.array([score for score, _ in hits], float))


def with_pairs(text: str) -> str:
    """Replaces runs in scripts without spaces by pairs of characters, each as a number.

    Tantivy's tokenizer would keep a run as one word, and end words at some vowel signs.
    """
    return text if text.isascii() else _RUN.sub(_numbers, text)


def _numbers(run: re.Match[str]) -> str:
    pairs = ("".join(f"{ord(character):07}" for character in pair) for pair in terms(run[0]))
    return f" {' '.join(pairs)} "


def _opened(folder: Path) -> Any:
    from tantivy import Index

    return Index.open(str(folder))


def _analyser(stemmer: str, stopwords: str) -> Any:
    """Returns the analyser of documents and queries. Raises ValueError for unknown languages."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple())
    builder = builder.filter(Filter.remove_long(_LONGEST)).filter(Filter.lowercase())
    if stopwords != "none":
        builder = builder.filter(Filter.stopword(stopwords))
    if stemmer != "none":
        builder = builder.filter(Filter.stemmer(stemmer))
    return builder.build()
