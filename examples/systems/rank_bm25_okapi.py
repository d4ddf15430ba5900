"""rank_bm25's Okapi BM25, over lower-cased words.

pip install rank-bm25
"""

import re

from rank_bm25 import BM25Okapi


class RankBM25:
    def index(self, corpus):
        # BM25Okapi divides by the number of documents.
        self.bm25 = BM25Okapi([words(text) for text in corpus.contents]) if len(corpus) else None

    def search(self, queries, k):
        return [self.best(words(query.text), k) for query in queries]

    def best(self, asked, k):
        scores = self.bm25.get_scores(asked) if self.bm25 else []
        return sorted(enumerate(scores), key=lambda found: -found[1])[:k]


def words(text):
    return re.findall(r"\w+", text.lower())
